"""Grades `nanolm/window/`: masks by definition, rings place by place, models against one that forgets nothing."""

import pytest
import torch
from by_hand import attention, close, random
from hypothesis import given, settings
from hypothesis import strategies as st
from refusal import assert_is_refused, assert_refuses
from tiny_models import tiny_config, tiny_model, tokens_of
from written_twice import WrittenTwice

from nanolm.cache import KVCache
from nanolm.window import HybridKVCache, WindowKVCache, sliding_window_mask

B, K, H = 2, 2, 6  # of tiny_config
MODEL = tiny_model()
law = settings(max_examples=40)


# --- sliding_window_mask -----------------------------------------------------------------------------------------

NOT_CAUSAL = "no causal mask: a query sees keys behind its own"
EXCHANGED = "True and False are exchanged: True means that the query may see the key"


@pytest.mark.exercise("sliding_window_mask")
def test_sliding_window_mask_of_five_positions(impl):
    # Window 3: the query itself and two before it.
    expected = [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [0, 1, 1, 1, 0], [0, 0, 1, 1, 1]]
    rows = impl.sliding_window_mask(5, 5, 3).int().tolist()
    assert rows[4] != [0, 1, 1, 1, 1], "the window is off by one: of its 3 keys the last is the query's own"
    assert rows[4] != [0, 0, 0, 1, 1], "the window is off by one: 3 keys are seen, the query's own included"
    assert rows[0] != [1, 1, 1, 0, 0], "the window looks ahead: the query's own key is the last that it sees"
    assert rows != [[1] * 5, [1] * 5, [1] * 5, [0, 1, 1, 1, 1], [0, 0, 1, 1, 1]], NOT_CAUSAL
    assert rows != [[1 - x for x in row] for row in expected], EXCHANGED
    assert rows == expected, f"got {rows}"
    assert impl.sliding_window_mask(5, 5, 3).dtype == torch.bool, "True or False for each query and key: torch.bool"


@pytest.mark.exercise("sliding_window_mask")
@law
@given(T=st.integers(1, 8), past=st.integers(0, 8), window=st.integers(1, 20))
def test_sliding_window_mask_shows_the_last_keys_up_to_the_query_s_own(impl, T, past, window):
    S = past + T
    found = impl.sliding_window_mask(T, S, window).tolist()
    right = [[0 <= past + t - s < window for s in range(S)] for t in range(T)]
    suspects = {
        "aligned top-left: query t stands at position S - T + t, not t": [
            [0 <= t - s < window for s in range(S)] for t in range(T)
        ],
        NOT_CAUSAL: [[past + t - s < window for s in range(S)] for t in range(T)],
        EXCHANGED: [[not sees for sees in row] for row in right],
    }
    assert found == right, next(
        (mistake for mistake, wrong in suspects.items() if found == wrong),
        f"{T} queries after {past} positions with a window of {window} do not see the last {window} keys",
    )


@pytest.mark.exercise("sliding_window_mask")
def test_sliding_window_mask_as_large_as_the_text_is_causal(impl):
    whole, causal = impl.sliding_window_mask(4, 6, 6), torch.ones(4, 6, dtype=torch.bool).tril(2)
    assert not whole.all(), NOT_CAUSAL
    assert not torch.equal(whole, ~causal), EXCHANGED
    assert torch.equal(whole, causal), f"a window of the whole text hides the future alone; got {whole.int().tolist()}"
    assert impl.sliding_window_mask(3, 3, 1).int().tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]], "1: itself alone"


@pytest.mark.exercise("sliding_window_mask")
@pytest.mark.parametrize("window", [0, -1, 1.5])
def test_sliding_window_mask_refuses_what_is_no_window(impl, window):
    assert_refuses("window", impl.sliding_window_mask, 3, 3, window)


@pytest.mark.exercise("sliding_window_mask")
def test_sliding_window_mask_lies_on_the_device_that_is_asked_for(impl):
    where = impl.sliding_window_mask(2, 3, 2, device="meta").device.type  # torch's device without memory
    assert where == "meta", f"`device` was not used: asked for on meta, the mask lies on {where}"


# --- WindowKVCache.update ----------------------------------------------------------------------------------------


def text(n):
    """Keys whose numbers are their positions, values that are 100 more."""
    positions = torch.arange(n, dtype=torch.float64)[None, None, :, None].expand(B, K, n, H)
    return positions.clone(), positions + 100


def fed(kind, window, chunks, layers=(0, 1, 2)):
    """A cache that has read a text in these chunks, every layer the same; what layer 1 got from the last update."""
    cache, found = kind(tiny_config(), window, B, torch.float64), None
    k, v = text(sum(chunks))
    for T in chunks:
        new = slice(cache.length, cache.length + T)
        for layer in layers:
            back = cache.update(layer, k[:, :, new], v[:, :, new])
            found = back if layer == 1 else found
        cache.advance(T)
    return cache, [[int(x) for x in part[0, 0, :, 0]] for part in found]


@pytest.mark.exercise("WindowKVCache.update")
def test_update_of_a_ring_touches_one_layer_and_no_length(impl):
    cache, _ = fed(impl.WindowKVCache, 4, [5])
    before = [tensor.clone() for tensor in (*cache.keys, *cache.values)]
    cache.update(2, *(x[:, :, 5:7] for x in text(7)))
    assert cache.length == 5, "the length was advanced inside a layer: the caller advances, once a pass"
    changed = [not torch.equal(a, b) for a, b in zip((*cache.keys, *cache.values), before, strict=True)]
    assert changed == [False, False, True] * 2, "update(2, …) writes to layer 2 alone"
    before = [tensor.clone() for tensor in (*cache.keys, *cache.values)]
    cache.update(0, *(x[:, :, 5:7] for x in text(7)))
    changed = [not torch.equal(a, b) for a, b in zip((*cache.keys, *cache.values), before, strict=True)]
    assert changed[::3] != [False, False], "update(0, …) writes to layer 0, not to the last layer's ring"
    assert changed == [True, False, False] * 2, "update(0, …) writes to layer 0 alone"


@pytest.mark.exercise("WindowKVCache.update")
def test_update_of_a_ring_puts_each_position_at_its_place(impl):
    cache, (keys, values) = fed(impl.WindowKVCache, 4, [1] * 6)
    assert cache.keys[1].shape[2] == 4, "the ring has grown: what is out of sight is overwritten"
    # Positions 2 to 5 are left; p lies at p % 4: 4 at 0, 5 at 1, 2 at 2, 3 at 3.
    assert cache.keys[1][0, 0, :, 0].tolist() == [4, 5, 2, 3], "position p belongs to place p % window"
    assert cache.values[1][1, 1, :, 3].tolist() == [104, 105, 102, 103], "values lie where their keys do"
    assert sorted(keys) == [2, 3, 4, 5] and [x - 100 for x in values] == keys, f"position 5 sees 2 to 5, not {keys}"


@pytest.mark.exercise("WindowKVCache.update")
def test_update_of_a_ring_returns_one_position_in_the_order_of_the_ring(impl):
    _, (keys, _) = fed(impl.WindowKVCache, 4, [1] * 6)
    assert keys != [2, 3, 4, 5], (
        "the order of the text: for one new position the ring itself is returned, as it lies, without a copy"
    )
    assert keys == [4, 5, 2, 3], f"the ring holds positions 4, 5, 2, 3 in this order, and {keys} came back"


@pytest.mark.exercise("WindowKVCache.update")
@pytest.mark.parametrize("T", [1, 3])
def test_update_of_a_ring_keeps_no_gradient(impl, T):
    cache = impl.WindowKVCache(tiny_config(), 4, B, torch.float64)
    cache.update(1, *(x.requires_grad_() for x in text(T)))
    followed = any(part.requires_grad for part in (*cache.keys, *cache.values))
    assert not followed, f"with {T} new positions a gradient flows into the ring: detach() what is written"


@pytest.mark.exercise("WindowKVCache.update")
@pytest.mark.parametrize(("chunks", "seen"), [([3], [0, 1, 2]), ([2, 1], [0, 1, 2]), ([4], [0, 1, 2, 3]), ([1], [0])])
def test_update_of_a_ring_that_is_not_full_returns_what_was_read(impl, chunks, seen):
    _, (keys, _) = fed(impl.WindowKVCache, 4, chunks)
    assert keys == seen, f"after chunks of {chunks} positions {seen} are there; got {keys} (empty places too?)"


@pytest.mark.exercise("WindowKVCache.update")
def test_update_of_a_ring_with_more_than_it_holds_keeps_the_last(impl):
    cache, (keys, _) = fed(impl.WindowKVCache, 4, [10])
    assert keys == list(range(10)), f"every query of the pass sees its own window, so all 10 come back; got {keys}"
    kept = cache.keys[1][0, 0, :, 0].tolist()
    assert sorted(kept) == [6, 7, 8, 9], f"the last 4 of 10 are kept; the ring holds {kept}"
    assert kept == [8, 9, 6, 7], "position p belongs to place p % window"


@pytest.mark.exercise("WindowKVCache.update")
def test_update_of_a_ring_reads_the_past_before_it_overwrites_it(impl):
    # Window 4, 6 read, 3 new: query 6 sees 3 to 6, so 3, 4 and 5 come first, then 6, 7, 8.
    _, (keys, values) = fed(impl.WindowKVCache, 4, [6, 3])
    assert keys[-3:] == [6, 7, 8], f"the new positions come last; got {keys}"
    assert keys != [6, 7, 8], "the past is left out: position 6 still sees 3, 4 and 5"
    assert all(s in keys for s in (3, 4, 5)), (
        f"the ring is overwritten too early: position 6 still sees 3, 4 and 5, and {keys} came back"
    )
    assert keys == [3, 4, 5, 6, 7, 8], f"past positions in the order of the text, no more than are seen; got {keys}"
    assert values == [103, 104, 105, 106, 107, 108]


@pytest.mark.exercise("WindowKVCache.update")
def test_update_of_a_ring_writes_no_place_twice_in_one_assignment(impl):
    cache = impl.WindowKVCache(tiny_config(), 4, B, torch.float64)
    with WrittenTwice() as found:
        cache.update(0, *text(10))
    assert not found.any, (
        "10 new positions were written to 4 places in one assignment, some places more than once: which one stays "
        "there is undefined; write the last 4 alone"
    )


@pytest.mark.exercise("WindowKVCache.update")
def test_update_of_a_ring_notes_how_far_a_layer_has_written(impl):
    # 3 positions after 6 overwrite 2, 3 and 4; not counted, they leave position 6 without 3 and 4.
    cache, _ = fed(impl.WindowKVCache, 4, [6])
    cache.update(0, *(x[:, :, 6:9] for x in text(9)))
    assert cache._written[0] == 9, (
        f"`self._written[layer]` is {cache._written[0]}, not 9, where the newest position written ends: without it "
        "nobody notices that uncounted positions have overwritten the past"
    )
    assert cache._written[1:] == [6, 6], "`self._written` has a number for each layer: the others wrote nothing new"


@pytest.mark.exercise("WindowKVCache.update")
def test_update_of_a_ring_refuses_a_past_that_was_overwritten(impl):
    # As above, with what update has to note noted by hand.
    cache, _ = fed(impl.WindowKVCache, 4, [6])
    new = [x[:, :, 6:9] for x in text(9)]
    cache.update(0, *new)
    cache._written[0] = 9
    before = cache.keys[0].clone()
    why = (
        "positions never counted have overwritten 3 and 4, which position 6 sees: a ValueError (`_need_past` raises it)"
    )
    assert_is_refused(why, cache.update, 0, *(x + 50 for x in new))
    assert torch.equal(cache.keys[0], before), "an update that is refused must not write anything"


@pytest.mark.exercise("WindowKVCache.update")
def test_update_of_a_ring_returns_nothing_that_was_not_written(impl):
    cache = impl.WindowKVCache(tiny_config(), 4, B, torch.float64)
    for tensor in (*cache.keys, *cache.values):
        tensor.fill_(torch.nan)
    k, v = text(12)
    for first, last in ((0, 2), (2, 3), (3, 9), (9, 10), (10, 12)):
        found = cache.update(0, k[:, :, first:last], v[:, :, first:last])
        assert not torch.cat(found).isnan().any(), f"positions {first} to {last - 1}: empty places came back"
        cache.advance(last - first)


@pytest.mark.exercise("WindowKVCache.update")
@law
@given(window=st.integers(1, 9), chunks=st.lists(st.integers(1, 6), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_update_and_mask_of_a_ring_give_masked_attention_over_the_whole_text(impl, window, chunks, seed):
    S = sum(chunks)
    q, k, v = (random(B, n, S, H, seed=seed + i) for i, n in enumerate((4, K, K)))
    right = attention(q, k, v, lambda p: range(max(0, p - window + 1), p + 1))
    cache = impl.WindowKVCache(tiny_config(), window, B, torch.float64)
    for T in chunks:
        new = slice(cache.length, cache.length + T)
        mask = cache.mask(T)
        keys, values = cache.update(0, k[:, :, new], v[:, :, new])
        keys, values = (x.repeat_interleave(2, dim=1) for x in (keys, values))
        actual = torch.nn.functional.scaled_dot_product_attention(q[:, :, new], keys, values, attn_mask=mask)
        assert close(actual, right[:, :, new]), (
            f"window {window}, chunks of {chunks}: positions {new.start} to {new.stop - 1} see something else"
        )
        cache.advance(T)


@pytest.mark.exercise("WindowKVCache.update")
def test_update_of_a_ring_refuses_what_does_not_fit(impl):
    cache = impl.WindowKVCache(tiny_config(), 4, B, torch.float64)
    k, v = text(3)
    # One head, or one number of each, would be copied to all without a word.
    assert_refuses("k", cache.update, 0, k[:, :1, :1], v[:, :, :1])
    assert_refuses("v", cache.update, 0, k[:, :, :1], v[:, :, :1, :1])
    assert_refuses("k", cache.update, 0, k[:, :1], v)
    assert_refuses("v", cache.update, 0, k, v[..., :3])
    assert not cache.keys[0].any(), "an update that is refused must not write anything"


# --- the window cache, beside update -----------------------------------------------------------------------------


CHUNKS = [[9, 1, 1, 1], [2, 5, 3, 2], [12], [1] * 12]


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("window", [1, 3, 4, 20])
def test_a_ring_attends_to_the_last_positions_of_the_text(window, chunks):
    heads = [random(B, n, 12, H, seed=i) for i, n in enumerate((4, K, K))]
    cache, found = WindowKVCache(tiny_config(), window, B, torch.float64), []
    for q, k, v in zip(*(x.split(chunks, dim=2) for x in heads), strict=True):
        found.append(cache.attend(1, q, k, v, 3 / H**0.5))
        cache.advance(q.shape[2])
    q, k, v = heads  # attention by hand divides by √H: queries three times as long have the scale 3 / √H
    expected = attention(3 * q, k, v, lambda p: range(max(0, p - window + 1), p + 1))
    assert close(torch.cat(found, dim=2), expected), f"window {window}, chunks of {chunks}: a query sees something else"


def test_a_ring_never_takes_more_memory_than_its_window():
    # 32 layers · 2 · 8 heads · 128 · 2 B = 131,072 B a position: 4,096 of them 536,870,912 B, whatever was read.
    config = tiny_config(n_layers=32, n_heads=32, n_kv_heads=8, head_dim=128)
    cache = WindowKVCache(config, 4096, 1, torch.bfloat16, "meta")
    sizes = []
    for n in (1000, 3096, 100_000):
        cache.advance(n)
        sizes.append(cache.nbytes)
    assert sizes == [131_072_000, 536_870_912, 536_870_912]
    assert cache.allocated_bytes == sum(t.untyped_storage().nbytes() for t in (*cache.keys, *cache.values))
    assert cache.allocated_bytes == 536_870_912


@pytest.mark.parametrize("length", [0, 1, 3, 4])
def test_truncate_of_a_ring_that_was_never_full_goes_anywhere(length):
    cache, _ = fed(WindowKVCache, 4, [2, 2])
    cache.truncate(length)
    k, v = text(6)
    keys, _ = cache.update(1, k[:, :, length : length + 1], v[:, :, length : length + 1])
    assert sorted(keys[0, 0, :, 0].tolist()) == list(range(max(0, length - 3), length + 1))


def test_truncate_of_a_ring_refuses_what_has_been_overwritten():
    # Window 4, 10 read: 6 to 9 are kept. The query at 9 sees 6 to 9, the one at 8 sees 5 to 8, and 5 is gone.
    cache, _ = fed(WindowKVCache, 4, [10])
    with pytest.raises(ValueError, match="sees back to position 5, but the ring of 4 holds none before 6"):
        cache.truncate(8)
    assert cache.length == 10, "a truncate that is refused must not change anything"
    cache.truncate(9)
    keys, _ = cache.update(1, *(x[:, :, 9:10] for x in text(10)))
    assert sorted(keys[0, 0, :, 0].tolist()) == [6, 7, 8, 9]
    for wrong in (-1, 10):
        assert_refuses("length", cache.truncate, wrong)


def test_a_ring_starts_again_from_an_empty_text():
    cache, _ = fed(WindowKVCache, 4, [10])
    cache.truncate(0)
    k, v = text(3)
    for layer in range(3):
        keys, _ = cache.update(layer, k + 50, v)
    cache.advance(3)
    cache.truncate(1)
    assert keys[0, 0, :, 0].tolist() == [50, 51, 52], "an older text came back"


def test_a_ring_refuses_a_pass_after_one_that_was_dropped():
    # 3 positions after 6 overwrite 2, 3 and 4; not counted, they leave position 6 without 3 and 4.
    cache, _ = fed(WindowKVCache, 4, [6])
    new = [x[:, :, 6:9] for x in text(9)]
    cache.update(0, *new)
    assert_is_refused("positions 3 and 4 are lost", cache.update, 0, *new)
    assert_is_refused("counting none of them loses positions 3 and 4", cache.advance, 0)
    assert_refuses("n", cache.advance, -1)
    cache.advance(3)


def test_a_ring_refuses_a_window_of_nothing():
    assert_refuses("window", WindowKVCache, tiny_config(), 0)
    assert_refuses("batch_size", WindowKVCache, tiny_config(), 4, 0)


# --- whole models ------------------------------------------------------------------------------------------------


class Everything:
    """A cache of plain lists that forgets nothing, and attends query by query to what the layer's window shows."""

    def __init__(self, windows, batch_size=B):
        self.windows, self.batch_size, self.offset = windows, batch_size, 0
        self.k, self.v = [[] for _ in windows], [[] for _ in windows]

    def attend(self, layer, q, k, v):
        self.k[layer].append(k)
        self.v[layer].append(v)
        keys, values = torch.cat(self.k[layer], dim=2), torch.cat(self.v[layer], dim=2)
        window, first = self.windows[layer] or keys.shape[2], self.offset
        return attention(q, keys, values, lambda t: range(max(0, first + t - window + 1), first + t + 1))


def scores(cache, tokens, chunks):
    found, position = [], 0
    for T in chunks:
        found.append(MODEL(tokens[:, position : position + T], cache))
        position += T
        if isinstance(cache, Everything):
            cache.offset = position
        else:
            cache.advance(T)
    return torch.cat(found, dim=1)


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("window", [1, 3, 4, 20])
def test_a_model_with_rings_scores_as_with_a_mask_over_everything(window, chunks):
    tokens = tokens_of(B, 12)
    actual = scores(WindowKVCache(MODEL.config, window, B, torch.float64), tokens, chunks)
    assert close(actual, scores(Everything([window] * 3), tokens, [12])), "a query sees more or less than its window"


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("windows", [[3, None, 5], [None, 1, None], [None, None, None]])
def test_a_model_with_a_hybrid_cache_gives_each_layer_its_own_window(windows, chunks):
    tokens = tokens_of(B, 12)
    actual = scores(HybridKVCache(MODEL.config, windows, B, 12, torch.float64), tokens, chunks)
    assert close(actual, scores(Everything(windows), tokens, [12])), "a layer sees more or less than its own window"


@pytest.mark.parametrize("chunks", CHUNKS)
def test_a_hybrid_cache_attends_as_each_layer_s_own_cache_does(chunks):
    one_layer, windows = tiny_config(n_layers=1), [3, None, 5]
    hybrid = HybridKVCache(tiny_config(), windows, B, 12, torch.float64)
    alone = [
        WindowKVCache(one_layer, 3, B, torch.float64),
        KVCache(one_layer, B, 12, torch.float64),
        WindowKVCache(one_layer, 5, B, torch.float64),
    ]
    for i, T in enumerate(chunks):
        for layer, cache in enumerate(alone):
            q, k, v = (random(B, n, T, H, seed=100 * i + 10 * layer + j) for j, n in enumerate((4, K, K)))
            expected = cache.attend(0, q, k, v, 0.3)
            assert torch.equal(hybrid.attend(layer, q, k, v, 0.3), expected), f"the layer with window {windows[layer]}"
            cache.advance(T)
        hybrid.advance(T)


def test_a_window_larger_than_the_text_is_full_attention():
    tokens = tokens_of(B, 12)
    assert close(scores(WindowKVCache(MODEL.config, 50, B, torch.float64), tokens, [7, 1, 4]), MODEL(tokens))


def test_a_hybrid_cache_counts_the_bytes_of_each_layer():
    # A position of a layer: 2 · 2 heads · 6 · 8 B = 192 B, for 2 rows 384. 10 read: 3, 10 and 5 are kept, 18 in all.
    cache = HybridKVCache(tiny_config(), [3, None, 5], B, 12, torch.float64)
    scores(cache, tokens_of(B, 10), [6, 4])
    assert cache.length == cache.offset == 10
    assert cache.nbytes == 18 * 384 and cache.allocated_bytes == (3 + 12 + 5) * 384


def test_a_hybrid_cache_goes_back_in_all_layers_or_in_none():
    cache = HybridKVCache(tiny_config(), [None, 3, None], B, 12, torch.float64)
    tokens = tokens_of(B, 10)
    scores(cache, tokens, [10])
    assert_is_refused("layer 1 has overwritten what position 8 sees", cache.truncate, 8)
    assert [part.length for part in cache.layers] == [10, 10, 10], "a truncate that is refused has changed a layer"
    assert_is_refused("layers 0 and 2 have room for 12", cache.advance, 3)
    assert [part.length for part in cache.layers] == [10, 10, 10], "an advance that is refused has changed a layer"
    cache.truncate(9)
    right = scores(Everything(cache.windows), tokens, [10])[:, 9:]
    assert close(MODEL(tokens[:, 9:], cache), right), "the forgotten token still has a say"


def test_a_hybrid_cache_refuses_windows_that_are_not_one_a_layer():
    assert_refuses("windows", HybridKVCache, tiny_config(), [3, None])
    assert_refuses("window", HybridKVCache, tiny_config(), [3, None, 0])


def test_keys_in_a_ring_are_those_of_a_whole_cache():
    tokens = tokens_of(B, 10)
    ring, whole = WindowKVCache(MODEL.config, 4, B, torch.float64), KVCache(MODEL.config, B, 10, torch.float64)
    MODEL(tokens, ring), MODEL(tokens, whole)
    # Layer 0 reads the embedding, so its keys do not depend on what is seen: positions 8, 9, 6, 7 at places 0 to 3.
    assert close(ring.keys[0], whole.keys[0][:, :, [8, 9, 6, 7]])


def test_sliding_window_mask_is_what_a_ring_asks_for():
    cache, _ = fed(WindowKVCache, 4, [6])
    assert torch.equal(cache.mask(3), sliding_window_mask(3, 6, 4)) and cache.mask(1) is None
