"""Grades `nanolm/cache/quantized.py`: number by number, then under a model against the cache of floats."""

import pytest
import torch
from by_hand import close, random
from instead import errors_mean
from refusal import assert_is_refused
from tiny_models import tiny_config, tiny_model, tokens_of

from nanolm.cache import (
    Float8KVCache,
    Int8KVCache,
    KVCache,
    RaggedFloat8KVCache,
    RaggedInt8KVCache,
    RaggedKVCache,
    cache_classes,
)

B, K, H = 2, 2, 6  # of tiny_config


def new_heads(T, seed=0):
    """Keys and values whose heads and positions differ in size a thousandfold: shared scales would show."""
    size = torch.logspace(-1, 2, B * K * T, dtype=torch.float64).view(B, K, T, 1)
    return random(B, K, T, H, seed=seed) * size, random(B, K, T, H, seed=seed + 1) * size.flip(1)


def off_by(actual, expected):
    """The largest error of each head of each position, relative to the largest of its H numbers."""
    return ((actual.double() - expected).abs().amax(-1) / expected.abs().amax(-1)).max().item()


# --- Int8KVCache.update ------------------------------------------------------------------------------------------


@pytest.mark.exercise("Int8KVCache.update")
def test_update_of_an_int8_cache_chooses_codes_for_the_scales_as_stored(impl):
    # 127.457 / 127 is 1.0036, stored as 1, by which 100.6 gets code 101; by 1.0036 it would be 100.
    cache = impl.Int8KVCache(tiny_config(), B, 8, torch.float64)
    k = torch.tensor([127.457, 100.6, 50.0, -3.0, 0.0, 0.2], dtype=torch.float64).expand(B, K, 1, H)
    cache.update(0, k, -k)
    codes = cache.keys[0][0, 0, 0].tolist()
    assert codes[1] != 100, "codes belong to the scale before it was stored: quantize(…, scale_dtype=SCALE_DTYPE)"
    assert codes == [127, 101, 50, -3, 0, 0], f"codes {codes}, not [127, 101, 50, -3, 0, 0] of scale 1"


@pytest.mark.exercise("Int8KVCache.update")
def test_update_of_an_int8_cache_returns_the_past_and_the_new_positions(impl):
    cache, (k, v) = impl.Int8KVCache(tiny_config(), B, 8, torch.float64), new_heads(4)
    keys, values = cache.update(1, k[:, :, :3], v[:, :, :3])
    assert keys.shape == values.shape == (B, K, 3, H), f"shape {tuple(keys.shape)}, not (B, K, S, H)"
    assert keys.dtype == torch.float64, f"floats come out, in the cache's dtype; these are {keys.dtype}"
    assert cache.length == 0, "the length is advance's, once a pass"
    shared = k[:, :, :3].abs().max().item() / 127
    as_shared = (k[:, :, :3] / shared).round() * shared
    assert not (off_by(keys, k[:, :, :3]) > 0.1 and close(keys, as_shared, shared)), (
        "one scale for several heads or positions drowns the small ones"
    )
    cache.advance(3)
    keys, values = cache.update(1, k[:, :, 3:], v[:, :, 3:])
    assert keys.shape[2] == 4, f"{keys.shape[2]} positions came back for 3 cached and 1 new"
    assert not (off_by(keys, v) < 0.1 and off_by(values, k) < 0.1), "keys and values are swapped"
    assert not (off_by(keys, k) < 0.1 and off_by(values, k) < 0.1), "the values are the keys again"
    for name, actual, expected in (("keys", keys, k), ("values", values, v)):
        assert off_by(actual[:, :, 3:], expected[:, :, 3:]) < 0.1, (
            f"the new {name} are wrong: do their codes and scales lie at positions length … length + T - 1, and is "
            "each code times its scale?"
        )
        assert off_by(actual[:, :, :3], expected[:, :, :3]) < 0.1, (
            f"the past {name} are wrong: their scales must be stored with them, at their positions"
        )


@pytest.mark.exercise("Int8KVCache.update")
def test_update_of_an_int8_cache_gives_each_head_of_each_position_a_scale(impl):
    cache, (k, v) = impl.Int8KVCache(tiny_config(), B, 8, torch.float64), new_heads(4)
    keys, values = cache.update(0, k, v)
    # Half a step of 127: 1/254 = 0.0039 of the head's largest number, whatever the others' size.
    for name, actual, expected in (("keys", keys, k), ("values", values, v)):
        off = off_by(actual, expected)
        assert off < 0.1, f"{name} are off by {off:.0%}: one scale for several heads or positions drowns the small ones"
        assert off < 0.004, f"{name} are off by {off:.2%}; rounding to the nearest of 127 steps is off by 0.4 % at most"
    assert cache.key_scales[0].dtype == torch.bfloat16, "scales are stored in bfloat16"
    scales = cache.key_scales[0][:, :, :4].double()
    assert close(scales[..., 0], k.abs().amax(-1) / 127, 0.004 * scales.max().item()), "a scale is absmax / 127"


@pytest.mark.exercise("Int8KVCache.update")
def test_update_of_an_int8_cache_returns_what_its_codes_stand_for(impl):
    cache, (k, v) = impl.Int8KVCache(tiny_config(), B, 8, torch.float64), new_heads(2)
    keys, values = cache.update(0, k, v)
    assert not torch.equal(keys, k) and not torch.equal(values, v), (
        "the new ones came back as they went in: what comes back is what the codes stand for, for the new ones too"
    )
    for name, back, codes, scales in (
        ("keys", keys, cache.keys, cache.key_scales),
        ("values", values, cache.values, cache.value_scales),
    ):
        expected = codes[0][:, :, :2].double() * scales[0][:, :, :2].double()
        assert torch.equal(back, expected), f"{name}: what comes back is not code · scale of what is stored"


@pytest.mark.exercise("Int8KVCache.update")
def test_update_of_an_int8_cache_stores_codes_and_touches_nothing_else(impl):
    cache, (k, v) = impl.Int8KVCache(tiny_config(), B, 8, torch.float64), new_heads(2)
    cache.length = 3
    stores = (cache.keys, cache.values, cache.key_scales, cache.value_scales)
    for codes, scales in zip(stores[:2], stores[2:], strict=True):
        codes[1][:, :, :3], scales[1][:, :, :3] = 5, 2.0  # rounded anew it would be 127 steps of 10 / 127
    before = [[tensor.clone() for tensor in store] for store in stores]
    cache.update(1, k, v)
    assert cache.length == 3, "the length is advance's, once a pass"
    assert cache.keys[1].dtype == cache.values[1].dtype == torch.int8, "codes are stored, not floats"
    for store, old in zip(stores, before, strict=True):
        assert (store[1][:, :, 3:5] != old[1][:, :, 3:5]).any(), (
            "nothing was written at positions 3 and 4 of layer 1: new ones go to length … length + T - 1, their codes "
            "to keys and values, their scales to key_scales and value_scales"
        )
        assert torch.equal(store[1][:, :, :3], old[1][:, :, :3]), "positions 0 to 2 changed: quantize only new ones"
        assert torch.equal(store[1][:, :, 5:], old[1][:, :, 5:]), "positions behind the new ones changed"
        assert torch.equal(store[0], old[0]) and torch.equal(store[2], old[2]), "another layer's cache changed"


@pytest.mark.exercise("Int8KVCache.update")
def test_update_of_an_int8_cache_does_not_quantize_the_past_again(impl):
    cache, (k, v) = impl.Int8KVCache(tiny_config(), B, 8, torch.float64), new_heads(2)
    first, _ = cache.update(0, k, v)
    cache.advance(2)
    for _ in range(3):
        again, _ = cache.update(0, *new_heads(1, seed=7))
        assert torch.equal(again[:, :, :2], first), "the past changes from step to step: its codes are final"
        cache.advance(1)


@pytest.mark.exercise("Int8KVCache.update")
def test_update_of_an_int8_cache_lets_no_gradient_in(impl):
    cache, (k, v) = impl.Int8KVCache(tiny_config(), B, 8, torch.float64), new_heads(2)
    keys, values = cache.update(0, k.requires_grad_(), v.requires_grad_())
    kept = (keys, values, cache.key_scales[0], cache.value_scales[0])
    assert not any(tensor.requires_grad for tensor in kept), "a cache serves inference: detach what goes into it"


@pytest.mark.exercise("Int8KVCache.update")
def test_update_of_an_int8_cache_writes_where_its_places_are(impl):
    ragged = type("Ragged", (impl.Int8KVCache, RaggedKVCache), {})
    cache, (k, v) = ragged(tiny_config(), B, 8, torch.float64), new_heads(4)
    cache.update(0, k[:, :, :3], v[:, :, :3])
    cache.advance([3, 1])
    keys, values = cache.update(0, k[:, :, 3:], v[:, :, 3:])
    for name, back, given in (("key", keys, k), ("value", values, v)):
        assert off_by(back[:1, :, 3:4], given[:1, :, 3:]) < 0.004, f"row 0, of 3, has its new {name} elsewhere"
        assert off_by(back[1:, :, 1:2], given[1:, :, 3:]) < 0.004, (
            f"rows of 3 and 1: row 1's new {name} is not its second. Where a row's new positions are `self._places(T)` "
            "says, in a cache whose rows have lengths of their own too"
        )


@pytest.mark.exercise("Int8KVCache.update")
def test_update_of_an_int8_cache_refuses_what_does_not_fit(impl):
    cache, bad = impl.Int8KVCache(tiny_config(), B, 4, torch.float64), new_heads(2)[0]
    bad[1, 0, 1, 3] = torch.nan
    for why, (k, v) in {
        "5 positions do not fit into a capacity of 4": new_heads(5),
        "keys and values of one head do not fit into a cache of two": [x[:, :1] for x in new_heads(2)],
        "keys that hold a NaN have no scale": (bad, bad),
    }.items():
        with errors_mean(f"{why}: raise a ValueError before anything else", RuntimeError, IndexError):
            assert_is_refused(f"{why}: raise a ValueError", cache.update, 0, k, v)
    assert not cache.keys[0].any(), "an update that is refused must not write anything"


# --- both kinds under a model ------------------------------------------------------------------------------------


def decoded(model, tokens, cache):
    """Logits of a prefill of 5 and single steps after it."""
    logits = [model(tokens[:, :5], cache)]
    cache.advance(5)
    for position in range(5, tokens.shape[1]):
        logits.append(model(tokens[:, position : position + 1], cache))
        cache.advance(1)
    return torch.cat(logits, dim=1)


# Relative to the size of all logits; keys and values are off by 0.4 % and 6 % at most, and the errors add up as noise.
@pytest.mark.parametrize(("kind", "tolerance"), [(Int8KVCache, 0.02), (Float8KVCache, 0.15)])
def test_scores_with_a_quantized_cache_are_near_those_with_floats(kind, tolerance):
    model, tokens = tiny_model(), tokens_of(B, 16)
    right = model(tokens)
    actual = decoded(model, tokens, kind(model.config, B, 16, torch.float64))
    off = ((actual - right).norm() / right.norm()).item()
    assert 0 < off < tolerance, f"logits are off by {off:.1%}, more than {tolerance:.0%} (0 would mean floats are kept)"


@pytest.mark.parametrize("kind", [Int8KVCache, Float8KVCache])
def test_a_quantized_cache_forgets_and_goes_on(kind):
    model, rejected, kept = tiny_model(), tokens_of(B, 9, seed=1), tokens_of(B, 4, seed=2)
    caches = [kind(model.config, B, 12, torch.float64) for _ in range(2)]
    model(rejected, caches[0])
    caches[0].advance(9)
    caches[0].truncate(6)
    model(rejected[:, :6], caches[1])
    caches[1].advance(6)
    first, second = (model(kept, cache) for cache in caches)
    assert close(first, second), "tokens forgotten by truncate still have a say"


# --- rows of unequal length --------------------------------------------------------------------------------------

RAGGED = [(Int8KVCache, RaggedInt8KVCache), (Float8KVCache, RaggedFloat8KVCache)]


@pytest.mark.parametrize(("plain", "ragged"), RAGGED)
def test_each_row_of_a_ragged_quantized_cache_holds_what_a_cache_of_its_own_would(plain, ragged):
    together, (k, v) = ragged(tiny_config(), B, 12, torch.float64), new_heads(9)
    alone = [plain(tiny_config(), 1, 12, torch.float64) for _ in range(B)]
    # Rows of 4 and 1, then 1 and 3 more: lengths 5 and 4. What stands behind a row's own is padding.
    for start, steps in ((0, [4, 1]), (4, [1, 3])):
        T = max(steps)
        back = together.update(2, k[:, :, start : start + T], v[:, :, start : start + T])
        for b, (cache, n) in enumerate(zip(alone, steps, strict=True)):
            own = cache.update(2, *(x[b : b + 1, :, start : start + n] for x in (k, v)))
            cache.advance(n)
            for one, all_rows in zip(own, back, strict=True):
                assert torch.equal(all_rows[b, :, : cache.length], one[0]), f"row {b} after {cache.length} positions"
        together.advance(steps)
    assert together.lengths == [5, 4]
    bytes_of_a_position = together.allocated_bytes // (12 * B)
    assert together.nbytes == 9 * bytes_of_a_position, "rows of 5 and 4: 9 positions"


@pytest.mark.parametrize(("plain", "ragged"), RAGGED)
@pytest.mark.parametrize("prompts", [[[1, 2, 3, 4, 5], [7], [10, 4]], [[1, 2, 3], [4, 5, 6]]], ids=["ragged", "equal"])
def test_generate_with_a_quantized_cache_writes_what_each_row_s_own_cache_says(plain, ragged, prompts):
    model, kind = tiny_model(), {Int8KVCache: "int8", Float8KVCache: "float8"}[plain]
    for prompt, text in zip(prompts, model.generate(prompts, 6, cache_kind=kind), strict=True):
        cache, tokens, expected = plain(model.config, 1, 12, torch.float64), prompt, []
        for _ in range(6):
            scores = model(torch.tensor([tokens]), cache)[0, -1]
            cache.advance(len(tokens))
            tokens = [scores.argmax().item()]
            expected += tokens
        assert text == expected, "the prompt's row alone, greedy, through the same kind of cache, gives another text"


def test_generate_keeps_the_numbers_in_the_kind_of_cache_asked_for(monkeypatch):
    model, seen = tiny_model(), []
    make = model.new_cache
    monkeypatch.setattr(model, "new_cache", lambda *args, **kwargs: seen.append(make(*args, **kwargs)) or seen[-1])
    for kind in ("float", "int8", "float8"):
        model.generate([[1, 2], [3]], 2, cache_kind=kind)
        model.generate([1, 2], 2, cache_kind=kind)
    stored = [cache.keys[0].dtype for cache in seen]
    assert stored == [*[torch.float64] * 2, *[torch.int8] * 2, *[torch.float8_e4m3fn] * 2]


@pytest.mark.parametrize("kind", ["float", "int8", "float8"])
def test_the_three_layouts_of_a_kind_keep_the_same_numbers(kind):
    config, (k, v), classes = tiny_config(), (x[:1] for x in new_heads(6)), cache_classes(kind)
    equal, ragged = (rows(config, 1, 6, torch.float64).update(1, k, v) for rows in (classes.equal, classes.ragged))
    blocks = classes.paged(config, 3, 2, torch.float64)
    blocks.write(1, k[0], v[0], torch.arange(6))
    for given, expected, *others in zip((k, v), equal, ragged, blocks.read(1, torch.tensor([[0, 1, 2]])), strict=True):
        assert all(torch.equal(other, expected) for other in others)
        assert torch.equal(expected, given) == (kind == "float"), "bytes round, and floats are kept as they are"


def test_a_kind_of_cache_that_is_none_is_refused():
    with pytest.raises(ValueError, match="cache_kind is 'int4'; it must be one of float, int8, float8"):
        cache_classes("int4")


# --- bytes and rounding ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "dtype", "expected"),
    [
        # 32 layers, 8 key/value heads of 128: 65,536 numbers a token; an 8K context of 16 sequences.
        (KVCache, torch.bfloat16, 17_179_869_184),  # 2 bytes a number: 17.18 GB
        (Float8KVCache, torch.bfloat16, 8_589_934_592),  # 1 byte: 8.59 GB
        (Int8KVCache, torch.bfloat16, 8_724_152_320),  # 128 codes and 2 bytes of scale: 130/256 of 17.18
    ],
)
def test_nbytes_of_quantized_caches(kind, dtype, expected):
    config = tiny_config(n_layers=32, n_heads=32, n_kv_heads=8, head_dim=128)
    cache = kind(config, batch_size=16, capacity=10_000, dtype=dtype, device="meta")  # no memory behind it
    cache.advance(8192)
    assert cache.nbytes == expected


@pytest.mark.parametrize("kind", [Int8KVCache, Float8KVCache])
def test_quantized_caches_hold_one_byte_a_number(kind):
    cache = kind(tiny_config(), B, 8)
    assert all(tensor.element_size() == 1 for tensor in (*cache.keys, *cache.values))
    assert all((tensor.float() == 0).all() for tensor in (*cache.keys, *cache.values))


def test_an_8_bit_float_cache_holds_large_numbers_at_448():
    # The largest E4M3 number is 1.75 · 2^8 = 448; beyond, the conversion alone would give NaN. 0.3 is kept as 0.3125.
    cache = Float8KVCache(tiny_config(), 1, 4)
    k = torch.full((1, K, 1, H), 1000.0)
    keys, values = cache.update(0, k, torch.full((1, K, 1, H), 0.3))
    assert (keys == 448).all() and (values == 0.3125).all()
    assert (cache.update(0, -k, k)[0] == -448).all()


@pytest.mark.parametrize("broken", [float("nan"), float("inf"), -float("inf")])
def test_an_8_bit_float_cache_does_not_make_a_broken_number_a_large_one(broken):
    cache = Float8KVCache(tiny_config(), 1, 4)
    keys, values = cache.update(0, torch.full((1, K, 1, H), broken), torch.full((1, K, 1, H), 1.0))
    assert keys.isnan().all() and (values == 1).all()


def test_an_8_bit_float_cache_is_off_by_at_most_a_sixteenth():
    cache, (k, v) = Float8KVCache(tiny_config(), B, 8, torch.float64), new_heads(5)
    for actual, expected in zip(cache.update(0, k, v), (k, v), strict=True):
        far = (actual - expected).abs() > expected.abs() / 16
        assert not (far & (expected.abs() > 2**-6)).any()  # below 2^-6 the format has no more digits
