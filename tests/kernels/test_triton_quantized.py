"""The kernel of packed weights against a product in float64, bits taken apart one by one, and the plain way."""

import pytest
import torch
from by_hand import random
from guarded import Memory
from hypothesis import given, settings
from hypothesis import strategies as st

from nanolm.quantization import quantized_matmul

# Relative to Σ |x|·|w|. Float32 rounds each of up to 100 additions; float16 rounds the result, and the plain way the
# weights as well, to 11 binary digits.
TOLERANCE = {torch.float32: 2.0**-20, torch.float16: 2.0**-9}


def weights_of(codes, scales, bits):
    """The matrix that codes and scales stand for, in float64."""
    if bits == 4:  # the low half of a byte comes first, and a code is stored as code + 8
        codes = torch.tensor([[half - 8 for byte in row for half in (byte % 16, byte // 16)] for row in codes.tolist()])
    return codes.double() * scales.double().repeat_interleave(codes.shape[1] // scales.shape[1], dim=1)


def problem(n_rows, out, groups, group_size, bits, dtype, seed=0):
    generator = torch.Generator().manual_seed(seed)
    D = groups * group_size
    if bits == 8:
        codes = torch.randint(-127, 128, (out, D), generator=generator).to(torch.int8)
    else:
        codes = torch.randint(0, 256, (out, D // 2), generator=generator).to(torch.uint8)
    scales = (random(out, groups, seed=seed).abs() + 0.1) / 2 ** (bits - 1)
    return random(n_rows, D, seed=seed + 1).to(dtype), codes, scales.to(torch.bfloat16)


def assert_right(x, codes, scales, bits):
    with Memory() as memory:
        out = quantized_matmul(*map(memory.embed, (x, codes, scales)), bits, backend="triton")
    assert out.dtype == x.dtype
    weights = weights_of(codes, scales, bits)
    allowed = TOLERANCE[x.dtype] * (x.double().abs() @ weights.abs().T)
    plain = quantized_matmul(x, codes, scales, bits, kernels=False).double()
    for name, expected in (("float64", x.double() @ weights.T), ("the plain way", plain)):
        error = (out.double() - expected).abs()
        assert (error <= allowed).all(), f"off by {error.max():.2g} from {name}"


@settings(max_examples=40)
@given(
    n_rows=st.integers(1, 5),
    out=st.integers(1, 20),
    groups=st.integers(1, 3),
    half_group=st.integers(1, 20),
    bits=st.sampled_from([4, 8]),
    dtype=st.sampled_from([torch.float32, torch.float16]),
    seed=st.integers(0, 99),
)
def test_the_kernel_is_the_product_with_the_decoded_weights(n_rows, out, groups, half_group, bits, dtype, seed):
    assert_right(*problem(n_rows, out, groups, 2 * half_group, bits, dtype, seed), bits)


@pytest.mark.parametrize("bits", [4, 8])
def test_the_kernel_walks_through_groups_larger_than_a_tile(bits):
    assert_right(*problem(17, 18, 2, 600, bits, torch.float32), bits)  # and more rows than a tile has


def test_the_kernel_takes_groups_of_an_odd_number_of_8_bit_codes():
    assert_right(*problem(2, 3, 3, 7, 8, torch.float32), 8)


def test_the_kernel_keeps_the_leading_dimensions():
    x, codes, scales = problem(6, 5, 1, 8, 8, torch.float32)
    out = quantized_matmul(x.view(2, 3, 8), codes, scales, 8, backend="triton")
    assert torch.equal(out.view(6, 5), quantized_matmul(x, codes, scales, 8, backend="triton"))
    assert quantized_matmul(x[0], codes, scales, 8, backend="triton").shape == (5,)
