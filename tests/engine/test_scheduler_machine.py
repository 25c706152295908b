"""The books of serving under any order of events: requests come, draft, fork, are preempted, aborted, end.

The machine has a model of its own, without clock or tensors: a slot of the cache holds the text up to its position, so
a read that finds anything but the reader's own text is a block that two share who should not, or a copy that was not
made. After every event the books have to add up, and at the end nothing may be held.
"""

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

from nanolm.engine import Request, Scheduler
from nanolm.paging import BlockAllocator, RadixCache

COMMON = [7, 7, 3, 1, 7, 7, 3, 1, 5, 5, 5, 5, 2]  # beginnings that prompts share


class FakeHost:
    """A host store for the machine's slots."""

    def __init__(self, slots, size, n_blocks):
        self.slots, self.size, self.n_blocks, self.kept, self.last = slots, size, n_blocks, {}, 0

    def _of(self, block):
        return range(block * self.size, (block + 1) * self.size)

    def save(self, block):
        if len(self.kept) == self.n_blocks:
            return None
        self.last += 1
        self.kept[self.last] = [self.slots.get(s) for s in self._of(block)]
        return self.last

    def load(self, handle, block):
        self.slots.update(zip(self._of(block), self.kept[handle], strict=True))

    def drop(self, handle):
        del self.kept[handle]


class Serving(RuleBasedStateMachine):
    @initialize(
        n_blocks=st.sampled_from([9, 14, 6, 4, 2, 1]),
        size=st.sampled_from([4, 2, 1]),
        max_running=st.sampled_from([6, 3, 1]),
        budget=st.sampled_from([40, 8, 2]),
        cached=st.sampled_from(["prefixes", "prefixes, also on the host", "nothing"]),
    )
    def begin(self, n_blocks, size, max_running, budget, cached):
        self.allocator, self.size, self.slots = BlockAllocator(n_blocks), size, {}
        host = FakeHost(self.slots, size, 3) if "host" in cached else None
        self.prefix = None if cached == "nothing" else RadixCache(self.allocator, size, host)
        self.scheduler = Scheduler(self.allocator, size, max_running, budget, self.prefix)
        self.line = []  # who runs and who waits, in the order that has to be kept
        self.ends = {}  # how long each text may get
        self.room = n_blocks * size
        self.requests_come(common=[12, 3, 0], own=4, more=15)

    # --- events ---

    @rule(common=st.lists(st.integers(0, 12), min_size=1, max_size=3), own=st.integers(0, 9), more=st.integers(1, 40))
    def requests_come(self, common, own, more):
        for n_common in common:
            tokens = [*COMMON[:n_common], own, own][: self.room]
            request = Request(tokens)
            self.scheduler.add(request)
            self.line.append(request)
            # The last token is written and never run, so one more fits than there are places.
            self.ends[request] = min(len(tokens) + more, self.room + 1)

    @precondition(lambda self: self.line)
    @rule(next_tokens=st.lists(st.integers(0, 9), min_size=1, max_size=4))
    def passes_run(self, next_tokens):
        for token in next_tokens:
            self._serve(token)

    @precondition(lambda self: self.line)
    @rule(drafted=st.lists(st.integers(0, 9), max_size=5), next_token=st.integers(0, 9), n_right=st.integers(0, 3))
    def a_pass_verifies_drafts(self, drafted, next_token, n_right):
        for request in self.scheduler.running:
            if request.is_decoding:
                request.draft = drafted[: self.ends[request] - len(request.tokens) - 1]
        self._serve(next_token, n_right)

    def _serve(self, next_token, n_right=0):
        plan = self._run()
        for request, n in plan.work:
            n_drafted = request.n_drafted_in(n)
            if n_drafted < 0:
                self.scheduler.complete(request, request.n_computed + n)
                continue
            request.tokens += [*request.draft[: min(n_right, n_drafted)], next_token]
            del request.tokens[self.ends[request] :]
            self.scheduler.complete(request, len(request.tokens) - 1)
            assert not request.draft, "a draft is good for one pass"
            if len(request.tokens) == self.ends[request]:
                self._dismiss(request)

    @rule()
    def a_pass_fails_and_counts_for_nothing(self):
        for request, _ in self._run().work:
            self.scheduler.complete(request, request.n_computed)

    @precondition(lambda self: self.scheduler.running)
    @rule(data=st.data(), next_tokens=st.lists(st.integers(0, 9), max_size=2))
    def a_request_is_forked_and_both_go_on(self, data, next_tokens):
        request = data.draw(st.sampled_from(self.scheduler.running))
        if len(self.scheduler.running) < self.scheduler.max_running and request.n_computed:
            twin = Request(list(request.tokens))
            self.scheduler.fork(request, twin)
            self.line.insert(len(self.scheduler.running) - 1, twin)
            self.ends[twin] = self.ends[request]
        for token in next_tokens:
            self._serve(token)

    @precondition(lambda self: self.scheduler.running)
    @rule()
    def the_last_one_is_preempted(self):
        self.scheduler.preempt(self.scheduler.running[-1])

    @precondition(lambda self: len(self.line) > 3)
    @rule(data=st.data())
    def a_request_is_called_off(self, data):
        self._dismiss(data.draw(st.sampled_from(self.line)))

    @precondition(lambda self: self.prefix is not None)
    @rule(n=st.integers(0, 2))
    def the_prefix_cache_is_asked_for_room(self, n):
        can = self.prefix.n_evictable
        assert self.prefix.evict(n) == min(n, can), "n_evictable promises what evict does not keep"

    # --- the model ---

    def _run(self):
        before = self.line[:]
        plan = self.scheduler.schedule()
        assert plan.work or not before, "there are requests, and the pass serves none of them"
        assert sum(n for _, n in plan.work) <= self.scheduler.max_tokens_per_step, "more tokens than the budget"
        for source, target in plan.copies:
            for place in range(self.size):
                self.slots[target * self.size + place] = self.slots.get(source * self.size + place)
        for request, n in plan.work:
            assert n > 0, "a request without anything to run is in the plan"
            text, past = [*request.tokens, *request.draft], request.n_computed
            for p, slot in enumerate(request.table.slot_mapping(past, past + n), start=past):
                assert self.allocator.references(slot // self.size) == 1, "a block that others read is written to"
                self.slots[slot] = tuple(text[: p + 1])
        for request, n in plan.work:
            text, end = [*request.tokens, *request.draft], request.n_computed + n
            for p, slot in enumerate(request.table.slot_mapping(0, end)):
                assert self.slots[slot] == tuple(text[: p + 1]), f"position {p} holds what belongs to another text"
        return plan

    def _dismiss(self, request):
        self.scheduler.remove(request)
        self.line.remove(request)

    # --- what is always true ---

    @invariant()
    def the_books_add_up(self):
        held = [block for request in self.line for block in request.table.blocks]
        tree, nodes = [], [self.prefix.root] if self.prefix is not None else []
        while nodes:
            node = nodes.pop()
            nodes += node.children.values()
            if node.block is not None:
                tree.append(node.block)
        holders = held + tree
        for block in range(self.allocator.n_blocks):
            counted = self.allocator.references(block)
            assert counted == holders.count(block), f"block {block}: {holders.count(block)} hold it, counted {counted}"
        assert self.allocator.n_free + len(set(holders)) == self.allocator.n_blocks, "blocks were lost or given twice"
        assert len(set(tree)) == len(tree), "two nodes of the tree hold one block"

    @invariant()
    def tables_are_as_long_as_what_is_computed(self):
        for request in self.line:
            assert request.table.length == request.n_computed < len(request.tokens)
            n_blocks = -(-request.n_computed // self.size)
            assert len(request.table.blocks) == n_blocks, "a block more or less than the text needs"

    @invariant()
    def who_waits_holds_nothing(self):
        for request in self.scheduler.waiting:
            assert not (request.table.blocks or request.n_computed or request.draft)

    @invariant()
    def the_order_of_arrival_is_kept(self):
        assert [*self.scheduler.running, *self.scheduler.waiting] == self.line
        assert len(self.scheduler.running) <= self.scheduler.max_running

    def teardown(self):
        for request in getattr(self, "line", []):
            self.scheduler.remove(request)
        if getattr(self, "prefix", None) is not None:
            assert self.allocator.n_used == self.prefix.n_blocks, "blocks are held that nobody can find"
            self.prefix.clear()
        if hasattr(self, "allocator"):
            assert self.allocator.n_used == 0, "blocks are held after everybody has gone"


def test_the_books_add_up_after_any_order_of_events():
    # 200 runs of 50 events: 10,000.
    run_state_machine_as_test(Serving, settings=settings(max_examples=200, stateful_step_count=50))
