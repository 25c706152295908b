"""The course's tool: build the notebooks, check an answer, see how far one is.

It knows nanolm; nanolm knows nothing of it.
"""

from .errors import CheckFailed, CourseError, NotYetWritten

__all__ = ["CheckFailed", "CourseError", "NotYetWritten", "check", "your_engine"]


def check(name: str, answers: dict | None = None) -> None:
    """Run the tests of one exercise against the answer in this notebook."""
    # Loaded on first use: `from course import NotYetWritten` stands in every file of exercises.
    from .grading.checking import check as run

    run(name, answers)


def your_engine(*names: str, answers: dict | None = None):
    """Run the engine on the answers of this notebook for the length of a `with`."""
    from .grading.checking import your_engine as run

    return run(*names, answers=answers)
