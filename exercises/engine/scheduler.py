"""Which requests run in the next pass, and with how many tokens: the decisions of a serving engine, without a tensor.

Every request is the same thing at every time: a list of tokens, of which the first n_computed are in the cache. A
prompt is many pending tokens and a decoding request has one, so prefill in chunks, decoding, and the recomputation
after a preemption are one rule: run pending tokens, as many as the budget allows.

Requests are admitted in the order of the queue, which `admission` may change a little. When blocks run out, the request
admitted last is preempted: its blocks are taken, its tokens kept, and once there is room they are computed again.

Sources: Yu 2022 ("Orca": scheduling pass by pass), Kwon 2023 (section 4.5: preemption by recomputation), Agrawal 2023
("Sarathi": prompts in chunks, beside decoding requests).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .._require import require_whole
from ..paging.blocks import BlockAllocator
from ..paging.radix_cache import RadixCache
from ..window.block_tables import GroupedTables
from ..window.layer_groups import LayerGroups
from .admission import Admission, let_a_short_one_pass, prompt_shares
from .request import Request

from course import NotYetWritten


class Work(NamedTuple):
    """A request's part of a pass: its next n_tokens pending tokens."""

    request: Request
    n_tokens: int


@dataclass
class Plan:
    """One pass: who runs what; the block copies (from, to) to make first; who was preempted; who was admitted."""

    work: list[Work] = field(default_factory=list)
    copies: list[tuple[int, int]] = field(default_factory=list)
    preempted: list[Request] = field(default_factory=list)
    admitted: list[Request] = field(default_factory=list)


class Scheduler(Admission):
    """Admits, runs, preempts and dismisses requests.

    Args:
        allocator: the blocks, all of which are the scheduler's to give.
        block_size: positions a block.
        max_running: most requests that hold blocks at one time.
        max_tokens_per_step: most tokens a pass. A long prompt is run in chunks, so that decoding requests wait less.
        prefix: remembers computed blocks, so that equal beginnings are computed once; None computes everything.
        reserve: blocks that newcomers leave free for the answers of those who run, as far as these may need them. 0
            admits whatever fits, and preempts more.
        max_overtakes: how many short requests may go before one (`admission`); 0 is first come, first served.
        groups: the layers' groups where some have windows; a request has a block table for each, and gives back what
            lies behind a window. There is no prefix cache then. None: one table for all layers.

    Attributes:
        waiting: requests without blocks, the next one first.
        running: requests with blocks, in order of admission.
    """

    def __init__(
        self,
        allocator: BlockAllocator,
        block_size: int,
        max_running: int = 32,
        max_tokens_per_step: int = 512,
        prefix: RadixCache | None = None,
        reserve: int = 0,
        max_overtakes: int = 0,
        groups: LayerGroups | None = None,
    ) -> None:
        require_whole(1, max_running=max_running, max_tokens_per_step=max_tokens_per_step)
        require_whole(0, reserve=reserve, max_overtakes=max_overtakes)
        self.allocator, self.block_size, self.prefix = allocator, block_size, prefix
        self.max_running, self.max_tokens_per_step = max_running, max_tokens_per_step
        self.reserve, self.max_overtakes, self.groups = reserve, max_overtakes, groups
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []

    @property
    def load(self) -> int:
        """Requests that wait or run: what `route_by_prefix` weighs where several engines serve side by side."""
        return len(self.waiting) + len(self.running)

    def cached_tokens(self, prompt: Sequence[int]) -> int:
        """Return how many tokens of the prompt's beginning the prefix cache has, on the device or the host."""
        return self.prefix.peek(prompt) if self.prefix else 0

    def add(self, request: Request) -> None:
        """Let a request wait for its turn.

        Raises:
            ValueError: prompt and answer would not fit even if it had all blocks.
        """
        # The last token is written and never run, so it needs no place in the cache.
        n_blocks = self.allocator.n_blocks
        if self.blocks_of(len(request.tokens) + request.n_left - 1) > n_blocks:
            raise ValueError(
                f"prompt has {len(request.tokens)} tokens and max_new_tokens is {request.max_new_tokens}; the whole "
                f"pool has room for {n_blocks * self.block_size} positions, {n_blocks} blocks of {self.block_size}"
            )
        request.table = self.new_table()
        self.waiting.append(request)

    def schedule(self) -> Plan:
        """Return the next pass. Its positions are reserved; `complete` has to follow once it has run.

        A pass has at most max_tokens_per_step tokens, its budget, and no request is in it with none. It is given out
        in this order:

        1. Decoding requests, in order of admission, each with all that it has pending: its newest token and what is
           drafted behind it. They never wait for another's prompt. `_make_room` finds the blocks, if need be by
           preempting others, and says how many of the tokens can run; whoever it has preempted runs nothing.
        2. A newcomer shorter than every prompt that runs: `_admit_a_short_one`, which says how many tokens that took.
        3. Running prompts, those admitted just now left out, each as many tokens as `prompt_shares` gives it (fair
           where max_overtakes is above 0), fewer where `_room` says so: for a prompt nobody is preempted.
        4. Newcomers: `admit`, and only if no request was preempted: there is room, or there is not.

        While there are requests, at least one runs: if nobody could, `_again` preempts the one admitted last and plans
        once more.
        """
        raise NotYetWritten(
            "exercise 6.6 Scheduler is not written yet: read "
            "notebooks/week06_batching_paging/week06_2_paging.ipynb, write it in exercises/engine/scheduler.py, "
            "then run: NANOLM_IMPL=exercises python -m pytest tests/engine/test_schedule.py "
            "tests/engine/test_scheduler.py --exercise Scheduler"
        )

    def admit(self, plan: Plan, budget: int) -> None:
        """Move requests from waiting to running while there is room, and add their first tokens to the plan.

        Strictly in order: if the first one waiting does not fit, nobody behind it is admitted. It fits if there is room
        for all its pending tokens, not only for those of this pass; `can_begin` says whether there is. A pass runs at
        most `budget` tokens of newcomers in all, and at most max_running requests run. The positions of what runs are
        reserved.

        Args:
            plan: is added to: work, and the requests admitted.
            budget: tokens that newcomers may run in this pass; 0 or less admits nobody.
        """
        raise NotYetWritten(
            "exercise 6.6 Scheduler is not written yet: read "
            "notebooks/week06_batching_paging/week06_2_paging.ipynb, write it in exercises/engine/scheduler.py, "
            "then run: NANOLM_IMPL=exercises python -m pytest tests/engine/test_schedule.py "
            "tests/engine/test_scheduler.py --exercise Scheduler"
        )

    def preempt(self, request: Request) -> None:
        """Take all blocks of a running request and let it wait, before everybody else who waits.

        Its tokens stay, those it has written too; its draft is dropped. Nothing of it counts as computed any more, so
        that, once admitted again, it runs all of them, less what the prefix cache still has. Its n_preemptions grows
        by one.
        """
        raise NotYetWritten(
            "exercise 6.6 Scheduler is not written yet: read "
            "notebooks/week06_batching_paging/week06_2_paging.ipynb, write it in exercises/engine/scheduler.py, "
            "then run: NANOLM_IMPL=exercises python -m pytest tests/engine/test_schedule.py "
            "tests/engine/test_scheduler.py --exercise Scheduler"
        )

    def complete(self, request: Request, n_computed: int) -> None:
        """Count the first n_computed tokens of a request as cached and give back what lies behind (a refused draft)."""
        request.draft = []
        request.n_computed, request.n_run = n_computed, max(request.n_run, n_computed)
        request.n_draft_computed = min(request.n_draft_computed, n_computed)
        request.table.truncate(n_computed)
        if isinstance(request.table, GroupedTables):
            request.table.drop_behind(n_computed)
        full, known = n_computed // self.block_size, request.n_remembered
        if self.prefix is not None and full > known:
            mine = request.table.blocks[known:full]
            kept = self.prefix.remember(request.tokens, request.table.blocks, known, full)
            request.table.replace(kept, known)  # where somebody else has computed the same, one copy is enough
            if kept != mine:  # of a draft's keys and values nothing is known there
                first = known + next(i for i, block in enumerate(kept) if block != mine[i])
                request.n_draft_computed = min(request.n_draft_computed, first * self.block_size)
            request.n_remembered = full

    def cancel(self, plan: Plan | None = None) -> None:
        """Take a pass back that has failed: nothing of it counts as computed, and it can be planned again.

        Without a plan the pass failed before there was one, and whoever has places for it begins anew: a copy that a
        place needs was never made.
        """
        for request in list(self.running)[::-1]:
            if request.table.length > request.n_computed:  # it has places in that pass
                self.preempt(request) if plan is None else self.complete(request, request.n_computed)
        for request in self.waiting:
            if request.table.blocks:  # it failed in the middle of an admission
                self._forget_blocks(request)

    def cancel_copies(self, plan: Plan) -> None:
        """Let those begin anew whose table has a block that should have become a copy and has not.

        Made later, the copy would go into a block that is somebody else's by then.
        """
        targets = {target for _, target in plan.copies}
        for request, _ in reversed(plan.work):
            if not targets.isdisjoint(request.table.blocks):
                self.preempt(request)

    def fork(self, request: Request, twin: Request) -> None:
        """Let twin run on from where request is, over the same blocks; whoever writes first into one gets a copy.

        Raises:
            ValueError: request does not run, twin's tokens are not request's, or max_running requests run already.
        """
        if request not in self.running:
            raise ValueError("only a running request can be forked; a waiting one has nothing to share yet")
        if twin.tokens != request.tokens:
            raise ValueError("a fork starts with the tokens of its original, and these are others")
        if len(self.running) >= self.max_running:
            raise ValueError(f"{self.max_running} requests run already, which is max_running")
        twin.table, twin.n_computed, twin.n_remembered = request.table.fork(), request.n_computed, request.n_remembered
        twin.n_draft_computed = request.n_draft_computed
        self.running.append(twin)

    def remove(self, request: Request) -> None:
        """Dismiss a request, done or not, wherever it is; its blocks are given back."""
        if request in self.running:
            self.running.remove(request)
        else:
            self.waiting.remove(request)
        request.table.release()

    def _make_room(self, request: Request, n: int, plan: Plan) -> int:
        """Have blocks for n more tokens of a running request, if need be by preempting others; return how many can run.

        0: it was preempted itself. Drafted tokens are dropped before any request is preempted for them.
        """
        if request.draft and not self._free_up(request.table.blocks_needed(n)):
            request.draft, n = [], 1
        while not self._free_up(request.table.blocks_needed(n)):
            victim = self.running[-1]
            self.preempt(victim)
            plan.preempted.append(victim)
            if victim is request:
                return 0
        return n

    def _run(self, request: Request, n: int, plan: Plan) -> int:
        """Reserve places for n more tokens of a running request and plan them; return n."""
        if n > 0:
            plan.copies += request.table.append(n)
            plan.work.append(Work(request, n))
        return max(0, n)

    def _again(self, plan: Plan) -> Plan:
        """Plan once more without the one admitted last: nobody has run, and its blocks let others do so."""
        if not plan.preempted:
            plan.preempted.append(self.running[-1])
            self.preempt(self.running[-1])
        again = self.schedule()
        again.preempted[:0] = plan.preempted
        return again

    def _admit_a_short_one(self, plan: Plan, budget: int) -> int:
        """Admit the first in the queue before prompts that have more to run; return the tokens that this takes."""
        if not self.max_overtakes or plan.preempted or not self.waiting:
            return 0
        let_a_short_one_pass(self.waiting, self.max_overtakes)
        n = self.waiting[0].n_pending
        pending = [request.n_pending for request in self.running if not request.is_decoding]
        n_before = len(plan.work)
        if pending and n < min(pending):
            self.admit(plan, min(n, budget // 2))
        return sum(work.n_tokens for work in plan.work[n_before:])
