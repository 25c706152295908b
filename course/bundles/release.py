"""course release: what a class works in from one week on, as a folder and an archive, without solutions.

What is not in it: solutions/, model answers and mark schemes, the right, planted and described mistakes of the tests,
and the bodies of the exercises of that week and later, which neither exercises/ nor the engine shows. Earlier weeks are
closed, too, unless `solved_through` opens them. A proof, line by line, stands before every release (`proof.py`).

What it does not hide: the engine runs, so its code is there. Labs and tests need the reference, and its files are
packed (`unpacking.py`): out of sight, not secret. The course is public too, with its history: a student who looks for
an answer finds it on the web, model answers to questions in words in the same place.
"""

import json
import re
from collections.abc import Collection
from pathlib import Path

from ..building.build import is_as_built
from ..errors import CourseError
from ..paths import MANIFEST, ROOT, read
from ..registry import registry
from ..text.files import Changes
from .archive import archive_of
from .contents import grading_tests, whole
from .engine import asked, engine_files, exercise_files
from .proof import leaks, secrets

_LONE = (
    *(".gitignore", "LICENSE", "Makefile", "constraints.txt", "environment.yml", "pyproject.toml"),
    *("book/students.md", "book/use.md", "book/_static/predicted.svg"),  # which the front page leads to
)
_NOT_FOR_STUDENTS = "\n## For instructors\n"
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^):]+)\)")
_SHOWN = 10


def release(week: int, into: Path, solved_through: int = 0, root: Path = ROOT) -> tuple[Path, Path]:
    """Write a week's release to `into`; return its folder and its archive, `nanolm-weekNN` and `nanolm-weekNN.zip`.

    Args:
        solved_through: the bodies of exercises up to this week are left in, in exercises/ and in the engine.

    Raises:
        CourseError: no such week, something is there already, files are not as built, or a line of a solution would be
            in it.
    """
    folder = into / f"nanolm-week{week:02}"
    archive = into / f"{folder.name}.zip"
    for path in (folder, archive):
        if path.exists():
            raise CourseError(f"{path} is there already: delete it, or name another folder with --into")
    files = release_files(week, solved_through, root)
    changes = Changes()
    for path, content in files.items():
        changes.write_bytes(folder / path, content)
    changes.write_bytes(archive, archive_of(files, folder.name))
    changes.apply()
    return folder, archive


def release_files(week: int, solved_through: int = 0, root: Path = ROOT) -> dict[str, bytes]:
    """Return every file of a release by its path; raise CourseError as `release` does."""
    _require(week, solved_through, root)
    files = {name: (root / name).read_bytes() for name in _LONE}
    for room in ("course", "nanolm", "notebooks"):
        files |= whole(room, root)
    files |= {path: text for path, text in whole("exercises", root).items() if path.endswith("__init__.py")}
    files |= grading_tests(root) | engine_files(solved_through, root) | exercise_files(solved_through, root)
    files["README.md"] = _for_students(read(root / "README.md"), files).encode("utf-8")
    files[MANIFEST] = _manifest(json.loads(read(root / MANIFEST)), files)
    if found := leaks(files, secrets(asked(solved_through, root), root)):
        more = [f"… and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
        raise CourseError("\n".join(["nothing was written:", *found[:_SHOWN], *more]))
    return files


def _require(week: int, solved_through: int, root: Path) -> None:
    weeks = sorted({exercise.week for exercise in registry(root)})
    if week not in weeks:
        raise CourseError(f"week is {week}; there are weeks {weeks[0]} to {weeks[-1]}")
    if not 0 <= solved_through < week:
        raise CourseError(f"--solved-through is {solved_through}; for week {week} it is 0 to {week - 1}")
    for path in sorted((root / "notebooks").rglob("*.ipynb")):
        name = path.relative_to(root).as_posix()
        if ".ipynb_checkpoints" not in name and not is_as_built(root, name, read(path)):
            raise CourseError(f"{name} is not as it was built: `course build` says what to do")


def _for_students(text: str, files: Collection[str]) -> str:
    """The front page down to what instructors read, with no way to what is not in the release."""
    page = text.partition(_NOT_FOR_STUDENTS)[0].rstrip() + "\n"
    page = page.replace("in a clone of this repository", "in this folder")
    page = re.sub(r"(?m)^make book .*\n", "", page)  # its pages are not here
    return _LINK.sub(lambda link: link[0] if link[2] in files else f"{link[1]} (in the course's repository)", page)


def _manifest(built: dict[str, str], files: dict[str, bytes]) -> bytes:
    """What was built, of the files that are there; an answered file of exercises/ is none of them."""
    kept = {path: version for path, version in built.items() if path.startswith("notebooks/") and path in files}
    return (json.dumps(kept, indent=1) + "\n").encode("utf-8")
