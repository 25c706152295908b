"""Whose a file is, by the names that learning platforms, nbgrader and people give to folders and files."""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from ..registry import registry
from .handed import File

# Moodle: a folder a student, or everything in one folder with that in front of each file's name.
_MOODLE = re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_[a-z]+_?(?P<file>.*)$", re.DOTALL)
_CANVAS = re.compile(r"(?P<name>[^\W_]+)_(?:LATE_)?(?P<id>\d+)_\d+_(?P<file>.+)$", re.DOTALL)
_EXCHANGE = re.compile(r"(?P<name>[^+]+)\+week\d\d\w*\+(?P<file>)", re.DOTALL)  # nbgrader's inbound folders
_WEEK = re.compile(r"week[ _-]?\d{1,2}(?!\d)[\w-]*", re.IGNORECASE)
# What browsers, file managers and platforms add to the name of a second copy.
COPY = re.compile(r"(?:[ _-]*\(\d+\)|[ _-]+(?:copy|copie|kopie|copia)\d*)+$|^copy of ", re.IGNORECASE)
_OURS = frozenset({"work", "exercises", "notebooks", "submitted", "submissions", "grading", "solutions"})


@dataclass(frozen=True)
class Placed:
    """A file and the student whose it is.

    Attributes:
        student: the name as it was found; None where nothing tells.
        number: what a platform calls the student, to tell two of one name apart; empty elsewhere.
        inside: the student's folders and the file's name, the course's own folders left out.
        is_sure: whether a platform's or nbgrader's layout says so.
    """

    file: File
    student: str | None
    number: str
    inside: tuple[str, ...]
    is_sure: bool = False


def placed(files: Iterable[File], top: Path, rooms: Iterable[str], alone: bool = True) -> list[Placed]:
    """Return the files of one folder, archive or notebook that was named, each with its student.

    Args:
        top: what was named.
        rooms: folders of exercises/; a student's own begins above them.
        alone: whether nothing else was named beside it; of several folders each is a student's, if it can be.
    """
    files = list(files)
    ours = _OURS | frozenset(rooms)
    found = [_by_platform(file) for file in files]
    rest = [file for file, each in zip(files, found, strict=True) if each is None]
    named = _of_one(rest, top, ours, alone) or _by_folder(rest, top, ours)
    return [each if each is not None else named[id(file)] for file, each in zip(files, found, strict=True)]


def _by_platform(file: File) -> Placed | None:
    for index, part in enumerate(file.parts):
        is_file = index == len(file.parts) - 1 or _archive(part)
        for pattern in (_MOODLE, _CANVAS) if is_file else (_MOODLE, _EXCHANGE):
            match = pattern.match(part)
            if match:
                number = match.groupdict().get("id") or ""
                inside = (*filter(None, [match["file"]]), *file.parts[index + 1 :])
                return Placed(file, clean(match["name"]), number, inside or (part,), True)
    return None


def _of_one(files: list[File], top: Path, ours: frozenset[str], alone: bool) -> dict[int, Placed]:
    """Everything is the student's after whom the named folder is called; nothing, where it may be a class's."""
    below = {folders[:1] for file in files if _is_work(file.name) and (folders := _folders(file, ours))}
    is_student = (not alone and len(below) < 2) or top.resolve().parent.name.lower() == "submitted"
    name = _above(top, ours) if is_student and top.is_dir() else None
    return {id(file): Placed(file, clean(name), "", file.parts) for file in files} if name else {}


def _is_work(name: str) -> bool:
    return is_notebook(name) or name.lower().endswith(".py")


def _by_folder(files: list[File], top: Path, ours: frozenset[str]) -> dict[int, Placed]:
    """The first folder that is none of the course's names the student; else the file; else what was named."""
    is_file = not top.is_dir()
    split = {id(file): _folders(file, ours) for file in files}
    below = {name for folders in split.values() for name in folders[:1] if _archive(name)}
    inner = {name: {_next(file, split[id(file)]) for file in files if split[id(file)][:1] == (name,)} for name in below}
    loose = {_stem(file.name) for file in files if not split[id(file)] and is_notebook(file.name)} - {""}
    found = {}
    for file in files:
        folders = split[id(file)]
        if folders and folders[0] in below:
            # An archive is a student's, unless several of them lie in it: then it is the class's.
            whole = len(inner[folders[0]] - {""}) > 1
            student = _next(file, folders) if whole else _stem(folders[0]) or _above(top, ours)
            inside = folders[2:] if whole else folders[1:]
        elif folders:
            student, inside = folders[0], folders[1:]
        else:
            student, inside = _loose(file, top, ours, is_file, len(loose) > 1 or any(split.values())), ()
        found[id(file)] = Placed(file, clean(student) if student else None, "", (*inside, file.name))
    return found


def _loose(file: File, top: Path, ours: frozenset[str], is_file: bool, in_a_class: bool) -> str | None:
    """Whose a file is that lies in no folder: a class's roster or task is nobody's."""
    if is_notebook(file.name) and (is_file or in_a_class) and _stem(file.name):
        return _stem(file.name)
    return None if in_a_class and not is_notebook(file.name) else _above(top, ours)


def is_notebook(name: str) -> bool:
    """Return whether a file's name is a notebook's, also behind what a browser has made of it."""
    return ".ipynb" in name.lower() or name.lower().endswith(".json")


def _next(file: File, folders: tuple[str, ...]) -> str:
    """Who a file in an archive is of, if the archive is the class's."""
    return folders[1] if len(folders) > 1 else _stem(file.name) if is_notebook(file.name) else ""


def _folders(file: File, ours: frozenset[str]) -> tuple[str, ...]:
    folders = file.parts[:-1]
    return tuple(part for part in folders if _archive(part) or not (_WEEK.fullmatch(part) or part.lower() in ours))


def _archive(name: str) -> bool:
    return name.lower().endswith(".zip")


def _stem(name: str) -> str:
    """What is left of a notebook's name without the lesson's and what copies add."""
    stem = re.sub(r"\.(?:ipynb|zip|py|json|txt)(?=\.|$)", "", name, flags=re.IGNORECASE)
    return COPY.sub("", _lesson_names().sub("", stem)).strip(" _-.,")


@cache
def _lesson_names() -> re.Pattern[str]:
    """The week in a file's name, with the lesson's own words behind it."""
    stems = {PurePosixPath(exercise.notebook).stem for exercise in registry()}
    words = {word for stem in stems for word in stem.split("_")[1:]}
    words |= {word for exercise in registry() for word in PurePosixPath(exercise.notebook).parent.name.split("_")[1:]}
    listed = "|".join(sorted(words, key=len, reverse=True))
    return re.compile(rf"week[ _-]?\d{{1,2}}(?!\d)(?:[ _-]*(?:{listed})(?![a-z]))*", re.IGNORECASE)


def _above(top: Path, ours: frozenset[str]) -> str | None:
    """The nearest folder that has a name of its own."""
    path = top.resolve()
    for part in (path.name if path.is_dir() else path.parent.name, *(each.name for each in path.parents)):
        if part and part.lower() not in ours and not _WEEK.fullmatch(part):
            return part
    return None


def clean(name: str) -> str:
    """Return a name as people write it: one way to spell an accent, no spaces around, nothing unprintable."""
    name = unicodedata.normalize("NFC", name)
    return " ".join("".join(letter if letter.isprintable() else " " for letter in name).split()) or "?"
