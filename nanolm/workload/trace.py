"""Traces: which requests reach a server, and when. Made up by a law of arrivals, or read from a file.

A trace fixes the load, so that two servers can be compared on the same one. It knows of no server and no model. The
random ones draw from nothing but `random.Random.random`, whose numbers Python keeps from version to version, and
seconds are rounded to microseconds: a seed means the same trace everywhere.
"""

import json
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, overload

from .._files import write_text
from .._require import require_count, require_not_negative, require_positive

RECORDED = Path(__file__).parent.parent / "shipped" / "trace.jsonl"


@dataclass(frozen=True)
class Arrival:
    """One request on its way to the server.

    Attributes:
        seconds: when it arrives, counted from the start of the trace.
        n_prompt_tokens: length of its prompt.
        n_output_tokens: tokens it is to get.
        prompt: the token ids; None in a trace of lengths alone.
        prefix_group: requests of one group have prompts that begin alike; None: of no group.

    Raises:
        ValueError: seconds not a finite number of 0 or more, a length that is no whole number above 0, a prompt of
            another length or with ids that are no whole numbers of 0 or more, a prefix_group that is no text.
    """

    seconds: float
    n_prompt_tokens: int
    n_output_tokens: int
    prompt: tuple[int, ...] | None = None
    prefix_group: str | None = None

    def __post_init__(self) -> None:
        require_not_negative(seconds=self.seconds)
        for name in ("n_prompt_tokens", "n_output_tokens"):
            require_count(1, **{name: getattr(self, name)})
            object.__setattr__(self, name, int(getattr(self, name)))  # JSON may write 8 as 8.0
        if self.prompt is not None:
            object.__setattr__(self, "prompt", _token_ids(self.prompt, self.n_prompt_tokens))
        if not isinstance(self.prefix_group, str | None):
            raise ValueError(f"prefix_group is {self.prefix_group!r}; it must be a text or None")

    @property
    def n_tokens(self) -> int:
        """Positions it takes in the end: prompt and output."""
        return self.n_prompt_tokens + self.n_output_tokens


@dataclass(frozen=True)
class Trace(Sequence[Arrival]):
    """Arrivals in the order of their seconds. A slice of a trace is a trace.

    Raises:
        ValueError: an arrival before the one that it follows.
    """

    arrivals: tuple[Arrival, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "arrivals", tuple(self.arrivals))
        for index in range(1, len(self.arrivals)):
            _require_order(self.arrivals[index - 1], self.arrivals[index], f"arrivals[{index}].seconds")

    def __len__(self) -> int:
        return len(self.arrivals)

    @overload
    def __getitem__(self, index: int) -> Arrival: ...
    @overload
    def __getitem__(self, index: slice) -> "Trace": ...
    def __getitem__(self, index: int | slice) -> "Arrival | Trace":
        return Trace(self.arrivals[index]) if isinstance(index, slice) else self.arrivals[index]

    def steps(self, step_seconds: float) -> list[int]:
        """Return for each arrival the first step in which it can run, if step i begins after i · step_seconds.

        `nanolm.workload.simulation` takes arrivals in this form.

        Raises:
            ValueError: step_seconds not above 0.
        """
        require_positive(step_seconds=step_seconds)
        # 1.1 / 0.1 is a little more than 11 in floating point, and must not become step 12.
        return [math.ceil(arrival.seconds / step_seconds - 1e-9) for arrival in self.arrivals]


def all_at_once(requests: Iterable[Arrival]) -> Trace:
    """Return the trace in which these requests arrive at second 0, in the order given, whatever their own times."""
    return Trace(tuple(replace(request, seconds=0.0) for request in requests))


def poisson(
    rate_per_second: float,
    n: int,
    seed: int,
    requests: Sequence[Arrival] | None = None,
    prompt_tokens: tuple[int, int] = (8, 200),
    output_tokens: tuple[int, int] = (8, 160),
) -> Trace:
    """Return a trace of n requests that arrive independently of one another, `rate_per_second` of them on average.

    The gaps before the arrivals, the first one's included, follow the exponential law with mean 1 / rate_per_second.
    They depend on n, the rate and the seed alone.

    Args:
        requests: take these in turn, from the first again when they are used up; their own times are dropped. None:
            requests without prompts, whose lengths `heavy_tailed_lengths` draws.
        prompt_tokens, output_tokens: the shortest and the longest length that it may draw.

    Raises:
        ValueError: rate_per_second not above 0, n not a whole number of 0 or more, no request to take, or lengths that
            `heavy_tailed_lengths` refuses.
    """
    require_positive(rate_per_second=rate_per_second)
    require_count(0, n=n)
    if requests is None:
        prompts = heavy_tailed_lengths(n, *prompt_tokens, seed=f"{seed} prompts")
        outputs = heavy_tailed_lengths(n, *output_tokens, seed=f"{seed} outputs")
        requests = [Arrival(0.0, *lengths) for lengths in zip(prompts, outputs, strict=True)]
    if n and not requests:
        raise ValueError(f"requests is {requests!r}; it must hold at least one request")
    rng = random.Random(f"{seed} gaps")
    times = accumulate(-math.log(1 - rng.random()) / rate_per_second for _ in range(n))
    return Trace(tuple(replace(requests[i % len(requests)], seconds=round(t, 6)) for i, t in enumerate(times)))


def at_rate(recorded: Trace, rate_per_second: float) -> Trace:
    """Return the recorded requests, arriving at random so many a second, always alike; infinity means all at once.

    Raises:
        ValueError: rate_per_second not above 0.
    """
    if rate_per_second == math.inf:
        return all_at_once(recorded)
    return poisson(rate_per_second, len(recorded), seed=0, requests=list(recorded))


def heavy_tailed_lengths(n: int, shortest: int, longest: int, seed: int | str) -> list[int]:
    """Return n random lengths, most of them near the shortest and a few near the longest, as users' texts have.

    A length of x or more has a chance proportional to 1/x - 1/(longest + 1): the Pareto law of exponent 1, cut off.

    Raises:
        ValueError: n not a whole number of 0 or more, shortest not one above 0, longest below shortest.
    """
    require_count(0, n=n)
    require_count(1, shortest=shortest)
    require_count(shortest, longest=longest)
    rng, kept = random.Random(seed), 1 - shortest / (longest + 1)
    return [min(longest, int(shortest / (1 - kept * rng.random()))) for _ in range(n)]


def load_trace(path: Path | str = RECORDED) -> Trace:
    """Return the trace in a JSON Lines file as `save_trace` writes it; without a path, the one that comes with NanoLM.

    Empty lines are passed over.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a line that is no arrival, or one out of order; the message names the file and the line.
    """
    arrivals: list[Arrival] = []
    for number, line in enumerate(Path(path).read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            arrival = _arrival(line.decode("utf-8"))
            if arrivals:
                _require_order(arrivals[-1], arrival, "seconds")
        except (ValueError, OverflowError) as error:  # wrong UTF-8 and wrong JSON are ValueErrors too
            raise ValueError(f"{path}, line {number}: {error}") from error
        arrivals.append(arrival)
    return Trace(tuple(arrivals))


def save_trace(trace: Iterable[Arrival], path: Path | str) -> None:
    """Write the trace as JSON Lines in UTF-8: an arrival a line, its attributes by name, those that are None left out.

    Whoever reads the file meanwhile sees the old one or the new one, never a part.

    Raises:
        OSError: the file cannot be written.
    """
    lines = [json.dumps(_known(arrival), ensure_ascii=False, separators=(",", ":")) + "\n" for arrival in trace]
    write_text(Path(path), "".join(lines))


def _known(arrival: Arrival) -> dict[str, Any]:
    values = {field.name: getattr(arrival, field.name) for field in fields(arrival)}
    return {name: value for name, value in values.items() if value is not None}


def _arrival(line: str) -> Arrival:
    entry = json.loads(line)
    if not isinstance(entry, dict):
        raise ValueError(f"it holds {line.strip()[:40]!r}; it must hold an object")
    names = [field.name for field in fields(Arrival)]
    for name in entry:
        if name not in names:
            raise ValueError(f"{name!r} is no attribute of an arrival; those are {', '.join(names)}")
    for name in names[:3]:
        if name not in entry:
            raise ValueError(f"{name} is missing")
    return Arrival(**entry)


def _token_ids(prompt: Any, n_prompt_tokens: int) -> tuple[int, ...]:
    if not isinstance(prompt, list | tuple):
        raise ValueError(f"prompt is {prompt!r}; it must be a sequence of token ids or None")
    if len(prompt) != n_prompt_tokens:
        raise ValueError(f"n_prompt_tokens is {n_prompt_tokens}; it must be {len(prompt)}, the length of the prompt")
    for index, token in enumerate(prompt):
        require_count(0, **{f"prompt[{index}]": token})
    return tuple(int(token) for token in prompt)


def _require_order(before: Arrival, arrival: Arrival, name: str) -> None:
    if arrival.seconds < before.seconds:
        raise ValueError(f"{name} is {arrival.seconds} after {before.seconds}; it must be in ascending order")
