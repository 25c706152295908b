"""The course's tool: build the notebooks, check an answer, see how far one is.

It knows nanolm; nanolm knows nothing of it.
"""

from .errors import CheckFailed, CourseError, NotYetWritten

__all__ = ["CheckFailed", "CourseError", "NotYetWritten", "check", "needs", "still_to_write", "your_engine"]


def check(name: str, answers: dict | None = None, seed: int | None = None) -> float:
    """Run the tests of one exercise against the answer in this notebook, and return its points."""
    # Loaded on first use: `from course import NotYetWritten` stands in every file of exercises.
    from .grading.checking import check as run

    return run(name, answers, seed)


def needs(*exercises: str, **cells: str) -> None:
    """Make ready for a cell: the reference stands in for unwritten exercises, and what earlier cells make is there."""
    from .grading.checking import make_ready as run

    run(exercises, cells)


def still_to_write(notebook: str) -> None:
    """Print which exercises of a notebook are not written in this one."""
    from .grading.checking import still_to_write as run

    run(notebook)


def your_engine(*names: str, answers: dict | None = None):
    """Run the engine on the answers of this notebook for the length of a `with`."""
    from .grading.checking import your_engine as run

    return run(*names, answers=answers)
