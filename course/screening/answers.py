"""One exercise's answer among the files of a submission, read as text: is it there, is it written, is it sound?"""

import ast
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from ..errors import CourseError
from ..grading.checking import not_written
from ..registry import Exercise
from ..text.answers import is_stub
from ..text.source import Function, Module, defined_names, path_of
from .reach import reached_names, without_lying_imports
from .screen import screen

_LONGEST = 1_000_000


@dataclass(frozen=True)
class Answer:
    """What can be said of an answer without running it.

    Attributes:
        exercise: what it answers.
        files: those that it consists of: the exercise's own, and what that imports of the other files.
        unreadable, missing, unwritten: why its tests need not be run; empty where they must be.
        findings: of the screen.
    """

    exercise: Exercise
    files: dict[str, str] = field(default_factory=dict)
    unreadable: str = ""
    missing: str = ""
    unwritten: str = ""
    findings: tuple[str, ...] = ()


def answer_to(exercise: Exercise, files: Mapping[str, str]) -> Answer:
    """Return the answer to an exercise that is in these files."""
    if exercise.file not in files:
        return Answer(exercise, missing=f"{exercise.name}: there is no {exercise.file}")
    try:
        return _read(exercise, files)
    except (CourseError, ValueError) as error:
        said = str(error)
    except (RecursionError, MemoryError):
        said = f"{exercise.file} is nested too deeply to be read"
    return Answer(exercise, unreadable=f"{exercise.name}: {said}")


def _read(exercise: Exercise, files: Mapping[str, str]) -> Answer:
    _refuse_long_ones(files)
    needed: dict[str, Module] = {}
    _gather(exercise.module, files, needed)
    found = {target: _find(needed[exercise.module], target) for target in exercise.targets}
    if absent := [target for target, node in found.items() if node is None]:
        return Answer(exercise, missing=f"{exercise.name}: {exercise.file} has no {' and no '.join(absent)}")
    if all(isinstance(node, Function) and is_stub(node) for node in found.values()):
        return Answer(exercise, unwritten=not_written(exercise, exercise.name))
    reached = reached_names(exercise, needed)
    texts = {path_of(name): without_lying_imports(module, reached) for name, module in needed.items()}
    return Answer(exercise, texts, findings=tuple(screen(exercise, needed, reached)))


def _gather(name: str, files: Mapping[str, str], found: dict[str, Module]) -> None:
    """Read a module and all that it imports of the files by relative imports."""
    found[name] = Module.parse(name, files[path_of(name)])
    for node in ast.walk(found[name].tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            package = name.split(".")[: -node.level]
            base = ".".join([*package, *((node.module or "").split(".") if node.module else [])])
            for other in (base, *(f"{base}.{alias.name}" for alias in node.names)):
                if other and other not in found and path_of(other) in files:
                    _gather(other, files, found)


def _find(module: Module, target: str) -> ast.AST | None:
    """The definition of a target, or whatever statement else binds its name: a lambda is an answer too."""
    with suppress(CourseError):
        return module.find(target)
    owner, _, name = target.rpartition(".")
    with suppress(CourseError):
        body = module.find(owner).body if owner else module.tree.body
        return next((node for node in body if name in defined_names(ast.unparse(node))), None)
    return None


def _refuse_long_ones(files: Mapping[str, str]) -> None:
    for name, text in files.items():
        if len(text) > _LONGEST:
            raise CourseError(f"{name} has {len(text):,} characters, at most {_LONGEST:,} are read")
