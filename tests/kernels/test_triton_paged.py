"""The paged decode kernels against softmax in float64 and the torch path; only blocks in use may be read."""

import math

import pytest
import torch
from by_hand import random
from guarded import Memory
from hypothesis import given, settings
from hypothesis import strategies as st

from nanolm.attention import paged_attention

# As for prefill: float32 sums of terms of about 1; float16 loses a digit in the weights and one in the result.
TOLERANCE = {torch.float32: 5e-6, torch.float16: 4 * 2.0**-10}


def by_hand(q, pool, tables, lengths, block_size, scale):
    """One row and head after the other, position by position, in float64."""
    B, N, _, H = q.shape
    K = pool.shape[1]
    places = pool.double().view(2, K, -1, block_size, H)
    out = torch.zeros(B, N, 1, H, dtype=torch.float64)
    for b in range(B):
        where = [(tables[b, s // block_size].item(), s % block_size) for s in range(lengths[b])]
        for n in range(N):
            if where:
                keys, values = (torch.stack([places[i, n // (N // K), *place] for place in where]) for i in range(2))
                out[b, n, 0] = torch.softmax(scale * keys @ q[b, n, 0].double(), dim=0) @ values
    return out


def problem(K, G, H, block_size, lengths, dtype=torch.float32, seed=0, spare=2):
    """Queries, a pool and tables in which the rows' blocks lie in no order; unused entries are wrong numbers."""
    generator = torch.Generator().manual_seed(seed)
    M = max(1, max(-(-length // block_size) for length in lengths)) + 1
    needed = [-(-length // block_size) for length in lengths]
    n_blocks = sum(needed) + spare
    order, tables = torch.randperm(n_blocks, generator=generator).tolist(), []
    for n in needed:
        tables.append([order.pop() for _ in range(n)] + [-1] * (M - n))
    pool = random(2, K, n_blocks, block_size * H, seed=seed).to(dtype)
    q = random(len(lengths), K * G, 1, H, seed=seed + 1).to(dtype)
    return q, pool, torch.tensor(tables, dtype=torch.int32), torch.tensor(lengths, dtype=torch.int32)


def guarded(q, pool, tables, lengths, block_size, n_splits, scale=None):
    """The kernel's result, with NaN in all that no row may see."""
    H = q.shape[-1]
    seen = torch.zeros(pool.shape[2], block_size, dtype=torch.bool)
    for table, length in zip(tables.tolist(), lengths.tolist(), strict=True):
        for s in range(length):
            seen[table[s // block_size], s % block_size] = True
    seen = seen[..., None].expand(-1, -1, H).flatten(1)  # (n_blocks, block_size · H)
    used = torch.arange(tables.shape[1]) * block_size < lengths[:, None]
    with Memory() as memory:
        blocks = memory.embed(pool.masked_fill(~seen, torch.nan), seen)
        return paged_attention(
            memory.embed(q), *blocks, memory.embed(tables, used), memory.embed(lengths), n_splits, scale,
            backend="triton", check=False,
        )  # fmt: skip


def assert_right(q, pool, tables, lengths, block_size, n_splits, scale=None):
    out = guarded(q, pool, tables, lengths, block_size, n_splits, scale)
    by_torch = paged_attention(q, *pool, tables, lengths, n_splits, scale, backend="torch")
    exact = by_hand(q, pool, tables, lengths, block_size, scale or 1 / math.sqrt(q.shape[-1]))
    for name, expected in (("softmax in float64", exact), ("the torch path", by_torch.double())):
        error = (out.double() - expected).abs().max().item()
        assert error <= TOLERANCE[q.dtype], f"off by {error:.2g} from {name}"
    return out


@settings(max_examples=30)
@given(
    K=st.integers(1, 2),
    G=st.integers(1, 3),
    H=st.sampled_from([1, 4, 6, 16]),
    block_size=st.sampled_from([1, 3, 4, 16]),
    lengths=st.lists(st.integers(0, 33), min_size=1, max_size=3),
    n_splits=st.integers(1, 5),
    dtype=st.sampled_from([torch.float32, torch.float16]),
    seed=st.integers(0, 99),
)
def test_the_kernel_is_softmax_attention_over_the_blocks(K, G, H, block_size, lengths, n_splits, dtype, seed):
    assert_right(*problem(K, G, H, block_size, lengths, dtype, seed), block_size, n_splits)


def test_the_kernel_walks_through_more_keys_than_a_tile_holds():
    assert_right(*problem(2, 2, 8, 16, [200, 1, 129]), 16, 2)


def test_the_kernel_may_have_more_ranges_than_keys():
    # 40 ranges of 3 positions: 37 ranges are empty, and so are all of a row without positions.
    out = assert_right(*problem(1, 2, 4, 4, [3, 0]), 4, 40)
    assert (out[1] == 0).all(), "a row of length 0 gives 0"


@pytest.mark.parametrize("scale", [0.1, 1.0])
def test_the_kernel_scales_as_it_is_told(scale):
    assert_right(*problem(1, 2, 4, 4, [9]), 4, 2, scale)


def test_the_kernel_lets_rows_share_blocks():
    q, pool, tables, lengths = problem(1, 1, 4, 4, [8, 8])
    tables[1, 0] = tables[0, 0]  # the same beginning
    assert_right(q, pool, tables, lengths, 4, 2)


def test_the_kernel_takes_int64_tables_and_lengths():
    q, pool, tables, lengths = problem(1, 1, 4, 4, [5, 7])
    out = paged_attention(q, *pool, tables.long(), lengths.long(), 2, backend="triton")
    assert torch.equal(out, paged_attention(q, *pool, tables, lengths, 2, backend="triton"))
