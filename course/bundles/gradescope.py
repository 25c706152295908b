"""course gradescope: an autograder for Gradescope, an archive with setup.sh and run_autograder at its top.

Gradescope unpacks it into /autograder/source, runs setup.sh once, and /autograder/run_autograder for each submission
(https://gradescope-autograders.readthedocs.io/en/latest/specs/). In it are the engine, the tool, the tests and the
planted mistakes that the judge tests itself by; no solutions, no mark schemes. Nobody but staff can download it.
"""

from pathlib import Path

from ..errors import CourseError
from ..paths import ROOT
from ..registry import registry
from ..text.files import put
from .archive import archive_of
from .contents import whole
from .proof import Secrets, leaks, secrets

_LONE = ("LICENSE", "README.md", "constraints.txt", "pyproject.toml")
_ROOMS = ("course", "exercises", "nanolm", "notebooks")
_NO_GRADING = ("course", "lessons", "reference", "right", "sentences")  # folders of tests/
_PROGRAMS = ("run_autograder", "setup.sh")

_SETUP = """\
#!/usr/bin/env bash
# Gradescope runs this once, when it makes the container's image.
set -euo pipefail
here="$(cd "$(dirname "$0")/.." && pwd)"
apt-get update
apt-get install -y --no-install-recommends python3 python3-venv
python3 -m venv "$here/venv"
"$here/venv/bin/python" -m pip install "$here/source[course]" -c "$here/source/constraints.txt"
"$here/venv/bin/python" -m pip uninstall -y nanolm-course  # what it needs stays; it runs from source/
"""
_RUN = """\
#!/usr/bin/env bash
# Gradescope runs this, as /autograder/run_autograder, for each submission.
here="$(cd "$(dirname "$0")" && pwd)"
python="$here/venv/bin/python"
[ -x "$python" ] || python=python3
cd "$here/source"
export PYTHONPATH="$here/source" OMP_NUM_THREADS=1 PYTHONUTF8=1
exec "$python" -m course.bundles.autograder {week} "$here"
"""


def gradescope(week: int, into: Path, root: Path = ROOT) -> Path:
    """Write a week's autograder to `into`; return the archive, `gradescope-weekNN.zip`.

    Raises:
        CourseError: no such week, or it cannot be written.
    """
    path = into / f"gradescope-week{week:02}.zip"
    try:
        put(path, archive_of(autograder_files(week, root), runnable=_PROGRAMS))
    except OSError as error:
        raise CourseError(f"{path} cannot be written: {error.strerror}") from None
    return path


def autograder_files(week: int, root: Path = ROOT) -> dict[str, bytes]:
    """Return every file of an autograder by its path; raise CourseError for a week that is none."""
    weeks = sorted({exercise.week for exercise in registry(root)})
    if week not in weeks:
        raise CourseError(f"week is {week}; there are weeks {weeks[0]} to {weeks[-1]}")
    files = {name: (root / name).read_bytes() for name in _LONE}
    for room in _ROOMS:
        files |= whole(room, root)
    tests = whole("tests", root)
    files |= {path: text for path, text in tests.items() if path.split("/")[1] not in _NO_GRADING}
    files |= {"setup.sh": _SETUP.encode("utf-8"), "run_autograder": _RUN.format(week=week).encode("utf-8")}
    if found := leaks(files, Secrets(secrets([], root).prose, frozenset())):
        raise CourseError("\n".join(["nothing was written:", *found[:10]]))
    return files
