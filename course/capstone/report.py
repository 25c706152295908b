"""The verdict as tables and as a picture."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from ..grading.assembly import YOURS
from ..lab import figures
from ..lab.verdicts import CANNOT_TELL
from .check import by_number
from .goals import MEASURES, TPOT_PASSES, TTFT_PASSES, Given
from .settings import BLOCK_SIZE, PLACES
from .verdict import MET, MISSED, WORDS, Verdict, spread

_FORMS = {"ttft_seconds": (1e3, "{:,.0f}", "ms"), "tpot_seconds": (1e3, "{:,.0f}", "ms")}
_PRICE = 1.0, "{:.3f}", "$"
_STYLES = {MET: "green", MISSED: "red", CANNOT_TELL: "yellow"}


def show_given(at: Given, console: Console) -> None:
    """Print the machine, the load and the goals, and how they follow from each other."""
    machine, load, goals = at.machine, at.load, at.goals
    lines = [
        f"Machine: {machine.processor}, {_count(machine.threads, 'thread')}; bare passes of {machine.model}: "
        f"one request {1e3 * machine.one:.3g} ms, sixteen {1e3 * machine.sixteen:.3g} ms, "
        f"a prompt token {1e3 * machine.prompt_token:.3g} ms"
        + ("" if machine.is_steady else f" (quartiles {machine.spread:.2f} apart: not kept)"),
        f"Capacity: {at.capacity:,.0f} tokens/s, at {at.n_prompt:.0f} prompt and {at.n_answer:.0f} answer tokens",
        f"Load: {load.rate:g} requests a second, {at.wanted:,.0f} tokens/s, {at.share:.0%} of the capacity"
        if load.rate
        else "Load: all requests at once",
        f"Cache: {(load.cache_bytes or 0) / 1e6:.2f} MB",
    ]
    rules = {
        "ttft_seconds": f"{TTFT_PASSES} passes of sixteen",
        "tpot_seconds": f"{TPOT_PASSES} passes of sixteen",
        "dollars_per_million": "the time of the load and of one answer twice the average",
    }
    for name in MEASURES:
        goal = getattr(goals, name)
        lines.append(f"Goal: {WORDS[name]} " + ("– (all came at once)" if goal is None else _in_units(name, [goal])))
        lines[-1] += f"; by formula {rules[name]}" if goal is not None else ""
    for line in lines:
        console.print(line, markup=False)


def show(verdict: Verdict, console: Console) -> None:
    """Print parts, plan, goals against measurements, the cache, and what it comes to."""
    console.print(_parts(verdict))
    console.print(_plan(verdict))
    console.print(_goals(verdict))
    console.print(_cache(verdict), markup=False)
    for line in verdict.in_words():
        console.print(line, markup=False)


def _parts(verdict: Verdict) -> Table:
    table = _table("The parts that did the work, and their calls", "", "part", "whose", *PLACES.values(), right_from=3)
    for part in sorted(verdict.check.working_parts, key=lambda part: by_number(part["number"])):
        whose = "[green]yours[/]" if part["whose"] == YOURS else f"reference, {part['why'].splitlines()[0][:60]}"
        calls = [f"{part['calls'][place]:,}" if part["calls"][place] else "" for place in PLACES]
        table.add_row(part["number"], part["part"], whose, *calls)
    return table


def _plan(verdict: Verdict) -> Table:
    table = _table("The plan, by the functions of weeks 1, 2, 6, 7, 9 and 10", "", "", right_from=9)
    for what, value, expected in verdict.check.plan:
        table.add_row(what, value if value == expected else f"[red]{value}[/]; the reference: {expected}")
    return table


def _goals(verdict: Verdict) -> Table:
    headings = ["goal", "yours", "reference", ""] if verdict.has_verdict else ["goal", "reference"]
    n = len(verdict.reference)
    title = f"Goals, and what was measured in {_count(n, 'round')}" + (", smallest to largest" if n > 1 else "")
    table = _table(title, "", *headings)
    for name in MEASURES:
        goal = getattr(verdict.at.goals, name)
        cells = ["–" if goal is None else _in_units(name, [goal])]
        rounds = [verdict.yours, verdict.reference] if verdict.has_verdict else [verdict.reference]
        cells += [_in_units(name, verdict.values(name, done)) for done in rounds]
        if verdict.has_verdict:
            found = verdict.goals[name]
            cells.append(f"[{_STYLES[found]}]{found}[/]" if found in _STYLES else found)
        table.add_row(WORDS[name], *cells)
    return table


def _cache(verdict: Verdict) -> str:
    rounds = verdict.yours

    def of(name: str, form: str = "{:.0f}") -> str:
        return spread([done[name] for done in rounds], form)

    words = f"Cache: {of('n_blocks')} blocks of {BLOCK_SIZE} positions, at most {of('peak_blocks')} in use; "
    words += f"{of('mean_running', '{:.1f}')} requests a pass; preempted {of('n_preemptions')}, "
    words += f"evicted {of('n_evicted')} blocks, hit rate {of('hit_rate', '{:.0%}')}"
    if rounds[0]["acceptance_rate"] is not None:
        words += f"; drafted tokens kept {of('acceptance_rate', '{:.0%}')}"
    return words.replace("nan%", "none drafted")


def _table(title: str, *headings: str, right_from: int = 1) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for i, heading in enumerate(headings):
        table.add_column(heading, justify="right" if i >= right_from else "left", overflow="fold")
    return table


def _in_units(measure: str, values: list[float]) -> str:
    scale, form, unit = _FORMS.get(measure, _PRICE)
    return f"{spread([scale * value for value in values], form)} {unit}"


def _count(n: int, what: str) -> str:
    return f"{n} {what}" + ("" if n == 1 else "s")


def draw(verdict: Verdict, path: Path) -> None:
    """Draw each measure as a share of its goal, smallest to largest over the rounds, beside the reference's."""
    names = [name for name in MEASURES if getattr(verdict.at.goals, name) is not None]
    fig, axes = figures.figure(6.4, 3.0)
    sides = [(0.2, "yours", verdict.yours, figures.BLUE)] if verdict.has_verdict else []
    for offset, label, rounds, colour in (*sides, (-0.2, "reference", verdict.reference, figures.GREY)):
        shares = [[value / getattr(verdict.at.goals, name) for value in verdict.values(name, rounds)] for name in names]
        middle = [sorted(values)[len(values) // 2] for values in shares]
        spans = [[m - min(values) for m, values in zip(middle, shares, strict=True)]]
        spans.append([max(values) - m for m, values in zip(middle, shares, strict=True)])
        places = [i + offset for i in range(len(names))]
        axes.barh(places, middle, height=0.38, label=label, color=colour, xerr=spans, ecolor="black", capsize=3)
    axes.axvline(1.0, color=figures.RED, label="goal")
    axes.set_yticks(range(len(names)), [WORDS[name] for name in names])
    axes.set_xlabel("share of the goal: left of the line is met")
    axes.legend(fontsize=9)
    fig.savefig(path, dpi=150)
