"""The goals of a capstone, as multiples of what the machine's bare passes take; and the load as a share of them."""

import math
import statistics
from dataclasses import dataclass, replace

from .machine import Machine
from .settings import Load

# In passes that write for sixteen requests. A token may wait for three: its own, in which others' prompts run too. A
# first token may wait for ten: a place, the prompt in a few chunks, and the pass that writes it.
TPOT_PASSES, TTFT_PASSES = 3, 10
LAST_ANSWER = 2  # average answers: the price counts the time until the last request has one so long
MEASURES = "ttft_seconds", "tpot_seconds", "dollars_per_million"


@dataclass(frozen=True)
class Goals:
    """What is to be met, or what a student asks; None: nothing is.

    Attributes:
        ttft_seconds: 95 of 100 first tokens are there by then.
        tpot_seconds: 95 of 100 waits for a next token are no longer.
        dollars_per_million: the price of a million tokens.
    """

    ttft_seconds: float | None
    tpot_seconds: float | None
    dollars_per_million: float | None


@dataclass(frozen=True)
class Given:
    """The machine, the load with its rate, and what follows from the two.

    Attributes:
        n_prompt, n_answer: mean tokens of a prompt and of an answer.
        capacity: tokens a second that bare passes of sixteen would write (`Machine.capacity`).
        wanted: tokens a second that the load asks for; infinity where all come at once.
    """

    machine: Machine
    load: Load
    n_prompt: float
    n_answer: float
    goals: Goals

    @property
    def capacity(self) -> float:
        return self.machine.capacity(self.n_prompt, self.n_answer)

    @property
    def wanted(self) -> float:
        return self.load.arrival_rate * self.n_answer

    @property
    def share(self) -> float:
        """The load: wanted over capacity."""
        return self.wanted / self.capacity

    def allowance(self, measure: str, slowdown: float) -> float:
        """Return by which factor a machine that was `slowdown` times slower explains a measure beyond its goal.

        A pass takes so many times longer. A wait in a queue, which goes with load / (1 - load), grows by more, and
        without limit where the slower machine could not keep up with the load. Below 1 it is the factor by which a
        faster machine flatters.
        """
        if measure != "ttft_seconds" or slowdown <= 1 or self.share >= 1:
            return slowdown
        slower = slowdown * self.share
        return slowdown * (1 - self.share) / (1 - slower) if slower < 1 else math.inf


def given(machine: Machine, load: Load, asked: Goals) -> Given:
    """Return the load with its rate, and the goals: those asked for, and the formulas' for the others.

    The price is that of the time from the first arrival until the last request has an answer twice as long as the
    average, if it just meets the goals; or, where the machine cannot write so fast as the requests come, of the time
    that it needs for all of them, and that answer's.

    Raises:
        CourseError: no trace in the file.
    """
    trace = load.recorded()
    n_prompt = statistics.fmean(arrival.n_prompt_tokens for arrival in trace)
    n_answer = statistics.fmean(arrival.n_output_tokens for arrival in trace)
    capacity = machine.capacity(n_prompt, n_answer)
    if load.rate is None:
        load = replace(load, rate=float(f"{load.share * capacity / n_answer:.2g}"))
    n_tokens, a_pass = n_answer * len(trace), machine.sixteen
    first, each = asked.ttft_seconds or TTFT_PASSES * a_pass, asked.tpot_seconds or TPOT_PASSES * a_pass
    seconds = max(load.arriving()[-1].seconds, n_tokens / capacity) + first + LAST_ANSWER * n_answer * each
    goals = Goals(
        # With all at once the queue is the whole load, and no engine can serve the last of it early.
        ttft_seconds=first if load.rate else asked.ttft_seconds,
        tpot_seconds=each,
        dollars_per_million=asked.dollars_per_million or load.dollars_per_hour / 3600 * seconds / n_tokens * 1e6,
    )
    return Given(machine, load, n_prompt, n_answer, goals)
