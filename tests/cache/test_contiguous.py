"""Grades `nanolm/cache/`: first with numbers in their places, then with a whole model against fresh full passes."""

import pytest
import torch
from attention_mistakes import attention_mistakes
from by_hand import attention, close, name_the_mistake, random
from refusal import assert_is_refused, assert_refuses
from tiny_models import tiny_config, tiny_model, tokens_of
from torch.utils._python_dispatch import TorchDispatchMode

from nanolm.attention import causal_mask
from nanolm.cache import KVCache, RaggedKVCache

B, K, H = 2, 2, 6  # of tiny_config


def cache_of(kind=KVCache, length=0, capacity=8, **where):
    """A cache whose every place, written or not, holds a number that tells it apart."""
    cache = kind(tiny_config(), B, capacity, torch.float64, **where)
    for i, tensor in enumerate((*cache.keys, *cache.values)):
        tensor.copy_(random(*tensor.shape, seed=100 + i))
    cache.length = length
    return cache


def contents(cache):
    return [tensor.clone() for tensor in (*cache.keys, *cache.values)]


def new_heads(T, seed=0):
    return random(B, K, T, H, seed=seed), random(B, K, T, H, seed=seed + 1)


# --- update ------------------------------------------------------------------------------------------------------


@pytest.mark.exercise("KVCache.update")
@pytest.mark.parametrize(("length", "T"), [(0, 5), (3, 1), (3, 4), (7, 1)])
def test_update_returns_the_past_followed_by_the_new_positions(impl, length, T):
    cache, (k, v) = cache_of(impl.KVCache, length), new_heads(T)
    before_k, before_v = cache.keys[1].clone(), cache.values[1].clone()
    keys, values = cache.update(1, k, v)
    assert keys.shape[2] != length, (
        "only the cached positions came back: the current token is left out "
        "(a token attends to itself: return everything up to length + T)"
    )
    assert keys.shape[2] != 8 or length + T == 8, (
        "the whole capacity came back, its empty places too: cut it at length + T"
    )
    assert keys.shape[2] != T or length == 0, "only the new positions came back: the past is what a cache is for"
    if length > T:
        assert not close(keys[:, :, :T], k), "the new keys were written from place 0 on, over the past: begin at length"
    if length:
        assert not close(keys[:, :, :length], cache.keys[-1][:, :, :length]), (
            "every layer writes to the last layer's cache: layer 1 got the last one's past (use self.keys[layer])"
        )
    assert keys.shape == values.shape == (B, K, length + T, H), (
        f"shape {tuple(keys.shape)} came back, not (B, K, S, H) = {(B, K, length + T, H)}, S = length + T"
    )
    assert not (close(keys[:, :, length:], v) and close(values[:, :, length:], k)), "keys and values are swapped"
    assert close(keys[:, :, :length], before_k[:, :, :length]), "the past keys changed: new ones start at `length`"
    assert close(values[:, :, :length], before_v[:, :, :length]), "the past values changed: new ones start at `length`"
    assert close(keys[:, :, length:], k), "the last T keys are not the new ones"
    assert close(values[:, :, length:], v), "the last T values are not the new ones"


@pytest.mark.exercise("KVCache.update")
def test_update_writes_at_length_and_nowhere_else(impl):
    cache, (k, v) = cache_of(impl.KVCache, length=3), new_heads(2)
    expected = contents(cache)
    expected[1][:, :, 3:5], expected[1 + 3][:, :, 3:5] = k, v  # three layers: keys 0 to 2, values 3 to 5
    cache.update(1, k, v)
    wrong = [
        f"{'keys' if i < 3 else 'values'} of layer {i % 3}"
        for i, (actual, right) in enumerate(zip(contents(cache), expected, strict=True))
        if not close(actual, right)
    ]
    assert not wrong, (
        f"update(1, k, v) at length 3 must write positions 3 and 4 of layer 1 alone; wrong: {', '.join(wrong)}"
    )


@pytest.mark.exercise("KVCache.update")
def test_update_of_one_layer_leaves_the_others_alone(impl):
    cache = impl.KVCache(tiny_config(), B, 4, torch.float64)
    for layer in range(3):
        cache.update(layer, *(torch.full((B, K, 1, H), 10.0 * layer + i, dtype=torch.float64) for i in (1, 2)))
        assert cache.length == 0, "the length was advanced inside a layer: every layer writes to the same positions"
    written = [(cache.keys[i][0, 0, 0, 0].item(), cache.values[i][0, 0, 0, 0].item()) for i in range(3)]
    assert written[:2] != [(0, 0), (0, 0)], (
        "every layer writes to the last layer's cache: layers 0 and 1 are empty (use self.keys[layer])"
    )
    assert len(set(written)) == 3, f"every layer writes to the same tensors, and the last one wins: {written}"
    assert written == [(1, 2), (11, 12), (21, 22)], f"layers 0, 1, 2 hold {written} (key, value)"


@pytest.mark.exercise("KVCache.update")
def test_update_leaves_the_length_to_advance(impl):
    cache = cache_of(impl.KVCache, length=3)
    for layer in range(3):
        cache.update(layer, *new_heads(1))
        assert cache.length == 3, (
            f"the length was advanced inside a layer (3 became {cache.length} in layer {layer}): the next layer of the "
            "same pass would write one position too far. `advance` moves it, once a pass"
        )


@pytest.mark.exercise("KVCache.update")
def test_update_twice_without_advance_overwrites(impl):
    cache = cache_of(impl.KVCache, length=3)
    cache.update(0, *new_heads(2, seed=1))
    k, v = new_heads(2, seed=5)
    keys, values = cache.update(0, k, v)
    assert cache.length == 3, "the length was advanced inside a layer: `advance` moves it, once a pass"
    assert keys.shape[2] == 5 and close(keys[:, :, 3:], k) and close(values[:, :, 3:], v), (
        "what was never counted does not exist: the second write belongs to the same positions"
    )


@pytest.mark.exercise("KVCache.update")
def test_update_takes_exactly_as_many_positions_as_there_is_room_for(impl):
    cache = cache_of(impl.KVCache, length=3, capacity=4)
    try:
        keys, _ = cache.update(0, *new_heads(1))
    except ValueError as error:
        pytest.fail(f"the last place of the capacity is usable, one more position after 3 of 4 fits: {error}")
    assert keys.shape[2] == 4, "the last place of the capacity is usable: S = 3 + 1 = 4"
    before = contents(cache)
    no_room = "2 more positions after 3 do not fit into a capacity of 4: raise a ValueError (`_end_of` does)"
    assert_is_refused(no_room, cache.update, 0, *new_heads(2))
    assert all(map(torch.equal, contents(cache), before)), "an update that is refused must not write anything"


@pytest.mark.exercise("KVCache.update")
@pytest.mark.parametrize(
    "shape", [(1, K, 2, H), (B, 1, 2, H), (B, K, 2, 1)], ids=["one row", "one head", "one number a head"]
)
@pytest.mark.parametrize("which", ["k", "v"])
def test_update_refuses_heads_of_another_shape(impl, shape, which):
    # Each of these would be copied into every row, head or number without a word.
    right, wrong = new_heads(2)[0], random(*shape)
    cache = cache_of(impl.KVCache)
    assert_refuses(which, cache.update, 0, *((wrong, right) if which == "k" else (right, wrong)))


@pytest.mark.exercise("KVCache.update")
def test_update_lets_no_gradient_into_the_cache(impl):
    cache, (k, v) = cache_of(impl.KVCache, length=3), new_heads(2)
    cache.update(0, k.requires_grad_(), v.requires_grad_())
    followed = [name for name in ("keys", "values") if getattr(cache, name)[0].requires_grad]
    assert not followed, (
        f"a gradient flows into the {' and '.join(followed)} of the cache, which would hold every pass in memory: "
        "write k.detach() and v.detach()"
    )


@pytest.mark.exercise("KVCache.update")
def test_update_takes_no_new_memory(impl):
    cache = cache_of(impl.KVCache, length=3)
    address, others = cache.keys[0].data_ptr(), {tensor.data_ptr() for tensor in cache.keys[1:]}
    keys, _ = cache.update(0, *new_heads(1))
    assert keys.data_ptr() not in others, "another layer's keys came back: use self.keys[layer]"
    assert cache.keys[0].data_ptr() == keys.data_ptr() == address, (
        "the cache was copied: write into the memory that is there and return a slice of it (torch.cat copies it all)"
    )


# --- advance -----------------------------------------------------------------------------------------------------


@pytest.mark.exercise("KVCache.advance")
def test_advance_counts_the_positions_of_each_pass(impl):
    cache = cache_of(impl.KVCache)
    lengths = []
    for n in (5, 1, 1, 0):
        cache.advance(n)
        lengths.append(cache.length)
    assert lengths != [1, 2, 3, 4], "advance(n) counts n positions, not one"
    assert lengths == [5, 6, 7, 7], f"after 5, 1, 1 and 0 more positions the lengths must be 5, 6, 7, 7, not {lengths}"


@pytest.mark.exercise("KVCache.advance")
def test_advance_changes_no_keys_or_values(impl):
    cache = cache_of(impl.KVCache)
    before = contents(cache)
    cache.advance(2)
    assert all(map(torch.equal, contents(cache), before)), "advance only counts: update has written already"


@pytest.mark.exercise("KVCache.advance")
def test_advance_refuses_a_negative_count(impl):
    cache = cache_of(impl.KVCache, length=3)
    assert_refuses("n", cache.advance, -1)
    assert cache.length == 3, "an advance that is refused must not count anything"


@pytest.mark.exercise("KVCache.advance")
def test_advance_refuses_more_than_the_capacity(impl):
    cache = cache_of(impl.KVCache, length=3, capacity=4)
    no_room = "2 more positions after 3 do not fit into a capacity of 4: raise a ValueError (`_need_room` does)"
    assert_is_refused(no_room, cache.advance, 2)
    assert cache.length == 3, "an advance that is refused must not count anything"
    try:
        cache.advance(1)
    except ValueError as error:
        pytest.fail(f"the last place of the capacity is usable, one more position after 3 of 4 fits: {error}")
    assert cache.length == 4


# --- offset ------------------------------------------------------------------------------------------------------


@pytest.mark.exercise("KVCache.offset")
def test_offset_is_the_number_of_tokens_cached(impl):
    cache, offsets = cache_of(impl.KVCache), []
    for n in (0, 5, 1, 1):
        cache.advance(n)
        offsets.append(cache.offset)
    assert offsets != [0, 0, 0, 0], "position offset: every pass's first token was taken for position 0"
    assert offsets != [-1, 4, 5, 6], "the next token stands behind the cached ones: with 5 cached at position 5, not 4"
    assert offsets != [1, 6, 7, 8], "positions begin at 0: with nothing cached the first token stands at position 0"
    assert offsets == [0, 5, 6, 7], f"with 0, 5, 6 and 7 tokens cached the offsets must be 0, 5, 6, 7, not {offsets}"


@pytest.mark.exercise("KVCache.offset")
def test_offset_stays_while_the_layers_of_a_pass_write(impl):
    cache = cache_of(impl.KVCache, length=3)
    for layer in range(3):
        cache.update(layer, *new_heads(2))
        assert cache.offset == 3, "the offset moved inside a pass: the next layer would turn its keys too far"


@pytest.mark.exercise("KVCache.offset")
def test_offset_goes_back_with_truncate(impl):
    cache = cache_of(impl.KVCache, length=7)
    cache.truncate(2)
    assert cache.offset == 2, "what was forgotten still counts: the next token stands at position 2"


# --- attend ------------------------------------------------------------------------------------------------------

PASSES = pytest.mark.parametrize(
    ("length", "T"), [(0, 5), (5, 1), (0, 1), (3, 4)], ids=["a prefill", "one token", "a first token", "a chunk"]
)


def queries(T, seed=8):
    return random(B, 2 * K, T, H, seed=seed)


def sdpa(q, keys, values, scale=None):
    """torch's own attention with everything spelled out: each query head its own copy of the keys, a full mask."""
    T, S = q.shape[2], keys.shape[2]
    sees = torch.tensor([[s <= S - T + t for s in range(S)] for t in range(T)])
    copies = [x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (keys, values)]
    return torch.nn.functional.scaled_dot_product_attention(q, *copies, attn_mask=sees, scale=scale)


def attended(impl, length, T, **options):
    """What a cache with `length` positions returns for T more, and the keys and values that its queries may look at."""
    cache, (k, v), q = cache_of(impl.KVCache, length), new_heads(T), queries(T)
    keys = torch.cat([cache.keys[1][:, :, :length], k], dim=2)
    values = torch.cat([cache.values[1][:, :, :length], v], dim=2)
    return cache.attend(1, q, k, v, **options), q, keys, values


@pytest.mark.exercise("KVCache.attend")
def test_attend_leaves_the_length_to_advance(impl):
    cache = cache_of(impl.KVCache, length=3)
    for layer in range(3):
        cache.attend(layer, queries(1), *new_heads(1))
        assert cache.length == 3, "the length was advanced inside a layer: `advance` moves it, once a pass"


@pytest.mark.exercise("KVCache.attend")
@PASSES
def test_attend_equals_torch_s_attention_over_the_past_and_the_new_positions(impl, length, T):
    actual, q, keys, values = attended(impl, length, T)
    assert actual.shape == q.shape, f"queries of shape {tuple(q.shape)} gave {tuple(actual.shape)}, not (B, N, T, H)"
    assert close(actual, sdpa(q, keys, values)), name_the_mistake(
        actual,
        {
            **attention_mistakes(q, keys, values),
            "the scale is missing: scores are divided by √H": sdpa(q, keys, values, scale=1.0),
            "the scale is 1 / H: scores are divided by √H": sdpa(q, keys, values, scale=1 / H),
            "keys and values are swapped": attention(q, values, keys),
        },
        f"{T} new positions after {length} cached: not softmax attention over all of them",
    )


@pytest.mark.exercise("KVCache.attend")
@PASSES
def test_attend_scales_by_what_it_is_given(impl, length, T):
    actual, q, keys, values = attended(impl, length, T, scale=0.9)
    assert close(actual, sdpa(q, keys, values, scale=0.9)), name_the_mistake(
        actual,
        {
            "`scale` was not used: 1 / √H is for None": sdpa(q, keys, values),
            "the scores were scaled by 1 / √H as well": sdpa(q, keys, values, scale=0.9 / H**0.5),
        },
        "with a scale: not softmax(scale · q·kᵀ)·v",
    )


@pytest.mark.exercise("KVCache.attend")
def test_attend_shows_no_query_the_unwritten_rest_of_the_capacity(impl):
    cache, (k, v) = cache_of(impl.KVCache, length=3), new_heads(2)
    before = cache.attend(0, queries(2), k, v)
    for tensor in (cache.keys[0], cache.values[0]):
        tensor[:, :, 5:] = 99.0
    assert close(cache.attend(0, queries(2), k, v), before), "places behind length + T were looked at: nothing is there"


@pytest.mark.exercise("KVCache.attend")
def test_attend_stores_the_new_positions_in_its_own_layer(impl):
    cache, (k, v) = cache_of(impl.KVCache, length=3), new_heads(2)
    expected = contents(cache)
    expected[1][:, :, 3:5], expected[1 + 3][:, :, 3:5] = k, v  # three layers: keys 0 to 2, values 3 to 5
    before = contents(cache)
    cache.attend(1, queries(2), k, v)
    after = contents(cache)
    assert not all(map(torch.equal, after, before)), "nothing was stored: the next pass will not find these positions"
    assert all(map(close, after, expected)), "attend(1, …) at length 3 stores positions 3 and 4 of layer 1 alone"


@pytest.mark.exercise("KVCache.attend")
def test_attend_looks_at_what_update_returns(impl):
    class Halved(impl.KVCache):
        """Keeps numbers in another form, as a cache of codes does: what comes back is not what went in."""

        def update(self, layer, k, v):
            keys, values = super().update(layer, k, v)
            return keys / 2, values / 2

    cache, (k, v), q = Halved(tiny_config(), B, 8, torch.float64), new_heads(3), queries(3)
    actual = cache.attend(0, q, k, v)
    assert close(actual, sdpa(q, k / 2, v / 2)), name_the_mistake(
        actual,
        {
            "attend to what `self.update` returns: caches that keep codes, a ring or blocks share this method, and "
            "theirs is not self.keys": sdpa(q, k, v)
        },
        "wrong over what `self.update` returns (if it is wrong with a plain cache too, mend that first)",
    )


@pytest.mark.exercise("KVCache.attend")
@pytest.mark.parametrize("T", [1, 2])
def test_attend_hides_what_the_cache_s_mask_hides(impl, T):
    class Masked(impl.KVCache):
        def mask(self, T):
            sees = torch.ones(T, self.length + T, dtype=torch.bool)
            sees[:, 1] = False  # key 1 is hidden from every query, all others are seen
            return sees

    cache, (k, v), q = Masked(tiny_config(), B, 8, torch.float64), new_heads(4 + T), queries(T)
    cache.update(0, k[:, :, :4], v[:, :, :4])
    cache.advance(4)
    rest = [s for s in range(4 + T) if s != 1]
    actual = cache.attend(0, q, k[:, :, 4:], v[:, :, 4:])
    assert close(actual, attention(q, k, v, lambda t: rest)), name_the_mistake(
        actual,
        {"`self.mask(T)` was not used: rows of unequal length would see each other's padding": attention(q, k, v)},
        "wrong with a mask (if it is wrong without one too, mend that first)",
    )


@pytest.mark.exercise("KVCache.attend")
def test_attend_refuses_what_update_refuses(impl):
    cache = cache_of(impl.KVCache, length=7)
    before = contents(cache)
    no_room = "2 more positions after 7 do not fit into a capacity of 8: `update` raises the ValueError"
    assert_is_refused(no_room, cache.attend, 0, queries(2), *new_heads(2))
    assert all(map(torch.equal, contents(cache), before)), "a pass that is refused must not write anything"


@pytest.mark.exercise("KVCache.attend")
def test_attend_leaves_its_arguments_alone(impl):
    cache, q, (k, v) = cache_of(impl.KVCache, length=3), queries(2), new_heads(2)
    before = [x.clone() for x in (q, k, v)]
    cache.attend(0, q, k, v)
    assert all(map(torch.equal, (q, k, v), before)), "q, k or v was changed in place"


# --- a whole model -----------------------------------------------------------------------------------------------


@pytest.mark.exercise("KVCache.update", "KVCache.advance", "KVCache.offset", "KVCache.attend")
def test_kv_cache_matches_full_forward(impl):
    model, tokens = tiny_model(), tokens_of(B, 12)
    full = model(tokens)  # every position at once, no cache
    cache = impl.KVCache(model.config, B, 64, torch.float64)
    logits = [model(tokens[:, :5], cache)]  # prefill
    assert cache.length == 0, "the length was advanced inside a layer: the caller advances, after the last layer"
    cache.advance(5)
    assert cache.length == 5, f"after advance(5) on an empty cache its length is {cache.length}, not 5"
    for position in range(5, 12):
        logits.append(model(tokens[:, position : position + 1], cache))
        assert cache.length == position, "the length was advanced inside a layer: the caller advances, once a pass"
        cache.advance(1)
        assert cache.length == position + 1, f"advance(1) took the length from {position} to {cache.length}"
    cached = torch.cat(logits, dim=1)
    gap = (cached - full).abs().amax(dim=(0, 2))
    # Three layers of sums in another order: off by 2e-13 in the worst of 1,500 seeds, a mistake by 1e-3 and more.
    wrong = [position for position, difference in enumerate(gap.tolist()) if not difference < 1e-9]  # NaN is wrong
    assert not wrong, (
        f"with the cache, positions {wrong} score differently than in a fresh full pass (by up to {gap.max():.2g}). "
        + cached_mistake(wrong)
    )


def cached_mistake(wrong):
    if wrong[0] < 5:
        return "The prefill is wrong already, with nothing in the past: what does update return at length 0?"
    if wrong[0] > 5:
        return "The first token after the prefill is right and later ones are not: is `advance` counting wrongly?"
    return (
        "Suspects: position offset (the new token was rotated as position 0), is_causal=True at T = 1 (it sees only "
        "the first key), the current token left out, every layer writing to the last layer's cache"
    )


@pytest.mark.parametrize("chunks", [(12,), (1,) * 12, (3, 9), (5, 1, 6), (4, 4, 4), (1, 10, 1)])
def test_chunked_prefill_equals_one_full_pass(chunks):
    model, tokens = tiny_model(), tokens_of(B, 12)
    cache, parts = model.new_cache(B, 12), []
    for part in tokens.split(chunks, dim=1):
        parts.append(model(part, cache))
        cache.advance(part.shape[1])
    assert close(torch.cat(parts, dim=1), model(tokens)), (
        f"chunks of {chunks}: a chunk after a past needs an explicit mask, is_causal would be aligned top-left"
    )


def test_truncate_then_continue_equals_a_fresh_cache():
    model, rejected, kept = tiny_model(), tokens_of(B, 9, seed=1), tokens_of(B, 4, seed=2)
    cache = model.new_cache(B, 12)
    model(rejected, cache)
    cache.advance(9)
    cache.truncate(6)
    continued = model(kept, cache)
    cache.advance(4)
    assert cache.length == 10
    fresh = model(torch.cat([rejected[:, :6], kept], dim=1))
    assert close(continued, fresh[:, 6:]), "tokens forgotten by truncate still have a say"


@pytest.mark.parametrize("ragged", [False, True])
def test_nan_in_unused_capacity_does_not_leak(ragged):
    model, tokens = tiny_model(), tokens_of(B, 6)
    cache = model.new_cache(B, 10, ragged)
    for tensor in (*cache.keys, *cache.values):
        tensor[:, :, 6:] = torch.nan
    first = model(tokens[:, :5], cache)
    cache.advance(5)
    second = model(tokens[:, 5:], cache)
    assert close(torch.cat([first, second], dim=1), model(tokens)), (
        "masked NaN still leaks: 0 · NaN is NaN; do not read it"
    )


@pytest.mark.parametrize("kind", [KVCache, RaggedKVCache])
def test_a_new_cache_is_all_zeros(kind):
    # Memory that was just freed may hold NaN, and a ragged batch reads (masked) places that were never written.
    freed = [torch.full((B, K, 8, H), torch.nan) for _ in range(6)]
    del freed
    cache = kind(tiny_config(), B, 8)
    assert all((tensor == 0).all() for tensor in (*cache.keys, *cache.values)), (
        "torch.empty may hold NaN, and 0 · NaN is NaN"
    )


def test_a_cache_keeps_no_gradient():
    model = tiny_model().requires_grad_(True)
    cache = model.new_cache(1, 8)
    model(tokens_of(1, 3), cache)
    assert not any(tensor.requires_grad for tensor in (*cache.keys, *cache.values)), (
        "the cache holds on to the graph of every pass: memory grows until the process dies"
    )


# --- size --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_heads", "n_kv_heads", "bytes_per_token"),
    [
        (32, 8, 131_072),  # 2 (K and V) · 32 layers · 8 heads · 128 · 2 bytes: 128 KiB
        (32, 32, 524_288),  # multi-head attention: four times as much
        (32, 1, 16_384),  # multi-query attention: an eighth
    ],
    ids=["GQA", "MHA", "MQA"],
)
def test_nbytes_is_two_l_b_k_length_h_bytes_a_number(n_heads, n_kv_heads, bytes_per_token):
    config = tiny_config(n_layers=32, n_heads=n_heads, n_kv_heads=n_kv_heads, head_dim=128)
    cache = KVCache(config, batch_size=16, capacity=10_000, dtype=torch.bfloat16, device="meta")  # no memory behind it
    cache.advance(8192)
    per_token = cache.nbytes / 16 / 8192
    assert per_token != 131_072 * 4 or n_kv_heads == 32, (
        "N in place of K: the cache holds 32 heads where 8 are enough, so it is four times too large"
    )
    assert per_token * 2 != bytes_per_token, "the factor 2 is forgotten: keys and values"
    assert cache.nbytes == bytes_per_token * 8192 * 16, f"{per_token} bytes a token, not {bytes_per_token}"
    assert cache.allocated_bytes == bytes_per_token * 10_000 * 16


def test_a_cache_holds_k_heads_a_layer_not_n():
    config = tiny_config()
    cache = KVCache(config, B, 8)
    assert len(cache.keys) == len(cache.values) == config.n_layers
    shape = tuple(cache.keys[0].shape)
    assert shape != (B, config.n_heads, 8, H), "N in place of K: only key/value heads are cached, queries are used once"
    assert shape == tuple(cache.values[0].shape) == (B, K, 8, H)


def test_layers_do_not_share_their_memory():
    cache = KVCache(tiny_config(), B, 8)
    addresses = {tensor.data_ptr() for tensor in (*cache.keys, *cache.values)}
    assert len(addresses) == 6, "[tensor] * L is one tensor L times: every layer writes to the last layer's cache"


def test_capacity_is_the_context_unless_said_otherwise():
    assert KVCache(tiny_config(max_positions=33)).capacity == 33


# --- masks -------------------------------------------------------------------------------------------------------


def test_causal_mask_lets_the_last_queries_see_themselves_and_all_before():
    # Two queries, the last two of four positions: position 2 sees 0, 1, 2 and position 3 sees all.
    expected = torch.tensor([[True, True, True, False], [True, True, True, True]])
    actual = causal_mask(2, 4)
    without_itself = torch.tensor([[True, True, False, False], [True, True, True, False]])
    assert not torch.equal(actual, without_itself), "the current token is left out: a position sees itself"
    assert torch.equal(actual, expected), (
        f"{actual.int().tolist()}: a position sees itself and all before it, "
        "and the T queries are the last of the S positions"
    )


def test_rows_of_one_length_need_no_mask_but_the_causal_one():
    cache = cache_of(length=3)
    assert cache.mask(1) is cache.mask(2) is None


def test_a_ragged_mask_is_made_once_for_all_layers_and_anew_when_the_rows_grow():
    cache = RaggedKVCache(tiny_config(), 2, 8)
    assert cache.mask(2) is cache.mask(2)
    before = cache.mask(1)
    cache.advance([2, 1])
    assert cache.mask(1).shape == (2, 1, 1, 3) != before.shape
    cache.truncate([2, 0])
    assert cache.mask(1).tolist() == [[[[True, True, True]]], [[[True, False, False]]]]


def test_a_ragged_mask_lets_each_row_see_its_own_tokens():
    cache = RaggedKVCache(tiny_config(), 2, 8)
    cache.advance([3, 1])
    # Lengths 3 and 1, two new positions, S = 5: row 0 sees 4 and 5 keys, row 1 (positions 1 and 2) sees 2 and 3.
    expected = torch.tensor([[[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]], [[1, 1, 0, 0, 0], [1, 1, 1, 0, 0]]]).bool()
    assert torch.equal(cache.mask(2), expected[:, None])


# --- rows of unequal length --------------------------------------------------------------------------------------


def ragged_pass(model, cache, rows, pad):
    """One pass over rows of unequal length, padded on the right; returns each row's own logits."""
    T = max(map(len, rows))
    tokens = torch.stack([torch.cat([row, torch.full((T - len(row),), pad)]) for row in rows])
    logits = model(tokens, cache)
    cache.advance([len(row) for row in rows])
    return [logits[b, : len(row)] for b, row in enumerate(rows)]


@pytest.mark.parametrize("pad", [0, 7])
def test_rows_of_a_ragged_batch_equal_each_row_alone(pad):
    model = tiny_model()
    texts = [tokens_of(n, seed=n) for n in (9, 4, 7)]
    cuts = [(5, 1, 3), (1, 2, 1), (4, 3, 0)]  # three passes; the last has nothing new for row 2
    cache, parts = model.new_cache(3, 12, ragged=True), [[], [], []]
    for chunk in zip(*(text.split(cut) for text, cut in zip(texts, cuts, strict=True)), strict=True):
        for part, scores in zip(parts, ragged_pass(model, cache, chunk, pad), strict=True):
            part.append(scores)
    assert cache.lengths == [9, 4, 7] and cache.length == 9
    for b, text in enumerate(texts):
        alone = model(text[None])[0]
        assert close(torch.cat(parts[b]), alone), (
            f"row {b} of the batch differs from the same text alone: padding leaks"
        )


def test_a_ragged_row_truncated_and_continued_equals_a_fresh_one():
    model = tiny_model()
    texts = [tokens_of(6, seed=1), tokens_of(4, seed=2)]
    cache = model.new_cache(2, 12, ragged=True)
    ragged_pass(model, cache, texts, pad=0)
    cache.truncate([2, 4])
    more = [tokens_of(3, seed=3), tokens_of(1, seed=4)]
    scores = ragged_pass(model, cache, more, pad=0)
    for b, kept in enumerate((2, 4)):
        fresh = model(torch.cat([texts[b][:kept], more[b]])[None])[0, kept:]
        assert close(scores[b], fresh), f"row {b}: forgotten tokens or another row's length still have a say"


def test_a_ragged_cache_with_equal_rows_equals_a_plain_one():
    model, tokens = tiny_model(), tokens_of(B, 7)
    plain, ragged = model.new_cache(B, 9), model.new_cache(B, 9, ragged=True)
    for part in tokens.split((4, 1, 2), dim=1):
        assert close(model(part, ragged), model(part, plain))
        plain.advance(part.shape[1])
        ragged.advance(part.shape[1])
    assert ragged.nbytes == plain.nbytes and ragged.length == plain.length


class NoQuestions(TorchDispatchMode):
    """Refuses to hand a tensor's number to Python, for which a GPU would have to finish all it was given first."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        assert function is not torch.ops.aten._local_scalar_dense.default, "the pass asks a tensor for its number"
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("kind", ["float", "float8"])
@pytest.mark.parametrize("ragged", [False, True])
def test_a_pass_with_a_cache_never_waits_for_the_device(ragged, kind):
    model = tiny_model()
    cache = model.new_cache(2, 12, ragged, cache_kind=kind)
    for T in (5, 1, 3):
        with NoQuestions():
            model(tokens_of(2, T), cache)
        cache.advance([T, 1] if ragged else T)


def test_ragged_nbytes_counts_each_row_s_own_tokens():
    cache = RaggedKVCache(tiny_config(), 2, 8)
    cache.advance([5, 2])
    assert cache.nbytes == 2 * 3 * 2 * 6 * 4 * 7  # K and V, 3 layers, 2 heads of 6 numbers of 4 bytes, 5 + 2 tokens


def test_one_number_truncates_the_longer_ragged_rows_only():
    cache = RaggedKVCache(tiny_config(), 3, 8)
    cache.advance([5, 2, 4])
    cache.truncate(3)
    assert cache.lengths == [3, 2, 3] and cache.offset.tolist() == [3, 2, 3]


# --- bad input ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: KVCache(tiny_config(), batch_size=0), r"batch_size is 0 .* 1 or more"),
        (lambda: KVCache(tiny_config(), capacity=0), r"capacity 0; both must be 1 or more"),
        (lambda: cache_of(length=7).update(0, *new_heads(2)), r"capacity is 8 .* needs 9"),
        (lambda: cache_of(length=3).advance(-1), r"n is -1; .* 0 or more"),
        (lambda: cache_of(length=3).advance(6), r"capacity is 8 .* needs 9"),
        (lambda: cache_of(length=3).truncate(4), r"length is 4; 0 to 3"),
        (lambda: cache_of(length=3).truncate(-1), r"length is -1; 0 to 3"),
        (lambda: ragged(3, 1).advance([1]), r"n is \[1\]; .* each of 2 rows"),
        (lambda: ragged(3, 1).advance([1, -1]), r"n is \[1, -1\]; .* 0 or more"),
        (lambda: ragged(3, 1).advance([6, 0]), r"capacity is 8 .* needs 9"),
        (lambda: ragged(3, 1).truncate([3, 2]), r"length is \[3, 2\]; the rows hold \[3, 1\]"),
        (lambda: ragged(3, 1).truncate([3]), r"length is \[3\]; the rows hold \[3, 1\]"),
        (lambda: ragged(7, 1).update(0, *new_heads(2)), r"capacity is 8 .* needs 9"),
    ],
)
def test_a_bad_number_is_refused_with_its_name_and_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("kind", [KVCache, RaggedKVCache])
@pytest.mark.parametrize("shape", [(1, K, 2, H), (B, 1, 2, H), (B, 4, 2, H), (B, K, 2, 1)])
def test_update_refuses_keys_of_another_shape_instead_of_copying_them_into_place(kind, shape):
    # One row, one head or one number would be broadcast without a word; N = 4 heads in place of K = 2 do not fit.
    with pytest.raises(ValueError, match="k has shape"):
        cache_of(kind).update(0, torch.ones(shape), torch.ones(shape))


def ragged(*lengths):
    cache = RaggedKVCache(tiny_config(), len(lengths), 8)
    cache.advance(list(lengths))
    return cache
