"""Tests `nanolm/quantization/matmul.py`: what the kernels compute is what the plain way computes, up to bfloat16."""

import re
from pathlib import Path

import pytest
import torch
from by_hand import close, random

import nanolm
from nanolm.quantization import absmax as quantization
from nanolm.quantization import matmul as quantized_matmul
from nanolm.quantization import packing

KERNEL_TOLERANCE = 0.01  # of the largest output: x and y are rounded to 8 binary digits, a relative 1/256 each
needs_int4 = pytest.mark.skipif(
    not quantized_matmul.int4_kernel_takes(64, 64, 32), reason="this processor has no 4-bit kernel"
)


def weights_of(out, D, bits, group_size=None, seed=0):
    """(codes as a layer stores them, scales, the weights that they stand for)."""
    codes, scales = quantization.quantize(random(out, D, seed=seed), bits, group_size, torch.bfloat16)
    size = group_size or D
    meant = codes.double() * scales.double().repeat_interleave(size, dim=1)
    return codes if bits == 8 else packing.pack_bits(codes, bits), scales, meant


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
    monkeypatch.setattr(quantized_matmul, "DECODED_AT_ONCE", at_once)
    x = random(3, 64, seed=1)
    assert close(quantized_matmul.plain_matmul(x, codes, scales, 4), x @ meant.T)


# --- kernels -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("rows", "out", "D"), [(1, 64, 128), (1, 5, 32), (3, 17, 64), (32, 33, 96), (1, 1, 4096)])
def test_the_8_bit_kernel_equals_the_plain_way(rows, out, D, dtype):
    codes, scales, meant = weights_of(out, D, 8)
    x = random(rows, D, seed=1).to(dtype)
    assert quantized_matmul.kernel_takes(x, codes, scales, 8)
    actual = quantized_matmul.kernel_matmul(x, codes, scales)
    expected = x.double() @ meant.T
    assert actual.dtype == dtype and actual.shape == (rows, out)
    assert close(actual.double(), expected, KERNEL_TOLERANCE * expected.abs().max().item())
    plain = quantized_matmul.plain_matmul(x, codes, scales, 8)
    assert close(actual.double(), plain.double(), KERNEL_TOLERANCE * expected.abs().max().item())


def test_the_8_bit_kernel_keeps_leading_dimensions():
    codes, scales, meant = weights_of(6, 32, 8)
    x = random(2, 3, 32, seed=1)
    actual = quantized_matmul.kernel_matmul(x.float(), codes, scales)
    assert actual.shape == (2, 3, 6) and close(actual.double(), x @ meant.T, 0.3)


@pytest.mark.parametrize(
    ("reason", "x", "bits", "group_size"),
    [
        ("float64 asks for exactness", random(1, 64), 8, None),
        ("many rows: decoding once is cheaper", random(33, 64).float(), 8, None),
        ("no rows at all", random(0, 64).float(), 8, None),
        ("groups", random(1, 64).float(), 8, 32),
        ("4 bits", random(1, 64).float(), 4, None),
        ("a short row: the kernel would read past its end", random(1, 40).float(), 8, None),
        ("a gradient is wanted", random(1, 64).float().requires_grad_(), 8, None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_8_bit_kernel_is_not_used_for(reason, x, bits, group_size):
    codes, scales, _ = weights_of(4, x.shape[1], bits, group_size)
    assert not quantized_matmul.kernel_takes(x, codes, scales, bits)


@needs_int4
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("rows", "out", "D", "group_size"), [(1, 64, 128, 32), (1, 16, 64, 64), (3, 48, 96, 32), (40, 80, 256, 128)]
)
def test_the_4_bit_kernel_equals_the_plain_way(rows, out, D, group_size, dtype):
    packed, scales, meant = weights_of(out, D, 4, group_size)
    x = random(rows, D, seed=1).to(dtype)
    kernel = quantized_matmul.to_int4_kernel(packing.unpack_bits(packed, 4), scales)
    actual = quantized_matmul.int4_kernel_matmul(x, *kernel)
    expected = x.double() @ meant.T
    assert actual.dtype == dtype and actual.shape == (rows, out)
    assert close(actual.double(), expected, KERNEL_TOLERANCE * expected.abs().max().item())


@needs_int4
def test_the_4_bit_kernel_holds_half_a_byte_a_weight():
    packed, scales, _ = weights_of(64, 128, 4, 32)
    blocks, _ = quantized_matmul.to_int4_kernel(packing.unpack_bits(packed, 4), scales)
    assert blocks.nbytes == packed.nbytes == 64 * 128 // 2


def test_the_4_bit_kernel_is_not_used_for_shapes_that_it_refuses():
    for out, D, group_size in ((24, 64, 32), (64, 64, 16), (64, 512, 512), (64, 48, 32)):
        assert not quantized_matmul.int4_kernel_takes(out, D, group_size)


def test_private_kernels_of_torch_are_called_in_one_file_only():
    files = [
        path.name
        for path in sorted(Path(nanolm.__file__).parent.rglob("*.py"))
        if re.search(r"torch\.(ops\.aten\.)?_(weight_int\w+|convert_weight\w+)", path.read_text(encoding="utf-8"))
    ]
    assert files == ["matmul.py"]
