"""Requests and schedulers for small schedules worked out by hand, without a model.

A schedule is written as a word a request, "a5 b1": a runs 5 of its pending tokens, b one. Whoever has run all of its
tokens writes another one.
"""

from nanolm.engine import Request
from nanolm.engine import scheduler as reference
from nanolm.paging import BlockAllocator, RadixCache


class Named(Request):
    def __init__(self, name, n, first=None):
        first = 10 * ord(name) if first is None else first
        super().__init__(list(range(first, first + n)))
        self.name = name

    def __repr__(self):
        return self.name


def made(impl=reference, n_blocks=8, block_size=4, prefix=None, **limits):
    return impl.Scheduler(BlockAllocator(n_blocks), block_size, prefix=prefix, **limits)


def with_tree(n_blocks=8, block_size=4, impl=reference, **limits):
    """A scheduler with the real prefix cache."""
    scheduler = made(impl, n_blocks=n_blocks, block_size=block_size, **limits)
    scheduler.prefix = RadixCache(scheduler.allocator, block_size)
    return scheduler


def waiting(scheduler, *requests):
    for request in requests:
        scheduler.add(request)
    return requests


def in_its_prompt(scheduler, name, n, n_computed, first=None):
    """A running request of n tokens, of which n_computed have run, made without `admit`."""
    request = Named(name, n, first)
    scheduler.add(request)
    scheduler.waiting.remove(request)
    scheduler.running.append(request)
    request.table.append(n_computed)
    request.n_computed = n_computed
    return request


def running(scheduler, name, n_computed):
    """A request that has run n_computed tokens and written the next one."""
    return in_its_prompt(scheduler, name, n_computed + 1, n_computed)


def shown(plan):
    return " ".join(f"{request}{n}" for request, n in plan.work)


def step(scheduler):
    """One pass, in which whoever has run all pending tokens writes one; what `shown` says of the plan, and the plan."""
    plan = scheduler.schedule()
    for request, n in plan.work:
        n_computed = request.n_computed + n
        if n_computed == len(request.tokens):
            request.tokens.append(1000 + n_computed)
        scheduler.complete(request, n_computed)
    return shown(plan), plan


def steps(scheduler, n):
    return [step(scheduler)[0] for _ in range(n)]


class FakePrefix:
    """A prefix cache that knows one text, whose whole blocks it holds, and has a list of what it was asked for."""

    def __init__(self, allocator, block_size, tokens, evictable=0):
        self.blocks, self.size, self.tokens = allocator, block_size, list(tokens)
        self.known = [allocator.allocate() for _ in range(len(tokens) // block_size)]
        self.spare = [allocator.allocate() for _ in range(evictable)]
        self.asked = []

    @property
    def n_evictable(self):
        """What only the cache holds; of the text it knows, that is what nobody has been given."""
        return len(self.spare) + sum(self.blocks.references(block) == 1 for block in self.known)

    def evict(self, n):
        n_freed = min(n, len(self.spare))
        for _ in range(n_freed):
            self.blocks.free(self.spare.pop())
        return n_freed

    def match(self, tokens, limit=None):
        limit = len(tokens) if limit is None else min(limit, len(tokens))
        self.asked.append(limit)
        n = 0
        while n < min(limit, len(self.tokens)) and tokens[n] == self.tokens[n]:
            n += 1
        found = self.known[: n // self.size]
        for block in found:
            self.blocks.share(block)
        return list(found)
