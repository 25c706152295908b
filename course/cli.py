"""The command `course`."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from nanolm.cli.options import version_option
from nanolm.cli.output import App

from .commands.audit import app as audit
from .commands.bundles import app as bundles
from .commands.capstone import app as capstone
from .commands.grade import app as grade
from .commands.instructor import app as instructor
from .commands.student import app as student
from .errors import CourseError
from .folder import require_folder
from .paths import ROOT


class _App(App):
    """A CourseError ends the command with its message and exit code 1, not with a traceback."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except CourseError as error:
            Console(stderr=True, highlight=False, soft_wrap=True).print(f"[red]error:[/red] {escape(str(error))}")
            sys.exit(1)


app = _App(
    name="course",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Build, check and follow the course.",
)
_PARTS = (student, capstone, instructor, audit, grade, bundles)
for part in _PARTS:
    app.add_typer(part)


_ANYWHERE = ("start", "doctor")  # what an installed course does without a folder
# They read the sources of lessons, or the mistakes planted to test the grader.
_OF_THE_REPOSITORY = ("build", "check-build", "adopt", "audit", "release", "gradescope", "grade", "book")
_FOR_INSTRUCTORS = (*_OF_THE_REPOSITORY, "similar", "leaderboard")


def has_lessons(root: Path = ROOT) -> bool:
    """Return whether the lessons' sources are here: they are in a clone, not in a release or an installed course."""
    return (root / "solutions").is_dir()


def _hide_instructors_commands() -> None:
    """A student's list of commands is as long as what a student does."""
    for part in _PARTS:
        for command in part.registered_commands:
            name = command.name or getattr(command.callback, "__name__", "")
            command.hidden = command.hidden or name.replace("_", "-") in _FOR_INSTRUCTORS


if not has_lessons():
    _hide_instructors_commands()


@app.callback()
def course(context: typer.Context, version: Annotated[bool, version_option("course")] = False) -> None:
    """Options before the name of a command."""
    command = context.invoked_subcommand
    if {"-h", "--help"} & set(sys.argv):
        return
    if command in _OF_THE_REPOSITORY and not has_lessons():
        raise CourseError(f"course {command} needs what only the repository has: run it in a clone")
    if command not in _ANYWHERE:
        require_folder()


if __name__ == "__main__":
    app()
