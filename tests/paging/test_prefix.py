"""Grades `paging/radix_cache.py`. The allocator and the host store are fakes that count references, keep contents."""

from collections import Counter
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prefix_by_hand import COMING, FakeBlocks, FakeHost, NaiveCache
from refusal import assert_is_refused, assert_refuses
from shelf import Shelf

from nanolm import paging as prefix

law = settings(max_examples=80)


def new_cache(impl, n_blocks=20, block_size=2, host_capacity=None):
    """A cache on blocks of its own; they are cache.blocks, the host store is cache.host."""
    blocks = FakeBlocks(n_blocks)
    host = None if host_capacity is None else FakeHost(blocks, host_capacity)
    return impl.RadixCache(blocks, block_size, host)


def remember(cache, tokens):
    """Run a text, insert it and let it go, so that only the tree holds its whole blocks; return those."""
    blocks = cache.blocks.run(tokens, cache.block_size)
    kept = cache.insert(tokens, blocks)
    cache.blocks.free_all(blocks)
    return kept


def touch(cache, tokens):
    """Use a cached text once more and let it go."""
    cache.blocks.free_all(cache.match(tokens))


def assert_the_books_are_kept(cache):
    """What only the tree holds is what it says that it holds."""
    n_held = 20 - cache.blocks.n_free
    assert cache.n_blocks == n_held, (
        f"{n_held} blocks are held, the tree counts {cache.n_blocks}: _move_out keeps books"
    )


# --- reusable_prefix_tokens --------------------------------------------------------------------------------------


@pytest.mark.exercise("reusable_prefix_tokens")
def test_reusable_prefix_tokens_end_at_the_first_token_that_differs(impl):
    # 1 2 are common; 4 5 are equal again, but were computed behind a 3 and now stand behind a 9.
    got = impl.reusable_prefix_tokens([1, 2, 3, 4, 5], [1, 2, 9, 4, 5, 6])
    assert got != 4, "tokens behind the first difference were counted: their keys and values depend on what came before"
    assert got == 2
    # Another first word: nothing, however long the rest.
    assert impl.reusable_prefix_tokens([7, 2, 3, 4], [8, 2, 3, 4]) == 0, "another first token leaves nothing to reuse"


@pytest.mark.exercise("reusable_prefix_tokens")
def test_reusable_prefix_tokens_leave_one_position_to_run(impl):
    got = impl.reusable_prefix_tokens([1, 2, 3, 4], [1, 2, 3, 4])
    assert got != 4, "the whole prompt was reused: one position must be run to get the next token's logits"
    assert got == 3
    # Longer than the prompt: the same. And a prompt that goes on may reuse all that is cached.
    assert impl.reusable_prefix_tokens([1, 2, 3, 4, 5, 6], [1, 2, 3, 4]) == 3
    got = impl.reusable_prefix_tokens([1, 2, 3, 4], [1, 2, 3, 4, 5])
    assert got != 3, "all 4 cached tokens can be reused: the position that is left to run is the prompt's own fifth"
    assert got == 4


@pytest.mark.exercise("reusable_prefix_tokens")
def test_reusable_prefix_tokens_are_whole_multiples_of_the_granularity(impl):
    # 10,000 common tokens = 4 · 2,048 + 1,808: four units, 8,192 tokens.
    cached, prompt = [*range(10_000)], [*range(10_000), *[-1] * 500]
    got = impl.reusable_prefix_tokens(cached, prompt, granularity=2048)
    assert got != 10_000, "granularity ignored: only whole multiples of it are cached"
    assert got != 10_240, "granularity rounded up: the last unit is not full"
    assert got == 8192
    assert impl.reusable_prefix_tokens(cached, prompt) == 10_000
    # All 8 tokens are cached, 7 may be reused, so of two units of 4 only one.
    got = impl.reusable_prefix_tokens([*range(8)], [*range(8)], granularity=4)
    assert got != 7, "7 is no multiple of 4: leave one position to run first, round down after that"
    assert got == 4


@pytest.mark.exercise("reusable_prefix_tokens")
def test_reusable_prefix_tokens_of_nothing_are_none(impl):
    for cached, prompt in (([], [1, 2]), ([1, 2], []), ([], []), ([1], [1])):
        try:
            got = impl.reusable_prefix_tokens(cached, prompt)
        except IndexError:
            pytest.fail(f"with {cached} cached, {prompt} was read beyond an end: either text can be the shorter one")
        assert got >= 0, f"{got} tokens of {prompt}: a prompt of no token cannot leave one, so 0"
        assert got == 0, f"nothing of {prompt} can be reused from {cached}"


@pytest.mark.exercise("reusable_prefix_tokens")
@law
@given(st.lists(st.integers(0, 1), max_size=12), st.lists(st.integers(0, 1), max_size=12), st.integers(1, 4))
def test_reusable_prefix_tokens_are_the_longest_prefix_that_keeps_the_rules(impl, cached, prompt, granularity):
    allowed = [n for n in range(len(prompt)) if n % granularity == 0 and n <= len(cached) and cached[:n] == prompt[:n]]
    got = impl.reusable_prefix_tokens(cached, prompt, granularity)
    assert got == max(allowed, default=0), f"of {prompt}, with {cached} cached in units of {granularity}"


@pytest.mark.exercise("reusable_prefix_tokens")
@pytest.mark.parametrize("granularity", [0, -4, 1.5])
def test_reusable_prefix_tokens_refuse_a_granularity_of_nothing(impl, granularity):
    try:
        got = impl.reusable_prefix_tokens([1, 2, 3], [1, 2, 3, 4], granularity)
    except ZeroDivisionError:
        pytest.fail("a granularity of 0 was divided by: raise a ValueError before that")
    except ValueError:
        pass
    else:
        pytest.fail(f"{got} tokens in units of {granularity}, and there are no such units: raise a ValueError")
    assert_refuses("granularity", impl.reusable_prefix_tokens, [1, 2, 3], [1, 2, 3, 4], granularity)


# --- match -------------------------------------------------------------------------------------------------------


@pytest.mark.exercise("RadixCache.match")
def test_match_finds_the_longest_cached_prefix_of_whole_blocks(impl):
    cache = new_cache(impl)
    long = remember(cache, [1, 2, 3, 4, 5, 6])
    other = remember(cache, [1, 2, 7, 8])
    assert cache.match([1, 2, 3, 4, 9, 9]) == long[:2], "the prefix 1 2 3 4 is cached, 9 9 behind it is not"
    assert cache.match([1, 2, 7, 8, 5, 6]) == other, "5 6 is cached behind 1 2 3 4 only, and means another block there"
    got = cache.match([1, 2, 3, 4, 5])
    assert len(got) != 3, "the last block was matched by part of its tokens: only whole blocks are shared"
    assert got == long[:2]
    assert cache.match([3, 4, 5, 6]) == [], "a prefix starts at the first token"
    assert cache.match([]) == []


@pytest.mark.exercise("RadixCache.match")
def test_match_pins_every_block_once_for_the_caller(impl):
    cache = new_cache(impl)
    kept = remember(cache, [1, 2, 3, 4, 5, 6])
    found = cache.match([1, 2, 3, 4, 9, 9])
    counts = [cache.blocks.counts[block] for block in kept]
    assert counts != [1, 1, 1], "the blocks found are not shared: eviction would take them from under the caller"
    assert counts == [2, 2, 1], f"one reference for the tree, one more for each block found; got {counts}"
    assert cache.match([1, 2, 3, 4]) == found
    assert [cache.blocks.counts[block] for block in kept] == [3, 3, 1], "every caller has references of its own"
    assert sum(cache.blocks.counts) == 7, "blocks that were not found were touched"


@pytest.mark.exercise("RadixCache.match")
def test_match_counts_what_it_finds_as_used_now(impl):
    cache = new_cache(impl)
    old, new = remember(cache, [1, 2]), remember(cache, [3, 4])
    touch(cache, [1, 2])
    cache.evict(1)
    assert cache.blocks.counts[old[0]], "the block found last was evicted first: match must set last_used"
    assert not cache.blocks.counts[new[0]]


@pytest.mark.exercise("RadixCache.match")
@pytest.mark.parametrize("tokens", [[1, 2, 3, 4], [9, 9], []])
def test_match_takes_one_time_whatever_it_finds(impl, tokens):
    cache = new_cache(impl)
    remember(cache, [1, 2, 3, 4])
    before = next(cache._clock)
    cache.match(tokens)
    took = next(cache._clock) - before - 1
    assert took == 1, f"a match of {tokens} took {took} times: each call takes one `next(self._clock)` as its now"


@pytest.mark.exercise("RadixCache.insert")
def test_insert_takes_one_time_and_counts_no_look_up(impl):
    cache = new_cache(impl)
    before = next(cache._clock)
    remember(cache, [1, 2, 3, 4])
    took = next(cache._clock) - before - 1
    assert took == 1, f"an insert took {took} times: each call takes one `next(self._clock)` as its now"
    counts = (cache.statistics.n_lookups, cache.statistics.n_looked_up_tokens, cache.statistics.n_hit_tokens)
    assert counts == (0, 0, 0), f"an insert looks nothing up, and the statistics have {counts}"


@pytest.mark.exercise("RadixCache.insert")
def test_insert_says_when_a_node_was_used_before_it_places_its_block(impl, monkeypatch):
    cache, seen = new_cache(impl), []
    place = cache._place
    monkeypatch.setattr(cache, "_place", lambda node, block: (seen.append(node.last_used), place(node, block)))
    now = next(cache._clock) + 1
    remember(cache, [1, 2, 3, 4])
    assert seen == [now, now], (
        f"blocks were placed at nodes last used at {seen} instead of now, {now}: `_place` enters the node among the "
        "leaves by its last_used, so that is set before"
    )


@pytest.mark.exercise("RadixCache.match")
def test_match_finds_no_more_tokens_than_the_limit(impl):
    cache = new_cache(impl)
    kept = remember(cache, [1, 2, 3, 4])
    # Three tokens are one whole block: the position that is left to be run is the fourth.
    got = cache.match([1, 2, 3, 4], limit=3)
    assert got != kept, "limit ignored: nothing of the prompt is left to be run"
    assert got == kept[:1], "three tokens are one whole block of two"
    assert cache.match([1, 2, 3, 4], limit=0) == [], "a limit of 0 is a limit"
    assert cache.match([1, 2, 3, 4], limit=100) == kept
    assert [cache.blocks.counts[block] for block in kept] == [3, 2], "blocks beyond the limit were shared too"


@pytest.mark.exercise("RadixCache.match")
def test_match_brings_back_what_was_off_loaded(impl):
    cache = new_cache(impl, host_capacity=4)
    remember(cache, [1, 2, 3, 4])
    cache.evict(2)
    found = cache.match([1, 2, 3, 4])
    assert len(found) == 2, "the contents are in the host store: bring them back and go on"
    assert [cache.blocks.contents[block] for block in found] == [(1, 2), (1, 2, 3, 4)]
    assert [cache.blocks.counts[block] for block in found] == [2, 2], "one reference for the tree, one for the caller"
    assert not cache.host.copies, "what is back on the device is not kept in the host store as well"
    assert (cache.n_blocks, cache.n_host_blocks, cache.statistics.n_loaded) == (2, 0, 2)


@pytest.mark.exercise("RadixCache.match")
def test_match_ends_where_no_block_is_free_to_bring_back(impl):
    cache = new_cache(impl, n_blocks=4, host_capacity=4)
    remember(cache, [1, 2, 3, 4, 5, 6])
    cache.evict(2)  # 3 4 and 5 6 are in the host store
    for _ in range(2):
        cache.blocks.allocate()  # one block is left
    found = cache.match([1, 2, 3, 4, 5, 6])
    assert [cache.blocks.contents[block] for block in found] == [(1, 2), (1, 2, 3, 4)]
    assert sum(cache.blocks.counts) == 6, "two blocks held twice, two by others: only what is returned is pinned"
    assert cache.peek([1, 2, 3, 4, 5, 6]) == 6, "what cannot be brought back now stays in the host store"


@pytest.mark.exercise("RadixCache.match")
def test_match_pins_a_block_before_it_makes_room_for_the_next(impl):
    # Two blocks: the tree's for 1 2, and one that somebody else holds. 3 4 is in the host store.
    cache = new_cache(impl, n_blocks=2, host_capacity=4)
    kept = remember(cache, [1, 2, 3, 4])
    cache.evict(1)
    cache.blocks.allocate()
    found = cache.match([1, 2, 3, 4])
    assert found == kept[:1] and cache.blocks.contents[kept[0]] == (1, 2), (
        "1 2 was found, and evicted to make room for 3 4, which stands on it: share each block as soon as it is found"
    )
    assert cache.blocks.counts[kept[0]] == 2, "one reference for the tree, one for the caller"


@pytest.mark.exercise("RadixCache.match")
def test_match_brings_back_into_a_full_pool_what_others_can_make_room_for(impl):
    # Three blocks hold 5 6 7 8 and 9 9, all unused; 1 2 and 3 4 wait in the host store, which is full.
    cache = new_cache(impl, n_blocks=3, host_capacity=2)
    remember(cache, [1, 2, 3, 4])
    cache.evict(2)
    remember(cache, [5, 6, 7, 8])
    remember(cache, [9, 9])
    found = cache.match([1, 2, 3, 4])
    assert found, "the pool is full of blocks that nobody uses: one of them makes room for what comes back"
    # For 1 2 the end of 5 6 7 8 has to go; the host store is full, and drops 3 4, not the copy that is asked for.
    assert [cache.blocks.contents[block] for block in found] == [(1, 2)]
    assert [cache.peek(text) for text in ([1, 2, 3, 4], [5, 6, 7, 8], [9, 9])] == [2, 4, 2]
    assert (cache.n_blocks, cache.n_host_blocks, len(cache.host.copies)) == (3, 1, 1)


@pytest.mark.exercise("RadixCache.match")
def test_match_keeps_statistics_of_tokens(impl):
    cache = new_cache(impl)
    assert cache.statistics.hit_rate == 0
    remember(cache, [1, 2, 3, 4])
    # 4 of 6 tokens, then 2 of 3, then 0 of 3: 6 of 12. A limit hides tokens, and they are looked up all the same.
    for prompt in ([1, 2, 3, 4, 5, 6], [1, 2, 3], [9, 9, 9]):
        cache.match(prompt, limit=len(prompt) - 1)
    statistics = cache.statistics
    counts = (statistics.n_lookups, statistics.n_looked_up_tokens, statistics.n_hit_tokens)
    assert counts[2] != 3, "hits were counted in blocks: a block of 2 has 2 tokens"
    assert counts[1] != 9, "the tokens behind the limit were left out: all of `tokens` count as looked up"
    assert counts == (3, 12, 6), f"three look-ups of 12 tokens in all, of which 6 were found; got {counts}"
    assert statistics.hit_rate == 0.5


@pytest.mark.exercise("RadixCache.match")
def test_match_of_twenty_conversations_runs_their_system_prompt_once(impl):
    # 20 conversations start with the same 1,000 tokens: 20,000 to prefill and, at 131,072 B a token, 2.62 GB to keep.
    # Shared they are 1,000 tokens in 125 blocks of 8: 131 MB. Each adds a question of 8 tokens, always its own.
    system, n_run, running = [*range(1000)], 0, set()
    cache = new_cache(impl, n_blocks=200, block_size=8)
    for conversation in range(20):
        prompt = system + [2000 + conversation] * 8
        found = cache.match(prompt, limit=len(prompt) - 1)
        n_run += len(prompt) - 8 * len(found)
        blocks = cache.blocks.complete(prompt, 8, found)
        cache.insert(prompt, blocks)
        running |= set(blocks[:125])
    n_system_tokens = n_run - 20 * 8
    assert n_system_tokens != 20_000, "every conversation ran the system prompt anew"
    assert n_system_tokens == 1000
    assert len(running) * 8 * 131_072 == 131_072_000, "the system prompt lies in memory more than once"


@pytest.mark.exercise("RadixCache.match")
@pytest.mark.parametrize("limit", [-1, 1.5])
def test_match_refuses_a_negative_limit(impl, limit):
    assert_is_refused(f"limit is {limit}: a slice would count it from the end", new_cache(impl).match, [1, 2], limit)
    assert_refuses("limit", new_cache(impl).match, [1, 2], limit)


# --- insert ------------------------------------------------------------------------------------------------------


@pytest.mark.exercise("RadixCache.insert")
def test_insert_takes_one_reference_of_every_whole_block(impl):
    cache = new_cache(impl)
    blocks = cache.blocks.run([1, 2, 3, 4, 5], 2)  # the third is half full
    kept = cache.insert([1, 2, 3, 4, 5], blocks)
    counts = [cache.blocks.counts[block] for block in blocks]
    assert counts[:2] != [1, 1], "the tree took no reference: its blocks are gone as soon as the caller frees them"
    assert counts[2] == 1, "a block that is not full was kept: the caller goes on writing into it"
    assert counts == [2, 2, 1]
    assert kept == blocks[:2], "returned are the blocks of the whole prefix, in order"
    cache.blocks.free_all(blocks)
    assert cache.peek([1, 2, 3, 4, 5]) == 4
    assert (cache.n_blocks, cache.blocks.n_free) == (2, 18)


@pytest.mark.exercise("RadixCache.insert")
def test_insert_keeps_the_block_that_the_tree_has(impl):
    cache = new_cache(impl)
    old = remember(cache, [1, 2, 3, 4])
    mine = cache.blocks.run([1, 2, 3, 4, 5, 6], 2)  # two requests that ran the same prompt at the same time
    kept = cache.insert([1, 2, 3, 4, 5, 6], mine)
    counts = [cache.blocks.counts[block] for block in mine]
    assert counts[:2] != [2, 2], "the tree has taken the caller's blocks for a prefix of which it has blocks already"
    assert kept != mine, "the caller's blocks were returned: one prefix has one block, the tree's first one"
    assert kept == [*old, mine[2]]
    assert [cache.blocks.counts[block] for block in mine] == [1, 1, 2], "a duplicate stays the caller's alone"
    assert [cache.blocks.counts[block] for block in old] == [1, 1], "the tree holds its own block once, not again"
    cache.blocks.free_all(mine)
    assert cache.n_blocks == 3


@pytest.mark.exercise("RadixCache.insert")
def test_insert_branches_where_texts_part(impl):
    cache = new_cache(impl)
    first, second = remember(cache, [1, 2, 3, 4, 5, 6]), remember(cache, [1, 2, 9, 9, 5, 6])
    assert second[0] == first[0], "both start with 1 2: that block is stored once"
    assert second[2] != first[2], "5 6 behind 9 9 is another block than 5 6 behind 3 4"
    assert cache.n_blocks == 5
    assert cache.match([1, 2, 3, 4, 5, 6]) == first and cache.match([1, 2, 9, 9, 5, 6]) == second


@pytest.mark.exercise("RadixCache.insert")
def test_insert_gives_an_off_loaded_node_the_callers_block(impl):
    cache = new_cache(impl, host_capacity=4)
    remember(cache, [1, 2, 3, 4])
    cache.evict(2)
    blocks = cache.blocks.run([1, 2, 3, 4], 2)
    kept = cache.insert([1, 2, 3, 4], blocks)
    assert kept == blocks, f"the tree had no device block for this prefix, so it takes the caller's; got {kept}"
    assert [cache.blocks.counts[block] for block in blocks] == [2, 2]
    assert not cache.host.copies, "the copy in the host store has become needless: drop it"
    assert (cache.n_blocks, cache.n_host_blocks) == (2, 0)


@pytest.mark.exercise("RadixCache.insert")
def test_insert_counts_the_whole_path_as_used_now(impl):
    cache = new_cache(impl)
    old, new = remember(cache, [1, 2]), remember(cache, [3, 4])
    remember(cache, [1, 2])
    cache.evict(1)
    assert cache.blocks.counts[old[0]], "the prefix inserted last was evicted first: insert must set last_used"
    assert not cache.blocks.counts[new[0]]


@pytest.mark.exercise("RadixCache.insert")
def test_insert_of_less_than_a_block_keeps_nothing(impl):
    cache = new_cache(impl)
    assert cache.insert([1], cache.blocks.run([1], 2)) == []
    assert cache.insert([], []) == []
    assert cache.n_blocks == 0


@pytest.mark.exercise("RadixCache.insert")
def test_insert_refuses_fewer_blocks_than_the_tokens_fill(impl):
    cache = new_cache(impl)
    blocks = cache.blocks.run([1, 2], 2)
    assert_is_refused(
        "two blocks of tokens and one block to hold them: part of the text would be remembered; raise a ValueError",
        *(cache.insert, [1, 2, 3, 4], blocks),
    )
    assert_refuses("blocks", cache.insert, [1, 2, 3, 4], blocks)
    assert (cache.n_blocks, cache.blocks.counts[blocks[0]]) == (0, 1), "what is refused must not be half done"


# --- evict -------------------------------------------------------------------------------------------------------


@pytest.mark.exercise("RadixCache.evict")
def test_evict_frees_the_least_recently_used_first(impl):
    cache = new_cache(impl)
    blocks = {token: remember(cache, [token, token])[0] for token in (1, 2, 3, 4)}
    touch(cache, [1, 1])
    touch(cache, [3, 3])  # by last use now 2, 4, 1, 3
    assert cache.evict(1) == 1
    gone = [token for token, block in blocks.items() if not cache.blocks.counts[block]]
    assert gone != [1], "the oldest was freed, not the one that was used longest ago"
    assert gone not in ([3], [4]), "the newest was freed: least recently used goes first"
    assert gone == [2], f"2 2 was used longest ago; freed was {gone}"
    assert cache.evict(1) == 1 and not cache.blocks.counts[blocks[4]], "next is 4 4: 1 1 and 3 3 were used after it"


@pytest.mark.exercise("RadixCache.evict")
def test_evict_frees_leaves_before_what_they_stand_on(impl):
    cache = new_cache(impl)
    stem = remember(cache, [1, 2])
    remember(cache, [1, 2, 3, 4, 5, 6])
    remember(cache, [1, 2, 7, 8])
    # Used: 3 4 and 5 6, then 7 8, and 1 2 with every one of them. 5 6 goes, then 3 4, a leaf by now, then 7 8.
    for n_tokens in (4, 2):
        assert cache.evict(1) == 1
        assert_the_books_are_kept(cache)
        assert cache.blocks.counts[stem[0]], "a block was freed on which others stand: no prompt can reach those now"
        assert n_tokens == 2 or cache.peek([1, 2, 3, 4, 5, 6]) != 2, "3 4 was freed, on which others stand, here 5 6"
        assert cache.peek([1, 2, 3, 4, 5, 6]) == n_tokens, "the end of the branch used longest ago goes first"
    assert cache.peek([1, 2, 7, 8]) == 4
    assert cache.evict(2) == 2, "1 2 is a leaf once 7 8 is gone, in the same call"
    assert (cache.n_blocks, cache.blocks.n_free) == (0, 20)


@pytest.mark.exercise("RadixCache.evict")
def test_evict_leaves_pinned_blocks_alone_until_they_are_released(impl):
    cache = new_cache(impl)
    kept = remember(cache, [1, 2, 3, 4])
    remember(cache, [5, 6])
    pinned = cache.match([1, 2, 3, 4])
    remember(cache, [7, 8])
    cache.evict(10)
    assert [cache.blocks.counts[block] for block in kept] == [2, 2], "a pinned block was evicted: a request reads it"
    assert cache.blocks.n_free == 18, "5 6 and 7 8 can go, 1 2 3 4 is pinned"
    cache.blocks.free_all(pinned)
    cache.evict(10)
    assert cache.blocks.n_free == 20, "1 2 3 4 was released, so both can go: pinned once is not pinned for ever"


@pytest.mark.exercise("RadixCache.evict")
def test_evict_spares_a_block_that_a_pinned_one_stands_on(impl):
    cache = new_cache(impl)
    # The tree has a block of its own for 1 2, which nobody else holds; a request holds what stands behind it.
    stem = remember(cache, [1, 2])
    cache.insert([1, 2, 3, 4], cache.blocks.run([1, 2, 3, 4], 2))
    assert cache.evict(1) == 0
    assert cache.blocks.counts[stem[0]] == 1, "1 2 has a child on the device: without it 3 4 cannot be found again"


@pytest.mark.exercise("RadixCache.evict")
def test_evict_frees_as_many_as_asked_and_says_how_many(impl):
    cache = new_cache(impl)
    remember(cache, [1, 2, 3, 4, 5, 6])
    assert (cache.evict(0), cache.blocks.n_free) == (0, 17), "0 blocks were asked for"
    said = cache.evict(2)
    assert_the_books_are_kept(cache)
    assert said == 2, f"two of three blocks were asked for, and {said} were freed"
    assert cache.blocks.n_free != 20, "two blocks were asked for and all three were freed: keep what can be kept"
    assert cache.n_blocks == 1, f"two of three blocks were asked for, {3 - cache.n_blocks} were freed"
    assert cache.evict(5) == 1, "one block was left to free, not five"
    assert cache.evict(5) == 0
    assert cache.statistics.n_evicted_blocks == 3


@pytest.mark.exercise("RadixCache.evict")
def test_evict_moves_contents_to_the_host_store(impl):
    cache = new_cache(impl, host_capacity=3)
    remember(cache, [1, 2, 3, 4])
    assert cache.evict(1) == 1
    assert (cache.n_blocks, cache.n_host_blocks, cache.blocks.n_free) == (1, 1, 19)
    assert cache.peek([1, 2, 3, 4]) == 4, "what is in the host store is still cached"
    assert [*cache.host.copies.values()] == [(1, 2, 3, 4)]
    assert cache.evict(1) == 1, "1 2 has no child on the device any more, so it can go as well"
    assert (cache.n_blocks, cache.n_host_blocks, cache.statistics.n_offloaded) == (0, 2, 2)


@pytest.mark.exercise("RadixCache.evict")
def test_evict_makes_room_in_a_full_host_store(impl):
    cache = new_cache(impl, host_capacity=2)
    for token in (1, 2, 3):
        remember(cache, [token, token])
    assert cache.evict(3) == 3
    assert [cache.peek([token, token]) for token in (1, 2, 3)] == [0, 2, 2], "1 1 was used longest ago: it made room"
    assert (len(cache.host.copies), cache.n_host_blocks) == (2, 2)


@pytest.mark.exercise("RadixCache.evict")
def test_evict_forgets_what_a_host_store_of_no_size_cannot_take(impl):
    cache = new_cache(impl, host_capacity=0)
    remember(cache, [1, 2, 3, 4])
    assert cache.evict(1) == 1
    assert (cache.peek([1, 2, 3, 4]), cache.n_blocks, cache.blocks.n_free) == (2, 1, 19)


@pytest.mark.exercise("RadixCache.evict")
def test_evict_does_not_search_all_blocks_for_each_one_it_frees(impl):
    cache = new_cache(impl, n_blocks=400, block_size=1)
    for token in range(400):
        remember(cache, [token])
    assert cache.evict(400) == 400
    # Once or twice a block is enough; a search for each of them asks 400 · 401 / 2 = 80,200 times.
    asked = cache.blocks.n_asked
    assert asked <= 4000, f"{asked:,} reference counts were read to free 400 blocks: keep the leaves in order instead"


@pytest.mark.exercise("RadixCache.evict")
@pytest.mark.parametrize("n", [-1, 1.5])
def test_evict_refuses_a_negative_number(impl, n):
    assert_is_refused(f"{n} blocks cannot be freed: raise a ValueError", new_cache(impl).evict, n)
    assert_refuses("n", new_cache(impl).evict, n)


# --- the tree as a whole -----------------------------------------------------------------------------------------

# The beginnings of four texts that part late, early and at once, so that much is found again.
ENDS = ([0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1], [0, 1, 1, 1, 1, 1, 1], [1, 0, 0, 0, 0, 0, 0])
TEXTS = st.builds(lambda text, length: text[:length], st.sampled_from(ENDS), st.integers(1, 7))
STEPS = st.one_of(
    st.tuples(st.just("arrive"), TEXTS),
    st.tuples(st.just("arrive"), TEXTS),
    st.tuples(st.just("arrive unmatched"), TEXTS),
    st.tuples(st.just("finish"), st.integers(0, 5)),
    st.tuples(st.just("evict"), st.integers(0, 4)),
)


class SideBySide:
    """A cache and the naive one, through the same requests; after each step all that can be seen must agree."""

    def __init__(self, impl, n_blocks, block_size, host_capacity):
        self.cache = new_cache(impl, n_blocks, block_size, host_capacity)
        self.blocks, self.size = self.cache.blocks, block_size
        self.naive = NaiveCache(block_size, host_capacity)
        self.running = []

    @property
    def held(self):
        return Counter(block for blocks in self.running for block in blocks)

    def arrive(self, text):
        found = self.match(text)
        self.running.append(found)  # pinned from here on
        need = -(-len(text) // self.size) - len(found) - self.blocks.n_free
        if need > 0 and self.evict(need) < need:
            self.finish(-1)  # no room: the request gives back what it has
            return
        self.running[-1] = self.blocks.complete(text, self.size, found)
        self.insert(text, self.running[-1])

    def arrive_unmatched(self, text):
        if -(-len(text) // self.size) <= self.blocks.n_free:
            self.running.append(self.blocks.run(text, self.size))
            self.insert(text, self.running[-1])

    def match(self, text):
        limit = max(0, len(text) - 1)
        prefixes = self.naive.match(text, limit, self.blocks.n_free, self.held)
        known = [self.naive.entries[p].block for p in prefixes]
        found = self.cache.match(text, limit)
        assert len(found) == len(prefixes), f"match found {len(found)} blocks of {text}; there are {len(prefixes)}"
        for tokens, before, block in zip(prefixes, known, found, strict=True):
            assert before in (COMING, block), f"{tokens} was in block {before}; match said {block}"
            assert self.blocks.contents[block] == tokens, f"block {block} does not hold {tokens}"
        self.naive.use(prefixes, found)
        return found

    def insert(self, text, blocks):
        prefixes = self.naive.prefixes(text)
        kept = self.cache.insert(text, blocks)
        self.naive.use(prefixes, blocks[: len(prefixes)])
        expected = [self.naive.entries[p].block for p in prefixes]
        assert kept == expected, f"insert of {text} returned {kept}; the tree's blocks are {expected}"

    def evict(self, n):
        expected = self.naive.evict(n, self.held)
        n_freed = self.cache.evict(n)
        assert n_freed == expected, f"evict({n}) freed {n_freed} blocks; {expected} were to be freed"
        return n_freed

    def finish(self, index):
        if self.running:
            self.blocks.free_all(self.running.pop(index % len(self.running)))

    def step(self, name, argument):
        getattr(self, name.replace(" ", "_"))(argument)
        self.compare()

    def compare(self):
        counts = self.held + Counter(self.naive.blocks())
        expected = [counts[block] for block in range(len(self.blocks.counts))]
        assert self.blocks.counts == expected, f"references are {self.blocks.counts}; held are {expected}"
        for text in ENDS:
            assert self.cache.peek(text) == self.naive.peek(text), f"another part of {text} is cached than should be"
        n_host = len(self.naive.entries) - len(self.naive.blocks())
        assert (self.cache.n_blocks, self.cache.n_host_blocks) == (len(self.naive.blocks()), n_host)
        assert self.cache.n_evictable == self.naive.n_evictable(self.held)
        assert self.cache.host is None or len(self.cache.host.copies) == n_host, "a copy on the host leaked"

    def end(self):
        while self.running:
            self.finish(0)
        self.compare()
        self.evict(len(self.blocks.counts))
        assert self.blocks.n_free == len(self.blocks.counts), "a block leaked: nobody uses it and it is not free"


@pytest.mark.parametrize(
    "method",
    [pytest.param(m, marks=pytest.mark.exercise(f"RadixCache.{m}")) for m in ("match", "insert", "evict")],
)
@settings(law, max_examples=25)  # up to 40 steps each, with a look at everything after each one
@given(
    steps=st.lists(STEPS, min_size=20, max_size=40),
    n_blocks=st.integers(3, 12),
    block_size=st.integers(1, 2),
    host_capacity=st.sampled_from([None, 0, 1, 3, 20]),
)
def test_any_order_of_requests_agrees_with_a_naive_cache_and_leaks_nothing(
    impl, method, steps, n_blocks, block_size, host_capacity
):
    both = SideBySide(impl, n_blocks, block_size, host_capacity)
    for name, argument in steps:
        both.step(name, argument)
    both.end()


def test_evict_one_block_at_a_time_stays_cheap_among_ten_thousand():
    cache = new_cache(prefix, n_blocks=10_000, block_size=1)
    cache.blocks.counts = [1] * 10_000
    cache.insert(range(10_000), range(10_000))
    cache.blocks.free_all(range(10_000))  # one chain, as deep as it is long, that only the tree holds
    assert sum(cache.evict(1) for _ in range(10_000)) == 10_000
    assert cache.blocks.n_asked == 10_000
    assert cache.blocks.n_free == 10_000


def test_peek_shares_nothing_and_counts_nothing_as_used():
    cache = new_cache(prefix)
    old = remember(cache, [1, 2])
    remember(cache, [3, 4])
    assert (cache.peek([1, 2, 3]), cache.peek([1]), cache.peek([])) == (2, 0, 0)
    assert cache.blocks.counts[old[0]] == 1
    assert cache.statistics.n_lookups == 0
    cache.evict(1)
    assert cache.peek([1, 2]) == 0, "to look is not to use: 1 2 is still the one used longest ago"


def test_n_evictable_leaves_out_what_a_pinned_block_stands_on():
    cache = new_cache(prefix)
    remember(cache, [1, 2])
    cache.insert([1, 2, 3, 4], cache.blocks.run([1, 2, 3, 4], 2))  # the request goes on, so 3 4 is held
    remember(cache, [1, 2, 5, 6])
    assert (cache.n_blocks, cache.n_evictable) == (3, 1)
    assert cache.evict(3) == 1


def cache_on_a_shelf(n_blocks=20, capacity=20):
    blocks = FakeBlocks(n_blocks)
    blocks.contents = dict.fromkeys(range(n_blocks))
    return prefix.RadixCache(blocks, 2, Shelf(blocks.contents, capacity))


@pytest.mark.parametrize("error", [RuntimeError, MemoryError, OSError])
def test_what_cannot_be_copied_back_is_not_found_and_stays_on_the_host(error):
    cache = cache_on_a_shelf()
    remember(cache, [1, 2, 3, 4, 5, 6])
    cache.evict(3)
    cache.host.n_good, cache.host.error = 1, error
    found = cache.match([1, 2, 3, 4, 5, 6])
    assert [cache.blocks.contents[block] for block in found] == [(1, 2)], "3 4 was not copied whole"
    assert sum(cache.blocks.counts) == 2, "the block that 3 4 was to come back to was not given back"
    assert (cache.n_blocks, cache.n_host_blocks, len(cache.host.copies)) == (1, 2, 2)
    assert (cache.statistics.n_loaded, cache.statistics.n_failed_copies, cache.statistics.n_hit_tokens) == (1, 1, 2)
    cache.host.n_good = None
    found = cache.match([1, 2, 3, 4, 5, 6])
    assert [cache.blocks.contents[block] for block in found] == [(1, 2), (1, 2, 3, 4), (1, 2, 3, 4, 5, 6)]


def test_what_cannot_be_copied_to_the_host_is_evicted_all_the_same():
    cache = cache_on_a_shelf()
    remember(cache, [1, 2, 3, 4, 5, 6])
    cache.evict(1)
    cache.host.n_good = 0
    assert cache.evict(1) == 1
    # Behind 3 4, which is nowhere now, 5 6 could not be found any more.
    assert (cache.peek([1, 2, 3, 4, 5, 6]), cache.n_blocks, cache.n_host_blocks) == (2, 1, 0)
    assert not cache.host.copies, "a copy was left behind that nothing leads to"
    assert (cache.statistics.n_evicted_blocks, cache.statistics.n_offloaded, cache.blocks.n_free) == (2, 1, 19)
    cache.host.n_good = None
    remember(cache, [1, 2, 3, 4, 5, 6])
    assert cache.evict(3) == 3 and cache.peek([1, 2, 3, 4, 5, 6]) == 6


def test_a_mistake_in_a_host_store_is_passed_on_and_changes_nothing():
    cache = cache_on_a_shelf()
    remember(cache, [1, 2])
    cache.host.n_good, cache.host.error = 0, KeyError
    with pytest.raises(KeyError):
        cache.evict(1)
    assert (cache.n_blocks, cache.n_host_blocks, cache.blocks.n_free) == (1, 0, 19)
    cache.host.n_good = 1
    assert cache.evict(1) == 1, "after an error a block can never be evicted again"
    with pytest.raises(KeyError):
        cache.match([1, 2])
    assert (cache.n_blocks, cache.n_host_blocks, cache.blocks.n_free) == (0, 1, 20)


def test_clear_gives_back_the_trees_references_only():
    cache = new_cache(prefix, host_capacity=2)
    remember(cache, [1, 2])
    cache.evict(1)
    pinned = remember(cache, [3, 4])
    assert cache.match([3, 4]) == pinned
    cache.clear()
    assert (cache.n_blocks, cache.n_host_blocks, cache.peek([3, 4]), len(cache.host.copies)) == (0, 0, 0, 0)
    assert cache.blocks.counts[pinned[0]] == 1, "the caller of match still reads it"
    assert cache.statistics.n_lookups == 1
    cache.blocks.free_all(pinned)
    again = remember(cache, [1, 2])
    assert cache.match([1, 2]) == again


def test_a_radix_cache_refuses_blocks_of_no_size():
    assert_refuses("block_size", prefix.RadixCache, FakeBlocks(1), 0)


# --- route_by_prefix ---------------------------------------------------------------------------------------------


@dataclass
class Machine:
    """A replica with one cached prefix."""

    cached: list[int]
    load: float = 0

    def cached_tokens(self, prompt):
        n = min(len(self.cached), len(prompt))
        return len(self.cached) if self.cached == list(prompt[:n]) else 0


PROMPT = [1, 2, 3, 4, 5, 6]


@pytest.mark.exercise("route_by_prefix")
def test_route_by_prefix_goes_where_most_of_the_prompt_is_cached(impl):
    replicas = [Machine([]), Machine([1, 2], 3), Machine([1, 2, 3, 4], 5), Machine([9, 9, 9, 9, 9], 0)]
    got = impl.route_by_prefix(PROMPT, replicas)
    assert not isinstance(got, Machine), "a replica was returned: its index is asked for"
    assert got not in (0, 3), "the least load alone decided: the prompt is run anew where its prefix is not cached"
    assert got == 2, f"replica 2 has four tokens of the prompt, replica 1 two; got {got}"


@pytest.mark.exercise("route_by_prefix")
def test_route_by_prefix_takes_the_least_load_of_equals_then_the_first(impl):
    replicas = [Machine([], 0), Machine([1, 2], 4), Machine([1, 2], 3), Machine([1, 2], 3)]
    got = impl.route_by_prefix(PROMPT, replicas)
    assert got != 1, "of replicas with equally much cached the least loaded is taken"
    assert got != 3, "replicas 2 and 3 are equal in everything: the first of them, not the last"
    assert got == 2, f"replicas 2 and 3 are equal in everything, so the first; got {got}"
    assert impl.route_by_prefix(PROMPT, [Machine([], 2), Machine([], 1)]) == 1, "nothing cached anywhere: least load"
    assert impl.route_by_prefix(PROMPT, [Machine([], 1), Machine([], 1)]) == 0


@pytest.mark.exercise("route_by_prefix")
def test_route_by_prefix_passes_over_a_replica_with_too_much_extra_load(impl):
    replicas = [Machine([1, 2], 5), Machine([1], 3), Machine([1, 2, 3, 4], 8)]
    got = impl.route_by_prefix(PROMPT, replicas, max_extra_load=4)
    assert got != 2, "replica 2 has 5 more to do than the least loaded, and only 4 more are allowed"
    assert got != 1, "replica 0 has 2 more to do than the least loaded, and 4 more are allowed; it has most cached"
    assert got == 0, f"of those that are not too busy, replica 0 has most cached; got {got}"
    assert impl.route_by_prefix(PROMPT, replicas, max_extra_load=5) == 2, "exactly as much as allowed is allowed"


@pytest.mark.exercise("route_by_prefix")
def test_route_by_prefix_measures_extra_load_from_the_least_loaded_of_all(impl):
    # Nothing of the prompt is cached where the load is least.
    replicas = [Machine([1, 2], 7), Machine([], 3), Machine([1, 2, 3, 4], 8)]
    got = impl.route_by_prefix(PROMPT, replicas, max_extra_load=4)
    assert got != 2, "the smallest load of all is 3, that of a replica with nothing cached included: 8 is 5 above it"
    assert got == 0, f"loads 7, 3 and 8, and 4 above the smallest is allowed: replica 0; got {got}"


@pytest.mark.exercise("route_by_prefix")
def test_route_by_prefix_returns_the_index_among_all_replicas(impl):
    # Two that are left out stand before the one to be taken.
    replicas = [Machine([1, 2], 9), Machine([1, 2], 9), Machine([], 1), Machine([1, 2, 3], 2)]
    got = impl.route_by_prefix(PROMPT, replicas, max_extra_load=4)
    assert got != 1, "an index among those that are not too busy was returned: count all replicas"
    assert got == 3, f"replica 3 has most cached of those that are not too busy; got {got}"
    got = impl.route_by_prefix(PROMPT, replicas, max_extra_load=0)
    assert got == 2, f"0 more are allowed, so only the least loaded, replica 2, is not too busy; got {got}"


@pytest.mark.exercise("route_by_prefix")
def test_route_by_prefix_spreads_a_prefix_that_everybody_uses(impl):
    def loads_after_seven(**guard):
        replicas = [Machine([]), Machine([]), Machine([])]
        for _ in range(7):
            chosen = replicas[impl.route_by_prefix(PROMPT, replicas, **guard)]
            chosen.cached, chosen.load = PROMPT[:4], chosen.load + 1
        return [replica.load for replica in replicas]

    assert loads_after_seven() == [7, 0, 0]
    # At 0, 1 and 2 more than the least replica 0 is still taken, at 3 it is passed over; replica 1 runs the prefix once
    # and is taken until it has 3 too; then replica 2 gets its first.
    assert loads_after_seven(max_extra_load=2) == [3, 3, 1], "the popular prefix overloads one machine"


@pytest.mark.exercise("route_by_prefix")
def test_route_by_prefix_refuses_no_replica_and_a_negative_guard(impl):
    assert_refuses("replicas", impl.route_by_prefix, PROMPT, [])
    assert_is_refused(
        "max_extra_load is -1, and no replica has less than the least load: raise a ValueError that says so",
        *(impl.route_by_prefix, PROMPT, [Machine([])], -1),
    )
    assert_refuses("max_extra_load", impl.route_by_prefix, PROMPT, [Machine([])], -1)
