"""Everything that is made from the lessons: solution notebooks, released notebooks, exercises/, the registry.

All of it is built in memory first. Files are replaced only after everything has been built, so a build that fails
leaves the old ones; and none is replaced that somebody has edited since it was built.
"""

import difflib
import hashlib
import json
import re
import tempfile
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import CourseError
from ..paths import MANIFEST, ROOT, read, write
from ..registry import FILE as REGISTRY
from ..registry import Exercise, registry, to_json
from ..text.source import Module, path_of
from .front_doors import front_door, packages
from .lesson import ExerciseCell, Lesson, lessons
from .notebook import solution_notebook, to_text
from .release import release
from .startpage import SELF_TEST, page, self_test_page, start_page
from .stubs import room_file, stub_file
from .words import glossary, words

STUDENTS_OWN = "exercises/"
_CUT = 30  # lines of a diff that are shown


@dataclass(frozen=True)
class Outcome:
    """What a build did: paths written, and paths left alone because they hold a student's work."""

    written: list[str]
    kept: list[str]


def build(root: Path = ROOT, force: bool = False, overwrite: Collection[str] = ()) -> Outcome:
    """Build everything under root and return what changed.

    Args:
        force: overwrite files that were edited by hand.
        overwrite: the only edited files to overwrite, paths from root.

    Raises:
        CourseError: a lesson is malformed, a built file was edited by hand, or `overwrite` names no built file.
    """
    built = build_all(root)
    for path in overwrite:
        if path not in built:
            raise CourseError(f"{path} is no built file; those are {', '.join(built)}")
    known = _manifest(root)
    changed = [path for path, text in built.items() if _on_disk(root / path) != text]
    # A front door is edited by hand all the time: its docstring is the author's, and stays.
    at_risk = [path for path in changed if path not in overwrite and not path.startswith("nanolm/")]
    edited = [path for path in at_risk if _is_edited(root / path, known.get(path))]
    kept = [] if force else [path for path in edited if path.startswith(STUDENTS_OWN)]
    refused = [] if force else [path for path in edited if path not in kept]
    if refused:
        raise CourseError(_edited_message(refused))
    written = [path for path in changed if path not in kept]
    for path in written:
        write(root / path, built[path])
    for path in known:  # what no lesson makes any more would be taken for a lesson; an edited one is somebody's work
        if path not in built and (root / path).exists() and not _is_edited(root / path, known[path]):
            (root / path).unlink()
    _write_manifest(root, built)
    registry.cache_clear()
    return Outcome(written, kept)


def check_build(root: Path = ROOT, released: bool = False) -> list[str]:
    """Return one report per file that differs from what a build would write, each with a short diff.

    Args:
        released: the files are a release, which has no answers in it. Otherwise what `answered` names is left out.
    """
    built, left_out = build_all(root), set() if released else set(answered(root))
    reports = []
    for path, text in built.items():
        if path in left_out:
            continue
        old = _on_disk(root / path)
        if old is None:
            reports.append(f"{path} is missing")
        elif old != text:
            diff = difflib.unified_diff(old.splitlines(), text.splitlines(), "committed", "rebuilt", lineterm="", n=1)
            reports.append("\n".join([f"{path} differs from its source", *list(diff)[:_CUT]]))
    gone = sorted(path for path in {*_manifest(root), *_notebooks(root)} - set(built) if (root / path).exists())
    reports += [f"{path} has no source: no lesson makes it any more, delete it" for path in gone]
    # Any change above changes the manifest too; by itself it is worth a word only if that was all.
    is_noted = _on_disk(root / MANIFEST) == _manifest_text(built)
    return reports or ([] if is_noted else [f"{MANIFEST} differs; course build mends it"])


def _notebooks(root: Path) -> list[str]:
    """The notebooks that lie where built ones do, paths from root."""
    found = [path for top in ("notebooks", "solutions") for path in (root / top).glob("*/*.ipynb")]
    return [path.relative_to(root).as_posix() for path in found]


def answered(root: Path = ROOT) -> list[str]:
    """Return the files of exercises/, paths from root, that somebody has written in since the last build."""
    known = _manifest(root)
    return [path for path in known if path.startswith(STUDENTS_OWN) and _is_edited(root / path, known[path])]


def build_all(root: Path) -> dict[str, str]:
    """Return the text of every built file by its path from root; nothing under root is touched."""
    found, exercises, modules = sources(root)
    known = words(root)
    solved = {lesson.notebook_in(""): to_text(solution_notebook(lesson, modules, exercises, known)) for lesson in found}
    files = {f"solutions{path}": text for path, text in solved.items()}
    files |= {f"notebooks{path}": text for path, text in _released(solved).items()}
    files["notebooks/start.ipynb"] = to_text(start_page(root, found))
    if (root / "solutions" / SELF_TEST).is_file():
        files["notebooks/self_test.ipynb"] = to_text(self_test_page(root))
    if known:
        files["notebooks/glossary.ipynb"] = to_text(page([glossary(known)]))
    files |= {f"exercises/{path_of(name)}": stub_file(module, exercises) for name, module in modules.items()}
    rooms = sorted({name.split(".")[0] for name in modules if "." in name})
    files |= {f"exercises/{room}/__init__.py": room_file(room) for room in rooms}
    files |= {f"nanolm/{package}/__init__.py": front_door(package, root) for package in packages(root)}
    files[REGISTRY.as_posix()] = to_json(exercises, [entry for lesson in found for entry in _written_of(lesson)])
    return files


def sources(root: Path) -> tuple[list[Lesson], list[Exercise], dict[str, Module]]:
    """Return what everything is built from: the lessons, their exercises, and the engine's modules asked in them."""
    found = lessons(root / "solutions")
    tests = _tests_by_target(root)
    exercises = [
        replace(exercise, tests=tuple(sorted({name for target in exercise.targets for name in tests.get(target, ())})))
        for lesson in found
        for exercise in exercises_of(lesson)
    ]
    _refuse_twins(exercises)
    asked = {exercise.module for exercise in exercises}
    return found, exercises, {name: Module.parse(name, read(root / "nanolm" / path_of(name))) for name in sorted(asked)}


def is_as_built(root: Path, path: str, text: str) -> bool:
    """Return whether a text is what the last build wrote to a path."""
    return _manifest(root).get(path) == _hash(text)


def exercises_of(lesson: Lesson) -> list[Exercise]:
    """Return a lesson's exercises, numbered."""
    notebook = lesson.notebook_in("notebooks")
    return [
        Exercise(number, task.name, task.module, task.targets, notebook, **task.fields)
        for number, task in lesson.tasks
        if isinstance(task, ExerciseCell)
    ]


def _written_of(lesson: Lesson) -> list[dict]:
    return [
        {"number": number, "name": task.name, "week": lesson.week, **task.fields}
        for number, task in lesson.tasks
        if not isinstance(task, ExerciseCell)
    ]


def _refuse_twins(exercises: list[Exercise]) -> None:
    numbers: dict[str, str] = {}
    for exercise in exercises:
        for name in {exercise.name, *exercise.targets}:
            if name in numbers:
                first, again = numbers[name], exercise.number
                raise CourseError(f"{name} is exercise {first} and again {again}; a name is asked once")
            numbers[name] = exercise.number


def _tests_by_target(root: Path) -> dict[str, list[str]]:
    """The test files of every function and method, by the marks in them: exercise("KVCache.update")."""
    found: dict[str, list[str]] = {}
    for path in sorted((root / "tests").rglob("test_*.py")):
        for names in re.findall(r"mark\.exercise\(([^)]*)\)", read(path)):
            for target in re.findall(r'"([\w.]+)"', names):
                found.setdefault(target, []).append(path.relative_to(root).as_posix())
    return found


def _released(solved: dict[str, str]) -> dict[str, str]:
    """The released notebooks of the solved ones, both by "/folder/name.ipynb"."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for path, text in solved.items():
            write(Path(f"{folder}/solutions{path}"), text)
        assignments = list(dict.fromkeys(path.split("/")[1] for path in solved))
        return {path: to_text(notebook) for path, notebook in release(Path(folder), assignments).items()}


def _on_disk(path: Path) -> str | None:
    return read(path) if path.exists() else None


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _is_edited(path: Path, known: str | None) -> bool:
    # By bytes: an answer need not be in UTF-8 to be one.
    return path.exists() and hashlib.sha256(path.read_bytes().replace(b"\r\n", b"\n")).hexdigest() != known


def _manifest(root: Path) -> dict[str, str]:
    path = root / MANIFEST
    return json.loads(read(path)) if path.exists() else {}


def _manifest_text(built: dict[str, str]) -> str:
    return json.dumps({path: _hash(text) for path, text in built.items()}, indent=1) + "\n"


def _write_manifest(root: Path, built: dict[str, str]) -> None:
    text = _manifest_text(built)
    if _on_disk(root / MANIFEST) != text:
        write(root / MANIFEST, text)


def _edited_message(paths: list[str]) -> str:
    lines = [f"edited by hand since the last build, so left alone: {', '.join(paths)}"]
    for path in paths:
        if path.startswith("solutions/"):
            lines.append(f"to take the edit over into its source: course adopt {path}")
    return "\n".join([*lines, f"to throw the edits away: course build --force {' '.join(paths)}"])
