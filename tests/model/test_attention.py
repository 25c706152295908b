"""Grades `model/attention.py`: a layer by the formulas, over a cache that notes what it gets and returns a mark."""

import pytest
import torch
from by_hand import attention, close, name_the_mistake, random, rotate
from tiny_models import tiny_config, tiny_model, tokens_of

from nanolm.attention import RotaryTable, Rotation

FORWARD = pytest.mark.exercise("Attention.forward")
THETA = 500.0
FORGOTTEN = "position offset: the new token was rotated as position 0"


class MarkingCache:
    """A cache that notes what it is handed. What it returns is a mark: random numbers, attended to by nobody."""

    def __init__(self, length, T, B=2):
        self.length = self.offset = length
        self.mark = random(B, 4, T, 6, seed=30)
        self.calls, self.advances = [], []

    def attend(self, layer, q, k, v, scale=None):
        for name, x, heads in (("q", q, 4), ("k", k, 2), ("v", v, 2)):
            assert x.ndim == 4, f"{name} has shape {tuple(x.shape)}; the cache takes (B, heads, T, H)"
            assert name == "q" or x.shape[1] != 4, (
                f"{name} has shape {tuple(x.shape)}, not (B, K, T, H) with K = 2: N in place of K. Heads are shared in "
                "the reading, after the cache, and never copied into it"
            )
            assert x.shape[1:] == (heads, self.mark.shape[2], 6), (
                f"{name} has shape {tuple(x.shape)}; the cache takes (B, heads, T, H), here "
                f"{(len(self.mark), heads, self.mark.shape[2], 6)}"
            )
        self.calls.append((layer, q, k, v, scale))
        return self.mark

    def update(self, *_):
        pytest.fail("forward called cache.update: call cache.attend, which stores *and* attends", pytrace=False)

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


def viewed_wrongly(layer, x):
    """q, k, v when the projection is cut into heads before positions."""
    heads = (x @ layer.qkv.weight.T).view(x.shape[0], 8, x.shape[1], 6)
    return heads[:, :4], heads[:, 4:6], heads[:, 6:]


def keys_first(layer, x):
    """q, k, v when the first heads are taken for keys and the next for queries."""
    q, k, v = projected(layer, x)
    heads = torch.cat([q, k], dim=1)
    return heads[:, 2:], heads[:, :2], v


def handed(layer, T, length):
    """Run T positions after `length` cached ones; return x and what the cache was handed."""
    x, cache = random(2, T, 20), MarkingCache(length, T)
    layer(x, cache, length)
    assert len(cache.calls) == 1, (
        f"cache.attend was called {len(cache.calls)} times: once a layer and pass, or the cache is not read"
    )
    return x, cache.calls[0]


def turned_mistakes(layer, x, which, positions):
    """Queries (which = 0) or keys (1) under each common mistake."""
    plain = projected(layer, x)[which]
    return {
        FORGOTTEN: rotate(plain, range(x.shape[1]), THETA),
        "they were not rotated: queries and keys turn, both, before they are handed over": plain,
        "they were rotated twice": rotate(rotate(plain, positions, THETA), positions, THETA),
        "theta: rotate by self.theta, not by the default of apply_rope": rotate(plain, positions),
        "the heads of `qkv` come in the order queries, keys, values": rotate(
            keys_first(layer, x)[which], positions, THETA
        ),
        "the projection was viewed as (B, heads, T, H): view it as (B, T, heads, H), then transpose": rotate(
            viewed_wrongly(layer, x)[which], positions, THETA
        ),
    }


# --- what the cache is handed ------------------------------------------------------------------------------------


@FORWARD
@pytest.mark.parametrize(("T", "length"), [(5, 0), (1, 5), (3, 4)], ids=["a prefill", "one token", "a chunk"])
@pytest.mark.parametrize("which", [0, 1], ids=["queries", "keys"])
def test_forward_hands_the_cache_queries_and_keys_turned_by_their_positions(layer, T, length, which):
    x, call = handed(layer, T, length)
    positions, actual = range(length, length + T), call[1 + which]
    assert close(actual, rotate(projected(layer, x)[which], positions, THETA)), name_the_mistake(
        actual,
        turned_mistakes(layer, x, which, positions),
        f"{('queries', 'keys')[which]} are not `qkv`'s, turned by the positions {length} … {length + T - 1}",
    )


@FORWARD
def test_forward_hands_the_cache_values_as_they_are(layer):
    x, (_, _, k, v, _) = handed(layer, 3, 4)
    plain = projected(layer, x)[2]
    suspects = {
        "the values were rotated: only queries and keys turn": rotate(plain, range(4, 7), THETA),
        "keys and values were handed over in the wrong order": rotate(projected(layer, x)[1], range(4, 7), THETA),
        "the projection was viewed as (B, heads, T, H): view it as (B, T, heads, H), then transpose": viewed_wrongly(
            layer, x
        )[2],
    }
    assert close(v, plain), name_the_mistake(v, suspects, "the values are not the last K heads of `qkv`")
    assert not close(k, plain), "keys and values are the same"


@FORWARD
def test_forward_names_its_own_layer(layer):
    _, (number, *_) = handed(layer, 3, 0)
    assert number not in (2, -1), "every layer writes to the last layer's cache: layer 1 of 0, 1, 2 named the last"
    assert number == 1, f"layer 1 of 0, 1, 2 named layer {number} to the cache: it is self.layer"


@FORWARD
def test_forward_leaves_the_scale_to_the_cache(layer):
    *_, scale = handed(layer, 2, 3)[1]
    assert scale is None or abs(scale - 6**-0.5) < 1e-12, f"scale is {scale}; 1 / √H is what the cache takes unasked"


@FORWARD
def test_forward_leaves_advancing_the_cache_to_the_caller(layer):
    cache = MarkingCache(2, 3)
    layer(random(2, 3, 20), cache, 2)
    assert not cache.advances and cache.length == 2, (
        "the length was advanced inside a layer: the next layer of the same pass would write 3 positions too far"
    )


@FORWARD
@pytest.mark.parametrize("offset", [torch.tensor([3, 1]), torch.tensor([[3], [1]])], ids=["a row", "a position"])
def test_forward_takes_one_offset_per_row(layer, offset):
    x, cache = random(2, 1, 20), MarkingCache(3, 1)
    layer(x, cache, offset)
    k, plain = cache.calls[0][2], projected(layer, x)[1]

    def rows(*offsets):
        return torch.cat([rotate(plain[[b]], [o], THETA) for b, o in enumerate(offsets)])

    suspects = {
        FORGOTTEN: rows(0, 0),
        "the first row's offset was used for every row: hand `offset` to apply_rope as it is": rows(3, 3),
    }
    assert close(k, rows(3, 1)), name_the_mistake(
        k, suspects, "wrong keys with one offset a row (if they are wrong with an int too, mend that first)"
    )


@FORWARD
def test_forward_hands_a_rotation_on_as_it_is(layer):
    x, cache, angles = random(2, 3, 20), MarkingCache(4, 3), random(3, 3, seed=9)
    layer(x, cache, Rotation(angles.cos(), angles.sin()))
    plain = projected(layer, x)[1]
    pairs = torch.complex(plain[..., :3], plain[..., 3:]) * torch.exp(1j * angles)
    assert close(cache.calls[0][2], torch.cat([pairs.real, pairs.imag], dim=-1)), (
        "an offset may be a Rotation, which the model has looked up for all its layers: hand it to apply_rope as it is"
    )


# --- what comes back ---------------------------------------------------------------------------------------------


def output_mistakes(layer, x, cache):
    """What comes out when what the cache returned is put together wrongly, or not used."""
    B, T, _ = x.shape
    q, k, v = projected(layer, x)
    q, k = (rotate(part, range(cache.length, cache.length + T), THETA) for part in (q, k))
    alone = attention(q, k, v).transpose(1, 2).flatten(2) @ layer.out.weight.T
    return {
        "the heads were not put side by side: (B, N, T, H) becomes (B, T, N, H) before (B, T, N·H)": cache.mark.reshape(
            B, T, -1
        )
        @ layer.out.weight.T,
        "the new tokens see each other only: use what cache.attend returns": alone,
        "`out` is missing: the heads go through it, back to the width D": cache.mark.transpose(1, 2).flatten(2),
    }


@FORWARD
@pytest.mark.parametrize(("T", "length"), [(5, 0), (1, 5), (3, 4)], ids=["a prefill", "one token", "a chunk"])
def test_forward_puts_what_the_cache_returns_through_out(layer, T, length):
    x, cache = random(2, T, 20), MarkingCache(length, T)
    actual = layer(x, cache, length)
    assert actual.shape == x.shape, name_the_mistake(
        actual,
        output_mistakes(layer, x, cache),
        f"(B, T, D) = {tuple(x.shape)} went in and {tuple(actual.shape)} came out",
    )
    expected = cache.mark.transpose(1, 2).flatten(2) @ layer.out.weight.T
    assert close(actual, expected), name_the_mistake(
        actual,
        output_mistakes(layer, x, cache),
        "the result is not what the cache returned, heads side by side, times `out`",
    )


@FORWARD
@pytest.mark.parametrize("offset", [0, 7])
def test_forward_without_a_cache_lets_the_positions_see_each_other_alone(layer, offset):
    x = random(2, 4, 20)
    q, k, v = projected(layer, x)
    q, k = (rotate(part, range(offset, offset + 4), THETA) for part in (q, k))

    def out(sees=None):
        return attention(q, k, v, sees).transpose(1, 2).flatten(2) @ layer.out.weight.T

    actual = layer(x, None, offset)
    suspects = {
        "no mask: a position looks at the future": out(lambda t: range(4)),
        "a position does not see itself": out(lambda t: range(max(1, t))),
    }
    assert close(actual, out()), name_the_mistake(actual, suspects, "without a cache: wrong output")


@FORWARD
def test_forward_leaves_its_argument_alone(layer):
    x = random(2, 3, 20)
    before = x.clone()
    layer(x, MarkingCache(4, 3), 4)
    assert torch.equal(x, before), "x was changed in place: the model adds the result to it"


def test_layers_of_a_model_turn_by_one_rotation(monkeypatch):
    model, asked, real = tiny_model(), [], RotaryTable.rotation
    monkeypatch.setattr(RotaryTable, "rotation", lambda *a: asked.append(a) or real(*a))
    model(tokens_of(2, 5))
    assert len(asked) == 1, "the angles are looked up once a pass, and every layer is handed the same"
