"""Grades `model/tiny_decoder.py`. Its weights are used here in plain sums, one position at a time (`by_hand`)."""

import math
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import pytest
from refusal import assert_refuses

from course.grading.seeds import fresh
from nanolm.model import tiny_decoder

PROMPT = [3, 17, 4, 30, 9, 0, 21, 12]  # 8 tokens


# --- the same decoder by hand ------------------------------------------------------------------------------------


@dataclass
class ByHand:
    """Logits (T, V) of every position, and each layer's keys and values, (T, D)."""

    keys: list[np.ndarray] = field(default_factory=list)
    values: list[np.ndarray] = field(default_factory=list)
    logits: np.ndarray = field(default_factory=lambda: np.empty(0))


def attention(q, keys, values, visible: Iterable[int], n_blank: int = 0, scale: float | None = None):
    """One query over the visible keys; `n_blank` more keys and values of zeros take part in the softmax."""
    scale = math.sqrt(len(q)) if scale is None else scale
    weights = {s: math.exp(sum(q * keys[s]) / scale) for s in visible}
    total = sum(weights.values()) + n_blank
    return sum((w / total * values[s] for s, w in weights.items()), np.zeros(len(q)))


def by_hand(
    decoder,
    tokens,
    position: Callable[[int], int] = lambda t: t,
    sees: Callable[[int], Iterable[int]] = lambda t: range(t + 1),
    blank: Callable[[int], int] = lambda t: 0,
    keeps_stream: bool = True,
) -> ByHand:
    """What the decoder's weights give for a whole text; the other arguments are ways to get it wrong."""
    result = ByHand()
    x = [decoder.token_vectors[token] + decoder.position_vectors[position(t)] for t, token in enumerate(tokens)]
    for wq, wk, wv, wo in zip(decoder.wq, decoder.wk, decoder.wv, decoder.wo, strict=True):
        k, v = np.reshape([row @ wk for row in x], (-1, len(wk))), np.reshape([row @ wv for row in x], (-1, len(wv)))
        seen = [attention(row @ wq, k, v, sees(t), blank(t)) @ wo for t, row in enumerate(x)]
        x = [row * keeps_stream + more for row, more in zip(x, seen, strict=True)]
        result.keys.append(k)
        result.values.append(v)
    result.logits = np.array([row @ decoder.head for row in x])
    return result


def close(actual, expected, tolerance=1e-12):
    actual, expected = np.asarray(actual), np.asarray(expected)
    return actual.shape == expected.shape and np.allclose(actual, expected, rtol=0, atol=tolerance)


def name_the_mistake(actual, suspects, otherwise):
    """What the result would be under each common mistake: the first that matches names it."""
    return next((mistake for mistake, result in suspects.items() if close(actual, result, 1e-9)), otherwise)


def position_key(decoder, token, position):
    """The key of a token in layer 0, were it at another position."""
    return (decoder.token_vectors[token] + decoder.position_vectors[position]) @ decoder.wk[0]


def random(*shape, seed=0):
    return np.random.default_rng(fresh(seed)).normal(size=shape)


def filled_cache(impl, decoder, tokens):
    """A cache as a right prefill leaves it; what lies behind its length must never be read."""
    hand, shape = by_hand(decoder, tokens), (decoder.n_layers, decoder.capacity, decoder.d_model)
    cache = impl.TinyCache(np.full(shape, 50.0), np.full(shape, 50.0), len(tokens))
    for layer in range(decoder.n_layers):
        cache.keys[layer, : len(tokens)] = hand.keys[layer]
        cache.values[layer, : len(tokens)] = hand.values[layer]
    return cache


# --- causal_attention --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("T", "S"), [(5, 5), (1, 6), (3, 6), (1, 1)])
def test_causal_attention_equals_one_softmax_for_each_query(T, S):
    q, k, v = random(T, 4, seed=1), random(S, 4, seed=2), random(S, 4, seed=3)

    def each(sees, scale=None):
        return np.array([attention(q[t], k, v, sees(t), scale=scale) for t in range(T)])

    def right(t):
        return range(S - T + t + 1)

    scores = [[q[t] @ k[s] / 2 for s in right(t)] for t in range(T)]
    sums = np.array([[sum(math.exp(score - max(row)) for score in row)] for row in scores])
    suspects = {
        "no mask: a position must not see the ones after it": each(lambda t: range(S)),
        "the mask is aligned top-left: the T queries are the last T of the S positions": each(lambda t: range(t + 1)),
        "current token left out: a position sees itself too": each(lambda t: range(S - T + t)),
        "scores not divided by √D": each(right, scale=1.0),
        "scores divided by D, not by its root": each(right, scale=4.0),
        "the weights do not add up to 1: divide the exponentials by their sum": each(right) * sums,
    }
    got = tiny_decoder.causal_attention(q, k, v)
    assert np.shape(got) == (T, 4), f"shape {np.shape(got)} came back, not (T, D) = {(T, 4)}"
    assert close(got, each(right)), name_the_mistake(got, suspects, "this is not softmax(q·kᵀ / √D)·v, causal")


def test_causal_attention_does_not_overflow_on_large_scores():
    # Scores (2000, 0): the first key has all the weight. exp(2000) is infinite, and ∞ / ∞ is not a number.
    with np.errstate(all="ignore"):
        got = tiny_decoder.causal_attention(np.array([[2000.0]]), np.array([[1.0], [0.0]]), np.array([[7.0], [3.0]]))
    assert np.isfinite(got).all(), "overflow: subtract each row's largest score before the exponential"
    assert close(got, [[7.0]])


# --- forward_full ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_layers", [1, 2])
def test_forward_full_equals_the_sums_by_hand(n_layers):
    decoder = tiny_decoder.TinyDecoder(n_layers=n_layers)
    last = len(PROMPT) - 1
    suspects = {
        "no mask: a position must not see the ones after it": by_hand(decoder, PROMPT, sees=lambda t: range(last + 1)),
        "current token left out: a position sees itself too": by_hand(decoder, PROMPT, sees=range),
        "every token was run as position 0: embed the T tokens in one call": by_hand(decoder, PROMPT, lambda t: 0),
        "a layer adds to the vectors, it does not replace them": by_hand(decoder, PROMPT, keeps_stream=False),
    }
    got = decoder.forward_full(PROMPT)
    assert np.shape(got) == (8, 32), f"shape {np.shape(got)} came back, not (T, V) = (8, 32): score every position"
    mistake = name_the_mistake(
        got, {name: wrong.logits for name, wrong in suspects.items()}, "the logits are not those of the sums by hand"
    )
    assert close(got, by_hand(decoder, PROMPT).logits), mistake


def test_forward_full_with_a_cache_gives_the_same_logits_and_fills_it():
    decoder = tiny_decoder.TinyDecoder(n_layers=2)
    cache, hand = filled_cache(tiny_decoder, decoder, []), by_hand(decoder, PROMPT)
    got = decoder.forward_full(PROMPT, cache)
    assert close(got, hand.logits), "with a cache the logits are other ones than without"
    assert cache.length != 0, "cache not advanced: after the last layer its length is T"
    assert cache.length != 16, "the length was advanced in every layer: count the positions once, after the last one"
    assert cache.length == 8, f"after a prompt of 8 the cache's length is {cache.length}"
    for layer, (k, v) in enumerate(zip(hand.keys, hand.values, strict=True)):
        keys, values = cache.keys[layer, :8], cache.values[layer, :8]
        assert not (close(keys, v) and close(values, k)), "keys and values are swapped in the cache"
        assert close(keys, k) and close(values, v), f"layer {layer}: its keys and values are not in its own cache"
    assert (cache.keys[:, 8:] == 50).all() and (cache.values[:, 8:] == 50).all(), "written beyond the 8 positions"


def test_forward_full_is_one_pass_that_projects_each_position_once_a_layer():
    decoder = tiny_decoder.TinyDecoder(n_layers=2)
    decoder.forward_full(PROMPT, decoder.new_cache())
    work = decoder.work
    assert work.passes == 1, f"{work.passes} passes: call `embed` once, with all tokens"
    # 2 layers · 8 positions · a key and a value.
    assert (work.positions_run, work.kv_projections) == (8, 32)


def test_forward_full_refuses_a_cache_that_holds_something():
    decoder = tiny_decoder.TinyDecoder()
    cache = filled_cache(tiny_decoder, decoder, PROMPT)
    with pytest.raises(ValueError, match="cache"):
        decoder.forward_full([1, 2], cache)


# --- new_cache ---------------------------------------------------------------------------------------------------


def test_new_cache_is_empty_and_has_a_place_for_every_layer_and_position():
    cache = tiny_decoder.TinyDecoder(d_model=6, n_layers=2, capacity=5).new_cache()
    assert cache.length == 0, "a new cache holds nothing yet"
    for name, array in (("keys", cache.keys), ("values", cache.values)):
        assert array.shape == (2, 5, 6), f"{name} has shape {array.shape}, not (L, capacity, D) = (2, 5, 6)"
        assert array.dtype == np.float64, f"{name} is {array.dtype}; the decoder computes in float64"


def test_new_cache_shares_nothing_with_another():
    decoder = tiny_decoder.TinyDecoder()
    one, other = decoder.new_cache(), decoder.new_cache()
    assert one is not other, "cache shared between calls: every text needs one of its own"
    assert not np.shares_memory(one.keys, one.values), "keys and values are one array: the values overwrite the keys"
    for name in ("keys", "values"):
        arrays = getattr(one, name), getattr(other, name)
        assert not np.shares_memory(*arrays), f"cache shared between calls: both have the same array of {name}"


# --- forward_step ------------------------------------------------------------------------------------------------


@pytest.mark.exercise("TinyDecoder.forward_step")
@pytest.mark.parametrize("n_layers", [1, 2])
def test_forward_step_equals_the_last_row_of_a_full_pass(impl, n_layers):
    decoder = impl.TinyDecoder(n_layers=n_layers)
    text, last = [*PROMPT, 5], len(PROMPT)

    def wrong(**how):
        """The last row when the mistake is made at the last position alone."""
        return by_hand(decoder, text, **how).logits[last]

    suspects = {
        "position offset forgotten: the new token was run as position 0": wrong(position=lambda t: t % last),
        "position offset: the new token was run one position too early": wrong(position=lambda t: min(t, last - 1)),
        "position offset: the new token was run one position too late": wrong(position=lambda t: t + (t == last)),
        "current token left out: the new token sees itself too": wrong(sees=lambda t: range(t + (t < last))),
        "the past is left out: the new token sees the cached positions": wrong(
            sees=lambda t: [t] if t == last else range(t + 1)
        ),
        "a layer adds to the vectors, it does not replace them": wrong(keeps_stream=False),
    }
    got = decoder.forward_step(5, filled_cache(impl, decoder, PROMPT))
    assert np.shape(got) == (32,), f"shape {np.shape(got)} came back, not (V,) = (32,)"
    otherwise = "the logits differ from those of a full pass over the same text"
    if n_layers > 1:
        otherwise += " (if one layer is right and two are not: each has its own part of the cache, at one position)"
    assert close(got, by_hand(decoder, text).logits[last]), name_the_mistake(got, suspects, otherwise)


@pytest.mark.exercise("TinyDecoder.forward_step")
def test_forward_step_does_not_see_the_empty_places_of_the_cache(impl):
    decoder = impl.TinyDecoder()
    cache, other = (filled_cache(impl, decoder, PROMPT) for _ in range(2))
    cache.keys[:, 9:] = cache.values[:, 9:] = 0
    n_empty = decoder.capacity - 9
    got, text = np.squeeze(decoder.forward_step(5, cache)), [*PROMPT, 5]
    with_blanks = by_hand(decoder, text, blank=lambda t: n_empty if t == 8 else 0).logits[8]
    assert not close(got, with_blanks, 1e-9), (
        f"empty places of the cache take part: {n_empty} zero keys score 0, which is e⁰ = 1 each in the softmax"
    )
    with_other_places = np.squeeze(decoder.forward_step(5, other))  # its empty places hold 50
    assert close(got, with_other_places), "what lies behind the cache's length changes the logits"


@pytest.mark.exercise("TinyDecoder.forward_step")
@pytest.mark.parametrize("token", [-1, 32])
def test_forward_step_refuses_a_token_outside_the_vocabulary(impl, token):
    decoder = impl.TinyDecoder(vocab_size=32)
    cache = filled_cache(impl, decoder, PROMPT)
    try:
        decoder.forward_step(token, cache)
    except ValueError:
        assert cache.length == 8, f"the token was refused, and the cache counts {cache.length} positions instead of 8"
        return
    except IndexError:
        pass
    pytest.fail(f"token {token} is none of 0 … 31, and no ValueError came: `embed` raises it if it is given the token")


@pytest.mark.exercise("TinyDecoder.forward_step")
def test_forward_step_advances_the_cache_by_the_one_position(impl):
    decoder = impl.TinyDecoder(n_layers=3)
    cache = filled_cache(impl, decoder, PROMPT)
    lengths = []
    for token in (5, 6, 7):
        decoder.forward_step(token, cache)
        lengths.append(cache.length)
    assert lengths != [8, 8, 8], "cache not advanced: each new token overwrites the one before"
    assert lengths != [11, 14, 17], "the cache was advanced in every layer: count the position once, after the last one"
    assert lengths == [9, 10, 11], f"after three steps from 8 the lengths are {lengths}"


@pytest.mark.exercise("TinyDecoder.forward_step")
def test_forward_step_writes_one_key_and_value_in_each_layer(impl):
    decoder = impl.TinyDecoder(n_layers=2)
    cache, hand = filled_cache(impl, decoder, PROMPT), by_hand(decoder, [*PROMPT, 5])
    before = filled_cache(impl, decoder, PROMPT)
    decoder.forward_step(5, cache)
    first, second = (cache.keys[layer, 8] for layer in range(2))
    assert not (first == 50).all(), (
        "every layer writes to the last layer's cache: layer 0 got no key (use keys[layer, …])"
    )
    assert not (second == 50).all(), (
        "layer 1 wrote no key at position 8, and layer 0 did: was the length advanced between them?"
    )
    offset = {
        "position offset: the key is that of another position": position_key(decoder, 5, 0),
        "position offset: the key is one position too early": position_key(decoder, 5, 7),
    }
    otherwise = "layer 0: the key at position 8 is not the projection of this token"
    assert close(first, hand.keys[0][8]), name_the_mistake(first, offset, otherwise)
    assert close(second, hand.keys[1][8]), (
        "layer 1: a wrong key at position 8, and layer 0's is right: what layer 0 adds to the vector is wrong"
    )
    for name, actual, old, new in (
        ("keys", cache.keys, before.keys, hand.keys),
        ("values", cache.values, before.values, hand.values),
    ):
        for layer in range(2):
            old[layer, 8] = new[layer][8]
        assert close(actual, old), f"the {name} are not the old ones with one more in each layer, at position 8"


@pytest.mark.exercise("TinyDecoder.forward_step")
def test_forward_step_runs_one_position_however_long_the_text(impl):
    decoder = impl.TinyDecoder(n_layers=2)
    decoder.forward_step(5, filled_cache(impl, decoder, PROMPT))
    work = decoder.work
    assert work.positions_run != 9, "the whole text was run again: a step runs the new token alone"
    # 2 layers · 1 position · a key and a value.
    assert (work.passes, work.positions_run, work.kv_projections) == (1, 1, 4)


@pytest.mark.exercise("TinyDecoder.forward_step")
def test_forward_step_uses_the_last_place_and_refuses_a_full_cache(impl):
    decoder = impl.TinyDecoder(capacity=9)
    cache = filled_cache(impl, decoder, PROMPT)
    decoder.forward_step(5, cache)
    assert cache.length == 9, "the last place of the capacity is usable"
    try:
        decoder.forward_step(5, cache)
    except IndexError:
        pytest.fail("a full cache must be refused, and `embed` does it if it is told where the token stands")
    except ValueError:
        pass  # refused; whether it says what is wrong comes next
    assert_refuses("capacity|cache|token", decoder.forward_step, 5, cache)


# --- generate ----------------------------------------------------------------------------------------------------


def greedy_by_hand(decoder, prompt, n):
    text, rows = list(prompt), []
    for _ in range(n):
        rows.append(by_hand(decoder, text).logits[-1])
        text.append(int(np.argmax(rows[-1])))
    return text[len(prompt) :], rows


@pytest.mark.exercise("TinyDecoder.generate")
@pytest.mark.parametrize("use_cache", [False, True])
@pytest.mark.parametrize("n_layers", [1, 2])
def test_generate_writes_the_text_of_the_sums_by_hand(impl, n_layers, use_cache):
    decoder = impl.TinyDecoder(n_layers=n_layers)
    prompt = list(PROMPT)
    tokens, rows = greedy_by_hand(decoder, prompt, 16)
    got = decoder.generate(prompt, 16, use_cache=use_cache)
    assert prompt == PROMPT, "the prompt was changed: it belongs to the caller"
    assert got.tokens != [*PROMPT, *tokens], "prompt returned: `tokens` holds the new ones alone"
    assert got.tokens == tokens, f"wrote {got.tokens}, and the sums by hand {tokens}"
    assert isinstance(got.logits, np.ndarray), (
        f"logits must be an array (n_new_tokens, V), not a {type(got.logits).__name__}"
    )
    assert close(got.logits, rows), "each row of `logits` is what its token was chosen from"


@pytest.mark.exercise("TinyDecoder.generate")
@pytest.mark.parametrize("seed", range(5))
def test_generate_gives_equal_logits_with_and_without_the_cache(impl, seed):
    # Products of one row and of many are summed in different orders: a few units of the last of 16 digits.
    decoder = impl.TinyDecoder(n_layers=2, seed=seed)
    with_cache, without = (decoder.generate(PROMPT, 16, use_cache=use_cache) for use_cache in (True, False))
    assert with_cache.tokens == without.tokens
    gap = np.abs(with_cache.logits - without.logits).max()
    assert gap < 1e-12, f"logits differ by {gap:.1e} with the cache: it must change the work, not the result"


@pytest.mark.exercise("TinyDecoder.generate")
@pytest.mark.parametrize(
    ("n_new", "without", "cached"),
    # 8 + 9 + … + 23 = 248 against 8 + 15 · 1 = 23, 10.8 times fewer. Three passes: 8 + 9 + 10 = 27 against 8 + 1 + 1.
    [(16, 248, 23), (3, 27, 10)],
)
def test_generate_runs_the_prompt_once_with_a_cache_and_in_every_pass_without(impl, n_new, without, cached):
    decoder = impl.TinyDecoder()
    full, fast = (decoder.generate(PROMPT, n_new, use_cache=use_cache) for use_cache in (False, True))
    assert full.positions_run != cached, "use_cache=False was ignored: without a cache each pass runs the whole text"
    assert full.positions_run == without, f"{full.positions_run} positions without a cache, not {without}"
    assert fast.positions_run != without, "use_cache=True was ignored: the whole text was run in every pass"
    assert fast.positions_run != without + cached, "the counts of earlier calls are in: each call starts at 0"
    assert fast.positions_run != cached + 1, "the last token is written, never run"
    assert fast.positions_run != 8 * n_new, "the prompt is run once; each later pass runs the token written last"
    assert fast.positions_run == cached, f"{fast.positions_run} positions with a cache, not {cached}"
    assert fast.passes != 8 + n_new - 1, "the prompt was fed token by token: prefill runs it in one pass"
    assert full.passes == fast.passes == n_new, f"{full.passes} and {fast.passes} passes: one for each new token"


@pytest.mark.exercise("TinyDecoder.generate")
def test_generate_of_12_tokens_takes_156_projections_without_a_cache_and_24_with(impl):
    # One token to start from, 12 passes: 2 · (1 + 2 + … + 12) = 2 · 78 = 156 and 2 · 12 = 24, 6.5 times fewer.
    decoder = impl.TinyDecoder()
    full, fast = (decoder.generate([7], 12, use_cache=use_cache) for use_cache in (False, True))
    counts = full.kv_projections, fast.kv_projections
    assert counts == (156, 24), f"{counts} projections without and with the cache, not (156, 24)"
    assert full.kv_projections / fast.kv_projections == pytest.approx(6.5)


@pytest.mark.exercise("TinyDecoder.generate")
def test_generate_starts_anew_in_every_call(impl):
    decoder = impl.TinyDecoder()
    first = decoder.generate(PROMPT, 6)
    try:
        decoder.generate([1, 2], 6)
        again = decoder.generate(PROMPT, 6)
    except ValueError as error:
        pytest.fail(f"cache shared between calls: the second call found the first one's positions in it ({error})")
    assert again.tokens == first.tokens and np.array_equal(again.logits, first.logits), (
        "cache shared between calls: the same prompt gives another text the second time"
    )
    # 6 passes, 8 + 5 positions, a key and a value each.
    counts = again.passes, again.positions_run, again.kv_projections
    # The first call counts as much, the one between 6 passes and 2 + 5 positions: 18 passes and 33 positions in all.
    assert counts[:2] != (18, 33), f"the counts of earlier calls are in: {counts}, not (6, 13, 26): start at 0"
    assert counts == (6, 13, 26), f"passes, positions and projections are {counts}, not (6, 13, 26)"


@pytest.mark.exercise("TinyDecoder.generate")
@pytest.mark.parametrize("use_cache", [False, True])
def test_generate_of_no_token_is_no_pass(impl, use_cache):
    got = impl.TinyDecoder().generate(PROMPT, 0, use_cache=use_cache)
    assert got.tokens == [], f"no token was asked for, and {got.tokens} came"
    shape = np.shape(got.logits)
    assert shape == (0, 32), f"no token: logits must have shape (0, V), not {shape}"
    assert (got.passes, got.positions_run, got.kv_projections) == (0, 0, 0), "nothing to write: nothing to run"


@pytest.mark.exercise("TinyDecoder.generate")
@pytest.mark.parametrize("use_cache", [False, True])
def test_generate_never_needs_a_place_for_the_last_token(impl, use_cache):
    decoder = impl.TinyDecoder(capacity=10)
    assert len(decoder.generate(PROMPT, 3, use_cache=use_cache).tokens) == 3, "8 + 3 - 1 = 10 positions are run"
    assert_refuses("capacity|n_new_tokens|prompt", lambda: decoder.generate(PROMPT, 4, use_cache=use_cache))


@pytest.mark.exercise("TinyDecoder.generate")
@pytest.mark.parametrize(
    ("prompt", "n", "blamed"),
    [([], 3, "prompt"), ([1], -1, "n_new_tokens"), ([1], 1.5, "n_new_tokens"), ([32], 1, "prompt|token")],
)
def test_generate_refuses_what_it_cannot_write(impl, prompt, n, blamed):
    assert_refuses(blamed, impl.TinyDecoder().generate, prompt, n)


# --- what is given -----------------------------------------------------------------------------------------------


def test_a_decoder_with_a_size_below_one_is_refused():
    from nanolm.model import TinyDecoder

    with pytest.raises(ValueError, match="d_model is 0"):
        TinyDecoder(d_model=0)


def test_two_decoders_of_one_seed_are_equal_and_of_two_seeds_are_not():
    from nanolm.model import TinyDecoder

    same, again, other = (TinyDecoder(seed=seed).generate(PROMPT, 8).tokens for seed in (1, 1, 2))
    assert same == again != other


def test_tiny_decoder_needs_no_torch():
    script = "import sys, nanolm.model.tiny_decoder; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
