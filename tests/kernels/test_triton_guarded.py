"""Tests guarded.py: does it notice a kernel that goes astray?"""

import pytest
import torch
import triton
import triton.language as tl
from guarded import Memory
from triton.runtime.errors import InterpreterError


@triton.jit
def copy_kernel(x_ptr, y_ptr, n_read, n_written, SIZE: tl.constexpr):
    i = tl.arange(0, SIZE)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n_read, other=0.0), mask=i < n_written)


def copy(memory, n_read, n_written):
    x = memory.embed(torch.arange(4.0))
    y = torch.empty(4, dtype=torch.float32, device=x.device)
    copy_kernel[(1,)](x, y, n_read, n_written, SIZE=8)
    return y.tolist()


def test_a_kernel_that_keeps_to_its_memory_is_left_in_peace():
    with Memory() as memory:
        assert copy(memory, 4, 4) == [0, 1, 2, 3]


@pytest.mark.parametrize(("n_read", "n_written", "what"), [(5, 4, "read what it was not"), (4, 5, "wrote where")])
def test_one_number_too_many_is_noticed(n_read, n_written, what):
    with pytest.raises(InterpreterError, match=what), Memory() as memory:
        copy(memory, n_read, n_written)


def test_a_number_without_reason_to_be_read_is_noticed():
    with pytest.raises(InterpreterError, match="read what it was not"), Memory() as memory:
        x = memory.embed(torch.arange(4.0), torch.tensor([True, True, True, False]))
        copy_kernel[(1,)](x, torch.empty(4, dtype=torch.float32, device=x.device), 4, 4, SIZE=4)
