"""A capstone to hand in, one JSON file: choices and answers to replay it, and what it claims, to compare with."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..capstone.check import Check
from ..capstone.settings import Choices, Load, from_fields
from ..capstone.verdict import Verdict
from ..errors import CourseError
from ..grading.assembly import YOURS
from ..paths import ROOT, read, write
from ..registry import registry

_FORMAT = 1


@dataclass(frozen=True)
class HandIn:
    """What a file says.

    Attributes:
        name: the file's, without .json.
        choices: to serve with.
        answers: files of exercises/ with the student's text.
        load: what it was run with; a leaderboard has its own.
        hashes: of the texts that the student's `generate` wrote there.
    """

    name: str
    choices: Choices
    answers: dict[str, str]
    load: Load
    hashes: list[str]

    @classmethod
    def read(cls, path: Path) -> "HandIn":
        """Return what a file holds.

        Raises:
            CourseError: it is no hand-in, or names files that hold no exercise.
        """
        try:
            values = json.loads(read(path))
            if values["format"] != _FORMAT:
                raise CourseError(f"its format is {values['format']!r}; this course reads {_FORMAT}")
            answers = {str(file): str(text) for file, text in values["answers"].items()}
            choices, load = from_fields(Choices, values["choices"]), from_fields(Load, values["load"])
            hashes = [str(each) for each in values["texts"]]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, CourseError) as error:
            raise CourseError(f"{path.name} is no hand-in: {type(error).__name__}: {error}") from None
        known = {exercise.file for exercise in registry()}
        if others := sorted(answers.keys() - known):
            raise CourseError(f"{path.name} names {others[0]!r}, which holds no exercise")
        return cls(path.stem, choices, answers, load, hashes)

    def unpack(self, folder: Path) -> Path:
        """Write the answers into an empty folder, for `chosen`; return it."""
        for file, text in self.answers.items():
            write(folder / file, text)
            (folder / file).parent.joinpath("__init__.py").touch()
        return folder

    def n_other_texts(self, load: Load, check: Check) -> int | None:
        """Return how many texts differ from those claimed; None if the load is another and nothing can be said."""
        given = ("model", "trace", "requests", "temperature", "top_k", "top_p")
        if any(getattr(load, name) != getattr(self.load, name) for name in given):
            return None
        return sum(one != other for one, other in zip(self.hashes, check.hashes, strict=False))


def write_hand_in(path: Path, impl: str, choices: Choices, verdict: Verdict) -> None:
    """Write a verdict, the choices and the student's files as one file.

    Raises:
        CourseError: nothing is the student's own, or the answers are in no folder.
    """
    parts = verdict.check.parts
    if not verdict.has_verdict:
        raise CourseError("there is nothing to hand in: no part that did any work is yours")
    folder = next((each for each in (Path(impl), ROOT / impl) if each.is_dir()), None)
    if folder is None:
        raise CourseError(f"--impl is {impl}; only the answers in a folder can be handed in")
    file_of = {target: exercise.file for exercise in registry() for target in exercise.targets}
    files = sorted({file_of[part["part"]] for part in parts if part["whose"] == YOURS})
    claims = {
        "goals": asdict(verdict.at.goals),
        "verdicts": verdict.goals,
        "score": verdict.scores if verdict.check.is_right else None,
        "machine": asdict(verdict.at.machine),
        "parts": [
            {key: part[key] for key in ("number", "part", "whose", "calls")} for part in verdict.check.working_parts
        ],
        "texts": verdict.check.hashes,
    }
    replayed: dict[str, Any] = {
        "format": _FORMAT,
        "choices": asdict(choices),
        "load": asdict(verdict.at.load),
        "seeds": f"request i has seed i, 0 to {len(verdict.yours[0]['requests']) - 1}",
        "answers": {file: read(folder / file) for file in files},
    }
    write(path, json.dumps(replayed | claims, indent=1, ensure_ascii=False, default=str) + "\n")
