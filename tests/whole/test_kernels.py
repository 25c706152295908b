"""Tests `nanolm/kernels/` where there is no GPU: the torch paths, the switch, and what is refused.

The kernels themselves are tested in tests/kernels, under Triton's interpreter.
"""

import subprocess
import sys

import pytest
import torch
from by_hand import attention, close, random
from refusal import assert_refuses

from nanolm import kernels
from nanolm.attention import paged_attention, prefill_attention
from nanolm.kernels import backend as choice
from nanolm.model import grouped_matmul
from nanolm.quantization import pack_nibbles, quantized_matmul


@pytest.fixture
def switch():
    """`set_backend`, put back afterwards."""
    before = kernels.set_backend("auto")
    yield kernels.set_backend
    kernels.set_backend(before)


@pytest.fixture
def without_triton(monkeypatch):
    monkeypatch.setattr(choice, "_installed", lambda: False)


def paged(**changes):
    """Arguments of paged_attention: two rows, 2 key heads, blocks of 3 positions, H = 4; any may be changed."""
    return {
        "q": random(2, 4, 1, 4).float(),
        "key_blocks": random(2, 5, 12, seed=1).float(),
        "value_blocks": random(2, 5, 12, seed=2).float(),
        "block_tables": torch.tensor([[4, 0], [2, 1]], dtype=torch.int32),
        "lengths": torch.tensor([4, 6], dtype=torch.int32),
        "n_splits": 2,
    } | changes


def calls():
    """Every kernel with good arguments."""
    q, k = random(1, 2, 3, 4).float(), random(1, 1, 3, 4).float()
    x, codes, scales = random(2, 4).float(), torch.ones(3, 4, dtype=torch.int8), torch.ones(3, 1)
    weights, offsets = random(2, 3, 4).float(), torch.tensor([0, 1, 2])
    return {
        "prefill_attention": lambda **how: prefill_attention(q, k, k, **how),
        "paged_attention": lambda **how: paged_attention(**paged(), **how),
        "quantized_matmul": lambda **how: quantized_matmul(x, codes, scales, 8, **how),
        "grouped_matmul": lambda **how: grouped_matmul(x, weights, offsets, **how),
    }


NAMES = sorted(calls())


# --- the switch --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_auto_on_a_cpu_is_torch_and_torch_is_the_same(name):
    call = calls()[name]
    assert torch.equal(call(), call(backend="torch"))


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_asked_for_without_triton_says_what_to_install(name, without_triton):
    with pytest.raises(kernels.KernelUnavailable, match=r"triton is not installed.*kernels.*backend='torch' can"):
        calls()[name](backend="triton")


@pytest.mark.parametrize("name", NAMES)
def test_a_kernel_asked_for_on_a_cpu_says_that_it_needs_a_gpu(name, monkeypatch):
    monkeypatch.setattr(choice, "_installed", lambda: True)
    monkeypatch.setattr(choice, "_interpreted", lambda: False)
    with pytest.raises(kernels.KernelUnavailable, match=r"is on cpu, and it needs a GPU .*TRITON_INTERPRET=1"):
        calls()[name](backend="triton")


def test_use_decides_for_calls_that_do_not_say(switch, without_triton):
    assert switch("triton") == "auto", "use returns what was set before"
    with pytest.raises(kernels.KernelUnavailable):
        calls()["grouped_matmul"]()
    assert calls()["grouped_matmul"](backend="torch").shape == (2, 3)
    assert switch("torch") == "triton"
    assert calls()["grouped_matmul"]().shape == (2, 3)


def test_an_unknown_backend_is_refused(switch):
    assert_refuses("backend", switch, "cuda")
    with pytest.raises(ValueError, match="backend is 'gpu'; it must be one of auto, triton, torch"):
        calls()["grouped_matmul"](backend="gpu")


def test_a_kernel_takes_no_float64_and_no_gradient():
    q = random(1, 1, 2, 4)
    with pytest.raises(kernels.KernelUnavailable, match="q is float64"):
        prefill_attention(q, q, q, backend="triton")
    q = q.float().requires_grad_()
    with pytest.raises(kernels.KernelUnavailable, match="q wants a gradient"):
        prefill_attention(q, q, q, backend="triton")
    assert prefill_attention(q, q, q).requires_grad, "torch's path has one"


def test_a_kernel_says_which_shapes_it_does_not_take():
    q = random(1, 1, 1, 257).float()
    with pytest.raises(kernels.KernelUnavailable, match="H is 257, and it takes up to 256"):
        prefill_attention(q, q, q, backend="triton")
    codes, scales = torch.zeros(1, 3, dtype=torch.uint8), torch.ones(1, 2)
    with pytest.raises(kernels.KernelUnavailable, match="a group of 3 4-bit codes ends inside a byte"):
        quantized_matmul(torch.ones(1, 6), codes, scales, 4, backend="triton")


def test_everything_but_triton_works_without_triton():
    code = """
import sys
sys.modules["triton"] = None  # whoever imports it now gets an ImportError
import torch
from nanolm.attention import paged_attention, prefill_attention
from nanolm.model import grouped_matmul
from nanolm.quantization import quantized_matmul
q = torch.ones(1, 1, 2, 4)
assert prefill_attention(q, q, q).shape == q.shape
pool, tables = torch.ones(2, 1, 2, 8), torch.tensor([[1]])
assert paged_attention(q[:, :, :1], *pool, tables, torch.tensor([2]), 1).shape == (1, 1, 1, 4)
assert quantized_matmul(q, torch.ones(3, 4, dtype=torch.int8), torch.ones(3, 1), 8).shape == (1, 1, 2, 3)
assert grouped_matmul(q[0, 0], torch.ones(1, 3, 4), torch.tensor([0, 2])).shape == (2, 3)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr


# --- the torch paths ---------------------------------------------------------------------------------------------


def test_the_torch_path_of_prefill_is_softmax_attention():
    q, k, v = random(2, 4, 3, 6, seed=1), random(2, 2, 5, 6, seed=2), random(2, 2, 5, 6, seed=3)
    assert close(prefill_attention(q, k, v), attention(q, k, v))


@pytest.mark.parametrize("scale", [None, 0.5, 1.0])
def test_the_torch_path_of_paged_decode_is_softmax_attention_over_the_blocks(scale):
    q, blocks = random(2, 4, 1, 4), random(2, 2, 5, 12, seed=1)
    tables, lengths = torch.tensor([[4, 0], [2, -1]]), torch.tensor([4, 2])
    out = paged_attention(q, *blocks, tables, lengths, 3, scale)
    # Row 0 holds the 3 positions of block 4 and the first of block 0; row 1 the first 2 of block 2.
    for row, (where, n) in enumerate([([4, 0], 4), ([2], 2)]):
        k, v = (half[:, where].reshape(2, -1, 4)[None, :, :n] for half in blocks)
        factor = 1 if scale is None else scale * 2  # by_hand divides by √H = 2
        assert close(out[row : row + 1], attention(q[row : row + 1] * factor, k, v))


def test_the_torch_path_of_paged_decode_sees_nothing_behind_a_length():
    arguments = paged()
    expected = paged_attention(**arguments)
    blocks = arguments["key_blocks"].clone(), arguments["value_blocks"].clone()
    for half in blocks:
        half[:, 3] = torch.nan  # in no table
        half[:, 0, 4:] = torch.nan  # row 0 has one position of its second block
    changed = paged(key_blocks=blocks[0], value_blocks=blocks[1])
    assert torch.equal(paged_attention(**changed), expected)


def test_the_torch_path_of_paged_decode_gives_0_for_a_row_of_length_0():
    out = paged_attention(**paged(lengths=torch.tensor([0, 6])))
    assert (out[0] == 0).all() and (out[1] != 0).all()


def test_the_torch_path_of_a_grouped_product_takes_each_row_times_its_expert():
    # Two experts, the first of which has no row: 1·1 + 2·0 = 1 and 1·1 + 2·3 = 7; with the first expert 100 and 200.
    x, weights = torch.tensor([[1.0, 2.0]]), torch.tensor([[[100.0, 0], [0, 100]], [[1, 0], [1, 3]]])
    assert grouped_matmul(x, weights, torch.tensor([0, 0, 1])).tolist() == [[1, 7]]


def test_the_torch_path_of_packed_weights_decodes_them():
    # Codes 1, -2, 3, -4 with scales 0.5 and 2: weights 0.5, -1, 6, -8, and their sum is -2.5.
    codes = pack_nibbles(torch.tensor([[1, -2, 3, -4]], dtype=torch.int8))
    assert quantized_matmul(torch.ones(4), codes, torch.tensor([[0.5, 2]]), 4).tolist() == [-2.5]


def test_no_rows_give_no_results():
    assert grouped_matmul(torch.ones(0, 4), torch.ones(2, 3, 4), torch.tensor([0, 0, 0])).shape == (0, 3)
    x, codes, scales = torch.ones(0, 4), torch.ones(3, 4, dtype=torch.int8), torch.ones(3, 1)
    assert quantized_matmul(x, codes, scales, 8).shape == (0, 3)


# --- what is refused ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("q", [(2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4)]),
        ("k", [(1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 3, 5)]),
        ("v", [(1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 4, 4)]),
        ("N", [(1, 3, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4)]),
        ("q", [(1, 2, 4, 4), (1, 2, 3, 4), (1, 2, 3, 4)]),
    ],
)
def test_prefill_refuses_shapes_that_do_not_fit(name, shapes):
    assert_refuses(name, prefill_attention, *[torch.ones(shape) for shape in shapes])


def test_prefill_refuses_different_number_types():
    q = torch.ones(1, 1, 1, 4)
    assert_refuses("k", prefill_attention, q, q.half(), q)
    assert_refuses("q", prefill_attention, q.int(), q.int(), q.int())


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("q", {"q": torch.ones(2, 4, 4)}),
        ("q", {"q": torch.ones(2, 4, 2, 4)}),
        ("N", {"q": torch.ones(2, 3, 1, 4)}),
        ("key_blocks", {"q": torch.ones(2, 4, 1, 5)}),
        ("value_blocks", {"value_blocks": torch.ones(2, 5, 16)}),
        ("value_blocks", {"value_blocks": torch.ones(2, 5, 12).half()}),
        ("block_tables", {"block_tables": torch.zeros(3, 2, dtype=torch.int32)}),
        ("block_tables", {"block_tables": torch.zeros(2, 0, dtype=torch.int32)}),
        ("block_tables", {"block_tables": torch.zeros(2, 2)}),
        ("lengths", {"lengths": torch.tensor([4])}),
        ("lengths", {"lengths": torch.tensor([4.0, 6.0])}),
        ("n_splits", {"n_splits": 0}),
        ("scale", {"scale": 0}),
        # Numbers in tables and lengths.
        ("lengths", {"lengths": torch.tensor([4, 7])}),
        ("lengths", {"lengths": torch.tensor([-1, 6])}),
        ("block_tables", {"block_tables": torch.tensor([[4, 5], [2, 1]])}),
        ("block_tables", {"block_tables": torch.tensor([[4, 0], [-1, 1]])}),
        ("block_tables", {"block_tables": torch.tensor([[4, 4], [2, 1]])}),
    ],
)
def test_paged_decode_refuses_what_does_not_fit(name, changes):
    assert_refuses(name, lambda: paged_attention(**paged(**changes)))


def test_paged_decode_names_the_row_and_the_block():
    with pytest.raises(ValueError, match=r"block_tables\[0\] names block 5; the pool has blocks 0 to 4"):
        paged_attention(**paged(block_tables=torch.tensor([[4, 5], [2, 1]])))
    with pytest.raises(ValueError, match=r"lengths\[1\] is 7; a table of 2 blocks holds 0 to 6 positions"):
        paged_attention(**paged(lengths=torch.tensor([4, 7])))


def test_paged_decode_looks_at_no_table_behind_a_length():
    tables = torch.tensor([[4, 99], [2, 2]])
    assert paged_attention(**paged(block_tables=tables, lengths=torch.tensor([3, 3]))).isfinite().all()


def test_two_rows_may_share_a_block():
    assert paged_attention(**paged(block_tables=torch.tensor([[4, 0], [4, 1]]))).isfinite().all()


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("bits", {"bits": 3}),
        ("x", {"x": torch.ones(2, 5)}),
        ("x", {"x": torch.ones(2, 4, dtype=torch.int32)}),
        ("codes", {"codes": torch.ones(3, 4, dtype=torch.uint8)}),
        ("codes", {"codes": torch.ones(4, dtype=torch.int8)}),
        ("scales", {"scales": torch.ones(2, 1)}),
        ("scales", {"scales": torch.ones(3, 3)}),
        ("scales", {"scales": torch.ones(3)}),
    ],
)
def test_packed_weights_refuse_what_does_not_fit(name, changes):
    good = {"x": torch.ones(2, 4), "codes": torch.ones(3, 4, dtype=torch.int8), "scales": torch.ones(3, 1), "bits": 8}
    assert_refuses(name, lambda: quantized_matmul(**good | changes))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("x", {"x": torch.ones(3)}),
        ("weights", {"weights": torch.ones(2, 3, 5)}),
        ("weights", {"weights": torch.ones(2, 3, 4).double()}),
        ("offsets", {"offsets": torch.tensor([0, 3])}),
        ("offsets", {"offsets": torch.tensor([0.0, 1.0, 3.0])}),
        ("offsets", {"offsets": torch.tensor([1, 1, 3])}),
        ("offsets", {"offsets": torch.tensor([0, 1, 2])}),
        ("offsets", {"offsets": torch.tensor([0, 4, 3])}),
    ],
)
def test_a_grouped_product_refuses_what_does_not_fit(name, changes):
    good = {"x": torch.ones(3, 4), "weights": torch.ones(2, 3, 4), "offsets": torch.tensor([0, 1, 3])}
    assert_refuses(name, lambda: grouped_matmul(**good | changes))


def test_inputs_must_be_on_one_device():
    x = torch.ones(3, 4)
    assert_refuses("weights", grouped_matmul, x, torch.ones(2, 3, 4, device="meta"), torch.tensor([0, 1, 3]))
