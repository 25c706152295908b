"""The sentences of an exercise's docstring, and for each the planted mistake that breaks it.

A sentence that no mistake breaks is a promise that no test keeps. tests/sentences has a table a week: the beginning of
each sentence, and the mistake's name, or "-" and the reason why the sentence promises nothing that a test could see.
"""

import importlib
import inspect
import re
import runpy
from functools import cache, reduce

from ..grading.runner import TESTS
from ..registry import Exercise

FOLDER = TESTS / "sentences"
_ENDS = re.compile(r"(?<!\bal\.)(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)(?<!^\d\.)(?<=[.!?])[)\"”’]?\s+(?=[^\sa-z])")
_SECTION = re.compile(r"(?:Args|Returns|Raises|Attributes|Yields):$")
_ENTRY = re.compile(r"(?:\*{0,2}[\w, *]+|\d+\.|-)(?:: | )")


def sentences(exercise: Exercise) -> list[str]:
    """Return every sentence of the docstrings of what an exercise asks, in their order."""
    module = importlib.import_module(f"nanolm.{exercise.module}")
    found = []
    for target in exercise.targets:
        doc = inspect.getdoc(reduce(getattr, target.split("."), module)) or ""
        found += [sentence for block in _blocks(doc) for sentence in _ENDS.split(block)]
    return [sentence for sentence in found if sentence]


def _blocks(doc: str) -> list[str]:
    """The paragraphs of a docstring, the entries of its sections and of its lists, a line each; headings left out."""
    blocks: list[str] = []
    open_, indent = False, 0
    for line in doc.splitlines():
        bare, at = line.strip(), len(line) - len(line.lstrip())
        if not bare or _SECTION.match(bare):
            open_ = False
        elif not open_ or (at <= indent and (at > 0 or re.match(r"\d+\. |- ", bare)) and _ENTRY.match(bare)):
            blocks.append(bare)
            open_, indent = True, at
        else:
            blocks[-1] += f" {bare}"
    return blocks


@cache
def table() -> dict[str, dict[str, str]]:
    """Return {exercise: {beginning of a sentence: the mistake that breaks it, or "- " and a reason}}."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted(FOLDER.glob("week*.py")):
        found |= runpy.run_path(str(path))["SENTENCES"]
    return found


def uncovered(exercise: Exercise, known: set[str]) -> list[str]:
    """Return the sentences that no mistake of `known` breaks and that nobody has said promise nothing."""
    entries = table().get(exercise.name, {})
    covered = {begin for begin, by in entries.items() if by in known or by.startswith("- ")}
    return [sentence for sentence in sentences(exercise) if not any(sentence.startswith(begin) for begin in covered)]


def stale(exercise: Exercise, known: set[str]) -> list[str]:
    """Return what is wrong with the table itself: an entry that fits no sentence, a mistake that is not there."""
    every, complaints = sentences(exercise), []
    for begin, by in table().get(exercise.name, {}).items():
        fitting = [sentence for sentence in every if sentence.startswith(begin)]
        if not fitting:
            complaints.append(f"{exercise.name}: no sentence begins with {begin!r}")
        if by not in known and not by.startswith("- "):
            complaints.append(
                f"{exercise.name}: {by!r}, which breaks {begin!r}, is no planted mistake of this exercise"
            )
    return complaints
