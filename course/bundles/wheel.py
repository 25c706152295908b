"""What a wheel carries besides the packages: the material of the folder that `course start FOLDER` lays out.

setup.py packs it while the wheel is built, so that the repository has no second copy of it. Nothing here needs more
than the standard library, which is all that a build has.
"""

import hashlib
import json
import re
from pathlib import Path

from ..errors import CourseError
from ..paths import MANIFEST, ROOT, read
from .archive import archive_of
from .contents import grading_tests, whole

_SETTINGS = re.compile(r"(?ms)^\[tool\.pytest\.ini_options\]\n.*?(?=^\[)")
_HEAD = "# How pytest runs the tests of the course; NANOLM_IMPL=exercises tests your answers in exercises/.\n"


def material(root: Path = ROOT) -> dict[str, bytes]:
    """Return every file of a folder of the course by its path: notebooks, exercises, tests and what these need.

    Raises:
        CourseError: a notebook or a file of exercises/ is not as it was built, so that answers would be in it.
    """
    files = whole("notebooks", root) | whole("exercises", root)
    _require_as_built(files, json.loads(read(root / MANIFEST)))
    files |= grading_tests(root)
    for name in ("LICENSE", "constraints.txt"):
        files[name] = (root / name).read_bytes()
    settings = _SETTINGS.search(read(root / "pyproject.toml"))
    if settings is None:
        raise CourseError("pyproject.toml has no [tool.pytest.ini_options]")
    return files | {"pyproject.toml": f"{_HEAD}{settings[0].rstrip()}\n".encode()}


def packed(root: Path = ROOT) -> bytes:
    """Return the material as an archive; raise CourseError as `material` does."""
    return archive_of(material(root))


def _require_as_built(files: dict[str, bytes], built: dict[str, str]) -> None:
    for path, content in files.items():
        text = content.decode("utf-8").replace("\r\n", "\n")
        if path in built and built[path] != hashlib.sha256(text.encode("utf-8")).hexdigest():
            raise CourseError(f"{path} is not as it was built: put edits away, or course build, before a wheel is made")
