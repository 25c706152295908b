"""`course check 6.1`: an exercise's tests against the answers in a student's folder, told as in a notebook."""

from ..grading.checking import failed_of, passed_line, report, score_line
from ..grading.outcomes import earned, points
from ..grading.status import Standing
from ..registry import find
from .layout import Work
from .tracks import standings_of


def check(name: str, work: Work) -> tuple[list[str], bool]:
    """Test an exercise wherever it is answered: in the copy of the notebook, in exercises/, in both where they differ.

    Returns:
        Lines for the student, and whether one of the answers passes.

    Raises:
        CourseError: there is no such exercise.
    """
    (standing,), remarks = standings_of([find(name)], work)
    found = [each for each in (standing, standing.other) if each is not None]
    return [*remarks, *(_told(each) for each in found)], standing.is_won


def _told(standing: Standing) -> str:
    exercise, outcomes = standing.exercise, standing.outcomes
    if standing.problem or standing.error:
        return standing.problem or f"the tests of {exercise.name} could not be run: {standing.error}"
    if standing.state == "not written":
        return standing.hint or exercise.not_yet_written
    if standing.state == "passes":
        said = passed_line(exercise.name, len(outcomes), points(exercise.points))
    else:
        failures = report(exercise, failed_of(outcomes), len(outcomes))
        said = f"{failures}\n\n{score_line(exercise, earned(exercise, outcomes))}"
    return f"{said}\n(the answer in the {standing.answer})"
