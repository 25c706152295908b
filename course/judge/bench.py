"""One exercise in a process of its own: the answer in, its tests' outcomes out, then a mistake that must still fail."""

import importlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import hypothesis.core
import pytest

from ..grading import seeds
from ..grading.implementation import REFERENCE, Answers, chosen
from ..grading.limits import MemoryUp, TimeUp, limits
from ..grading.outcomes import Collector, targets_of
from ..grading.stand_in import unwritten
from ..paths import write
from ..registry import Exercise, find
from .messages import Channel
from .reference import gone
from .seal import Seal, broken

SECONDS = 60  # all tests of an exercise, as in `check`
_LONGEST = 20_000  # characters of a message


def examine(session: pytest.Session, request: Mapping[str, Any], folder: Path, channel: Channel, seal: Seal) -> None:
    """Grade the answer that a request brings, tell what was found, and then what became of the canary.

    The word that shows a message to be the bench's own comes through the pipe when the tests are over: while an
    answer runs, it is nowhere in this process.
    """
    exercise = find(request["exercise"])
    seeds_are(request["seed"])
    report = _answer(session, exercise, _in_folder(folder / "answer", request["files"]))
    word = (channel.receive() or {}).get("word")
    channel.send({"word": word, "kind": "answer", "broken": broken(seal), **report})
    canary = channel.receive() or {}
    implementation = _in_folder(folder / "canary", {exercise.file: canary["text"]})
    collector = Collector(implementation, targets=exercise.targets)
    run(session, collector, [item for item in _items(session, exercise) if _named(item, canary["test"])], first=True)
    channel.send({"word": word, "kind": "canary", "alive": any(not outcome.passed for outcome in collector.outcomes())})


def seeds_are(seed: int) -> None:
    """Make this the seed of everything random in tests."""
    hypothesis.core.global_force_seed = seed
    seeds.use(seed)


def _answer(session: pytest.Session, exercise: Exercise, implementation: Answers) -> dict[str, Any]:
    collector = Collector(implementation, targets=exercise.targets, brief=True)
    run(session, collector, _items(session, exercise))
    outcomes = collector.outcomes()
    left: list[str] = []
    if any(outcome.unwritten for outcome in outcomes):
        left = _unwritten(exercise, implementation)
    return {"outcomes": [_brief(asdict(outcome)) for outcome in outcomes], "left": left}


def _brief(outcome: dict[str, Any]) -> dict[str, Any]:
    """An outcome whose message somebody can read to its end."""
    return outcome | {"message": outcome["message"][:_LONGEST]}


def _unwritten(exercise: Exercise, implementation: Answers) -> list[str]:
    try:
        return unwritten(exercise, vars(importlib.import_module(f"{implementation.package}.{exercise.module}")))
    except Exception:  # a file that cannot be imported has none
        return list(exercise.targets)


def _in_folder(folder: Path, files: Mapping[str, str]) -> Answers:
    for name, text in files.items():
        write(folder / name, text)
    implementation = chosen(str(folder))
    assert isinstance(implementation, Answers)  # what a folder always is
    return implementation


def _items(session: pytest.Session, exercise: Exercise) -> list[pytest.Item]:
    return [item for item in session.items if not set(targets_of(item)).isdisjoint(exercise.targets)]


def _named(item: pytest.Item, test: str) -> bool:
    return not test or getattr(item, "originalname", item.name) == test


def run(session: pytest.Session, collector: Collector, items: Sequence[pytest.Item], first: bool = False) -> None:
    """Run tests that are collected already and let a collector take down what they find; `first`: to the first failure.

    So every answer meets the very tests that were read before it came.
    """
    collector.items = list(items)
    session.config.pluginmanager.register(collector, "collector of the judge")
    session.shouldstop = False
    try:
        with suppress(TimeUp, MemoryUp), limits(SECONDS) as clock:  # met between two tests, they end the run
            collector.clock = clock
            for i, item in enumerate(items):
                following = items[i + 1] if i + 1 < len(items) else None
                with gone(() if collector.implementation.name == REFERENCE else targets_of(item)):
                    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.shouldstop or (first and collector.failures):
                    break
    finally:
        session._setupstate.teardown_exact(None)
        session.config.pluginmanager.unregister(collector)
