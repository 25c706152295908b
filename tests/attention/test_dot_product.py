"""Tests `attention/dot_product.py` against attention one query at a time (by_hand.py) and torch, heads repeated."""

import pytest
import torch
from attention_mistakes import attention_mistakes, repeated
from by_hand import attention, close, name_the_mistake, random

from nanolm.attention import attend

SHAPES = [(1, 1), (5, 5), (1, 6), (3, 7), (6, 7)]


def explicit_sdpa(q, k, v):
    """torch's attention with everything spelled out: each head its own copy of the keys, and a full mask."""
    T, S, G = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    mask = torch.tensor([[s <= S - T + t for s in range(S)] for t in range(T)])
    return torch.nn.functional.scaled_dot_product_attention(q, repeated(k, G), repeated(v, G), attn_mask=mask)


@pytest.mark.parametrize(("T", "S"), SHAPES)
@pytest.mark.parametrize(("N", "K"), [(4, 4), (4, 2), (6, 2), (4, 1)])
def test_attend_equals_attention_one_query_at_a_time(N, K, T, S):
    q, k, v = random(2, N, T, 6, seed=1), random(2, K, S, 6, seed=2), random(2, K, S, 6, seed=3)
    actual = attend(q, k, v)
    assert close(actual, attention(q, k, v)), name_the_mistake(
        actual, attention_mistakes(q, k, v), f"attention of {T} queries over {S} keys is wrong"
    )


@pytest.mark.parametrize(("T", "S"), SHAPES)
@pytest.mark.parametrize(("N", "K"), [(4, 2), (6, 2), (4, 1)])
def test_attend_of_groups_equals_attention_over_repeated_heads(N, K, T, S):
    q, k, v = random(2, N, T, 6, seed=4), random(2, K, S, 6, seed=5), random(2, K, S, 6, seed=6)
    assert close(attend(q, k, v), explicit_sdpa(q, k, v)), f"{N // K} queries a group: not what repeat_interleave gives"


@pytest.mark.parametrize(
    "sees", [([[0, 1, 2], [0, 1, 2, 3]], [[0], [0, 1]]), ([[0, 1, 2, 3, 4]], [[0, 1]])], ids=["T = 2", "T = 1"]
)
def test_attend_takes_a_mask_of_each_row_s_own(sees):
    q, k, v = random(2, 4, len(sees[0]), 6, seed=1), random(2, 2, 5, 6, seed=2), random(2, 2, 5, 6, seed=3)
    mask = torch.tensor([[[s in keys for s in range(5)] for keys in row] for row in sees])[:, None]  # (B, 1, T, S)
    expected = torch.cat([attention(q[b : b + 1], k[b : b + 1], v[b : b + 1], sees[b].__getitem__) for b in range(2)])
    assert close(attend(q, k, v, mask), expected), (
        "the mask was not used: a row sees keys that are another row's padding"
    )


def test_attend_takes_heads_that_are_views_of_one_projection():
    joined = random(2, 5, 8, 6).transpose(1, 2)  # (B, N + 2K, T, H), not contiguous
    q, k, v = joined[:, :4], joined[:, 4:6], joined[:, 6:]
    assert close(attend(q[:, :, -1:], k, v), attention(q[:, :, -1:], k, v))


def test_attend_shows_no_query_the_future():
    q, k, v = random(1, 4, 6, 6, seed=1), random(1, 2, 6, 6, seed=2), random(1, 2, 6, 6, seed=3)
    before = attend(q, k, v)
    k[:, :, 4:], v[:, :, 4:] = 9.0, -9.0
    assert close(attend(q, k, v)[:, :, :4], before[:, :, :4], 0.0), "positions 0 to 3 changed with keys 4 and 5"


@pytest.mark.parametrize(("T", "S"), SHAPES)
def test_attend_scales_by_what_it_is_given(T, S):
    q, k, v = random(1, 4, T, 6, seed=1), random(1, 2, S, 6, seed=2), random(1, 2, S, 6, seed=3)
    # attention by hand divides by √6: queries three times as long have the scale 3 / √6
    assert close(attend(q, k, v, scale=3 / 6**0.5), attention(3 * q, k, v)), "scale: the one given, not 1 / √H"


@pytest.mark.parametrize(("T", "S"), SHAPES)
@pytest.mark.parametrize("K", [1, 2])
def test_attend_takes_values_of_another_width_than_the_keys(K, T, S):
    # Latent attention: one head, keys of C + R numbers, values of C.
    q, k, v = random(2, 4, T, 6, seed=1), random(2, K, S, 6, seed=2), random(2, K, S, 6, seed=3)
    assert close(attend(q, k, v[..., :4]), attention(q, k, v)[..., :4])
