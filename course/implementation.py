"""Whose code is under test: the engine, a package or folder of answers, or a notebook."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from .errors import CourseError, NotYetWritten
from .overlay import overlay
from .paths import ROOT

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
        where = f"{self.name}/{name}.py"
        try:
            answers = importlib.import_module(f"{self.package}.{name}")
        except NotYetWritten:
            raise
        except SyntaxError as error:
            raise CourseError(f"{where}, line {error.lineno}: {error.msg}") from None
        except Exception as error:
            raise CourseError(f"{where} cannot be imported: {type(error).__name__}: {error}") from None
        # Other files fall through to the engine's; an exercise's own file must not, or the reference would be graded.
        if Path(answers.__file__).samefile(reference.__file__):
            raise CourseError(f"{where} does not exist; `course build` makes it")
        return overlay(reference, targets, vars(answers), where)


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


def _package(folder: Path) -> str:
    """Make a folder importable, whatever its place and name; what it lacks is found among the engine's files."""
    name = f"answers_{abs(hash(folder)):x}"
    package = ModuleType(name)
    package.__path__ = [str(folder), str(ROOT / REFERENCE)]
    # Every run reads the files anew: in a long-lived process the student has edited them meanwhile.
    for loaded in [loaded for loaded in sys.modules if loaded == name or loaded.startswith(name + ".")]:
        del sys.modules[loaded]
    sys.modules[name] = package
    return name
