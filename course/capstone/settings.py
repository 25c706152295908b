"""What a capstone is given, the load and the memory, and what is the student's to choose; both travel as JSON."""

import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from nanolm.workload import Trace, at_rate, load_trace

from ..errors import CourseError

BLOCK_SIZE = 16
# Room in the default cache, of keys and values as the model's own numbers. With the shipped trace it is too small for
# all who want to run, so that what is kept, shared, thrown out and made smaller decides.
POSITIONS = 640
DRAFTS = "none", "prompt-lookup"
# Where parts can work: the columns of the report.
PLACES = {"plan": "plan", "alone": "alone", "tight": "tight", "chosen": "as chosen"}


@dataclass(frozen=True)
class Load:
    """What is given, the same for everybody whose results are to be compared.

    Attributes:
        model: what `nanolm.checkpoint.load` takes.
        trace: a .jsonl file; None for the shipped one.
        requests: only the first so many of it; None for all.
        rate: requests a second; 0 brings all at once, None means `share` of the machine's capacity.
        share: tokens a second wanted, as a share of the machine's capacity (`goals`).
        cache_bytes: memory for keys and values, a draft model's too; None for POSITIONS positions.
        temperature, top_k, top_p: how tokens are drawn; request i has seed i.
        n_checked: requests whose texts are compared, the first ones of the trace.
        threads: of the processor.
        dollars_per_hour: what an hour of this machine costs.
    """

    model: str = "target"
    trace: str | None = None
    requests: int | None = None
    rate: float | None = None
    share: float = 0.5
    cache_bytes: int | None = None
    temperature: float = 0.8
    top_k: int | None = 50
    top_p: float | None = 0.95
    n_checked: int = 16
    threads: int = 1
    dollars_per_hour: float = 0.10

    @property
    def arrival_rate(self) -> float:
        """Requests a second once it is known; infinity where all come at once."""
        assert self.rate is not None  # `goals.given` has set it
        return self.rate or math.inf

    def recorded(self) -> Trace:
        """Return the requests with the times of their recording.

        Raises:
            CourseError: no trace in the file, or requests without prompts.
        """
        try:
            trace = (load_trace(Path(self.trace)) if self.trace else load_trace())[: self.requests]
        except (OSError, ValueError) as error:
            raise CourseError(f"the trace cannot be read: {error}") from None
        if not trace or any(arrival.prompt is None for arrival in trace):
            raise CourseError(f"{self.trace} holds no requests with prompts; a replay needs their tokens")
        return trace

    def arriving(self) -> Trace:
        """Return the requests at their rate."""
        return at_rate(self.recorded(), self.arrival_rate)


@dataclass(frozen=True)
class Choices:
    """What a student decides.

    Attributes:
        slots: most requests served at a time.
        max_tokens_per_step: most tokens a pass.
        prefix_cache: whether equal beginnings are computed once.
        cache_kind: "float" or "int8".
        reserve: share of the cache that newcomers leave free for those who run; 0 preempts more.
        weight_bits: 32 or 8.
        draft: "none", "prompt-lookup", or a model of the same vocabulary.

    Raises:
        CourseError: bits, a kind of cache or a reserve that there is not.
    """

    slots: int = 32
    max_tokens_per_step: int = 512
    prefix_cache: bool = True
    cache_kind: str = "float"
    reserve: float = 0.25
    weight_bits: int = 32
    draft: str = "none"

    def __post_init__(self) -> None:
        if self.weight_bits not in (8, 32):
            raise CourseError(f"--weight-bits is {self.weight_bits}; it must be 32 or 8")
        if self.cache_kind not in ("float", "int8"):
            raise CourseError(f"--cache-kind is {self.cache_kind!r}; it must be float or int8")
        if not 0 <= self.reserve < 1:
            raise CourseError(f"--reserve is {self.reserve:g}; it must be 0 or more and below 1, a share of the cache")

    def in_words(self) -> str:
        """Return the options that differ from the defaults, as they are typed."""
        words = []
        for field in fields(self):
            value, option = getattr(self, field.name), "--" + field.name.replace("_", "-")
            if value != field.default:
                words += ["--no-prefix-cache"] if field.name == "prefix_cache" else [option, f"{value}"]
        return " ".join(words) or "the defaults"


def from_fields(kind: type, values: dict[str, Any]) -> Any:
    """Return a Load or Choices of these values.

    Raises:
        CourseError: a value missing, unknown, or of no use.
    """
    names = {field.name for field in fields(kind)}
    if not isinstance(values, dict) or set(values) != names:
        raise CourseError(f"the {kind.__name__.lower()} must give {', '.join(sorted(names))}, and nothing else")
    return kind(**values)


def as_fields(settings: Load | Choices) -> dict[str, Any]:
    """Return the same as a dictionary for JSON."""
    return asdict(settings)
