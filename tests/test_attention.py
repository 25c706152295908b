"""Grades `nanolm/attention.py` against attention one query at a time (by_hand.py) and torch's own, heads repeated."""

import pytest
import torch
from by_hand import attention, close, name_the_mistake, random, rotate
from tiny_models import tiny_config

from nanolm.attention import attend

THETA = 500.0
SEES_ONE_KEY = (
    "is_causal=True at T = 1: the mask is aligned top-left, so the new token sees only the first key "
    "(a single new token needs no mask: is_causal = T > 1)"
)
TOP_LEFT = (
    "is_causal=True with a past: the mask is aligned top-left, so query t sees keys 0 … t instead of 0 … S - T + t "
    "(make the mask explicit)"
)
WITHOUT_ITSELF = "the current token is left out: position t sees the keys 0 … t, its own among them"
SHAPES = [(1, 1), (5, 5), (1, 6), (3, 7), (6, 7)]


def repeated(heads, G, interleaved=True):
    """(B, K, S, H) → (B, N, S, H)."""
    return heads.repeat_interleave(G, dim=1) if interleaved else heads.repeat(1, G, 1, 1)


def explicit_sdpa(q, k, v):
    """torch's attention with everything spelled out: each head its own copy of the keys, and a full mask."""
    T, S, G = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    mask = torch.tensor([[s <= S - T + t for s in range(S)] for t in range(T)])
    return torch.nn.functional.scaled_dot_product_attention(q, repeated(k, G), repeated(v, G), attn_mask=mask)


def attention_mistakes(q, k, v):
    """What softmax attention gives under each common mistake."""
    T, S, G = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    suspects = {
        SEES_ONE_KEY if T == 1 else TOP_LEFT: attention(q, k, v, lambda t: range(t + 1)),
        "no mask: a position looks at the future": attention(q, k, v, lambda t: range(S)),
        "repeat instead of repeat_interleave: query head n reads key/value head n // G, not n % K": attention(
            q, repeated(k, G, interleaved=False), repeated(v, G, interleaved=False)
        ),
    }
    if S > T:
        suspects[WITHOUT_ITSELF] = attention(q, k, v, lambda t: range(S - T + t))
        suspects["the new tokens see the past only: the current token is left out"] = attention(
            q, k, v, lambda t: range(S - T)
        )
        suspects["the new tokens see each other only: the cache is written but not read"] = attention(
            q, k[:, :, -T:], v[:, :, -T:]
        )
    return suspects


# --- attend ------------------------------------------------------------------------------------------------------


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


# --- Attention.forward -------------------------------------------------------------------------------------------


class RecordingCache:
    """A cache of one layer that returns past and new positions, and remembers what it was called with."""

    def __init__(self, keys, values):
        self.keys, self.values, self.updates, self.advances = keys, values, [], []
        self.length = self.offset = keys.shape[2]

    def update(self, layer, k, v):
        B, K, _, H = self.keys.shape
        assert k.ndim == 4 and k.shape[1] != 4, (
            f"keys of shape {tuple(k.shape)} were cached, not (B, K, T, H) with K = 2: N in place of K. "
            "Heads are shared in the reading, after the cache, and never copied into it"
        )
        assert (*k.shape[:2], k.shape[3]) == (*v.shape[:2], v.shape[3]) == (B, K, H), (
            f"keys {tuple(k.shape)} and values {tuple(v.shape)} were cached; the cache takes (B, K, T, H), "
            f"here ({B}, {K}, T, {H})"
        )
        self.updates.append((layer, k, v))
        return torch.cat([self.keys, k], dim=2), torch.cat([self.values, v], dim=2)

    def advance(self, n):
        self.advances.append(n)


@pytest.fixture
def layer(impl):
    """Layer 1 of 3, float64, with random weights."""
    module = impl.Attention(tiny_config(rope_theta=THETA), layer=1).double().requires_grad_(False)
    for i, weight in enumerate(module.parameters()):
        weight.copy_(random(*weight.shape, seed=10 + i) * 0.5)
    return module


def projected(layer, x):
    """q, k, v before the rotation, (B, heads, T, H): the rows of the joined matrix are queries, keys, values."""
    parts = (x @ layer.qkv.weight.T).split([4 * 6, 2 * 6, 2 * 6], dim=-1)
    return [part.unflatten(-1, (-1, 6)).transpose(1, 2) for part in parts]


def past(S, B=2):
    """Keys and values that the cache holds already, K = 2, H = 6."""
    return random(B, 2, S, 6, seed=20), random(B, 2, S, 6, seed=21)


def by_hand(
    layer,
    x,
    past_k,
    past_v,
    offset,
    sees=None,
    q_offset=None,
    k_offset=None,
    theta=THETA,
    rotate_keys=True,
    rotate_values=False,
    heads=None,
    side_by_side=True,
):
    """The layer's output by the formulas; the arguments after `sees` plant mistakes."""
    T = x.shape[1]
    q, k, v = projected(layer, x) if heads is None else heads
    q = rotate(q, range(*span(offset if q_offset is None else q_offset, T)), theta)
    k = rotate(k, range(*span(offset if k_offset is None else k_offset, T)), theta) if rotate_keys else k
    v = rotate(v, range(*span(offset, T)), theta) if rotate_values else v
    mixed = attention(q, torch.cat([past_k, k], dim=2), torch.cat([past_v, v], dim=2), sees)
    mixed = mixed.transpose(1, 2).flatten(2) if side_by_side else mixed.reshape(*x.shape[:2], -1)
    return mixed @ layer.out.weight.T


def viewed_wrongly(layer, x):
    """q, k, v when the projection is cut into heads before positions."""
    heads = (x @ layer.qkv.weight.T).view(x.shape[0], 8, x.shape[1], 6)
    return heads[:, :4], heads[:, 4:6], heads[:, 6:]


def keys_first(layer, x):
    """q, k, v when the first heads are taken for keys and the next for queries."""
    q, k, v = projected(layer, x)
    heads = torch.cat([q, k], dim=1)
    return heads[:, 2:], heads[:, :2], v


def span(start, T):
    return start, start + T


def forward_mistakes(layer, x, past_k, past_v, offset):
    T, S = x.shape[1], past_k.shape[2] + x.shape[1]
    args = (layer, x, past_k, past_v, offset)
    return {
        "position offset: the new token was rotated as position 0": by_hand(*args, q_offset=0, k_offset=0),
        "position offset: the new key was rotated as position 0 (the query was not)": by_hand(*args, k_offset=0),
        "position offset: the new query was rotated as position 0 (the key was not)": by_hand(*args, q_offset=0),
        "the values were rotated: only queries and keys turn": by_hand(*args, rotate_values=True),
        "theta: rotate by self.theta, not by the default of apply_rope": by_hand(*args, theta=10_000.0),
        "the keys were not rotated: queries and keys turn both": by_hand(*args, rotate_keys=False),
        "the heads of `qkv` come in the order queries, keys, values": by_hand(*args, heads=keys_first(layer, x)),
        "the projection was viewed as (B, heads, T, H): view it as (B, T, heads, H), then transpose": by_hand(
            *args, heads=viewed_wrongly(layer, x)
        ),
        "the heads were not put side by side: (B, N, T, H) becomes (B, T, N, H) before (B, T, N·H)": by_hand(
            *args, side_by_side=False
        ),
        SEES_ONE_KEY if T == 1 else TOP_LEFT: by_hand(*args, sees=lambda t: range(t + 1)),
        "no mask: a position looks at the future": by_hand(*args, sees=lambda t: range(S)),
        **(
            {
                "the new tokens see each other only: the cache is written but not read": by_hand(
                    layer, x, past_k[:, :, :0], past_v[:, :, :0], offset
                ),
                WITHOUT_ITSELF: by_hand(*args, sees=lambda t: range(S - T + t)),
            }
            if S > T
            else {}
        ),
    }


def check_forward(layer, T, S, mask=None):
    x, (past_k, past_v) = random(2, T, 20), past(S - T)
    cache = RecordingCache(past_k, past_v)
    actual = layer(x, cache, S - T, mask)
    assert actual.shape == x.shape, f"(B, T, D) = {tuple(x.shape)} went in and {tuple(actual.shape)} came out"
    assert close(actual, by_hand(layer, x, past_k, past_v, S - T)), name_the_mistake(
        actual,
        forward_mistakes(layer, x, past_k, past_v, S - T),
        f"{T} new positions after {S - T} cached: wrong output",
    )
    return cache


@pytest.mark.exercise("attention.Attention.forward")
def test_forward_of_a_prefill_equals_attention_by_hand(layer):
    check_forward(layer, T=5, S=5)


@pytest.mark.exercise("attention.Attention.forward")
def test_forward_of_one_new_token_sees_the_whole_cache_and_itself(layer):
    check_forward(layer, T=1, S=6)


@pytest.mark.exercise("attention.Attention.forward")
def test_forward_of_a_first_token_sees_itself(layer):
    check_forward(layer, T=1, S=1)


@pytest.mark.exercise("attention.Attention.forward")
def test_forward_of_a_chunk_after_a_past_is_causal(layer):
    check_forward(layer, T=3, S=7)


@pytest.mark.exercise("attention.Attention.forward")
@pytest.mark.parametrize("T", [1, 2])
def test_forward_passes_the_mask_on(layer, T):
    x, (past_k, past_v) = random(2, T, 20), past(4)
    seen = [s for s in range(4 + T) if s != 1]  # key 1 is hidden from every query, all others are seen
    mask = torch.tensor([[s in seen for s in range(4 + T)]] * T)
    actual = layer(x, RecordingCache(past_k, past_v), 4, mask)
    expected = by_hand(layer, x, past_k, past_v, 4, sees=lambda t: seen)
    suspects = {
        "`mask` was not used: rows of unequal length would see each other's padding": by_hand(
            layer, x, past_k, past_v, 4
        )
    }
    assert close(actual, expected), name_the_mistake(
        actual, suspects, "wrong output with a mask (if it is wrong without one too, mend that first)"
    )


@pytest.mark.exercise("attention.Attention.forward")
def test_forward_without_a_cache_lets_the_positions_see_each_other_alone(layer):
    x, (none_k, none_v) = random(2, 4, 20), past(0)
    actual = layer(x)
    assert close(actual, by_hand(layer, x, none_k, none_v, 0)), name_the_mistake(
        actual, forward_mistakes(layer, x, none_k, none_v, 0), "without a cache: wrong output"
    )


@pytest.mark.exercise("attention.Attention.forward")
def test_forward_takes_one_offset_per_row(layer):
    x, (past_k, past_v) = random(2, 1, 20), past(3)
    actual = layer(x, RecordingCache(past_k, past_v), torch.tensor([3, 1]))

    def rows(*offsets):
        return torch.cat([by_hand(layer, x[[b]], past_k[[b]], past_v[[b]], o) for b, o in enumerate(offsets)])

    suspects = {
        "position offset: the new token was rotated as position 0": rows(0, 0),
        "the first row's offset was used for every row: hand `offset` to apply_rope as it is": rows(3, 3),
    }
    assert close(actual, rows(3, 1)), name_the_mistake(
        actual, suspects, "wrong output with one offset a row (if it is wrong with an int too, mend that first)"
    )


@pytest.mark.exercise("attention.Attention.forward")
def test_forward_hands_the_cache_rotated_keys_and_unrotated_values(layer):
    x = random(2, 3, 20)
    _, k, v = projected(layer, x)
    cache = RecordingCache(*past(4))
    layer(x, cache, 4)
    [(_, cached_k, cached_v)] = cache.updates
    assert close(cached_k, rotate(k, range(4, 7), THETA)), name_the_mistake(
        cached_k,
        {
            "keys were cached before the rotation: later passes cannot know their positions": k,
            "position offset: the new token was rotated as position 0": rotate(k, range(3), THETA),
            "keys and values were handed over in the wrong order": v,
        },
        f"the cache got wrong keys, of shape {tuple(cached_k.shape)}",
    )
    assert close(cached_v, v), "the cache got wrong values: they are the projection as it is, without a rotation"


@pytest.mark.exercise("attention.Attention.forward")
def test_forward_caches_k_heads_not_n(layer):
    cache = RecordingCache(*past(0))
    layer(random(2, 3, 20), cache, 0)
    [(_, k, v)] = cache.updates
    assert k.shape == v.shape == (2, 2, 3, 6), (
        f"keys of shape {tuple(k.shape)} were cached, not (B, K, T, H) = (2, 2, 3, 6): N in place of K? "
        "The heads are repeated (or folded) after the cache, never in it"
    )


@pytest.mark.exercise("attention.Attention.forward")
def test_forward_writes_to_its_own_layer_of_the_cache_once(layer):
    cache = RecordingCache(*past(0))
    layer(random(2, 3, 20), cache, 0)
    written = [number for number, _, _ in cache.updates]
    assert written not in ([2], [-1]), (
        "every layer writes to the last layer's cache: layer 1 of 0, 1, 2 wrote to the last"
    )
    assert written == [1], (
        f"layer 1 of 0, 1, 2 wrote to the cache of layers {written}: each writes to its own, once a pass"
    )


@pytest.mark.exercise("attention.Attention.forward")
def test_forward_leaves_advancing_the_cache_to_the_caller(layer):
    cache = RecordingCache(*past(2))
    layer(random(2, 3, 20), cache, 2)
    assert not cache.advances and cache.length == 2, (
        "the length was advanced inside a layer: the next layer of the same pass would write 3 positions too far"
    )
