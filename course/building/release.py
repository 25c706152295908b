"""From solution notebooks to what students get: nbgrader's own generate_assignment, run in a folder of its own."""

import logging
import os
import sys
from pathlib import Path

import nbformat

from ..errors import CourseError
from ..paths import ROOT

# A release changes nothing in the gradebook, so a build needs none (nbgrader's own flag --no-db).
NO_GRADEBOOK = {"SaveCells": {"enabled": False}, "GenerateAssignment": {"no_database": True}}


def nbgrader_course(folder: Path):
    """Return nbgrader's configuration of this repository, moved to `folder`: same stubs and names, other files."""
    from traitlets.config.loader import PyFileConfigLoader

    config = PyFileConfigLoader("nbgrader_config.py", path=str(ROOT)).load_config()
    (folder / "grading").mkdir(parents=True, exist_ok=True)
    config.CourseDirectory.root = str(folder)
    config.CourseDirectory.db_url = f"sqlite:///{(folder / 'grading' / 'gradebook.db').as_posix()}"
    return config


def release(folder: Path, names: list[str]) -> dict[str, nbformat.NotebookNode]:
    """Return the released notebooks of assignments under folder/solutions by "/assignment/name.ipynb", stubs in them.

    Raises:
        CourseError: nbgrader refuses an assignment; the message is nbgrader's.
    """
    from nbgrader.converters import GenerateAssignment

    released = {}
    for name in names:
        run_converter(GenerateAssignment, folder, name, NO_GRADEBOOK)
        for path in sorted((folder / "notebooks" / name).glob("*.ipynb")):
            released[f"/{name}/{path.name}"] = nbformat.read(path, as_version=4)
    return released


def run_converter(kind, folder: Path, assignment: str, settings: dict | None = None) -> None:
    """Run one nbgrader converter over one assignment of the course in `folder`; raise CourseError if it fails."""
    from nbgrader.coursedir import CourseDirectory
    from traitlets.config import Config

    said: list[str] = []
    log = logging.Logger("nbgrader", logging.ERROR)
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    log.addHandler(handler)
    _put_tools_on_path()
    config = nbgrader_course(folder)
    config.merge(Config(settings or {}))
    config.CourseDirectory.assignment_id = assignment
    directory = CourseDirectory(config=config, log=log)
    try:
        kind(coursedir=directory, config=config, log=log).start()
    except Exception as error:
        raise CourseError(f"nbgrader could not process {assignment}: {error}\n" + "\n".join(said)) from error


def _put_tools_on_path() -> None:
    """nbgrader calls `alembic` by name, which fails where the environment's programs are not on PATH."""
    tools = str(Path(sys.executable).parent)
    if tools not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = tools + os.pathsep + os.environ.get("PATH", "")
