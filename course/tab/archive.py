"""The Python that a tab unpacks: the engine, the tool, the tests of the exercises, and what tests are run with."""

import io
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from pathlib import Path

from ..paths import ROOT
from ..registry import FILE, Exercise
from .reach import runners

_COMPILED = "hypothesis"  # for the browser, from its wheel
_BY_HAND = ("pyproject.toml", FILE.as_posix())


def archive(exercises: Iterable[Exercise], wheel: Path, root: Path = ROOT) -> bytes:
    """Return a zip archive for a tab that checks these exercises.

    Args:
        wheel: hypothesis, for the browser.
    """
    kept = io.BytesIO()
    with zipfile.ZipFile(kept, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, path in _files(exercises, root):
            # One date for all, so that the same files make the same archive.
            packed.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)
        with zipfile.ZipFile(wheel) as compiled:
            for name in compiled.namelist():
                packed.writestr(zipfile.ZipInfo(name), compiled.read(name), zipfile.ZIP_DEFLATED)
    return kept.getvalue()


def _files(exercises: Iterable[Exercise], root: Path) -> Iterator[tuple[str, Path]]:
    """Each file's name in the archive, and where it is."""
    tests = {name for exercise in exercises for name in exercise.tests}
    paths = [root / name for name in (*_BY_HAND, *tests)]
    for folder, pattern in (("nanolm", "**/*.py"), ("course", "**/*.py"), ("tests", "*.py"), ("tests/helpers", "*.py")):
        paths += (root / folder).glob(pattern)
    for path in sorted(set(paths)):
        yield path.relative_to(root).as_posix(), path
    for name in runners():
        if name != _COMPILED:
            for file in distribution(name).files or ():
                if ".." not in file.parts and (file.suffix == ".py" or file.parts[0].endswith(".dist-info")):
                    yield file.as_posix(), Path(str(file.locate()))
