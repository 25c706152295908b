"""The capstone: a recorded trace served by the student's own engine, against targets and against the reference.

What is not written yet is the reference's, and the report says so part by part. Both engines run in processes of their
own and take turns; with the same seeds, and all requests at once, they write the same texts.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ..errors import CourseError
from ..grading.assembly import YOURS
from ..paths import ROOT

# Texts may differ at near ties, where an answer takes its sums in another order; so many must be equal.
_EQUAL_SHARE = 0.9
# Without targets of one's own: what the reference needs in the same rounds, and half as much again.
_SLACK = 1.5
# Throughputs of the same code that differ by more than this factor are worth a word.
_ALIKE = 1.25
_MEASURES = {
    "ttft_seconds": ("first token, 95 % within", lambda seconds: f"{1e3 * seconds:,.0f} ms"),
    "tpot_seconds": ("next token, 95 % within", lambda seconds: f"{1e3 * seconds:,.0f} ms"),
    "dollars_per_million": ("a million tokens", lambda dollars: f"{dollars:.3f} $"),
}


@dataclass(frozen=True)
class Verdict:
    """What a capstone found.

    Attributes:
        yours, reference: medians over the rounds, by name of the measure.
        targets: what is to be met.
        n_equal, n_texts: texts equal to the reference's, and all.
        parts: those that did any work, as dictionaries (see `replay`).
        rounds: replays of each.
    """

    yours: dict[str, float]
    reference: dict[str, float]
    targets: dict[str, float]
    n_equal: int
    n_texts: int
    parts: list[dict[str, Any]]
    rounds: int

    @property
    def is_right(self) -> bool:
        """Whether the engine wrote what the reference wrote, near ties aside."""
        return self.n_equal >= _EQUAL_SHARE * self.n_texts

    @property
    def met(self) -> dict[str, bool]:
        """Which targets are met."""
        return {name: self.yours[name] <= self.targets[name] for name in self.targets}

    @property
    def own_parts(self) -> list[dict[str, Any]]:
        """The student's parts among those that did any work."""
        return [part for part in self.parts if part["whose"] == YOURS]


def capstone(
    options: dict[str, Any],
    targets: dict[str, float | None],
    rounds: int = 3,
    seconds: float = 180,
    tell: Callable[[str], None] = lambda text: None,
) -> Verdict:
    """Run both engines in turns; return the verdict.

    Args:
        options: what `replay.run` reads.
        targets: by measure; None takes half as much again as the reference needs here.
        rounds: replays of each.
        seconds: most seconds a replay may take.
        tell: is told what runs.

    Raises:
        CourseError: the engine broke or took too long; the message says where and what to do.
    """
    results: dict[str, list[dict[str, Any]]] = {"nanolm": [], options["impl"]: []}
    for round_number in range(rounds):
        for name, done in results.items():
            tell(f"round {round_number + 1} of {rounds}: {'the reference' if name == 'nanolm' else name}")
            last = round_number == rounds - 1  # of whose texts the two are compared
            done.append(_replay(options | {"impl": name, "texts": last}, seconds))
    reference, yours = results["nanolm"], results[options["impl"]]
    middle = [
        {name: statistics.median(run[name] for run in runs) for name in (*_MEASURES, "tokens_per_second")}
        for runs in (yours, reference)
    ]
    pairs = zip(yours[-1]["texts"], reference[-1]["texts"], strict=True)
    return Verdict(
        yours=middle[0],
        reference=middle[1],
        targets={name: targets.get(name) or _SLACK * middle[1][name] for name in _MEASURES},
        n_equal=sum(mine == theirs for mine, theirs in pairs),
        n_texts=len(yours[-1]["texts"]),
        parts=[part for part in yours[-1]["parts"] if part["calls"]],
        rounds=rounds,
    )


def _replay(options: dict[str, Any], seconds: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "course.capstone.replay"]
    try:
        done = subprocess.run(
            command,
            input=json.dumps(options),
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=seconds,
            cwd=ROOT,
        )
    except subprocess.TimeoutExpired:
        raise CourseError(
            f"the engine from {options['impl']} was not done after {seconds:g} seconds: an endless loop, or far too "
            "slow; `course status` says which parts fail their tests"
        ) from None
    try:
        result = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        raise CourseError(
            f"the engine from {options['impl']} ended without a result: {done.stderr.strip()[-500:]}"
        ) from None
    if "error" in result:
        where = f" ({result['where']})" if result["where"] else ""
        advice = "" if options["impl"] == "nanolm" else "; `course status` says which parts fail their tests"
        raise CourseError(f"the engine from {options['impl']} broke: {result['error']}{where}{advice}")
    return result


def show(verdict: Verdict, console: Console) -> None:
    """Print whose parts did the work, then targets against measurements, then what it comes to."""
    table = Table(title="The parts that did the work", title_justify="left", title_style="bold")
    for heading in ("", "part", "whose", "calls"):
        table.add_column(heading, justify="right" if heading == "calls" else "left", overflow="fold")
    for part in verdict.parts:
        whose = "[green]yours[/]" if part["whose"] == YOURS else f"reference's: {part['why'].splitlines()[0][:60]}"
        table.add_row(part["number"], part["part"], whose, f"{part['calls']:,}")
    console.print(table)
    table = Table(title="Targets", title_justify="left", title_style="bold")
    for heading in ("", "target", "yours", "reference", ""):
        table.add_column(heading, justify="left" if not table.columns else "right")
    for name, (words, in_units) in _MEASURES.items():
        cells = [in_units(figures[name]) for figures in (verdict.targets, verdict.yours, verdict.reference)]
        table.add_row(words, *cells, "[green]met[/]" if verdict.met[name] else "[red]missed[/]")
    console.print(table)
    console.print(in_words(verdict), markup=False)


def in_words(verdict: Verdict) -> str:
    """Return the verdict in sentences."""
    own, all_parts = len(verdict.own_parts), len(verdict.parts)
    whose = (
        f"All {all_parts} parts that did the work are yours."
        if own == all_parts
        else f"{own} of the {all_parts} parts that did the work are yours; the reference stood in for the others."
    )
    if not own:
        whose = f"None of the {all_parts} parts that did the work is yours: this was the reference against itself."
    equal = f"{verdict.n_equal} of {verdict.n_texts} texts equal the reference's"
    right = (
        f"{equal}."
        if verdict.is_right
        else f"Only {equal}: a part is wrong, so the speed counts for nothing. `course status` says which."
    )
    ratio = verdict.yours["tokens_per_second"] / verdict.reference["tokens_per_second"]
    speed = f"Throughput: {ratio:.2f} times the reference's."
    if not own and not 1 / _ALIKE <= ratio <= _ALIKE:
        speed += " The same code ran twice, so only other work on this machine, or a cold start, can explain that."
    if verdict.rounds == 1:
        speed += " One round shows little of the speed; take three."
    missed = [_MEASURES[name][0] for name, met in verdict.met.items() if not met]
    targets = "All targets are met." if not missed else f"Missed: {'; '.join(missed)}."
    return f"{whose} {right} {speed} {targets}"


def draw(verdict: Verdict, path: Path) -> None:
    """Draw yours, the reference's and the target of each measure, as shares of the target."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3), layout="constrained")
    axes = figure.subplots()
    names = list(_MEASURES)
    for offset, label, figures, colour in (
        (0.2, "yours", verdict.yours, "#0072b2"),
        (-0.2, "reference", verdict.reference, "#999999"),
    ):
        shares = [figures[name] / verdict.targets[name] for name in names]
        axes.barh([i + offset for i in range(len(names))], shares, height=0.38, label=label, color=colour)
    axes.axvline(1.0, color="#d55e00", label="target")
    axes.set_yticks(range(len(names)), [_MEASURES[name][0] for name in names])
    axes.set_xlabel("share of the target: left of the line is met")
    axes.legend(loc="lower right")
    figure.savefig(path, dpi=150)
