"""Run an audit with its progress, and show its table."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from tqdm.auto import tqdm

from ..grading import seeds
from ..registry import Exercise, find
from .audit import Case, Row, cases, mutant_cases, rates
from .mutants import equivalent
from .run import AGAIN, RIGHT, THE_ENGINES_OWN, WRONG, Result
from .store import keep, load


def audited(
    exercises: Sequence[Exercise],
    seed: int | None,
    jobs: int,
    weak: tuple[str, ...] = (),
    again: bool = False,
    mutate: bool = False,
) -> tuple[list[Row], int]:
    """Return what was found of each exercise, and the seed; what an earlier audit has kept is not graded again.

    Args:
        jobs: processes at once; an exercise stays in one.
        weak: test functions that pass whatever the answer does.
        again: grade everything, also what is kept.
        mutate: grade the mutants of the reference, and nothing else.
    """
    if seed is None:
        seed = _kept_seed() if not again else seeds.new()
    rows = {exercise.number: Row(exercise) for exercise in exercises}
    plan = Plan(seed, weak, again, mutate)
    with tqdm(total=len(exercises), unit="exercise", desc="audit") as bar:
        for number, results in _each(exercises, jobs, plan):
            rows[number].results += results
            bar.update()
            bar.set_postfix_str(f"{sum(r.is_fault for row in rows.values() for r in row.results)} faults")
    return list(rows.values()), seed


def _kept_seed() -> int:
    """The seed of the results that are kept, so that an audit that was broken off goes on; a new one at first."""
    return next((result.seed for result in reversed(list(load().values()))), None) or seeds.new()


def _each(exercises: Sequence[Exercise], jobs: int, plan: "Plan") -> Iterator[tuple[str, list[Result]]]:
    if jobs == 1:
        for exercise in exercises:
            yield exercise.number, graded(exercise.number, plan)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(graded, exercise.number, plan): exercise.number for exercise in exercises}
        for done in as_completed(waiting):
            yield waiting[done], done.result()


@dataclass(frozen=True)
class Plan:
    """What is graded of each exercise: see `audited`."""

    seed: int
    weak: tuple[str, ...] = ()
    again: bool = False
    mutate: bool = False

    def cases(self, exercise: Exercise) -> Iterator[Case]:
        """Return an iterator over the cases of an exercise."""
        return mutant_cases(exercise, self.seed) if self.mutate else cases(exercise, self.seed, self.weak)


def graded(number: str, plan: Plan) -> list[Result]:
    """Return the results of one exercise, each kept as soon as it is there."""
    kept, results = {} if plan.again else load(), []
    for case in plan.cases(find(number)):
        if case.key not in kept:
            kept[case.key] = case.run()
            keep(case.key, kept[case.key])
        results.append(kept[case.key])
    return results


def figures(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return each exercise's results as plain values."""
    return [
        {
            "number": row.exercise.number,
            "name": row.exercise.name,
            "sentences": dict(zip(("covered", "all"), row.sentences, strict=True)),
            "complaints": list(row.complaints()),
            "results": [asdict(result) for result in row.results],
        }
        for row in rows
    ]


def show(rows: Sequence[Row], seed: int, console: Console) -> bool:
    """Print the table, what is wrong, and both rates; return whether anything is wrong."""
    table = Table(title=f"course audit, seed {seed}")
    columns = ("exercise", "wrong", "caught", "named", "named first", "right", "accepted", "sentences", "seconds")
    for column in columns:
        table.add_column(column, justify="left" if column == "exercise" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*_cells(row))
    console.print(table)
    complaints = [complaint for row in rows for complaint in row.complaints()]
    for complaint in complaints:
        console.print(escape(complaint))
    (accepted, wrong), (refused, right) = rates(rows)
    console.print(f"false accepts: {_rate(accepted, wrong, 'wrong')}")
    console.print(f"false rejects: {_rate(refused, right, 'right')}")
    return bool(complaints)


def _cells(row: Row) -> list[str]:
    wrong, right = row.of(WRONG), row.of(RIGHT, AGAIN)
    covered, every = row.sentences
    return [
        f"{row.exercise.number} {row.exercise.name}",
        str(len(wrong)),
        str(sum(result.caught and not result.accepted for result in wrong)),
        str(sum(result.named for result in wrong)),
        str(sum(result.named_first for result in wrong)),
        str(len([result for result in row.of(RIGHT) if result.name != THE_ENGINES_OWN])),
        f"{sum(result.accepted for result in right)} of {len(right)}",
        f"{covered} of {every}",
        f"{sum(result.seconds for result in row.results):.1f}",
    ]


def show_mutants(rows: Sequence[Row], seed: int, console: Console) -> bool:
    """Print how many mutants were noticed, and the name of each that was not; return whether there is one."""
    table = Table(title=f"course audit --mutate, seed {seed}")
    for column in ("exercise", "mutants", "killed", "equivalent", "survive", "seconds"):
        table.add_column(column, justify="left" if column == "exercise" else "right", no_wrap=True)
    survivors: list[str] = []
    for row in rows:
        alive = [result.name for result in row.results if result.accepted]
        same = [name for name in alive if name in equivalent()]
        survivors += [f"{row.exercise.number} {name}" for name in alive if name not in equivalent()]
        numbers = (len(row.results), len(row.results) - len(alive), len(same), len(alive) - len(same))
        seconds = f"{sum(result.seconds for result in row.results):.1f}"
        table.add_row(f"{row.exercise.number} {row.exercise.name}", *map(str, numbers), seconds)
    console.print(table)
    for survivor in survivors:
        console.print(escape(f"survives: {survivor}"))
    every = sum(len(row.results) for row in rows)
    console.print(f"{every - len(survivors)} of {every} mutants are killed or equivalent, {len(survivors)} survive")
    return bool(survivors)


def _rate(k: int, n: int, which: str) -> str:
    """A rate and what it rules out: with none of n, a rate of 3/n would have shown itself with 95 % (1 - e^-3)."""
    bound = f"; with 95 % confidence the rate on such answers is below {3 / n:.1%}" if n and not k else ""
    return f"{k} of {n} {which} answers{bound}"
