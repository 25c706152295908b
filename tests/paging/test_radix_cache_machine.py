"""The counted prefix cache beside the plain one through any order of events, and what `fit` promises, kept or not.

Both have an allocator of their own that gives the same numbers, so after each event everything can be compared: which
blocks were found, who holds what, what could be evicted. Texts part late, early and at once, so much is shared.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from shelf import Shelf

from nanolm.paging import BlockAllocator, CountedRadixCache, RadixCache, WatchedAllocator, blocks_for

ENDS = ("aaaaaaaaaa", "aaaaabbbbb", "aaabbbbbbb", "abbbbbbbbb", "bbbbbbbbbb")
TEXTS = st.builds(lambda text, length: text[:length], st.sampled_from(ENDS), st.integers(1, 10))
EXERCISES = ("match", "insert", "evict")
# The engine's own, whatever a test puts in their place meanwhile.
Plain = type("Plain", (RadixCache,), {name: vars(RadixCache)[name] for name in EXERCISES})


@dataclass
class Side:
    """One of the two caches, with all that belongs to it."""

    cache: RadixCache
    contents: dict

    @classmethod
    def of(cls, kind, allocator, size, capacity):
        contents = {}
        return cls(kind(allocator, size, None if capacity is None else Shelf(contents, capacity)), contents)

    def run(self, text, found):
        """Blocks for all of a text of which the first are there; evicts for them as a scheduler does. None: no room."""
        size, blocks = self.cache.block_size, list(found)
        missing = blocks_for(len(text), size) - len(found) - self.cache.blocks.n_free
        if missing > 0 and self.cache.evict(missing) < missing:
            return None
        for end in range((len(found) + 1) * size, len(text) + size, size):
            blocks.append(self.cache.blocks.allocate())
            self.contents[blocks[-1]] = text[:end]
        return blocks


@dataclass
class Holding:
    """A request: its text, its blocks in both pools, and how many of them it knows to be the tree's."""

    text: str
    blocks: list = field(default_factory=list)
    n_known: int = 0


class Twins(RuleBasedStateMachine):
    @initialize(
        n_blocks=st.sampled_from([12, 20, 8, 5, 3, 1]),
        size=st.sampled_from([2, 1]),
        capacity=st.sampled_from([3, None, 20, 1, 0]),
    )
    def begin(self, n_blocks, size, capacity):
        self.size = size
        self.plain = Side.of(Plain, BlockAllocator(n_blocks), size, capacity)
        self.counted = Side.of(CountedRadixCache, WatchedAllocator(n_blocks), size, capacity)
        self.sides = (self.plain, self.counted)
        self.running, self.loose = [], []

    def both(self, what):
        """Do something to both; what comes out must be the same."""
        plain, counted = what(self.plain), what(self.counted)
        assert plain == counted, f"the plain cache says {plain}, the counted one {counted}"
        return plain

    def free(self, block):
        self.both(lambda side: side.cache.blocks.free(block))

    # --- events ---

    @rule(texts=st.lists(TEXTS, min_size=1, max_size=4), resumed=st.booleans())
    def texts_come_and_go(self, texts, resumed):
        for text in texts:
            if self.look_up_and_run(text, len(text) - 1, resumed):
                self.end(self.running.pop(), "leaf first")

    @rule(text=TEXTS, limit=st.none() | st.integers(0, 10), resumed=st.booleans())
    def a_text_comes_and_stays(self, text, limit, resumed):
        if not self.look_up_and_run(text, len(text) - 1 if limit is None else limit, resumed) and self.running:
            self.end(self.running.pop(0), "root first")  # or else nobody could come any more

    def look_up_and_run(self, text, limit, resumed):
        fit = self.both(lambda side: side.cache.fit(text, limit))
        room = self.both(lambda side: side.cache.blocks_available(fit))

        def look_up(side):
            if not resumed:
                return side.cache.match(text, limit)
            with side.cache.counting_resumed():
                return side.cache.match(text, limit)

        found = self.both(look_up)
        assert fit.n_device <= len(found) <= fit.n_device + fit.n_host
        for at, block in enumerate(found, start=1):
            assert self.counted.contents[block] == text[: at * self.size], "a block of another text was found"
        blocks = self.both(lambda side: side.run(text, found))
        fits = blocks_for(len(text), self.size) - fit.n_device <= room
        assert fits == (blocks is not None), f"{fit} and {room} blocks: said {fits}, turned out {blocks is not None}"
        if blocks is None:
            self.loose += found
        else:
            self.running.append(Holding(text, blocks, len(found)))
            self.remember(self.running[-1])
        self.compare()
        return fits

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 9), more=st.text("ab", min_size=1, max_size=4))
    def a_request_writes_on(self, which, more):
        request = self.running[which % len(self.running)]
        text = request.text + more
        whole = len(request.text) // self.size
        # The last block is written on in place, so nobody else may read it; one that is not full is its own alone.
        blocks = self.both(lambda side: side.run(text, request.blocks[: blocks_for(len(request.text), self.size)]))
        if blocks is not None:
            request.text, request.blocks = text, blocks
            for at in range(whole, len(blocks)):
                for side in self.sides:
                    side.contents[blocks[at]] = text[: (at + 1) * self.size]
            self.remember(request)

    def remember(self, request):
        n_whole = len(request.text) // self.size
        text, blocks, n_known = request.text, request.blocks, request.n_known
        inserted = self.plain.cache.insert(text, blocks)[n_known:]
        kept = self.counted.cache.remember(text, blocks, n_known, n_whole)
        assert kept == inserted, f"insert gives {inserted}; remember behind {n_known} blocks gave {kept}"
        for at, block in enumerate(kept, start=n_known):
            if block != blocks[at]:
                self.both(lambda side, block=block: side.cache.blocks.share(block))
                self.free(blocks[at])
                blocks[at] = block
        request.n_known = n_whole

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 9))
    def a_text_is_inserted_by_whoever_holds_it(self, which):
        request = self.running[which % len(self.running)]
        self.both(lambda side: side.cache.insert(request.text, request.blocks))

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 9), order=st.sampled_from(["leaf first", "root first", "later, in any order"]))
    def a_request_ends(self, which, order):
        self.end(self.running.pop(which % len(self.running)), order)

    def end(self, request, order):
        if order == "later, in any order":
            self.loose += request.blocks
            return
        for block in request.blocks[::-1] if order == "leaf first" else request.blocks:
            self.free(block)
            self.compare()

    @precondition(lambda self: self.loose)
    @rule(which=st.lists(st.integers(0, 99), min_size=1, max_size=9))
    def single_blocks_are_released(self, which):
        for index in which[: len(self.loose)]:
            self.free(self.loose.pop(index % len(self.loose)))
            self.compare()

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 9))
    def a_request_is_forked(self, which):
        twin = self.running[which % len(self.running)].blocks
        for block in twin:
            self.both(lambda side, block=block: side.cache.blocks.share(block))
        self.loose += twin

    @rule(n=st.integers(0, 4))
    def blocks_are_evicted(self, n):
        can = self.plain.cache.n_evictable
        n_freed = self.both(lambda side: side.cache.evict(n))
        assert n_freed == min(n, can), "n_evictable promises what evict does not keep"

    @rule()
    def everything_is_forgotten(self):
        self.both(lambda side: side.cache.clear())

    @rule(n_good=st.none() | st.integers(0, 2))
    def the_device_fails_from_some_copy_on(self, n_good):
        for side in self.sides:
            if side.cache.host is not None:
                side.cache.host.n_good = n_good

    # --- what is always true ---

    @invariant()
    def compare(self):
        plain, counted = self.plain.cache, self.counted.cache
        assert counted.n_evictable == plain.n_evictable, "the counter says something else than the walk"
        for name in ("n_blocks", "n_host_blocks", "statistics", "resumed_statistics"):
            assert getattr(counted, name) == getattr(plain, name), name
        self.both(lambda side: [side.cache.blocks.references(block) for block in range(plain.blocks.n_blocks)])
        self.both(lambda side: (side.cache.blocks.n_free, side.contents))
        self.both(lambda side: side.cache.host and (side.cache.host.copies, side.cache.host.n_saved))
        for text in ENDS:
            self.both(lambda side, text=text: (side.cache.peek(text), side.cache.fit(text)))

    @invariant()
    def the_books_add_up(self):
        held = [*self.loose, *(block for request in self.running for block in request.blocks)]
        tree, copies, nodes = [], [], [self.counted.cache.root]
        while nodes:
            node = nodes.pop()
            nodes += node.children.values()
            assert node.block is None or node.handle is None, "on the device and on the host"
            assert node.block is None or node.parent.block is not None or node.parent is self.counted.cache.root
            tree += [node.block] if node.block is not None else []
            copies += [node.handle] if node.handle is not None else []
        allocator, host = self.counted.cache.blocks, self.counted.cache.host
        for block in range(allocator.n_blocks):
            assert allocator.references(block) == [*held, *tree].count(block), "holders are miscounted"
        assert len(set(tree)) == len(tree) == self.counted.cache.n_blocks
        assert sorted(copies) == (sorted(host.copies) if host else []), "a copy on the host leaked"

    def teardown(self):
        if hasattr(self, "sides"):
            for block in [*self.loose, *(block for request in self.running for block in request.blocks)]:
                self.free(block)
            self.compare()
            for _ in range(self.plain.cache.n_blocks):  # in the same order
                assert self.both(lambda side: side.cache.evict(1)) == 1, "what nobody holds can all go"
                self.compare()
            self.both(lambda side: side.cache.clear())
            assert self.counted.cache.blocks.n_used == 0


# --- other ways to write the exercises, all of them right --------------------------------------------------------


def match_into_a_list_of_nodes(self, tokens, limit=None):
    usable = len(tokens) if limit is None else min(limit, len(tokens))
    now, path, size = next(self._clock), [self.root], self.block_size
    for start in range(0, usable - size + 1, size):
        child = path[-1].children.get(tuple(tokens[start : start + size]))
        if child is None or not self._bring_back(child):
            break
        child.last_used = now
        self.blocks.share(child.block)
        path.append(child)
    self.statistics.n_lookups += 1
    self.statistics.n_looked_up_tokens += len(tokens)
    self.statistics.n_hit_tokens += size * (len(path) - 1)
    return [node.block for node in path[1:]]


def insert_that_places_before_it_shares(self, tokens, blocks):
    from nanolm.paging import Node

    size, now, here, kept = self.block_size, next(self._clock), self.root, []
    for i in range(len(tokens) // size):
        key = tuple(tokens[i * size : (i + 1) * size])
        if key not in here.children:
            here.children[key] = Node(key, here)
        here = here.children[key]
        here.last_used = now
        if here.block is None:
            self._place(here, blocks[i])
            self.blocks.share(blocks[i])
        kept.append(here.block)
    return kept


def evict_that_searches(self, n):
    for n_freed in range(n):
        leaves = [x for x in self._on_device if x.is_device_leaf and self.blocks.references(x.block) == 1]
        if not leaves:
            return n_freed
        self._move_out(min(leaves, key=lambda x: x.last_used))
    return n


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {"match": match_into_a_list_of_nodes, "insert": insert_that_places_before_it_shares},
        {"evict": evict_that_searches},
    ],
    ids=["the engine's own", "another match and insert", "another evict"],
)
def test_the_counted_cache_is_the_plain_one_whoever_wrote_the_exercises(answers, monkeypatch):
    for name, answer in answers.items():
        monkeypatch.setattr(RadixCache, name, answer)
    n_examples = 60 if answers else 200
    run_state_machine_as_test(Twins, settings=settings(max_examples=n_examples, stateful_step_count=50))
