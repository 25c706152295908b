"""The meter of peak memory: what counts, what does not, and when memory is given back."""

import torch

from course.lab.memory import PeakMemory


def test_peak_memory_counts_what_is_alive_at_the_same_time():
    x = torch.zeros(1000)  # 4,000 B a tensor; x itself was there before
    with PeakMemory() as memory:
        a = x + 1
        b = a + 1  # a and b: 8,000 B
        del a
        b + 1
    assert (memory.peak_bytes, memory.largest_bytes) == (8000, 4000)


def test_peak_memory_counts_no_view_and_nothing_written_in_place():
    x = torch.zeros(10, 100)
    with PeakMemory() as memory:
        x.add_(1).view(1000)[:5].mul_(2)
        x.transpose(0, 1)
    assert memory.peak_bytes == 0, "a view has the memory of its tensor"


def test_peak_memory_keeps_a_tensor_of_which_only_a_view_is_left():
    x = torch.zeros(1000)
    with PeakMemory() as memory:
        a = (x + 1)[:1]  # one number, and 4,000 B behind it
        b = x + 2
        del a
    assert memory.peak_bytes == 8000
    assert b.shape == (1000,)


def test_peak_memory_needs_no_memory_to_count_on_the_meta_device():
    with PeakMemory() as memory:
        torch.empty(10**6, 10**6, dtype=torch.bfloat16, device="meta")
    assert memory.peak_bytes == 2 * 10**12
