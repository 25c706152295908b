"""Tests `nanolm/kernels/products.py`: products with packed matrices, compiled and plain, against float64 by hand."""

import pytest
import torch
from by_hand import random
from refusal import assert_refuses

from nanolm.kernels import products
from nanolm.kernels.compiled import Library, NotCompiled, load_library
from nanolm.kernels.products import packed_product, plain_product, product_if_compiled

compiled = pytest.mark.skipif(
    not isinstance(load_library(), Library), reason=f"no compiled products here: {load_library()}"
)
KINDS = ("float32", "bfloat16", "int8", "int4 pairs", "int4 halves", "uint4 pairs", "uint4 halves")


@pytest.fixture(autouse=True)
def as_before():
    """The switch and torch's threads are put back after each test."""
    backend, threads = products.set_products("auto"), torch.get_num_threads()
    yield
    products.set_products(backend)
    torch.set_num_threads(threads)


def matrix_of(kind, out, D, group=None, dtype=torch.bfloat16):
    """Return the arguments behind x, and the weights that they stand for in float64."""
    if kind in ("float32", "bfloat16"):
        matrix = random(out, D).to(getattr(torch, kind))
        return (matrix,), matrix.double()
    scales = (random(out, D // (group or D), seed=1).abs() + 0.1).to(dtype)
    wide = scales.double().repeat_interleave(group or D, dim=1)
    if kind == "int8":
        codes = (random(out, D, seed=2) * 40).round().clamp(-127, 127).to(torch.int8)
        return (codes, scales), codes.double() * wide
    number, order = kind.split()
    codes = (random(out, D, seed=2) * 4 + 8).round().clamp(0, 15).to(torch.uint8)
    if order == "pairs":
        packed = codes[:, 0::2] | codes[:, 1::2] << 4
    else:
        blocks = codes.view(out, -1, 32)
        packed = (blocks[..., :16] | blocks[..., 16:] << 4).flatten(1)
    if number == "int4":
        return (packed, scales, None, order), (codes.double() - 8) * wide
    minima = random(*scales.shape, seed=3).to(dtype)
    return (packed, scales, minima, order), codes.double() * wide + minima.double().repeat_interleave(group or D, dim=1)


def largest_error(actual, x, meant):
    expected = x.double() @ meant.T
    return ((actual.double() - expected).abs().max() / expected.abs().max()).item()


@compiled
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [*range(1, 18), 95, 96, 97, 200])
def test_any_number_of_rows_is_multiplied_by_what_the_matrix_stands_for(kind, n):
    arguments, meant = matrix_of(kind, 37, 96, 32)
    x = random(n, 96, seed=9).float()
    assert largest_error(packed_product(x, *arguments), x, meant) < 1e-5


@compiled
@pytest.mark.parametrize("kind", KINDS[2:])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("D", "group"), [(32, 32), (256, 32), (256, 64), (256, 128), (256, None), (1536, 128)])
def test_groups_of_any_size_and_scales_of_either_dtype_are_applied(kind, dtype, D, group):
    arguments, meant = matrix_of(kind, 9, D, group, dtype)
    for n in (1, 16):
        x = random(n, D, seed=9).float()
        assert largest_error(packed_product(x, *arguments), x, meant) < 1e-5


@compiled
def test_small_and_negative_half_scales_are_read_as_they_are():
    scales = torch.tensor([[6e-8], [-6.1e-5], [-2.0], [65504.0], [0.0]], dtype=torch.float16)  # the first: subnormal
    y = packed_product(torch.ones(1, 32), torch.ones(5, 32, dtype=torch.int8), scales)
    assert torch.equal(y[0], 32 * scales[:, 0].float())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("group", [32, None])
def test_the_plain_product_equals_the_same_product_by_hand(kind, group):
    arguments, meant = matrix_of(kind, 7, 64, group)
    x = random(3, 64, seed=9).float()
    assert largest_error(plain_product(x, *arguments), x, meant) < 1e-5


@compiled
@pytest.mark.parametrize("kind", KINDS)
def test_the_compiled_product_equals_the_plain_one(kind):
    arguments, _ = matrix_of(kind, 300, 576, 64)
    for n in (1, 8, 40):
        x = random(n, 576, seed=9).float()
        plain = plain_product(x, *arguments)
        assert (packed_product(x, *arguments) - plain).abs().max() <= 1e-5 * plain.abs().max()


@compiled
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("out", "D"), [(37, 96), (1000, 576)])
def test_a_row_has_the_same_bits_alone_in_any_batch_and_with_two_threads(kind, out, D):
    arguments, _ = matrix_of(kind, out, D, 32)
    x = random(257, D, seed=9).float()
    torch.set_num_threads(1)
    alone = torch.cat([packed_product(row, *arguments) for row in x.split(1)])
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for first, n in ((0, 2), (3, 5), (1, 8), (2, 11), (0, 12), (5, 17), (0, 33), (31, 100), (0, 257)):
            among = packed_product(x[first : first + n], *arguments)
            assert torch.equal(among, alone[first : first + n]), f"{n} rows from {first} on, {threads} threads"


@compiled
def test_leading_dimensions_and_the_dtype_of_x_stay():
    arguments, meant = matrix_of("int8", 5, 64)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        x = random(2, 3, 64).to(dtype)
        y = packed_product(x, *arguments)
        assert y.shape == (2, 3, 5) and y.dtype == dtype
        assert largest_error(y.flatten(0, 1), x.flatten(0, 1), meant) < 0.01
    assert packed_product(torch.ones(64), *arguments).shape == (5,)
    assert packed_product(torch.ones(0, 64), *arguments).shape == (0, 5)


@compiled
def test_tensors_that_lie_scattered_in_memory_are_read_in_their_order():
    arguments, _ = matrix_of("int4 pairs", 8, 64, 32)
    matrix, scales, *_ = arguments
    x = random(6, 64).float()
    expected = packed_product(x, *arguments)
    scattered = [t.T.contiguous().T for t in (x, matrix, scales)]
    assert not any(t.is_contiguous() for t in scattered)
    assert torch.equal(packed_product(*scattered), expected)


FLOATS, CODES, PACKED = torch.ones(3, 64), torch.ones(3, 64, dtype=torch.int8), torch.ones(3, 32, dtype=torch.uint8)
SCALES = torch.ones(3, 2, dtype=torch.bfloat16)
WRONG = {
    "x of other length": ("x", (torch.ones(2, 32), FLOATS)),
    "x in float64": ("x", (torch.ones(2, 64).double(), FLOATS)),
    "x without dimensions": ("x", (torch.tensor(1.0), FLOATS)),
    "x elsewhere": ("x", (torch.ones(2, 64, device="meta"), FLOATS)),
    "a matrix elsewhere": ("matrix", (torch.ones(2, 64), FLOATS.to("meta"))),
    "scales elsewhere": ("scales", (torch.ones(2, 64), CODES, SCALES.to("meta"))),
    "minima elsewhere": ("minima", (torch.ones(2, 64), PACKED, SCALES, SCALES.to("meta"))),
    "a matrix of one dimension": ("matrix", (torch.ones(2, 64), FLOATS[0])),
    "a matrix of int32": ("matrix", (torch.ones(2, 64), CODES.int(), SCALES)),
    "a row of 40": ("matrix", (torch.ones(2, 40), torch.ones(3, 40))),
    "an empty row": ("matrix", (torch.ones(2, 0), torch.ones(3, 0))),
    "a row too long": ("matrix", (torch.ones(2, 65568), torch.ones(1, 65568))),
    "codes without scales": ("scales", (torch.ones(2, 64), CODES)),
    "floats with scales": ("scales", (torch.ones(2, 64), FLOATS, SCALES)),
    "scales in float32": ("scales", (torch.ones(2, 64), CODES, SCALES.float())),
    "scales of fewer rows": ("scales", (torch.ones(2, 64), CODES, SCALES[:2])),
    "groups of 16": ("scales", (torch.ones(2, 64), CODES, SCALES.repeat(1, 2))),
    "no groups": ("scales", (torch.ones(2, 64), CODES, SCALES[:, :0])),
    "minima for 8 bits": ("minima", (torch.ones(2, 64), CODES, SCALES, SCALES)),
    "minima of another dtype": ("minima", (torch.ones(2, 64), PACKED, SCALES, SCALES.half())),
    "minima of other groups": ("minima", (torch.ones(2, 64), PACKED, SCALES, SCALES[:, :1])),
    "an unknown order": ("order", (torch.ones(2, 64), PACKED, SCALES, None, "rows")),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("product", [packed_product, plain_product])
def test_what_does_not_fit_is_refused_before_anything_is_read(product, case):
    name, arguments = WRONG[case]
    assert_refuses(name, product, *arguments)


@pytest.mark.parametrize("case", [case for case in WRONG if case != "an unknown order"])
def test_what_does_not_fit_is_left_to_others(case):
    assert product_if_compiled(*WRONG[case][1]) is None


def test_a_product_that_wants_a_gradient_is_left_to_others():
    assert product_if_compiled(torch.ones(1, 64, requires_grad=True), FLOATS) is None


# --- who computes ------------------------------------------------------------------------------------------------


def test_the_switch_says_who_computed_before_and_refuses_other_names():
    assert products.set_products("torch") == "auto"
    assert products.products_backend() == ("torch", "'torch' is chosen (NANOLM_PRODUCTS or set_products)")
    assert product_if_compiled(torch.ones(1, 64), FLOATS) is None
    with pytest.raises(NotCompiled, match="'torch' is chosen"):
        packed_product(torch.ones(1, 64), FLOATS)
    assert products.set_products("auto") == "torch"
    assert_refuses("backend", products.set_products, "gcc")


@pytest.mark.parametrize(("value", "chosen"), [("", "auto"), ("torch", "torch"), ("compiled", "compiled")])
def test_the_variable_chooses_until_a_call_does(monkeypatch, value, chosen):
    monkeypatch.setattr(products, "_switch", None)
    monkeypatch.setenv("NANOLM_PRODUCTS", value)
    assert products.set_products("auto") == chosen


def test_an_unknown_value_of_the_variable_is_refused_by_its_name(monkeypatch):
    monkeypatch.setattr(products, "_switch", None)
    monkeypatch.setenv("NANOLM_PRODUCTS", "fast")
    assert_refuses("NANOLM_PRODUCTS", products.products_backend)


@compiled
def test_the_library_says_which_compiler_made_it():
    who, how = products.products_backend()
    assert who == "compiled" and how == load_library().made_by


def test_without_a_library_auto_leaves_products_to_others_and_says_why(monkeypatch):
    monkeypatch.setattr(products, "load_library", lambda: NotCompiled("no C compiler"))
    assert products.products_backend() == ("torch", "no C compiler")
    assert product_if_compiled(torch.ones(1, 64), FLOATS) is None
    products.set_products("compiled")
    with pytest.raises(NotCompiled, match="no C compiler"):
        products.products_backend()
