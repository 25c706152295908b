"""Tests `nanolm/kernels/cpu_attention.py`: the formula, the same bits wherever a query stands, no memory of others."""

import math

import pytest
import torch

from nanolm.attention.dot_product import attend
from nanolm.kernels.compiled import Library, load_library
from nanolm.kernels.cpu_attention import attends_rows, block_attention, follows_tables, row_attention
from nanolm.quantization.absmax import quantize

pytestmark = pytest.mark.skipif(not isinstance(load_library(), Library), reason=f"none here: {load_library()}")

HEADS = [(1, 1), (4, 2), (9, 3), (8, 1)]  # query heads, key heads


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def formula(q, k, v, scale=None):
    """softmax(scale · q·kᵀ)·v in float64, one query at a time; the T queries are the last of the S positions."""
    (B, N, T, H), (K, S) = q.shape, k.shape[1:3]
    out = torch.zeros(B, N, T, H, dtype=torch.float64)
    for b in range(B):
        for n in range(N):
            for t in range(T):
                seen = S - T + t + 1
                keys, values = (x[b, n // (N // K), :seen].double() for x in (k, v))
                weights = torch.softmax(keys @ q[b, n, t].double() * (1 / math.sqrt(H) if scale is None else scale), 0)
                out[b, n, t] = weights @ values
    return out


def in_blocks(k, v, block_size, seed=0):
    """Put rows into a pool of blocks in any order, NaN wherever nobody's numbers are; return pool and tables."""
    B, K, S, H = k.shape
    M = -(-S // block_size)
    tables = torch.randperm(B * M + 3, generator=torch.Generator().manual_seed(seed))[: B * M].view(B, M)
    pool = torch.full((2, K, B * M + 3, block_size, H), float("nan"))
    for b in range(B):
        for s in range(S):
            pool[:, :, tables[b, s // block_size], s % block_size] = torch.stack([k[b, :, s], v[b, :, s]])
    return pool.flatten(-2), tables


@pytest.mark.parametrize("H", [32, 64, 96, 128])
@pytest.mark.parametrize("T", [1, 2, 5])
@pytest.mark.parametrize(("N", "K"), HEADS)
def test_rows_are_the_formula(N, K, T, H):
    S = 37
    q, k, v = numbers(2, N, T, H), numbers(2, K, S, H, seed=1), numbers(2, K, S, H, seed=2)
    assert attends_rows(q, k, v)
    torch.testing.assert_close(row_attention(q, k, v), formula(q, k, v).float(), atol=2e-6, rtol=2e-6)


@pytest.mark.parametrize("S", [1, 15, 16, 31, 32, 33, 64, 200])
def test_every_number_of_positions_is_the_formula(S):
    q, k, v = numbers(1, 2, 1, 32), numbers(1, 1, S, 32, seed=1), numbers(1, 1, S, 32, seed=2)
    torch.testing.assert_close(row_attention(q, k, v), formula(q, k, v).float(), atol=2e-6, rtol=2e-6)


def test_a_whole_prompt_is_the_formula():
    q, k, v = numbers(1, 4, 50, 32), numbers(1, 2, 50, 32, seed=1), numbers(1, 2, 50, 32, seed=2)
    torch.testing.assert_close(row_attention(q, k, v), formula(q, k, v).float(), atol=2e-6, rtol=2e-6)


def test_the_scale_is_that_which_is_asked_for():
    q, k, v = numbers(1, 2, 1, 32), numbers(1, 1, 9, 32, seed=1), numbers(1, 1, 9, 32, seed=2)
    torch.testing.assert_close(row_attention(q, k, v, 0.5), formula(q, k, v, 0.5).float(), atol=2e-6, rtol=2e-6)


def test_the_filled_part_of_a_longer_cache_is_read_in_place_and_nothing_behind_it():
    q, cache = numbers(3, 4, 1, 32), torch.full((2, 3, 2, 60, 32), float("nan"))
    cache[:, :, :, :21] = numbers(2, 3, 2, 21, 32, seed=1)
    k, v = cache[:, :, :, :21]
    torch.testing.assert_close(row_attention(q, k, v), formula(q, k, v).float(), atol=2e-6, rtol=2e-6)


def test_attend_goes_this_way_unless_there_is_a_mask(monkeypatch):
    q, k = numbers(1, 2, 3, 32), numbers(1, 1, 9, 32, seed=1)
    torch.testing.assert_close(attend(q, k, k), row_attention(q, k, k), atol=0, rtol=0)
    monkeypatch.setattr("nanolm.attention.dot_product.row_attention", lambda *_: pytest.fail("it knows no masks"))
    attend(q, k, k, torch.ones(3, 9, dtype=torch.bool))


@pytest.mark.parametrize(
    ("what", "q", "k"),
    [
        ("numbers of 64 bits", numbers(1, 2, 1, 32).double(), numbers(1, 1, 9, 32).double()),
        ("heads of 40 numbers", numbers(1, 2, 1, 40), numbers(1, 1, 9, 40)),
        ("keys that want a gradient", numbers(1, 2, 1, 32), numbers(1, 1, 9, 32).requires_grad_()),
        ("queries that want a gradient", numbers(1, 2, 1, 32).requires_grad_(), numbers(1, 1, 9, 32)),
        ("keys whose numbers are not side by side", numbers(1, 2, 1, 32), numbers(1, 1, 32, 9).transpose(2, 3)),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_what_it_does_not_take_is_left_to_torch(what, q, k):
    assert not attends_rows(q, k, k), what
    assert attend(q, k, k).shape == q.shape


@pytest.mark.parametrize("block_size", [1, 3, 16])
@pytest.mark.parametrize("T", [1, 4])
def test_blocks_in_any_order_are_the_formula(T, block_size):
    B, S = 3, 41
    q, k, v = numbers(B, 4, T, 32), numbers(B, 2, S, 32, seed=1), numbers(B, 2, S, 32, seed=2)
    pool, tables = in_blocks(k, v, block_size)
    assert follows_tables(torch.float32, pool, 32)
    found = block_attention(q, pool, tables, torch.full((B,), S - T + 1), S - T + 1)
    torch.testing.assert_close(found, formula(q, k, v).float(), atol=2e-6, rtol=2e-6)


def test_every_row_of_unequal_lengths_reads_what_is_its_own():
    lengths = [1, 40, 16, 17]
    q, k, v = numbers(4, 4, 1, 32), numbers(4, 2, 40, 32, seed=1), numbers(4, 2, 40, 32, seed=2)
    for row, length in enumerate(lengths):
        k[row, :, length:] = v[row, :, length:] = float("nan")
    pool, tables = in_blocks(k, v, 16)
    found = block_attention(q, pool, tables, torch.tensor(lengths), 40)
    for row, length in enumerate(lengths):
        alone = formula(q[row, None], k[row, None, :, :length], v[row, None, :, :length])[0]
        torch.testing.assert_close(found[row], alone.float(), atol=2e-6, rtol=2e-6)


def test_a_query_has_the_same_bits_in_rows_and_in_blocks_alone_and_in_a_batch_and_in_any_chunk():
    S, T = 61, 7
    q, k, v = numbers(5, 6, T, 64), numbers(5, 2, S, 64, seed=1), numbers(5, 2, S, 64, seed=2)
    whole = row_attention(q, k, v)
    pool, tables = in_blocks(k, v, 4)
    assert torch.equal(block_attention(q, pool, tables, torch.full((5,), S - T + 1), S - T + 1), whole)
    for row in range(5):
        assert torch.equal(row_attention(q[row, None], k[row, None], v[row, None])[0], whole[row])
    for t in range(T):
        seen = S - T + t + 1
        assert torch.equal(row_attention(q[:, :, t, None], k[:, :, :seen], v[:, :, :seen])[:, :, 0], whole[:, :, t])


def test_a_query_has_the_same_bits_with_two_threads():
    q, k, v = numbers(4, 6, 2, 64), numbers(4, 3, 300, 64, seed=1), numbers(4, 3, 300, 64, seed=2)
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(row_attention(q, k, v))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)


def test_codes_of_8_bits_are_what_they_stand_for():
    B, S = 2, 30
    q, k, v = numbers(B, 4, 2, 32), numbers(B, 2, S, 32, seed=1), numbers(B, 2, S, 32, seed=2)
    pool, tables = in_blocks(k, v, 8)
    codes, scales = quantize(pool.nan_to_num().unflatten(-1, (8, 32)), 8, scale_dtype=torch.bfloat16)
    decoded = (codes * scales.float()).transpose(0, 1)  # (K, 2, blocks, 8, 32)
    rows = decoded[:, :, tables].flatten(3, 4)[:, :, :, :S].permute(1, 2, 0, 3, 4)  # (2, B, K, S, 32)
    found = block_attention(
        q, codes.flatten(-2), tables, torch.full((B,), S - 1), S - 1, None, scales[..., 0].contiguous()
    )
    torch.testing.assert_close(found, formula(q, *rows).float(), atol=2e-6, rtol=2e-6)


def test_numbers_of_16_bits_are_rounded_once_at_the_end():
    q, k, v = (
        x.bfloat16() for x in (numbers(1, 4, 2, 32), numbers(1, 2, 30, 32, seed=1), numbers(1, 2, 30, 32, seed=2))
    )
    found = row_attention(q, k, v)
    assert found.dtype is torch.bfloat16
    torch.testing.assert_close(found.double(), formula(q, k, v), atol=2e-3, rtol=2**-8)


def test_scores_far_apart_do_not_overflow():
    q, k = torch.full((1, 1, 1, 32), 100.0), numbers(1, 1, 40, 32, seed=1)
    torch.testing.assert_close(row_attention(q, k, k), formula(q, k, k).float(), atol=2e-5, rtol=2e-5)


def test_weights_over_the_whole_range_are_exponentials():
    # Scores 0, -1, …, -99 by one number of the key; the values say which position: position s has weight e^(-s) / sum.
    k, v = torch.zeros(1, 1, 100, 32), torch.zeros(1, 1, 100, 32)
    k[0, 0, :, 0], v[0, 0, :, 0] = -torch.arange(100.0), torch.exp(torch.arange(100.0).clamp(max=80))
    q = torch.zeros(1, 1, 1, 32)
    q[..., 0] = 1.0
    found = row_attention(q, k, v, 1.0)[0, 0, 0, 0].item()
    # Each of the first 81 positions adds e^-s · e^s = 1, the others e^(80 - s): 81 + 1 / (e - 1).
    # The weights' own sum is e / (e - 1).
    assert found == pytest.approx((81 + 1 / (math.e - 1)) * (math.e - 1) / math.e, rel=1e-5)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_key_that_is_no_number_is_seen_by_its_own_row_alone(bad):
    q, k, v = numbers(2, 2, 1, 32).abs(), numbers(2, 1, 20, 32, seed=1), numbers(2, 1, 20, 32, seed=2)
    clean = row_attention(q, k, v)
    k[1, 0, 5, 3] = bad
    found = row_attention(q, k, v)
    assert torch.equal(found[0], clean[0]) and found[1].isnan().all()


@pytest.mark.parametrize("H", [6, 40])
def test_heads_that_the_library_does_not_take_are_refused_before_memory_is_read(H):
    pool, tables = in_blocks(numbers(1, 1, 8, H), numbers(1, 1, 8, H), 4)
    with pytest.raises(ValueError, match=f"in heads of {H}"):
        block_attention(numbers(1, 1, 1, H), pool, tables, torch.tensor([8]), 8)


def test_a_table_that_is_a_part_of_a_wider_one_is_followed():
    q, k, v = numbers(2, 2, 1, 32), numbers(2, 1, 8, 32, seed=1), numbers(2, 1, 8, 32, seed=2)
    pool, tables = in_blocks(k, v, 4)
    wide = torch.full((2, 4), -1)
    wide[:, ::2] = tables
    found = block_attention(q, pool, wide[:, ::2], torch.tensor([8, 8]), 8)
    torch.testing.assert_close(found, formula(q, k, v).float(), atol=2e-6, rtol=2e-6)
