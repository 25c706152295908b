"""Tests `nanolm/quantization/matmul.py`: the plain product, and who is chosen to compute a product."""

import pytest
import torch
from by_hand import close, random
from codes import weights_of

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
    actual = impl.plain_matmul(x, codes, scales, bits)
    assert actual.shape == (2, 3, 5), f"shape {tuple(actual.shape)}: (…, D) times Ŵᵀ is (…, out) = (2, 3, 5)"
    unscaled = quantization.round_to_codes(meant, meant.abs().amax(1, keepdim=True) / (2 ** (bits - 1) - 1), bits)
    if group_size is None:
        assert not close(actual, x @ unscaled.double().T), "the scale is not applied"
    assert close(actual, x @ meant.T), "the result is not x · Ŵᵀ with Ŵ = code · scale"


@pytest.mark.exercise("plain_matmul")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_plain_matmul_answers_in_the_number_type_of_its_input(impl, dtype):
    codes, scales, _ = weights_of(4, 8, 4)
    assert impl.plain_matmul(random(1, 8).to(dtype), codes, scales, 4).dtype == dtype


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
