"""What a server has done so far, as numbers that only grow, and as the text that Prometheus reads.

Rates and means are left to whoever reads: two readings give the tokens a second between them, whoever reads besides.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..engine.metrics import RequestMetrics, StepRecord
from ..engine.request import FINISH_REASONS, Output

_PREFIX = "nanolm_"


@dataclass
class PrometheusCounters:
    """Sums over everything served. Written by the engine's thread alone; a reader sees numbers of one or two passes.

    Attributes:
        n_steps, step_seconds, model_seconds: passes, the time they took, and the model's part of it.
        n_prefill_tokens, n_decode_tokens, n_new_tokens, n_preempted: as in StepRecord.
        n_ended: requests by their finish reason.
        ttft_seconds, n_ttft: time to the first token, summed, and over how many requests.
        inter_token_seconds, n_inter_token: waits between tokens.
        latest: the last pass; None before the first.
    """

    n_steps: int = 0
    step_seconds: float = 0.0
    model_seconds: float = 0.0
    n_prefill_tokens: int = 0
    n_decode_tokens: int = 0
    n_new_tokens: int = 0
    n_preempted: int = 0
    n_ended: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(FINISH_REASONS, 0)))
    ttft_seconds: float = 0.0
    n_ttft: int = 0
    inter_token_seconds: float = 0.0
    n_inter_token: int = 0
    latest: StepRecord | None = None

    def count_step(self, records: Sequence[StepRecord]) -> None:
        """Add the last of the engine's records, unless it was added before."""
        if not records or records[-1] is self.latest:
            return
        record = self.latest = records[-1]
        self.n_steps += 1
        self.step_seconds += record.seconds
        self.model_seconds += record.model_seconds
        self.n_prefill_tokens += record.n_prefill_tokens
        self.n_decode_tokens += record.n_decode_tokens
        self.n_new_tokens += record.n_new_tokens
        self.n_preempted += record.n_preempted

    def count_end(self, output: Output) -> None:
        """Add a request that has ended: its reason and, where it got tokens and was not called off, its waits."""
        assert output.finish_reason is not None
        self.n_ended[output.finish_reason] += 1
        if output.metrics is not None:
            self._count_waits(output.metrics)

    def _count_waits(self, metrics: RequestMetrics) -> None:
        if not math.isnan(metrics.ttft_seconds):
            self.ttft_seconds += metrics.ttft_seconds
            self.n_ttft += 1
        waits = metrics.inter_token_seconds
        self.inter_token_seconds += sum(waits)
        self.n_inter_token += len(waits)

    def text(self, gauges: Mapping[str, float]) -> str:
        """Return the Prometheus text: the counters, and the gauges given, numbers that hold for this moment alone."""
        lines = []
        for name, help_text, number in (
            ("steps_total", "Passes of the engine.", self.n_steps),
            ("step_seconds_total", "Seconds spent in passes.", self.step_seconds),
            ("model_seconds_total", "Seconds of them that the model took.", self.model_seconds),
            ("prefill_tokens_total", "Prompt tokens run.", self.n_prefill_tokens),
            ("decode_tokens_total", "Tokens run for decoding requests.", self.n_decode_tokens),
            ("new_tokens_total", "Tokens written.", self.n_new_tokens),
            ("preemptions_total", "Times a request was preempted.", self.n_preempted),
        ):
            lines += _metric(name, help_text, "counter", {"": number})
        ended = {f'{{reason="{reason}"}}': n for reason, n in self.n_ended.items()}
        lines += _metric("requests_total", "Requests that have ended.", "counter", ended)
        for name, help_text, total, n in (
            ("ttft_seconds", "From arrival to the first token.", self.ttft_seconds, self.n_ttft),
            ("inter_token_seconds", "From one token to the next.", self.inter_token_seconds, self.n_inter_token),
        ):
            lines += _metric(name, help_text, "summary", {"_sum": total, "_count": n})
        for name, number in gauges.items():
            lines += _metric(name, name.replace("_", " ").capitalize() + ".", "gauge", {"": number})
        return "\n".join(lines) + "\n"


def _metric(name: str, help_text: str, kind: str, values: Mapping[str, float]) -> list[str]:
    head = [f"# HELP {_PREFIX}{name} {help_text}", f"# TYPE {_PREFIX}{name} {kind}"]
    return head + [f"{_PREFIX}{name}{label} {number}" for label, number in values.items()]
