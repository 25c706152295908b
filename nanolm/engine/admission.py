"""Who comes in, and who first where not everybody fits: the scheduler's rules of admission and fairness.

Strictly in order of arrival, one short question waits until every long prompt before it has run. Always the shortest
first, a long prompt may wait for ever. The rule here is between the two, and says how long anybody waits at most:

- Of the tokens that a pass leaves to prompts, half are the oldest prompt's. The other half goes to the shortest. So the
  oldest always advances, at half speed or better, whoever comes.
- Of the requests without blocks, one that is short (a quarter of the first one's length, or less) may be put before
  the first, but no request is overtaken more than `max_overtakes` times. So a request waits for those that came before
  it and for `max_overtakes` short ones, and for nobody else.

With max_overtakes 0 both are off: first come, first served.

(Aging against starvation: Silberschatz, "Operating System Concepts", section 5.3. Wu 2023, "FastServe", and Agrawal
2024, "Sarathi-Serve", section 3, tell what long prompts do to those behind them.)
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from contextlib import nullcontext
from itertools import islice

from ..paging.blocks import BlockAllocator, BlockTable, blocks_for
from ..paging.radix_cache import RadixCache
from ..window.block_tables import GroupedTables
from ..window.layer_groups import LayerGroups, blocks_for_request
from .request import Request

# How far into the queue a short request is looked for; a longer look would cost every pass.
LOOK_AHEAD = 64
_SHORT = 4


def prompt_shares(prompts: Sequence[Request], budget: int, fair: bool) -> list[tuple[Request, int]]:
    """Return how many tokens each of the running prompts may run in a pass, those that get none left out.

    Args:
        prompts: in order of admission.
        budget: tokens for all of them.
        fair: half for the oldest and the rest for the shortest first; False means in order of admission.
    """
    if not fair or len(prompts) < 2:
        return _in_order(prompts, budget, {})
    oldest = min(prompts[0].n_pending, -(-budget // 2))
    return _in_order(sorted(prompts, key=lambda request: request.n_pending), budget - oldest, {prompts[0]: oldest})


def _in_order(prompts: Sequence[Request], budget: int, given: dict[Request, int]) -> list[tuple[Request, int]]:
    for request in prompts:
        more = max(0, min(request.n_pending - given.get(request, 0), budget))
        given[request] = given.get(request, 0) + more
        budget -= more
    return [(request, n) for request, n in given.items() if n > 0]


def let_a_short_one_pass(waiting: deque[Request], max_overtakes: int) -> None:
    """Put the shortest request near the front of the queue first, if it is short and nobody before it is overtaken out.

    Each request that it passes counts one more in n_overtaken; none that has max_overtakes is passed.
    """
    passed, best = [], None
    for request in islice(waiting, LOOK_AHEAD):
        if passed and (best is None or request.n_pending < best.n_pending):
            best, n_passed = request, len(passed)
        if request.n_overtaken >= max_overtakes:
            break
        passed.append(request)
    if best is None or best.n_pending * _SHORT > waiting[0].n_pending:
        return
    for request in passed[:n_passed]:
        request.n_overtaken += 1
    waiting.remove(best)
    waiting.appendleft(best)


def n_shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many tokens two texts have in common at their beginning."""
    n = min(len(one), len(other))
    if one[:n] == other[:n]:  # at C's speed
        return n
    return next(i for i in range(n) if one[i] != other[i])


def begin_with_prefix(request: Request, prefix: RadixCache) -> bool:
    """Let a waiting request begin with what the prefix cache holds of it; return whether the rest of it has room.

    `prefix.match` pins the blocks that it finds, the request's table adopts them: their tokens count as computed
    (n_computed) and their blocks as known to the cache (n_remembered). The last token is never looked for: its pass
    gives the logits of the next one, so it has to run.

    All that is pending then needs blocks too. Where fewer are free (`prefix.blocks.n_free`), the cache evicts as many
    as are missing. Where it could not free that many (`prefix.n_evictable`, asked now, when nobody can evict what this
    request has pinned) it evicts none, and the request is as before: its table released, nothing counted, False.

    The tokens that the cache spares a request are added to its n_prefix_tokens, if there is room for the rest.
    """
    blocks = prefix.match(request.tokens, limit=len(request.tokens) - 1)
    request.table.adopt(blocks)
    request.n_computed, request.n_remembered = request.table.length, len(blocks)
    missing = max(0, request.table.blocks_needed(request.n_pending) - prefix.blocks.n_free)
    if missing > prefix.n_evictable:
        request.table.release()
        request.n_computed = request.n_remembered = 0
        return False
    prefix.evict(missing)
    request.n_prefix_tokens += request.n_computed
    return True


class Admission:
    """The half of a `Scheduler` that counts blocks. It decides nothing about who comes first.

    Attributes: as the scheduler's, of which it uses these.
    """

    allocator: BlockAllocator
    prefix: RadixCache | None
    block_size: int
    reserve: int
    max_tokens_per_step: int
    groups: LayerGroups | None
    running: list[Request]

    def new_table(self) -> BlockTable:
        """Return the empty block table of a request, or its tables, one for each group of layers."""
        if self.groups is None:
            return BlockTable(self.allocator, self.block_size)
        return GroupedTables(self.allocator, self.block_size, self.groups, self.max_tokens_per_step)

    def blocks_of(self, n_positions: int) -> int:
        """Return the most blocks that a request of so many positions holds at one time."""
        if self.groups is None:
            return blocks_for(n_positions, self.block_size)
        return blocks_for_request(n_positions, self.groups.windows, self.block_size, self.max_tokens_per_step)

    def can_begin(self, request: Request, n_tokens: int) -> bool:
        """Return whether there is room for the first n tokens of a waiting request, beside what others will need.

        With a prefix cache its table begins with what that holds of the tokens, if there is (`begin_with_prefix`).
        """
        if not self._may_fit(request, n_tokens):
            return False
        if self.prefix is None or request.score_prompt:
            return self._free_up(request.table.blocks_needed(n_tokens))
        again = request.n_preemptions > 0  # what it finds then it has computed itself, most likely
        with self.prefix.counting_resumed() if again else nullcontext():
            return begin_with_prefix(request, self.prefix)

    def _may_fit(self, request: Request, n_tokens: int) -> bool:
        """Whether there may be room for a waiting request; asked each pass, so it leaves the prefix cache as it is.

        No, too, while a running prompt computes what the two have in common: once it has, nobody need do it again.
        """
        needed, free = self.blocks_of(n_tokens), self.allocator.n_free
        n_cached = 0
        if self.prefix is not None:
            fit = self.prefix.fit(request.tokens, limit=len(request.tokens) - 1)
            n_cached, needed = fit.n_device + fit.n_host, needed - fit.n_device
            free = self.prefix.blocks_available(fit)
        return needed + self._spoken_for() <= free and not self._is_being_computed(request, n_cached)

    def _spoken_for(self) -> int:
        """Return the blocks that are free and not for newcomers: for running prompts, and for answers the reserve."""
        for_prompts = for_answers = 0
        for request in self.running:
            held = len(request.table.blocks)
            in_the_end = self.blocks_of(len(request.tokens) + request.n_left - 1)
            if not request.is_decoding:
                whole = self.blocks_of(len(request.tokens))
                for_prompts += max(0, whole - held)
                held = max(whole, held)
            for_answers += max(0, in_the_end - held)
        return for_prompts + min(self.reserve, for_answers)

    def _is_being_computed(self, request: Request, n_cached: int) -> bool:
        """Whether a running prompt will leave more whole blocks of this text in the prefix cache than it has now."""
        if self.prefix is None:
            return False
        most = len(request.tokens) - 1
        for other in self.running:
            if not other.is_decoding and other.tokens[0] == request.tokens[0]:
                n_blocks = min(most, n_shared(other.tokens, request.tokens)) // self.block_size
                if n_blocks > n_cached and other.n_computed < n_blocks * self.block_size:
                    return True
        return False

    def _free_up(self, n_blocks: int) -> bool:
        """Have n free blocks, if need be by evicting from the prefix cache; False, and nothing evicted, if in vain."""
        missing = n_blocks - self.allocator.n_free
        if missing > 0 and self.prefix is not None and self.prefix.n_evictable >= missing:
            self.prefix.evict(missing)
        return self.allocator.n_free >= n_blocks

    def _room(self, request: Request, n: int) -> int:
        """Return how many of n more positions a running request can have without a block that another request holds."""
        needed, obtainable = request.table.blocks_needed, self.allocator.n_free + self._n_evictable
        n = bisect_right(range(n + 1), obtainable, key=needed) - 1
        return n if n > 0 and self._free_up(needed(n)) else 0

    @property
    def _n_evictable(self) -> int:
        return self.prefix.n_evictable if self.prefix is not None else 0

    def _forget_blocks(self, request: Request) -> None:
        request.table.release()
        request.n_computed = request.n_remembered = request.n_draft_computed = 0
