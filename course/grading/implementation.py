"""Whose code is under test: the engine, a package or folder of answers, or a notebook."""

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nanolm._lazy import lazy

from ..building.front_doors import packages
from ..errors import CourseError, NotYetWritten
from ..paths import ROOT, packaged
from ..text.source import path_of
from .overlay import overlay

VARIABLE = "NANOLM_IMPL"
REFERENCE = "nanolm"
CHOSEN = pytest.StashKey["Implementation"]()  # where a run of pytest keeps the one it tests


class Implementation:
    """The reference itself: every name is nanolm's own."""

    name = REFERENCE

    def module(self, name: str, targets: Sequence[str]) -> ModuleType:
        """Return nanolm's module of this name with the targets taken from this implementation.

        Raises:
            CourseError: this implementation lacks the module or a target, or cannot be imported.
        """
        return importlib.import_module(f"{REFERENCE}.{name}")


class Notebook(Implementation):
    """Answers that live in one namespace, a notebook's."""

    name = "this notebook"

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = answers

    def module(self, name: str, targets: Sequence[str]) -> ModuleType:
        return overlay(super().module(name, targets), targets, self.answers, self.name)


class Answers(Implementation):
    """Answers in a package or folder shaped like nanolm: a file per module."""

    def __init__(self, name: str, package: str) -> None:
        self.name, self.package = name, package

    def module(self, name: str, targets: Sequence[str]) -> ModuleType:
        reference = super().module(name, targets)
        where = f"{self.name}/{path_of(name)}"
        try:
            answers = importlib.import_module(f"{self.package}.{name}")
        except NotYetWritten:
            raise
        except SyntaxError as error:
            place = self._shown(error.filename) or where  # of a file that this one imports, perhaps
            raise CourseError(f"{place}, line {error.lineno}: {error.msg}") from None
        except Exception as error:
            if isinstance(error, ModuleNotFoundError) and _leads_to(error.name, f"{self.package}.{name}"):
                raise CourseError(f"{where} does not exist; `course build` makes it") from None
            reason = " ".join(f"{type(error).__name__}: {error}".split())  # one line, whatever the error spells out
            raise CourseError(f"{where} cannot be imported: {reason}{self._place(error)}") from None
        # Other files fall through to the engine's; an exercise's own file must not, or the reference would be graded.
        assert answers.__file__ is not None and reference.__file__ is not None  # files, no folders
        if Path(answers.__file__).samefile(reference.__file__):
            raise CourseError(f"{self._missing(name)} does not exist; `course build` makes it")
        return overlay(reference, targets, vars(answers), where)

    def _folder(self) -> Path:
        """Where the answers are; behind it in the package's path are the engine's files."""
        return Path(sys.modules[self.package].__path__[0])

    def _shown(self, file: str | None) -> str:
        """A file of the answers as the student named them; nothing for any other."""
        if self.package not in sys.modules or not (file and Path(file).is_relative_to(self._folder())):
            return ""
        return f"{self.name}/{Path(file).relative_to(self._folder()).as_posix()}"

    def _place(self, error: Exception) -> str:
        """The answers' own line that an error came through last."""
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if self._shown(frame.filename)]
        return f" ({self._shown(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""

    def _missing(self, name: str) -> str:
        """The file without which an exercise is not found: its own, or the one that makes its folder a package."""
        file = self._folder() / path_of(name)
        return f"{self.name}/{path_of(name) if not file.exists() else Path(path_of(name)).parent / '__init__.py'}"


def chosen(value: str | None = None) -> Implementation:
    """Return the implementation named by `value`, or by NANOLM_IMPL: nanolm where it is unset.

    Raises:
        CourseError: it is neither an importable package nor a folder.
    """
    value = os.environ.get(VARIABLE, REFERENCE) if value is None else value
    if value == REFERENCE:
        return Implementation()
    for folder in (Path(value), ROOT / value):
        if value and folder.is_dir():
            return Answers(value, _package(folder.resolve()))
    if all(part.isidentifier() for part in value.split(".")) and _exists(value):
        return Answers(value, value)
    raise CourseError(
        f"{VARIABLE} is {value!r}, and there is no such package or folder; "
        "it must be nanolm (the reference, also when unset), exercises, or a folder with your answers"
    )


def _exists(package: str) -> bool:
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return False
    return spec is not None and spec.submodule_search_locations is not None


def _leads_to(missing: str | None, module: str) -> bool:
    """Whether the name that was not found is the module's own, or a package's on the way to it."""
    return missing is not None and f"{module}.".startswith(f"{missing}.")


def _package(folder: Path) -> str:
    """Make a folder importable, whatever its place and name; what it lacks is found among the engine's files."""
    name = f"answers_{abs(hash(folder)):x}"
    # Every run reads the files anew: in a long-lived process the student has edited them meanwhile.
    for loaded in [loaded for loaded in sys.modules if loaded == name or loaded.startswith(name + ".")]:
        del sys.modules[loaded]
    engine = packaged(REFERENCE)
    _mount(name, folder, engine)
    for room in packages():
        mounted = _mount(f"{name}.{room}", folder / room, engine / room)
        homes = importlib.import_module(f"{REFERENCE}.{room}")._HOMES
        vars(mounted)["__getattr__"], vars(mounted)["__dir__"] = lazy(mounted.__name__, homes)
    _share(folder, name)
    return name


def _share(folder: Path, name: str) -> None:
    """Let the engine's modules that are loaded stand for the files that a folder lacks, or each would be run again."""
    rooms, own = set(packages()), {path.relative_to(folder).as_posix() for path in folder.glob("*/*.py")}
    for loaded, module in list(sys.modules.items()):
        package, _, path = loaded.partition(".")
        room, _, file = path.partition(".")
        if package == REFERENCE and file and room in rooms and f"{room}/{file}.py" not in own:
            sys.modules[f"{name}.{path}"] = module


def _mount(name: str, *folders: Path) -> ModuleType:
    """Make a package whose files are looked for in these folders, in this order."""
    package = ModuleType(name)
    package.__path__ = [str(folder) for folder in folders]
    sys.modules[name] = package
    return package
