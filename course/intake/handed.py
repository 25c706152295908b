"""Every file of what was handed in, folders and archives alike; an archive is read where it lies, never unpacked."""

import io
import os
import stat
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import CourseError

MOST_BYTES = 256 * 1024**2  # of one file; a notebook with a day's printing in it has less
MOST_FILES = 100_000  # of one archive or folder
MOST_IN_ALL = 1024**3  # that archives inside one archive may hold
DEPTH = 3  # of archives in archives
_PASSED_OVER = frozenset(
    {"__macosx", "__pycache__", ".ipynb_checkpoints", ".git", ".originals", ".venv", ".pytest_cache", "backup", "kept"}
)
EMPTY = "holds no file"
_SYSTEM = frozenset({"timestamp.txt", ".ds_store", "thumbs.db", "desktop.ini", ".course.json"})


class CannotBeRead(CourseError):
    """A file that is there and cannot be read; the message follows its name."""


@dataclass(frozen=True)
class File:
    """A file that was handed in.

    Attributes:
        parts: its folders and its name, from the folder or archive that was named.
        where: what a message calls it.
        saved: when it was written last, in seconds; to tell the later of two.
        load: gives its bytes, at most MOST_BYTES; raises CannotBeRead.
        problem: why it will not be read at all; empty where it may be.
    """

    parts: tuple[str, ...]
    where: str
    saved: float
    load: Callable[[], bytes]
    problem: str = ""

    @property
    def name(self) -> str:
        """The last part."""
        return self.parts[-1]


def files_of(path: Path) -> Iterator[File]:
    """Return every file below a folder or in an archive, archives inside included, or the one file that is named.

    What systems and the course put beside a student's work (checkpoints, backups) is passed over. Links are not
    followed, and no path leads out of what was named: such a file comes with a problem.

    Raises:
        CourseError: there is no such file or folder.
    """
    if not path.exists():
        raise CourseError(f"there is no {path} to grade")
    if path.is_dir():
        yield from _below(path, path)
    else:
        yield from _opened(_on_disk(path, (path.name,)), ())


def _below(folder: Path, top: Path) -> Iterator[File]:
    """The files of a folder, its folders' too, in the order of their names."""
    count = 0
    for here, folders, names in os.walk(folder):
        links = [name for name in folders if Path(here, name).is_symlink()]
        folders[:] = sorted(name for name in folders if name not in links and name.lower() not in _PASSED_OVER)
        if not (folders or names or links):
            parts = Path(here).relative_to(top).parts
            yield _refused((*parts, "."), here, EMPTY)
        for name in sorted([*names, *links]):
            path = Path(here, name)
            if name.lower() in _SYSTEM:
                continue
            count += 1
            if count > MOST_FILES:
                yield _refused((name,), f"{top}", f"holds more than {MOST_FILES} files; the others are not read")
                return
            parts = path.relative_to(top).parts
            yield from _opened(_on_disk(path, parts), parts[:-1])


def _on_disk(path: Path, parts: tuple[str, ...]) -> File:
    try:
        status = path.lstat() if len(parts) > 1 else path.stat()  # what the instructor named may be a link
    except OSError as error:
        return _refused(parts, str(path), f"cannot be read: {error.strerror}")
    if stat.S_ISLNK(status.st_mode) or not stat.S_ISREG(status.st_mode):
        return _refused(parts, str(path), "is a link or a device, which is not followed")
    if status.st_size > MOST_BYTES and not _is_archive(path.name):
        return _refused(parts, str(path), _too_large(status.st_size))
    return File(parts, str(path), status.st_mtime, lambda: _bytes_of(path))


def _bytes_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return _limited(file.read(MOST_BYTES + 1))
    except OSError as error:
        raise CannotBeRead(f"cannot be read: {error.strerror}") from None


def _limited(data: bytes) -> bytes:
    if len(data) > MOST_BYTES:
        raise CannotBeRead(_too_large(len(data)))
    return data


def _too_large(size: int) -> str:
    return f"has {size / 1e6:,.0f} MB, and at most {MOST_BYTES / 1e6:,.0f} MB are read: clear its outputs"


def _is_archive(name: str) -> bool:
    return name.lower().endswith(".zip")


def _refused(parts: tuple[str, ...], where: str, problem: str) -> File:
    def load() -> bytes:
        raise CannotBeRead(problem)

    return File(parts, where, 0, load, problem)


def _opened(file: File, folders: tuple[str, ...], depth: int = 0, budget: list[int] | None = None) -> Iterator[File]:
    """A file as it is, or the files in it if it is an archive."""
    if not _is_archive(file.name) or file.problem:
        yield file
        return
    budget = [MOST_IN_ALL] if budget is None else budget
    try:
        if depth >= DEPTH:
            raise CannotBeRead(f"is an archive in {DEPTH} others, and is not opened")
        # The archive that was named is read from the disk; those inside it from memory.
        source = Path(file.where) if depth == 0 else _taken_from(budget, file)
        with zipfile.ZipFile(source if isinstance(source, Path) else io.BytesIO(source)) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
        if len(members) > MOST_FILES:
            raise CannotBeRead(f"holds {len(members)} files, and at most {MOST_FILES} are read")
    except CannotBeRead as error:
        yield _refused(file.parts, file.where, str(error))
        return
    except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError, EOFError) as error:
        yield _refused(file.parts, file.where, f"is no archive that can be opened: {error}")
        return
    # The archive's own name stands for a folder, as if it had been unpacked there.
    for member in members:
        made = _member(file, folders, source, member)
        if made is not None:
            yield from _opened(made, made.parts[:-1], depth + 1, budget)


def _taken_from(budget: list[int], file: File) -> bytes:
    data = file.load()
    budget[0] -= len(data)
    if budget[0] < 0:
        raise CannotBeRead(f"is not opened: the archives in it hold more than {MOST_IN_ALL / 1e6:,.0f} MB")
    return data


def _member(archive: File, folders: tuple[str, ...], source: Path | bytes, member: zipfile.ZipInfo) -> File | None:
    names = member.filename.replace("\\", "/").split("/")
    where = f"{archive.where}: {member.filename}"
    parts = (*folders, archive.name, *names)
    if {name.lower() for name in names[:-1]} & _PASSED_OVER or names[-1].lower() in _SYSTEM:
        return None
    if names[-1].startswith("._"):  # what macOS notes about a file
        return None
    if names[0] == "" or ".." in names or ":" in names[0] or not all(map(str.isprintable, names)):
        return _refused((*folders, archive.name, names[-1] or "?"), where, "has a path that leads out of its archive")
    if stat.S_ISLNK(member.external_attr >> 16):
        return _refused(parts, where, "is a link or a device, which is not followed")
    if member.file_size > MOST_BYTES:
        return _refused(parts, where, _too_large(member.file_size))

    def load() -> bytes:
        try:
            with (
                zipfile.ZipFile(source if isinstance(source, Path) else io.BytesIO(source)) as opened,
                opened.open(member) as file,
            ):
                return _limited(file.read(MOST_BYTES + 1))  # whatever size the archive claims
        except (zipfile.BadZipFile, zipfile.LargeZipFile, OSError, RuntimeError, ValueError, EOFError) as error:
            raise CannotBeRead(f"cannot be taken out of its archive: {error}") from None
        except Exception as error:  # zlib.error and its like, one for each way of packing
            raise CannotBeRead(f"cannot be taken out of its archive: {type(error).__name__}: {error}") from None

    return File(parts, where, _seconds(member), load)


def _seconds(member: zipfile.ZipInfo) -> float:
    """A date as a number that orders as dates do."""
    year, month, day, hour, minute, second = member.date_time
    return ((((year * 12 + month) * 31 + day) * 24 + hour) * 60 + minute) * 60.0 + second
