"""The folder that an installed course works in: notebooks, exercises and tests, laid out by `course start FOLDER`."""

import io
import zipfile
from importlib import metadata
from pathlib import Path

from .errors import CourseError
from .paths import HOME, IS_INSTALLED, MARK, ROOT, laid_out, read

PACKAGE = "nanolm-course"
MATERIAL = Path("course/material.zip")  # in a wheel: what a folder is laid out with


def require_folder(installed: bool = IS_INSTALLED, root: Path = ROOT) -> None:
    """Raise CourseError where the course is installed as a wheel and there is no folder of it here, or an old one."""
    if not installed:
        return
    if not (root / MARK).is_file():
        raise CourseError(f"{Path.cwd()} is in no folder of the course: course start FOLDER lays one out; work there")
    made, now = read(root / MARK).strip(), metadata.version(PACKAGE)
    if made != now:
        raise CourseError(
            f"{root} was laid out by version {made}, and {now} is installed: course start NEW_FOLDER, then, in it, "
            f"course update --from {root}"
        )


def lay_out(folder: Path, version: str = "", archive: Path = HOME / MATERIAL) -> list[str]:
    """Write what is missing of the course's material into a folder, and return the paths written, with forward slashes.

    A file that is there is never touched.

    Args:
        version: of the course that lays it out; the installed one if left out.

    Raises:
        CourseError: the folder is one of another version, holds files of something else, lies in a folder of the
            course, or cannot be written to.
    """
    version = version or metadata.version(PACKAGE)
    _require_usable(folder, version)
    written = []
    try:
        with zipfile.ZipFile(io.BytesIO(archive.read_bytes())) as material:
            for name in sorted(material.namelist()):
                if not (folder / name).exists():
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    (folder / name).write_bytes(material.read(name))
                    written.append(name)
        (folder / MARK).write_text(f"{version}\n", encoding="utf-8")
    except OSError as error:
        raise CourseError(f"{folder} cannot be laid out: {error.strerror}") from None
    return written


def _require_usable(folder: Path, version: str) -> None:
    if folder.exists() and not folder.is_dir():
        raise CourseError(f"{folder} is a file; name a folder for the course")
    around = laid_out(folder.resolve())
    if around is None:
        if folder.is_dir() and any(folder.iterdir()):
            raise CourseError(f"{folder} holds other files; name a new folder for the course")
    elif around != folder.resolve():
        raise CourseError(f"{folder} lies in {around}, a folder of the course; name one outside it")
    elif read(around / MARK).strip() != version:
        require_folder(True, around)
