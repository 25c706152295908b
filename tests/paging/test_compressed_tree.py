"""Grades `paging/compressed_tree.py`: by small trees drawn by hand, and beside a cache that searches all it has."""

import random
from collections import Counter

import pytest
from prefix_by_hand import FakeBlocks, NaiveCache
from refusal import assert_is_refused, assert_refuses

from course.grading.seeds import fresh

PATH = pytest.mark.exercise("CompressedRadixCache.path")
SPLIT = pytest.mark.exercise("CompressedRadixCache.split")
INSERT = pytest.mark.exercise("CompressedRadixCache.insert")
EVICT = pytest.mark.exercise("CompressedRadixCache.evict")
ALL = pytest.mark.exercise("CompressedRadixCache.path", "CompressedRadixCache.split", "CompressedRadixCache.insert")


def new_cache(impl, n_blocks=30, block_size=1):
    return impl.CompressedRadixCache(FakeBlocks(n_blocks), block_size)


def remember(cache, tokens):
    """Run a text, insert it and let it go, so that only the tree holds its whole blocks; return those."""
    blocks = cache.blocks.run(tokens, cache.block_size)
    kept = cache.insert(tokens, blocks)
    cache.blocks.free_all(blocks)
    return kept


def drawn(cache, run=None):
    """The tree as text: "12(3 45)" is a run 1 2 with the runs 3 and 4 5 behind it. It looks into every link."""
    run = cache.root if run is None else run
    texts = []
    for key, child in run.children.items():
        assert child.keys, "a run without a block stands in the tree: take it out"
        assert len(child.keys) == len(child.blocks), f"{len(child.keys)} keys and {len(child.blocks)} blocks in one run"
        assert child.keys[0] == key, f"a run that begins with {child.keys[0]} is entered under {key}"
        assert child.parent is run, f"the run of {child.keys} stands behind one run and calls another its parent"
        below = drawn(cache, child)
        texts.append("".join(str(token) for key in child.keys for token in key) + (f"({below})" if below else ""))
    return " ".join(sorted(texts))


def by_hand(impl, *texts):
    """A tree made without `insert`, of "12", "12 34" … as chains of runs; its leaves wait to be evicted."""
    cache = new_cache(impl)
    for text in texts:
        node = cache.root
        for part in text.split():
            keys = [(int(token),) for token in part]
            if keys[0] not in node.children:
                run = impl.Run(keys, [cache.blocks.allocate() for _ in keys], node, next(cache._clock))
                node.children[keys[0]] = run
                cache.n_blocks += len(keys)
            node = node.children[keys[0]]
        cache.leaves.add(node)
    return cache


# --- split -------------------------------------------------------------------------------------------------------


@SPLIT
def test_split_cuts_a_run_and_hangs_the_rest_behind_the_front(impl):
    cache = by_hand(impl, "1234 5", "1234 6")
    run = cache.root.children[(1,)]
    blocks, behind, used = list(run.blocks), dict(run.children), run.last_used
    front = cache.split(run, 1)
    assert front is not run, "the run was returned: the front, the new run that now stands in its place, is asked for"
    assert run.keys != [(1,)], (
        "the run has become the front: it has to stay the rest, for `leaves` knows the end of a text by this object"
    )
    assert front.keys != [(1,), (2,)], "one block too many in the front: cut behind the first n, here 1"
    assert cache.root.children[(1,)] is front, "the front stands in the run's place: enter it at the parent"
    assert (front.keys, front.blocks) == ([(1,)], blocks[:1]), f"the front has keys {front.keys}, blocks {front.blocks}"
    assert (run.keys, run.blocks) == ([(2,), (3,), (4,)], blocks[1:])
    assert run.parent is front, "the rest stands behind the front: say so in its parent"
    assert front.children == {(2,): run}, "the run is the front's only child, entered under its first key that is left"
    assert run.children == behind, "what stood behind the end of the run stands there still"
    assert front.last_used == used, "to cut is not to use"
    assert drawn(cache) == "1(234(5 6))"


@SPLIT
def test_split_in_the_middle_of_a_tree_keeps_what_is_above(impl):
    cache = by_hand(impl, "1 23")
    above = cache.root.children[(1,)]
    front = cache.split(above.children[(2,)], 1)
    assert front.parent is above
    assert drawn(cache) == "1(2(3))"


@SPLIT
def test_split_touches_no_reference_and_no_list_of_others(impl):
    cache = by_hand(impl, "1234")
    run = cache.root.children[(1,)]
    keys, blocks = run.keys, run.blocks
    front = cache.split(run, 2)
    assert sum(cache.blocks.counts) == 4, "a cut neither takes nor gives back a block"
    assert front.blocks is not blocks or front.keys is not keys, "front and rest need lists of their own"
    front.blocks.append(99)
    assert 99 not in run.blocks, "front and rest need lists of their own"


# --- path --------------------------------------------------------------------------------------------------------


@PATH
def test_path_goes_down_whole_runs(impl):
    cache = by_hand(impl, "12 345", "12 67")
    found = cache.path([1, 2, 3, 4, 5, 9], 50)
    first = [run.keys[0] for run in found]
    assert first != [(3,), (1,)], "the path is upside down: from the root's child downwards"
    assert [run.keys for run in found] == [[(1,), (2,)], [(3,), (4,), (5,)]]
    assert drawn(cache) == "12(345 67)", "nothing parts here, so nothing is cut"
    assert cache.path([7], 51) == [] and cache.path([], 52) == []


@PATH
@pytest.mark.parametrize("tokens", [[1, 2, 3, 9], [1, 2, 3]])
def test_path_cuts_the_run_that_a_text_leaves_in_the_middle(impl, tokens):
    cache = by_hand(impl, "12 345")
    found = cache.path(tokens, 50)
    said = [token for run in found for key in run.keys for token in key]
    assert said != [1, 2, 3, 4, 5], "4 5 was found too: a run that the text leaves in the middle has to be cut there"
    assert said != [1, 2], "the 3 is cached: cut the run behind it, and its front belongs to the path"
    assert said == [1, 2, 3]
    assert drawn(cache) == "12(3(45))"


@PATH
def test_path_counts_as_used_what_it_found_and_nothing_behind_the_cut(impl):
    cache = by_hand(impl, "12 345", "12 67")
    found = cache.path([1, 2, 3], 50)
    assert [run.last_used for run in found] == [50, 50], "every run on the path was used now"
    rest = found[-1].children[(4,)]
    assert rest.last_used < 50, "4 5 was not found, so it was not used: its turn to be evicted must not be put off"


@PATH
def test_path_takes_whole_blocks(impl):
    cache = new_cache(impl, block_size=2)
    run = impl.Run([(1, 2), (3, 4)], [cache.blocks.allocate(), cache.blocks.allocate()], cache.root, 1)
    cache.root.children[(1, 2)] = run
    assert [r.keys for r in cache.path([1, 2, 3], 5)] == [[(1, 2)]], "3 is half a block"
    assert cache.path([1, 9, 3, 4], 6) == [], "1 9 is another block than 1 2"


# --- insert ------------------------------------------------------------------------------------------------------


@INSERT
def test_insert_makes_one_run_of_all_that_is_new(impl):
    cache = new_cache(impl)
    blocks = cache.blocks.run([1, 2, 3, 4], 1)
    assert cache.insert([1, 2, 3, 4], blocks) == blocks, "returned are the tree's blocks for the whole text, in order"
    assert cache.n_runs != 4, "a run for each block is the tree of exercise 7.2: nothing parts here"
    assert drawn(cache) == "1234"
    counts = [cache.blocks.counts[block] for block in blocks]
    assert counts != [1, 1, 1, 1], "the tree took no reference: its blocks are gone as soon as the caller frees them"
    assert counts == [2, 2, 2, 2]
    assert cache.n_blocks == 4, "n_blocks counts what the tree holds"


@INSERT
def test_insert_counts_path_and_new_run_as_used_now(impl):
    cache = by_hand(impl, "12", "34")
    mine = cache.blocks.run([1, 2, 5], 1)
    cache.insert([1, 2, 5], mine)
    above = cache.root.children[(1,)]
    new, other = above.children[(5,)], cache.root.children[(3,)]
    assert new.last_used > other.last_used, "the new run was used now, and counts as older than what was there before"
    assert above.last_used == new.last_used, (
        f"1 2 was used at {above.last_used} and 5 behind it at {new.last_used}: one insert is one `next(self._clock)`"
    )
    assert next(cache._clock) == new.last_used + 1, "one insert is one `next(self._clock)`, and more were taken"


@INSERT
def test_insert_parts_texts_where_they_differ(impl):
    cache = new_cache(impl)
    remember(cache, [1, 2, 3, 4])
    remember(cache, [1, 2, 5])
    remember(cache, [1, 2, 3, 4, 6, 7])
    assert drawn(cache) == "12(34(67) 5)"
    assert (cache.n_blocks, cache.n_runs) == (7, 4)


@INSERT
def test_insert_keeps_the_blocks_that_the_tree_has(impl):
    cache = new_cache(impl)
    old = remember(cache, [1, 2])
    mine = cache.blocks.run([1, 2, 3], 1)
    kept = cache.insert([1, 2, 3], mine)
    assert kept != mine, "one prefix has one block, the tree's: the caller's duplicates stay the caller's"
    assert kept == [*old, mine[2]]
    assert [cache.blocks.counts[block] for block in mine] == [1, 1, 2], "a duplicate was shared: take what is new only"
    assert [cache.blocks.counts[block] for block in old] == [1, 1], "the tree holds its own block once, not again"
    assert cache.n_blocks == 3


@INSERT
def test_insert_of_what_is_known_makes_no_run(impl):
    cache = new_cache(impl)
    kept = remember(cache, [1, 2, 3])
    try:
        again = remember(cache, [1, 2, 3])
    except IndexError:
        pytest.fail("1 2 3 is known already and a run of nothing was made: where nothing is new there is no new run")
    assert again == kept
    assert cache.n_runs == 1, "1 2 3 is known already: where nothing is new there is no new run"
    assert remember(cache, [1, 2]) == kept[:2]
    assert drawn(cache) == "12(3)", "[1, 2] ends inside a run, which is cut there; behind it nothing is new"
    assert cache.n_blocks == 3


@INSERT
def test_insert_leaves_out_a_block_that_is_not_full(impl):
    cache = new_cache(impl, block_size=2)
    blocks = cache.blocks.run([1, 2, 3], 2)
    got = cache.insert([1, 2, 3], blocks)
    assert got == blocks[:1], "the second block is half full: its owner writes on into it"
    assert [cache.blocks.counts[block] for block in blocks] == [2, 1]
    assert cache.insert([1], cache.blocks.run([1], 2)) == []


@INSERT
def test_insert_refuses_fewer_blocks_than_the_tokens_fill(impl):
    cache = new_cache(impl)
    blocks = cache.blocks.run([1], 1)
    assert_is_refused(
        "two blocks of tokens and one block to hold them: a run with more keys than blocks; raise a ValueError",
        *(cache.insert, [1, 2], blocks),
    )
    assert_refuses("blocks", cache.insert, [1, 2], blocks)
    assert (cache.n_blocks, cache.n_runs) == (0, 0), "what is refused must not be half done"


@INSERT
def test_insert_puts_the_new_run_among_the_leaves(impl):
    cache = new_cache(impl)
    remember(cache, [1, 2])
    leaf = cache.leaves.pop()
    assert leaf is not None, "nothing can ever be evicted: add the new run to the leaves"
    assert leaf.keys == [(1,), (2,)]


# --- evict -------------------------------------------------------------------------------------------------------


@EVICT
def test_evict_takes_blocks_from_the_end_of_a_run_and_no_more_than_asked(impl):
    cache = by_hand(impl, "1234")
    cache.evict(1)
    assert cache.blocks.n_free <= 27, "one block was asked for: take no more of a run than that"
    assert drawn(cache) != "234", "a run goes from its end: without its beginning nobody finds the rest"
    assert drawn(cache) == "123"
    cache.evict(2)
    assert cache.blocks.n_free == 29, "what is left of a run that is a leaf can go in a later call: put it back"
    assert (drawn(cache), cache.n_blocks, cache.blocks.n_free) == ("1", 1, 29)


@EVICT
def test_evict_frees_the_least_recently_used_leaf_first(impl):
    cache = by_hand(impl, "12", "34", "56")
    cache.root.children[(1,)].last_used = 50
    cache.evict(2)
    assert drawn(cache) == "12 56", "3 4 was used longest ago"
    cache.evict(3)
    assert drawn(cache) == "1", "three blocks were asked for and one run was not enough: go on with the next"


@EVICT
def test_evict_takes_an_empty_run_out_and_goes_on_with_what_it_stood_on(impl):
    cache = by_hand(impl, "12 34", "12 5")
    cache.evict(3)
    assert drawn(cache) == "12", "an empty run has to leave its parent's children"
    cache.evict(2)
    assert drawn(cache) == "", "1 2 is a leaf once 3 4 and 5 are gone"
    assert cache.n_blocks == 0
    cache = by_hand(impl, "12 34")
    cache.evict(4)
    assert drawn(cache) == "", "1 2 is a leaf once 3 4 is gone, in this same call"


@EVICT
def test_evict_stops_at_a_pinned_block_and_takes_another_leaf(impl):
    cache = by_hand(impl, "1234", "56")
    pinned = cache.root.children[(1,)].blocks[1]
    cache.blocks.share(pinned)
    cache.evict(10)
    left = drawn(cache)
    assert left in ("12", "1234", "12 56", "1234 56"), "2 is pinned, and it was evicted, or 1, on which it stands"
    assert left not in ("1234", "1234 56"), "3 4 stands behind the pinned 2 and can go: take a run from its end"
    assert left == "12", "1 2 3 4 can go no further than the pinned 2: put it aside and take 5 6"
    cache.blocks.free(pinned)
    cache.evict(10)
    assert drawn(cache) == "", "2 was released, so both can go: pinned once is not pinned for ever"


@EVICT
def test_evict_keeps_count_and_refuses_less_than_nothing(impl):
    cache = by_hand(impl, "12")
    assert cache.evict(0) == 0
    assert cache.evict(5) == 2, "two blocks were there to free, not five"
    assert cache.n_blocks == 0
    for n in (-1, 1.5):
        assert_is_refused(f"{n} blocks cannot be freed: raise a ValueError", cache.evict, n)
        assert_refuses("n", cache.evict, n)


# --- all of them -------------------------------------------------------------------------------------------------


@ALL
def test_insert_and_match_find_what_the_tree_of_blocks_finds(impl):
    # Twenty conversations over one system prompt of 100 blocks: one run for it, one for each that goes on.
    cache = new_cache(impl, n_blocks=400, block_size=2)
    system = list(range(200))
    for i in range(20):
        remember(cache, system + [1000 + i] * 8)
    assert cache.n_blocks == 100 + 20 * 4
    assert cache.n_runs == 1 + 20, "a node is a run: one for the system prompt and one for each conversation"
    assert len(cache.match(system + [1003] * 8, limit=207)) == 103


@pytest.mark.exercise(*(f"CompressedRadixCache.{name}" for name in ("path", "split", "insert", "evict")))
@pytest.mark.parametrize("seed", range(8))
def test_insert_match_and_evict_do_what_a_cache_that_searches_everything_does(impl, seed):
    # Texts of two letters part late, early and at once. Some are held for a while, so that their blocks are pinned.
    chance, size = random.Random(fresh(seed)), 1 + seed % 2
    cache, naive = new_cache(impl, n_blocks=40, block_size=size), NaiveCache(size, None)
    held: list[list[int]] = []

    def pins():
        return Counter(block for blocks in held for block in blocks)

    for event in range(250):
        text = [chance.randint(1, 2) for _ in range(chance.randint(1, 9))]
        where = f"event {event}, text {text}"
        limit = chance.randint(0, len(text))
        prefixes = naive.match(text, limit, cache.blocks.n_free, pins())
        found = cache.match(text, limit)
        assert found == [naive.entries[p].block for p in prefixes], f"{where}: match with limit {limit}"
        naive.use(prefixes, found)
        held.append(found)
        missing = -(-len(text) // size) - cache.blocks.n_free
        n = max(missing, chance.randint(0, 3))
        assert cache.evict(n) == naive.evict(n, pins()), f"{where}: evict({n})"
        if cache.blocks.n_free >= -(-len(text) // size):
            blocks = cache.blocks.run(text, size)
            kept = cache.insert(text, blocks)
            naive.use(naive.prefixes(text), blocks[: len(text) // size])
            assert kept == [naive.entries[p].block for p in naive.prefixes(text)], f"{where}: insert"
            held.append(blocks)
        while len(held) > chance.randint(0, 6):
            cache.blocks.free_all(held.pop(chance.randrange(len(held))))
        holders = pins() + Counter(naive.blocks())
        assert [holders[b] for b in range(40)] == cache.blocks.counts, f"{where}: who holds which block"
        assert cache.n_blocks == len(naive.blocks())
        drawn(cache)
    assert cache.evict(1000) >= 0 and naive.evict(1000, pins()) >= 0
