"""What an engine is doing at this moment, in numbers for whoever watches it."""

from ..engine.engine import Engine


def gauges_of(engine: Engine) -> dict[str, float]:
    """Return numbers by name, each one look.

    `blocks_used` are those that requests hold, `blocks_evictable` those that only the prefix cache does and that a
    newcomer may have: a server at work has few others left, and is not full.
    """
    scheduler, control = engine.scheduler, engine.runner.control
    n_evictable = scheduler.prefix.n_evictable if scheduler.prefix else 0
    found: dict[str, float] = {
        "running_requests": len(scheduler.running),
        "waiting_requests": len(scheduler.waiting),
        "blocks": scheduler.allocator.n_blocks,
        "blocks_used": max(0, scheduler.allocator.n_used - n_evictable),
        "blocks_evictable": n_evictable,
    }
    if scheduler.prefix is not None:
        found["prefix_hit_rate"] = scheduler.prefix.statistics.hit_rate
    if control is not None:
        found |= {"speculating": int(control.is_on), "speculation_gain": control.gain}
    return found
