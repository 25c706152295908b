"""`needs("2.4", seconds="Measure it")` in a lab's cell: the reference stands in for what is not written yet.

Nothing of a student's is replaced that works: only an answer that is missing, or still the line that says so.
"""

import importlib
from collections.abc import Mapping, MutableMapping
from typing import Any

from ..errors import CourseError
from ..registry import Exercise, find
from .overlay import is_engine, is_unwritten, plain, rebind


def needs(space: MutableMapping[str, Any], exercises: tuple[str, ...], cells: dict[str, str]) -> list[str]:
    """Put the reference in the place of the exercises that are unwritten in `space`; return a line for each.

    Args:
        space: a notebook's names.
        exercises: "2.4", as `check` takes them.
        cells: names that earlier cells make, each with the heading it is made under.

    Raises:
        CourseError: a name of another cell is missing; the message says where it is made.
    """
    missing: dict[str, list[str]] = {}
    for name, section in cells.items():
        if name not in space:
            missing.setdefault(section, []).append(name)
    if missing:
        where = "; ".join(f"{', '.join(names)} from the cells under “{section}”" for section, names in missing.items())
        raise CourseError(f"this cell uses {where}: run those first")
    return [line for name in exercises for line in _stand_in(find(name), space)]


def _stand_in(exercise: Exercise, space: MutableMapping[str, Any]) -> list[str]:
    reference = importlib.import_module(f"nanolm.{exercise.module}")
    placed = [target for target in exercise.targets if _place(target, reference, space)]
    return [f"with the reference in place of {exercise.number} {', '.join(placed)}"] if placed else []


def unwritten(exercise: Exercise, space: Mapping[str, Any]) -> list[str]:
    """Return the functions or methods of an exercise that `space` has no answer to."""
    found = []
    for target in exercise.targets:
        owner, _, method = target.rpartition(".")
        mine = space.get(owner or target)
        value = vars(mine).get(method) if owner and isinstance(mine, type) else mine
        if mine is None or value is None or is_engine(mine) or is_engine(plain(value)) or is_unwritten(value):
            found.append(target)
    return found


def _place(target: str, reference: Any, space: MutableMapping[str, Any]) -> bool:
    """Put one function, or one method of a class, in place if it is missing; return whether the reference is there."""
    owner, _, method = target.rpartition(".")
    mine = space.get(owner or target)
    theirs = getattr(reference, owner or target)
    if mine is None or is_engine(mine):
        space[owner or target] = theirs
        return True
    if not owner:
        if is_unwritten(mine):
            space[target] = theirs
        return space[target] is theirs
    if not isinstance(mine, type):
        return False
    written = vars(mine).get(method)
    if written is None or is_unwritten(written):
        value = rebind(vars(theirs)[method], vars(reference), vars(reference), (theirs, mine))
        setattr(mine, method, value)
        return True
    return is_engine(plain(written))
