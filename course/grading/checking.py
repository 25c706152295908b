"""`check("residual_distribution")` in a notebook: the published tests against the answer that stands in it."""

import contextlib
import re
import textwrap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import CheckFailed, CourseError, NotYetWritten
from ..registry import Exercise, find, questions, registry
from ..text.ipython import python_of
from ..text.source import parse
from .assembly import YOURS, Part, assembled
from .failing import failing_call
from .implementation import Notebook
from .outcomes import Outcome, earned, knows_little, points
from .overlay import is_engine
from .runner import run_exercises
from .stand_in import needs, unwritten

SECONDS = 60
_SHOWN = 5  # complaints spelled out; more than that hides the first


def check(name: str, answers: MutableMapping[str, Any] | None = None, seed: int | None = None) -> float:
    """Run the tests of one exercise, print what they found, and return the points that the answer earns.

    The cells below a failed check still run, so nothing is raised. Where a test failed, the call of the answer that it
    failed on is left in the notebook as `failing` (`FailingCall`).

    Args:
        name: "residual_distribution", "4.1", or a single method, "KVCache.update", which gives no points by itself.
        answers: the namespace with the answer; None means this notebook's.
        seed: of the random inputs, to meet those of an earlier check again; None: new ones.
    """
    space: MutableMapping[str, Any] = {}
    try:
        space = _notebook() if answers is None else answers
        print(examine(name, space, seed))
    except CheckFailed as error:
        print(error)
        _keep_failing(error, space)
        return error.points
    except (CourseError, NotYetWritten) as error:  # any other is a mistake of ours, and is raised
        print(error)
        return 0
    exercise = find(name)
    return exercise.points if _part(exercise, name) is exercise else 0


def examine(name: str, answers: Mapping[str, Any], seed: int | None = None) -> str:
    """Run the tests of one exercise and return one line when all of them pass.

    Raises:
        CourseError: no such exercise, or no answer in the namespace.
        NotYetWritten: the answer is still the line that raises this.
        CheckFailed: tests failed, a paragraph for each; `failing` is the call that the first one failed on.
    """
    exercise = find(name)
    part = _part(exercise, name)
    _require_python(exercise, answers)
    _require_defined(exercise, answers)
    run = run_exercises([part], Notebook(answers), SECONDS, brief=True, seed=seed)
    if run.error:
        raise CourseError(f"the tests of {exercise.name} could not be run: {run.error}")
    # A test of several methods at once says nothing about one of them.
    outcomes = [o for o in run.outcomes if part is exercise or set(o.targets) <= set(part.targets)]
    left = unwritten(part, answers) if any(outcome.unwritten for outcome in outcomes) else []
    try:
        return told(part, name, outcomes, left, run.seed)
    except CheckFailed as error:
        first = next((outcome for outcome in failed_of(outcomes) if not outcome.unwritten), None)
        error.failing = None if first is None else failing_call(part, first, answers, run.seed)
        raise


def failed_of(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the failures, those that name the mistake first."""
    return sorted((outcome for outcome in outcomes if not outcome.passed), key=knows_little)


def told(part: Exercise, name: str, outcomes: Sequence[Outcome], left: Sequence[str], seed: int) -> str:
    """Return the line that says that all tests of an exercise, or of one method of it, passed.

    Args:
        part: the exercise, or one with the targets of the method alone.
        name: what `check` was asked for.
        left: the functions or methods that are not written.
        seed: of the inputs.

    Raises:
        NotYetWritten, CheckFailed: as `examine` does.
    """
    exercise, failed = find(part.name), failed_of(outcomes)
    is_whole = part.targets == exercise.targets
    if left and not any(outcome.passed for outcome in outcomes if not outcome.is_refusal):
        what = part.name if list(left) == list(part.targets) else " and ".join(left)
        raise NotYetWritten(not_written(exercise, what))
    if failed:
        score = earned(exercise, outcomes) if is_whole else 0
        lines = [report(part, failed, len(outcomes), left)]
        lines += [score_line(exercise, score)] if is_whole else []
        lines.append(f'the same inputs again: check("{name}", seed={seed})')
        raise CheckFailed("\n\n".join(lines), points=score)
    reward = points(exercise.points) if is_whole else f'check("{exercise.name}") tests all of it'
    return passed_line(part.name, len(outcomes), reward)


def passed_line(name: str, n_tests: int, reward: str) -> str:
    """Return the line that says that all tests passed, and what that gives."""
    return f"{name}: {_count(n_tests, 'test')} passed, {reward}"


def score_line(exercise: Exercise, score: float) -> str:
    """Return the line that says what an exercise earns whose tests did not all pass."""
    return f"{score:g} of {points(exercise.points)} for the tests that pass"


def not_written(exercise: Exercise, what: str) -> str:
    """Return the line about an exercise, or the parts of it that `what` names, that nobody has written."""
    return (
        f"exercise {exercise.number} {what} is not written yet: "
        "put your code in the place of `raise NotYetWritten` in the cell above, and run that cell"
    )


def _keep_failing(error: CheckFailed, space: MutableMapping[str, Any]) -> None:
    call = error.failing
    if call is not None:
        space["failing"] = call
        print(f"\nThe last call of your answer in the first of them: {call}\nfailing.again() makes it once more.")


def make_ready(exercises: tuple[str, ...], cells: dict[str, str]) -> None:
    """Do in this notebook what `needs` does, and print its lines."""
    for line in needs(_notebook(), exercises, cells):
        print(line)


def still_to_write(notebook: str) -> None:
    """Print which exercises of the released notebook of this name are not written in the one that runs."""
    space = _notebook()
    exercises = [exercise for exercise in registry() if exercise.notebook.endswith(f"/{notebook}.ipynb")]
    left = [f"{exercise.number} {exercise.name}" for exercise in exercises if unwritten(exercise, space)]
    print("not written yet: " + ", ".join(left) if left else "every function that is asked in this notebook is written")
    if numbers := _in_words(exercises):
        print(f"to be answered in words, and marked by hand: {', '.join(numbers)}")


def _in_words(exercises: Sequence[Exercise]) -> list[str]:
    """The numbers of the questions that stand in the notebook of these exercises."""
    if not exercises:
        return []
    week, here = exercises[0].week, [_order(exercise.number) for exercise in exercises]
    later = [_order(each.number) for each in registry() if each.week == week and _order(each.number) > max(here)]
    stands = range(min(here), min(later, default=1000))
    return [question.number for question in questions() if question.week == week and _order(question.number) in stands]


def _order(number: str) -> int:
    return int(number.partition(".")[2])


@contextlib.contextmanager
def your_engine(*names: str, answers: Mapping[str, Any] | None = None) -> Iterator[list[Part]]:
    """For the length of a `with`, nanolm itself computes with the answers of this notebook.

    Gives a list of parts, one a function or method asked, whose `calls` counts how often the engine has run it. What is
    not written is the reference's, and a line says so. A model made inside the `with` is yours from its angles on.

    Args:
        names: exercises, as `check` calls them.
        answers: the namespace with the answers; None means this notebook's.

    Raises:
        CourseError: no such exercise.
    """
    exercises = [find(name) for name in names]
    with assembled(Notebook(_notebook() if answers is None else answers), exercises) as parts:
        for part in parts:
            if part.whose != YOURS:
                print(
                    f"with the reference in place of {part.exercise.number} {part.name}: {part.why.partition(': ')[0]}"
                )
        yield parts


def report(exercise: Exercise, failed: list[Outcome], total: int, left: Sequence[str] = ()) -> str:
    """Return a heading and a paragraph for each failed test; `left` names methods that are not written."""
    lines = [f"{exercise.name}: {len(failed)} of {_count(total, 'test')} failed"]
    if left:
        lines.append(f"not written yet: {', '.join(left)}")
    tests_by_message: dict[str, list[str]] = {}
    for outcome in (outcome for outcome in failed if not outcome.unwritten):
        tests_by_message.setdefault(outcome.message, []).append(outcome.sentence)
    for message, sentences in list(tests_by_message.items())[:_SHOWN]:
        alike = f" (and {len(sentences) - 1} more like it)" if len(sentences) > 1 else ""
        lines.append(f"- {sentences[0]}{alike}:\n{textwrap.indent(message, '  ')}")
    if len(tests_by_message) > _SHOWN:
        lines.append(f"and {_count(len(tests_by_message) - _SHOWN, 'other complaint')}; begin with the first")
    return "\n\n".join(lines)


def _part(exercise: Exercise, name: str) -> Exercise:
    """The exercise, or one method of it, if it has several and `name` is that method's."""
    asked = [target for target in exercise.targets if name == target]
    return replace(exercise, name=asked[0], targets=tuple(asked)) if asked and len(exercise.targets) > 1 else exercise


def _notebook() -> MutableMapping[str, Any]:
    from IPython import get_ipython

    shell = get_ipython()
    if shell is None:
        raise CourseError("check looks for the answer in a notebook, and this is none: call check(name, vars())")
    return shell.user_ns


def _require_python(exercise: Exercise, answers: Mapping[str, Any]) -> None:
    """The cell with the answer that was run last must be Python; else an older answer would be tested unsaid."""
    names = "|".join({target.split(".")[0] for target in exercise.targets})
    cells = [cell for cell in answers.get("In", ()) if re.search(rf"(?m)^(?:def|class) +(?:{names})\b", cell)]
    if cells:
        try:
            parse(python_of(cells[-1]), "the cell above")
        except CourseError as error:
            raise CourseError(f"{error}: nothing of that cell has been run, so there is nothing to test") from None


def _require_defined(exercise: Exercise, answers: Mapping[str, Any]) -> None:
    for name in dict.fromkeys(target.split(".")[0] for target in exercise.targets):
        if name not in answers or is_engine(answers[name]):
            raise CourseError(f"{name} is not defined yet in this notebook: run the cell above, where it is written")


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
