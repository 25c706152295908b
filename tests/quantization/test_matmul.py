"""Tests `nanolm/quantization/matmul.py`: the plain product, and who is chosen to compute a product."""

import pytest
import torch
from by_hand import close, name_the_mistake, random
from codes import weights_of
from instead import errors_mean
from largest_tensor import LargestTensor

from nanolm.kernels import products_backend, set_products
from nanolm.quantization import absmax as quantization
from nanolm.quantization import int4_kernel_takes, quantized_matmul, to_int4_kernel, unpack_bits
from nanolm.quantization import matmul as module

# --- plain_matmul ------------------------------------------------------------------------------------------------


@pytest.mark.exercise("plain_matmul")
@pytest.mark.parametrize(("bits", "group_size"), [(8, None), (8, 8), (4, None), (4, 8), (3, 8), (2, 24)])
def test_plain_matmul_multiplies_by_the_weights_that_the_codes_stand_for(impl, bits, group_size):
    codes, scales, meant = weights_of(5, 24, bits, group_size)
    x = random(2, 3, 24, seed=1)
    how = "not packed" if bits == 8 else "packed, for unpack_bits(block, bits)"
    with errors_mean(
        f"codes of {bits} bits are {how}, and weights take x's dtype", RuntimeError, ValueError, IndexError
    ):
        actual = impl.plain_matmul(x, codes, scales, bits)
    assert isinstance(actual, torch.Tensor), f"a tensor comes back, not a {type(actual).__name__}"
    assert actual.dtype == x.dtype, f"x is {x.dtype} and the result {actual.dtype}: the weights take x's dtype"
    assert actual.shape == (2, 3, 5), f"shape {tuple(actual.shape)}: (…, D) times Ŵᵀ is (…, out) = (2, 3, 5)"
    unscaled = quantization.round_to_codes(meant, meant.abs().amax(1, keepdim=True) / (2 ** (bits - 1) - 1), bits)
    if group_size is None:
        assert not close(actual, x @ unscaled.double().T), "the scale is not applied"
    rounded = {"x was rounded to float32: the weights take x's dtype": (x.float() @ meant.float().T).double()}
    mistake = name_the_mistake(actual, rounded, "the result is not x · Ŵᵀ with Ŵ = code · scale")
    assert close(actual, x @ meant.T), mistake


@pytest.mark.exercise("plain_matmul")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_plain_matmul_answers_in_the_number_type_of_its_input(impl, dtype):
    codes, scales, _ = weights_of(4, 8, 4)
    with errors_mean(f"x is {dtype}, and weights take x's dtype", RuntimeError):
        actual = impl.plain_matmul(random(1, 8).to(dtype), codes, scales, 4)
    assert actual.dtype == dtype, f"x is {dtype}, and so is the result; this is {actual.dtype}"


AT_ONCE = 512  # weights decoded at once in the next tests: 8 rows of 64


@pytest.fixture
def few_at_once(impl, monkeypatch):
    monkeypatch.setattr(impl, "DECODED_AT_ONCE", AT_ONCE)


@pytest.mark.exercise("plain_matmul")
@pytest.mark.parametrize("out", [8, 30, 64])  # one block, a last one that is not full, eight
def test_plain_matmul_puts_the_outputs_of_its_blocks_side_by_side(impl, few_at_once, out):
    codes, scales, meant = weights_of(out, 64, 4, 16)
    x = random(3, 64, seed=1)
    side_by_side = "the blocks' outputs, (…, rows of the block), stand side by side: dim=-1"
    with errors_mean(side_by_side, RuntimeError):
        actual = impl.plain_matmul(x, codes, scales, 4)
    assert actual.shape == (3, out) or actual.shape[-1] != (out % 8 or 8), "only the last block came back"
    assert actual.shape == (3, out), f"shape {tuple(actual.shape)}, not (3, {out}): {side_by_side}"
    first_scales = scales[:8].repeat(8, 1)[:out]
    suspect = quantization.dequantize(unpack_bits(codes, 4), first_scales).double()
    assert out == 8 or not close(actual, x @ suspect.T), "all blocks have the scales of the first: split those as well"
    assert close(actual, x @ meant.T), "in several blocks the result is not x · Ŵᵀ"


@pytest.mark.exercise("plain_matmul")
def test_plain_matmul_puts_the_outputs_of_its_blocks_side_by_side_for_texts_of_several_positions(impl, few_at_once):
    codes, scales, meant = weights_of(64, 64, 4, 16)
    x = random(2, 5, 64, seed=1)
    outputs = "x is (…, D): outputs stand along its last dimension, -1, which is 1 for a matrix only"
    with errors_mean(outputs, RuntimeError):
        actual = impl.plain_matmul(x, codes, scales, 4)
    assert actual.shape == (2, 5, 64), f"shape {tuple(actual.shape)}, not (2, 5, 64): {outputs}"
    assert close(actual, x @ meant.T), "in several blocks the result is not x · Ŵᵀ"


@pytest.mark.exercise("plain_matmul")
@pytest.mark.parametrize("bits", [8, 2])
def test_plain_matmul_decodes_a_block_of_rows_at_a_time(impl, few_at_once, bits):
    codes, scales, _ = weights_of(128, 64, bits)
    with LargestTensor() as largest:
        impl.plain_matmul(random(3, 64, seed=1), codes, scales, bits)
    # As float64, x's type, a block is 8 bytes a weight and all weights are 16 times that.
    weights = largest.nbytes // 8
    assert weights < 128 * 64 // 2, (
        f"a tensor of {weights:,} numbers was made: with DECODED_AT_ONCE = {AT_ONCE} only a block of rows is decoded "
        "at a time, and not the whole of Ŵ"
    )
    assert weights <= 2 * AT_ONCE, (
        f"a tensor of {weights:,} numbers was made, and DECODED_AT_ONCE is {AT_ONCE}: how many rows that is follows "
        "from D, the numbers of x's rows, and not from the bytes of a packed row"
    )


@pytest.mark.exercise("plain_matmul")
def test_plain_matmul_gives_a_row_the_same_bits_in_any_batch(impl):
    for out, D in ((128, 384), (320, 128), (33, 96), (256, 128)):
        codes, scales, _ = weights_of(out, D, 8)
        x = random(33, D, seed=1).float()
        together = impl.plain_matmul(x, codes, scales, 8)
        for i in (0, 5, 32):
            alone = impl.plain_matmul(x[i : i + 1], codes, scales, 8)
            assert torch.equal(together[i], alone[0]), (
                f"row {i} of 33 has other last bits than alone, with {out} rows of {D} weights: F.linear adds up in an "
                "order that depends on the batch, tile_linear does not"
            )


@pytest.mark.parametrize("at_once", [1, 100, 64 * 7, 10**6])
def test_plain_matmul_gives_the_same_however_much_it_decodes_at_a_time(monkeypatch, at_once):
    codes, scales, meant = weights_of(20, 64, 4, 16)
    monkeypatch.setattr(module, "DECODED_AT_ONCE", at_once)
    x = random(3, 64, seed=1)
    assert close(module.plain_matmul(x, codes, scales, 4), x @ meant.T)


# --- quantized_matmul --------------------------------------------------------------------------------------------

WAYS = ("int4_kernel_matmul", "int8_kernel_matmul", "plain_matmul")


@pytest.fixture
def products():
    """Sets who computes products on a CPU for the length of a test."""
    before = set_products("auto")
    yield set_products
    set_products(before)


@pytest.mark.skipif(products_backend()[0] != "compiled", reason=f"no compiled products: {products_backend()[1]}")
@pytest.mark.parametrize("rows", [1, 16, 33, 200])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("bits", "group_size"), [(8, None), (8, 32), (4, None), (4, 32), (4, 64)])
def test_8_and_4_bits_take_the_compiled_product_at_any_number_of_rows(
    monkeypatch, products, bits, group_size, dtype, rows
):
    for name in WAYS:
        monkeypatch.setattr(module, name, lambda *_: pytest.fail("another way was taken"))
    codes, scales, meant = weights_of(48, 64, bits, group_size)
    x = random(rows, 64, seed=1).to(dtype)
    actual, expected = quantized_matmul(x, codes, scales, bits), x.double() @ meant.T
    rounding = 1e-5 if dtype is torch.float32 else 0.004  # of the result to bfloat16
    assert actual.dtype is dtype and close(actual.double(), expected, rounding * expected.abs().max().item())


@pytest.fixture
def called(monkeypatch, products):
    """The names of the ways that products went, in order, the compiled one switched off."""
    products("torch")
    names = []
    for name in WAYS:
        way = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, way=way, name=name: (names.append(name), way(*a))[1])
    return names


@pytest.mark.parametrize("rows", [1, 32, 33, 200])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_8_bits_with_a_scale_a_row_take_the_kernel_at_any_number_of_rows(called, rows, dtype):
    codes, scales, meant = weights_of(48, 64, 8)
    x = random(rows, 64, seed=1).to(dtype)
    actual, expected = quantized_matmul(x, codes, scales, 8), x.double() @ meant.T
    assert called == ["int8_kernel_matmul"]
    assert close(actual.double(), expected, 0.01 * expected.abs().max().item())


@pytest.mark.parametrize(
    ("reason", "x", "bits", "group_size"),
    [
        ("float64 asks for exactness", random(1, 64), 8, None),
        ("no rows at all", random(0, 64).float(), 8, None),
        ("groups", random(1, 64).float(), 8, 32),
        ("4 bits", random(1, 64).float(), 4, None),
        ("3 bits", random(1, 64).float(), 3, 8),
        ("a short row: the kernel would read past its end", random(1, 40).float(), 8, None),
        ("a gradient is wanted", random(1, 64).float().requires_grad_(), 8, None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_no_kernel_takes_goes_the_plain_way(called, reason, x, bits, group_size):
    codes, scales, meant = weights_of(4, x.shape[1], bits, group_size)
    actual = quantized_matmul(x, codes, scales, bits)
    assert called == ["plain_matmul"]
    assert close(actual.double(), x.double() @ meant.T, 1e-5)


def test_without_kernels_the_plain_way_is_taken(called):
    codes, scales, _ = weights_of(48, 64, 8)
    quantized_matmul(random(1, 64).float(), codes, scales, 8, kernels=False)
    assert called == ["plain_matmul"]


@pytest.mark.skipif(not int4_kernel_takes(64, 64, 32), reason="this processor has no 4-bit kernel")
def test_the_4_bit_kernel_s_layout_is_multiplied_by_that_kernel(called):
    packed, scales, meant = weights_of(64, 64, 4, 32)
    blocks, pairs = to_int4_kernel(unpack_bits(packed, 4), scales)
    x = random(40, 64, seed=1).float()
    actual, expected = quantized_matmul(x, blocks, pairs, 4), x.double() @ meant.T
    assert called == ["int4_kernel_matmul"]
    assert close(actual.double(), expected, 0.01 * expected.abs().max().item())
    with pytest.raises(ValueError, match="the layout of the 4-bit kernel, which has no plain way"):
        quantized_matmul(x, blocks, pairs, 4, kernels=False)
