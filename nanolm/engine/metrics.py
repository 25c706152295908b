"""What serving is judged by: how long each request waited, and what the engine did in each pass.

Times are seconds of one clock. TTFT, the time to the first token, is the wait in the queue and the prefill; what comes
after it is counted token by token (inter-token latency, of which TPOT is the mean).
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class RequestMetrics:
    """One request's times, and what was spared or done twice.

    Attributes:
        arrived_at: when the engine was given it.
        admitted_at: when it first got blocks; None while it waits.
        token_times: when each of its new tokens was there. Tokens of one pass share a time.
        finished_at: when it ended, for whatever reason; None before.
        n_prefix_tokens: prompt tokens that the prefix cache had when it was first admitted.
        n_preemptions: how often it was preempted: its blocks were taken and it began anew.
        n_resumed_tokens: tokens that the prefix cache still had when it began anew.
    """

    arrived_at: float
    admitted_at: float | None = None
    token_times: list[float] = field(default_factory=list)
    finished_at: float | None = None
    n_prefix_tokens: int = 0
    n_preemptions: int = 0
    n_resumed_tokens: int = 0

    def admitted(self, at: float, n_cached: int) -> None:
        """Note an admission, the first or one after a preemption, and the tokens that were cached then."""
        if self.admitted_at is None:
            self.admitted_at, self.n_prefix_tokens = at, n_cached
        else:
            self.n_resumed_tokens += n_cached

    @property
    def queue_seconds(self) -> float:
        """From arrival to the first blocks; NaN while it waits."""
        return _between(self.arrived_at, self.admitted_at)

    @property
    def ttft_seconds(self) -> float:
        """From arrival to the first token; NaN before."""
        return _between(self.arrived_at, self.token_times[0] if self.token_times else None)

    @property
    def inter_token_seconds(self) -> list[float]:
        """The waits between one token and the next; one fewer than there are tokens."""
        return [after - before for before, after in zip(self.token_times, self.token_times[1:], strict=False)]

    @property
    def tpot_seconds(self) -> float:
        """Mean wait for a token after the first; NaN with fewer than two."""
        waits = self.inter_token_seconds
        return statistics.fmean(waits) if waits else float("nan")

    @property
    def end_to_end_seconds(self) -> float:
        """From arrival to the end; NaN before."""
        return _between(self.arrived_at, self.finished_at)


@dataclass(frozen=True)
class StepRecord:
    """One pass of the engine.

    Attributes:
        at: when it began.
        seconds: how long it took in all.
        model_seconds: how much of that the model's pass took; the rest is the engine's own.
        n_prefill_tokens: prompt tokens run, those run again after a preemption among them.
        n_decode_tokens: tokens run for decoding requests, drafted ones among them.
        n_new_tokens: tokens that came out.
        n_running, n_waiting: requests with blocks and without, after the pass was planned.
        n_blocks_used: blocks that requests or the prefix cache hold.
        n_blocks_cached: those of them that the prefix cache holds, alone or beside requests.
        n_preempted: requests that were preempted.
        n_again_tokens: tokens run that had been run before: a preemption took their keys and values.
        n_drafted_tokens: drafted tokens checked.
    """

    at: float
    seconds: float
    model_seconds: float
    n_prefill_tokens: int
    n_decode_tokens: int
    n_new_tokens: int
    n_running: int
    n_waiting: int
    n_blocks_used: int
    n_blocks_cached: int
    n_preempted: int
    n_again_tokens: int = 0
    n_drafted_tokens: int = 0


@dataclass(frozen=True)
class EngineMetrics:
    """An engine's work summed up.

    Attributes:
        n_steps: passes.
        seconds: time spent in them.
        own_share: share of that time spent outside the model's passes.
        tokens_per_second: new tokens a second of that time.
        mean_running: requests a pass, on average.
        utilisation: mean_running over max_running.
        n_preemptions: times a request was preempted.
        again_share: share of the tokens run that had been run before.
        peak_blocks: most blocks held at a time, the prefix cache's own included.
        hit_rate: share of the tokens of newcomers that the prefix cache had; 0 without one. What a preempted request
            finds again of its own is no hit.
        acceptance_rate: share of the drafted tokens that became text; NaN without any.
        speculation_gain: predicted speed with drafts over that without, for the last pass; NaN before it can be told.
        is_speculating: whether tokens are being drafted; False too where it was switched off because it does not pay.
    """

    n_steps: int
    seconds: float
    own_share: float
    tokens_per_second: float
    mean_running: float
    utilisation: float
    n_preemptions: int
    again_share: float
    peak_blocks: int
    hit_rate: float = 0.0
    acceptance_rate: float = float("nan")
    speculation_gain: float = float("nan")
    is_speculating: bool = False


def summary(records: Sequence[StepRecord], max_running: int, **of_the_parts: Any) -> EngineMetrics:
    """Return the sums and means over passes; without any, zeros.

    Args:
        of_the_parts: what the prefix cache and the draft have counted themselves, by their names in EngineMetrics.
    """
    if not records:
        return EngineMetrics(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0.0, 0, **of_the_parts)
    seconds = sum(record.seconds for record in records)
    mean_running = statistics.fmean(record.n_running for record in records)
    n_run = sum(record.n_prefill_tokens + record.n_decode_tokens for record in records)
    return EngineMetrics(
        n_steps=len(records),
        seconds=seconds,
        own_share=1 - sum(record.model_seconds for record in records) / seconds if seconds else 0.0,
        tokens_per_second=sum(record.n_new_tokens for record in records) / seconds if seconds else 0.0,
        mean_running=mean_running,
        utilisation=mean_running / max_running,
        n_preemptions=sum(record.n_preempted for record in records),
        again_share=sum(record.n_again_tokens for record in records) / n_run if n_run else 0.0,
        peak_blocks=max(record.n_blocks_used for record in records),
        **of_the_parts,
    )


def _between(start: float, end: float | None) -> float:
    return float("nan") if end is None else end - start
