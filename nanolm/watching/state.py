"""What an engine holds between two passes, as plain lists and dictionaries: pool, prefix tree, requests, rates.

Everything is looked at in the engine's own thread, and nothing is changed.
"""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ..engine.engine import Engine
from ..engine.request import Request
from ..paging.radix_cache import RadixCache
from ..paging.radix_tree import Node

# What a block of the pool can be, by its number in `pool_of`.
BLOCK_STATES = ("free", "held by a request", "cached, held by none", "cached and held", "shared by requests")
MOST_NODES = 200  # of the tree that is sent
MOST_BLOCKS = 256  # of a request's table
MOST_WAITING = 64
_RECENT = 64  # passes that the rate of tokens is taken over


def state_of(engine: Engine) -> dict[str, Any]:
    """Return the pool, the prefix tree, the requests that run and wait, and the rates, ready for JSON."""
    scheduler = engine.scheduler
    waiting = list(scheduler.waiting)
    return {
        "pool": pool_of(engine),
        "tree": [] if scheduler.prefix is None else tree_of(scheduler.prefix),
        "running": [_running(request) for request in scheduler.running],
        "waiting": [_waiting(request) for request in waiting[:MOST_WAITING]],
        "n_waiting": len(waiting),
        "rates": _rates(engine),
    }


def pool_of(engine: Engine) -> dict[str, Any]:
    """Return the blocks of the pool: `runs` of equal neighbours as [state, how many], in order of the blocks' numbers.

    A state is a place in BLOCK_STATES. `host` says how many blocks the host store has of how many.
    """
    scheduler = engine.scheduler
    allocator, prefix = scheduler.allocator, scheduler.prefix
    holders = np.fromiter(map(allocator.references, range(allocator.n_blocks)), np.int64, allocator.n_blocks)
    cached = np.zeros(allocator.n_blocks, np.int64)
    if prefix is not None:
        cached[list(prefix.device_blocks)] = 1
    requests = holders - cached
    states = np.where(cached > 0, np.where(requests > 0, 3, 2), (requests > 0).astype(np.int64))
    states[requests > 1] = 4
    starts = np.flatnonzero(np.diff(states, prepend=-1))
    lengths = np.diff(starts, append=len(states))
    host = getattr(prefix, "host", None)
    return {
        "n": allocator.n_blocks,
        "block_size": scheduler.block_size,
        "runs": np.stack([states[starts], lengths], 1).tolist(),
        "host": None if host is None or prefix is None else [prefix.n_host_blocks, host.n_blocks],
    }


def tree_of(prefix: RadixCache) -> list[list[Any]]:
    """Return the tree as lines [parent's line or -1, blocks in a row, device or host, holders], parents first.

    Nodes that have one child of the same kind each are one line. Of a large tree the first MOST_NODES lines are told.
    """
    lines: list[list[Any]] = []
    todo = [(node, -1) for node in reversed(prefix.root.children.values())]
    while todo and len(lines) < MOST_NODES:
        first, parent = todo.pop()
        chain = list(_chain(first, prefix))
        lines.append([parent, len(chain), *_kind(first, prefix)])
        todo += [(child, len(lines) - 1) for child in reversed(chain[-1].children.values())]
    return lines


def _chain(node: Node, prefix: RadixCache) -> Iterator[Node]:
    kind = _kind(node, prefix)
    yield node
    while len(node.children) == 1:
        (node,) = node.children.values()
        if _kind(node, prefix) != kind:
            return
        yield node


def _kind(node: Node, prefix: RadixCache) -> tuple[str, int]:
    """Where a node's block is, and how many requests hold it."""
    return ("host", 0) if node.block is None else ("device", prefix.blocks.references(node.block) - 1)


def _running(request: Request) -> dict[str, Any]:
    metrics = request.metrics
    return {
        "id": request.id,
        "n_prompt": request.n_prompt,
        "n_cached": metrics.n_prefix_tokens,
        "n_computed": request.n_computed,
        "n_new": len(request.tokens) - request.n_prompt,
        "n_preempted": request.n_preemptions,
        "ttft": number(metrics.ttft_seconds),
        "blocks": neighbours(request.table.blocks[:MOST_BLOCKS]),
    }


def _waiting(request: Request) -> dict[str, Any]:
    n_new = len(request.tokens) - request.n_prompt
    return {"id": request.id, "n_prompt": request.n_prompt, "n_new": n_new, "n_preempted": request.n_preemptions}


def _rates(engine: Engine) -> dict[str, Any]:
    recent = [engine.records[i] for i in range(max(0, len(engine.records) - _RECENT), len(engine.records))]
    seconds = sum(record.seconds for record in recent)
    prefix, control = engine.scheduler.prefix, engine.runner.control
    return {
        "tokens_per_second": sum(record.n_new_tokens for record in recent) / seconds if seconds else 0.0,
        "hit_rate": None if prefix is None else prefix.statistics.hit_rate,
        "is_speculating": None if control is None else control.is_on,
    }


def neighbours(numbers: Iterable[int]) -> list[list[int]]:
    """Return numbers as runs [first, how many] that count up or stay alone: [4, 5, 6, 2] is [[4, 3], [2, 1]]."""
    runs: list[list[int]] = []
    for each in numbers:
        if runs and each == runs[-1][0] + runs[-1][1]:
            runs[-1][1] += 1
        else:
            runs.append([each, 1])
    return runs


def number(value: float) -> float | None:
    """Return a number as JSON has it: None for NaN."""
    return None if math.isnan(value) else value
