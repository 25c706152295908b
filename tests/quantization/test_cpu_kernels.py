"""Tests `nanolm/quantization/cpu_kernels.py`: what the kernels compute is what the weights say, up to bfloat16."""

import re
from pathlib import Path

import pytest
import torch
from by_hand import close, random
from codes import weights_of

import nanolm
from nanolm.quantization import cpu_kernels, plain_matmul, unpack_bits

KERNEL_TOLERANCE = 0.01  # of the largest output: x and y are rounded to 8 binary digits, a relative 1/256 each
needs_int4 = pytest.mark.skipif(
    not cpu_kernels.int4_kernel_takes(64, 64, 32), reason="this processor has no 4-bit kernel"
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("rows", "out", "D"), [(1, 64, 128), (1, 5, 32), (3, 17, 64), (32, 33, 96), (1, 1, 4096)])
def test_the_8_bit_kernel_equals_the_plain_way(rows, out, D, dtype):
    codes, scales, meant = weights_of(out, D, 8)
    x = random(rows, D, seed=1).to(dtype)
    assert cpu_kernels.int8_kernel_takes(x, codes, scales)
    actual = cpu_kernels.int8_kernel_matmul(x, codes, scales)
    expected = x.double() @ meant.T
    assert actual.dtype == dtype and actual.shape == (rows, out)
    assert close(actual.double(), expected, KERNEL_TOLERANCE * expected.abs().max().item())
    plain = plain_matmul(x, codes, scales, 8)
    assert close(actual.double(), plain.double(), KERNEL_TOLERANCE * expected.abs().max().item())


def test_the_8_bit_kernel_keeps_leading_dimensions():
    codes, scales, meant = weights_of(6, 32, 8)
    x = random(2, 3, 32, seed=1)
    actual = cpu_kernels.int8_kernel_matmul(x.float(), codes, scales)
    assert actual.shape == (2, 3, 6) and close(actual.double(), x @ meant.T, 0.3)


@needs_int4
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("rows", "out", "D", "group_size"), [(1, 64, 128, 32), (1, 16, 64, 64), (3, 48, 96, 32), (40, 80, 256, 128)]
)
def test_the_4_bit_kernel_equals_the_plain_way(rows, out, D, group_size, dtype):
    packed, scales, meant = weights_of(out, D, 4, group_size)
    x = random(rows, D, seed=1).to(dtype)
    kernel = cpu_kernels.to_int4_kernel(unpack_bits(packed, 4), scales)
    actual = cpu_kernels.int4_kernel_matmul(x, *kernel)
    expected = x.double() @ meant.T
    assert actual.dtype == dtype and actual.shape == (rows, out)
    assert close(actual.double(), expected, KERNEL_TOLERANCE * expected.abs().max().item())


@needs_int4
def test_the_4_bit_kernel_holds_half_a_byte_a_weight():
    packed, scales, _ = weights_of(64, 128, 4, 32)
    blocks, _ = cpu_kernels.to_int4_kernel(unpack_bits(packed, 4), scales)
    assert blocks.nbytes == packed.nbytes == 64 * 128 // 2


def test_the_4_bit_kernel_is_not_used_for_shapes_that_it_refuses():
    for out, D, group_size in ((24, 64, 32), (64, 64, 16), (64, 512, 512), (64, 48, 32)):
        assert not cpu_kernels.int4_kernel_takes(out, D, group_size)


def test_private_kernels_of_torch_are_called_in_one_file_only():
    files = [
        path.name
        for path in sorted(Path(nanolm.__file__).parent.rglob("*.py"))
        if re.search(r"torch\.(ops\.aten\.)?_(weight_int\w+|convert_weight\w+)", path.read_text(encoding="utf-8"))
    ]
    assert files == ["cpu_kernels.py"]
