"""Answers in exercises/, put into the stubs as they are now: by name, wherever their exercise stands."""

from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from ..errors import CourseError
from ..registry import homes
from ..text.answers import cut, functions, is_python, is_stub, unknown_names
from ..text.files import text_of
from ..text.source import path_of
from .carry import GONE, carry


@dataclass(frozen=True)
class OldFile:
    """A student's file of exercises: its path from exercises/, its text, and the stubs it began as, if known."""

    path: str
    mine: str
    base: str | None


@dataclass(frozen=True)
class Kept:
    """An old file that is kept because something in it has no place: its path, its text, and why."""

    path: str
    text: str
    why: str


@dataclass
class PutBack:
    """Files of exercises/ with the answers in them, by path from there, and what to tell of them."""

    texts: dict[str, str]
    said: list[str] = field(default_factory=list)
    look: list[str] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)


def written_in(root: Path, fresh: dict[str, str]) -> dict[str, str]:
    """Return the files of exercises/ as they are, the stub where there is none."""
    return {path: text_of(root / "exercises" / path) if _exists(root, path) else text for path, text in fresh.items()}


def put_back(old: list[OldFile], fresh: dict[str, str], texts: dict[str, str], root: Path) -> PutBack:
    """Put the answers of old files into the present ones.

    Args:
        old: the student's files.
        fresh: the present stubs.
        texts: the present files; what is answered in them stays.
    """
    done = PutBack(dict(texts))
    places = {target: path_of(module) for target, module in homes(root).items()}
    for file in old:
        if file.base is not None and file.base == fresh.get(file.path) == done.texts.get(file.path):
            done.texts[file.path] = file.mine  # nothing has changed but the student's part
            done.said.append(f"exercises/{file.path}: as you had it")
        elif _is_own(file, fresh, places):
            _copy(file, root, done)
        else:
            _carry(file, places, done)
    return done


def _is_own(file: OldFile, fresh: dict[str, str], places: dict[str, str]) -> bool:
    """Whether a file is the student's altogether, such as helpers that several answers import."""
    if file.path in fresh or file.base is not None or "NotYetWritten" in file.mine:
        return False
    try:
        return places.keys().isdisjoint(functions(file.mine))
    except CourseError:
        return True


def _copy(file: OldFile, root: Path, done: PutBack) -> None:
    if not _exists(root, file.path):
        done.texts[file.path] = file.mine
        done.said.append(f"exercises/{file.path}: a file of your own, copied")
    elif text_of(root / "exercises" / file.path) != file.mine:
        done.kept.append(Kept(file.path, file.mine, "there is another file of that name"))


def _carry(file: OldFile, places: dict[str, str], done: PutBack) -> None:
    readable = {path: text for path, text in done.texts.items() if is_python(text)}
    try:
        carried = carry(file.mine, file.base, readable, places, file.path)
    except (CourseError, SyntaxError, ValueError) as error:
        done.kept.append(Kept(file.path, file.mine, f"it could not be read ({error})"))
        return
    done.texts |= carried.places
    by_place: dict[str, list[str]] = {}
    for target in carried.answers:
        by_place.setdefault(places[target], []).append(target)
    for place, names in by_place.items():
        came = "" if place == file.path else f", which came from exercises/{file.path}"
        done.said.append(f"exercises/{place}: {', '.join(names)} put back{came}")
        said = {line.partition(":")[0] for line in carried.look}
        for target, unknown in unknown_names(done.texts[place], names).items():
            if target not in said:
                carried.look.append(f"{target}: it uses {', '.join(sorted(unknown))}, which is not defined there")
    done.look += [f"exercises/{places.get(line.partition(':')[0], file.path)}, {line}" for line in carried.look]
    if carried.lost:
        why = "; ".join(f"{name} {_why(name, why, places)}" for name, why in carried.lost.items())
        done.kept.append(Kept(file.path, file.mine, why))


def _why(name: str, why: str, places: dict[str, str]) -> str:
    if why != GONE:
        return why
    if name in places:
        return f"belongs into exercises/{places[name]}, which is not Python at the moment"
    near = get_close_matches(name, places, n=1)
    return f"{why} (is it {near[0]} now?)" if near else why


def edited(root: Path, fresh: dict[str, str]) -> list[OldFile]:
    """Return, where there is no git to say so, the files of exercises/ that answers stand in and that began as others.

    A file whose functions still have the present signatures and docstrings needs nothing.
    """
    texts = written_in(root, fresh)
    return [OldFile(path, text, None) for path, text in texts.items() if not _is_current(text, fresh[path])]


def _is_current(text: str, stub: str) -> bool:
    try:
        mine, asked = functions(text), {name: node for name, node in functions(stub).items() if is_stub(node)}
    except CourseError:
        return True  # not Python: the tests say so, and where
    return all(name in mine and cut(text, mine[name]).header == cut(stub, node).header for name, node in asked.items())


def leftovers(root: Path, fresh: dict[str, str]) -> list[OldFile]:
    """Return files of exercises/ that an older version had and that hold an answer which is nowhere else."""
    asked, texts = homes(root), written_in(root, fresh)
    found = []
    for path in sorted((root / "exercises").rglob("*.py")):
        name, text = path.relative_to(root / "exercises").as_posix(), text_of(path)
        if name in fresh or "NotYetWritten" not in text:
            continue
        try:
            here = {target for target, node in functions(text).items() if target in asked and not is_stub(node)}
            is_old = any(is_stub(functions(texts[path_of(asked[target])])[target]) for target in here)
        except (CourseError, KeyError):
            continue
        found += [OldFile(name, text, None)] if is_old else []
    return found


def _exists(root: Path, path: str) -> bool:
    return (root / "exercises" / path).is_file()
