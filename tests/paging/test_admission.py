"""Holds `paging/admission.py` to what it says: `fit` by hand, `remember`, and whose look-ups are counted where.

That a request which fits is admitted, and no other, is in test_radix_cache_machine.py, after any order of events.
"""

import pytest
from refusal import assert_refuses
from shelf import Shelf

from nanolm.paging import (
    BlockAllocator,
    CountedRadixCache,
    OutOfBlocks,
    PrefixFit,
    PrefixStats,
    RadixCache,
    WatchedAllocator,
    blocks_for,
)

BOTH = pytest.mark.parametrize(
    "kind", [(RadixCache, BlockAllocator), (CountedRadixCache, WatchedAllocator)], ids=["plain", "counted"]
)


def new_cache(kind, n_blocks=8, block_size=1, capacity=None):
    cache, allocator = kind
    host = None if capacity is None else Shelf(dict.fromkeys(range(99)), capacity)
    return cache(allocator(n_blocks), block_size, host)


def hold(cache, tokens):
    """Run a text and insert it; its blocks are held on."""
    found = cache.match(tokens)
    n_more = blocks_for(len(tokens), cache.block_size) - len(found)
    blocks = found + [cache.blocks.allocate() for _ in range(n_more)]
    cache.insert(tokens, blocks)
    return blocks


def let_go(cache, blocks):
    for block in blocks:
        cache.blocks.free(block)


# --- fit ---------------------------------------------------------------------------------------------------------


@BOTH
def test_fit_tells_what_is_free_to_go_from_what_is_held_and_what_is_on_the_host(kind):
    cache = new_cache(kind, capacity=4)
    let_go(cache, hold(cache, "abcdef"))
    cache.evict(2)  # e and f go to the host
    held = cache.match("ab")
    assert cache.fit("abcdefg") == PrefixFit(n_device=4, n_evictable=2, n_host=2)
    assert cache.fit("abcx") == PrefixFit(3, 1, 0)
    assert cache.fit("abcdefg", limit=5) == PrefixFit(4, 2, 1)
    assert cache.fit("abcdefg", limit=1) == PrefixFit(1, 0, 0)
    assert cache.fit("xabc") == cache.fit("") == cache.fit("abc", limit=0) == PrefixFit(0, 0, 0)
    # Six blocks of eight are free or could be: 4 free, c and d. Whoever matches them all can take 4.
    assert cache.blocks_available(cache.fit("abcdefg")) == 4
    assert cache.blocks_available(cache.fit("xabc")) == 6
    let_go(cache, held)
    assert cache.fit("abcdefg") == PrefixFit(4, 4, 2)


@BOTH
def test_fit_counts_as_held_what_a_held_block_stands_on(kind):
    cache = new_cache(kind)
    blocks = hold(cache, "abc")
    let_go(cache, blocks[:2])  # from the root on: only c is still held
    assert [cache.blocks.references(block) for block in blocks] == [1, 1, 2]
    assert cache.fit("abc") == PrefixFit(n_device=3, n_evictable=0, n_host=0), "a and b cannot go while c is held"
    let_go(cache, blocks[2:])
    assert cache.fit("abc") == PrefixFit(3, 3, 0)


@BOTH
def test_fit_changes_nothing(kind):
    cache = new_cache(kind, capacity=1)
    old, new = hold(cache, "a"), hold(cache, "b")
    let_go(cache, old + new)
    before = vars(cache.statistics).copy()
    assert cache.fit("ab").n_device == 1
    assert vars(cache.statistics) == before
    assert cache.blocks.references(old[0]) == 1
    cache.evict(1)
    assert (cache.fit("a"), cache.fit("b")) == (PrefixFit(0, 0, 1), PrefixFit(1, 1, 0)), "to look is not to use"
    assert cache.host.n_saved == 1


@BOTH
def test_a_prompt_that_pins_all_that_could_go_does_not_fit(kind):
    # All four blocks hold the beginning of a prompt of five: nobody holds them, and still there is no fifth.
    cache = new_cache(kind, n_blocks=4)
    let_go(cache, hold(cache, "abcd"))
    fit = cache.fit("abcde", limit=4)
    assert cache.n_evictable == 4 and 5 - fit.n_device > cache.blocks_available(fit) == 0
    cache.match("abcde", limit=4)
    assert cache.evict(1) == 0
    with pytest.raises(OutOfBlocks):
        cache.blocks.allocate()


@BOTH
def test_a_prompt_on_the_host_fits_even_if_coming_back_drops_its_end(kind):
    # Three blocks hold x, y, z; a, b, c are on the host, which is full, so what x, y and z leave drops c, then b.
    cache = new_cache(kind, n_blocks=3, capacity=3)
    let_go(cache, hold(cache, "abc"))
    cache.evict(3)
    for text in "xyz":
        let_go(cache, hold(cache, text))
    fit = cache.fit("abc")
    assert fit == PrefixFit(n_device=0, n_evictable=0, n_host=3) and cache.blocks_available(fit) == 3
    found = cache.match("abc")
    assert len(found) < 3, "this example is about a copy that is dropped on the way"
    assert cache.evict(3 - len(found) - cache.blocks.n_free) == 3 - len(found)
    assert len({*found, *(cache.blocks.allocate() for _ in range(3 - len(found)))}) == 3


@BOTH
def test_fit_refuses_a_negative_limit(kind):
    assert_refuses("limit", new_cache(kind).fit, "ab", -1)


# --- remember ----------------------------------------------------------------------------------------------------


@BOTH
def test_remember_returns_the_trees_blocks_behind_those_that_are_known(kind):
    cache = new_cache(kind, block_size=2)
    mine, theirs = [cache.blocks.allocate() for _ in range(3)], [cache.blocks.allocate() for _ in range(3)]
    assert cache.remember("aabbccd", mine, 0, 2) == mine[:2], "the first two blocks only, as asked"
    assert cache.peek("aabbccdd") == 4
    assert cache.remember("aabbccd", mine, 2) == mine[2:], "three blocks are full"
    assert cache.remember("aabbcc", theirs, 0) == mine, "the tree has them already"
    assert cache.remember("aabbxx", [*mine[:2], theirs[2]], 2) == theirs[2:]
    assert cache.remember("aabbcc", mine, 3) == []
    assert (cache.peek("aabbcc"), cache.peek("aabbxx"), cache.n_blocks) == (6, 6, 4)


@BOTH
def test_remember_begins_anew_where_what_was_known_is_gone(kind):
    cache = new_cache(kind)
    blocks = hold(cache, "ab")
    cache.clear()
    blocks.append(cache.blocks.allocate())
    assert cache.remember("abc", blocks, 2) == blocks[2:]
    assert cache.match("abc") == blocks, "behind nodes that the tree has forgotten nothing could be found again"


@BOTH
@pytest.mark.parametrize(
    ("n_known", "n_blocks"), [(-1, None), (3, 2), (4, None), (0, 4), (0, -1)], ids=lambda n: f"{n}"
)
def test_remember_refuses_counts_that_do_not_add_up(kind, n_known, n_blocks):
    cache = new_cache(kind)
    blocks = hold(cache, "abc")
    assert_refuses("n_known", cache.remember, "abcd", blocks[:3], n_known, n_blocks)
    assert cache.peek("abcd") == 3


# --- counting_resumed --------------------------------------------------------------------------------------------


@BOTH
def test_what_a_preempted_request_finds_again_is_no_hit_of_the_prompts(kind):
    # Eight prompts of six tokens that share nothing. Each is preempted, and runs again on what it had computed.
    cache, prompts = new_cache(kind, n_blocks=48), [[i] * 6 for i in range(8)]
    for prompt in prompts:
        let_go(cache, hold(cache, prompt))
    for prompt in prompts:
        with cache.counting_resumed():
            let_go(cache, cache.match(prompt, limit=5))
    assert cache.statistics.hit_rate == 0.0, "recomputation was counted as sharing, and these share nothing"
    assert (cache.statistics.n_lookups, cache.statistics.n_looked_up_tokens) == (8, 48)
    assert cache.resumed_statistics == PrefixStats(n_lookups=8, n_looked_up_tokens=48, n_hit_tokens=40)
    let_go(cache, cache.match(prompts[0], limit=5))
    assert (cache.statistics.n_lookups, cache.statistics.n_hit_tokens) == (9, 5), "after the with it counts as before"


@BOTH
def test_blocks_that_move_for_a_preempted_request_are_counted_with_all_others(kind):
    cache = new_cache(kind, n_blocks=2, capacity=2)
    let_go(cache, hold(cache, "ab"))
    cache.evict(2)
    with cache.counting_resumed():
        let_go(cache, cache.match("ab"))
        cache.evict(1)
    assert (cache.statistics.n_loaded, cache.statistics.n_evicted_blocks, cache.statistics.n_offloaded) == (2, 3, 3)
    assert cache.resumed_statistics == PrefixStats(1, 2, 2)


@BOTH
def test_look_ups_are_counted_apart_even_if_one_fails_and_once_if_nested(kind):
    cache = new_cache(kind)
    with pytest.raises(ValueError, match="limit"), cache.counting_resumed():
        cache.match("a")
        cache.match("a", limit=-1)
    with cache.counting_resumed(), cache.counting_resumed():
        cache.match("a")
    assert (cache.statistics.n_lookups, cache.resumed_statistics.n_lookups) == (0, 2)
