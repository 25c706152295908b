"""What a student wrote in one Python text, carried into the texts that have come in its place.

The text is an answer cell, with one in its place, or a file of exercises, whose functions may now stand in several.
"""

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..text.answers import Cut, Statement, cut, functions, grafted, indented, is_stub, replaced, statements
from ..text.ipython import python_of
from ..text.source import Definition, Function, first_line, free_names, parse

GONE = "is no exercise any more"


@dataclass
class Carried:
    """What became of a student's text.

    Attributes:
        places: the texts that have come in its place, the answers in them.
        answers: functions put into one, "function" or "Class.method".
        look: sentences about what the student should look at.
        lost: what has no place, and why; the old text has to be kept for it.
    """

    places: dict[str, str]
    answers: list[str] = field(default_factory=list)
    look: list[str] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)


def carry(mine: str, base: str | None, places: Mapping[str, str], homes: Mapping[str, str], here: str) -> Carried:
    """Carry answers, and what the student added beside them, into new texts.

    Args:
        mine: the student's text.
        base: the lesson's text that the student began with; None if that is not known.
        places: the present texts, stubs or with answers in them already, by a name.
        homes: in which of them each function that is asked stands.
        here: the name that `mine` goes by.

    Raises:
        CourseError: a text is not Python.
    """
    carrier = _Carrier(mine, base, Carried(dict(places)), homes, here)
    for target in carrier.mine:
        carrier.function(target)
    carrier.statements()
    for name, text in carrier.done.places.items():
        parse(python_of(text), name or "the cell")
    _require_every_line(mine, base, carrier.done)
    return carrier.done


def _require_every_line(mine: str, base: str | None, done: Carried) -> None:
    """Whatever else a student wrote, a comment between two functions, say, is at least named as having no place."""
    if base is None or done.lost:
        return
    texts = [mine, base, "\n".join(done.places.values())]
    own, old, there = ({line.strip() for line in text.splitlines()} for text in texts)
    for line in mine.splitlines():
        if line.strip() in own - old - there:
            done.lost[f"the line {line.strip()!r}"] = "has no place"
            return


class _Carrier:
    """A carry under way."""

    def __init__(self, mine: str, base: str | None, done: Carried, homes: Mapping[str, str], here: str) -> None:
        self.text, self.base_text, self.done, self.homes, self.here = mine, base, done, homes, here
        self.mine = functions(mine, here or "the cell")
        self.base = functions(base) if base is not None else {}
        self.touched: dict[str, list[str]] = {}  # place to the functions put into it

    def function(self, target: str) -> None:
        """Put one function where it belongs now, if it is the student's."""
        if not self._is_students(target):
            return
        place = self.homes.get(target)
        if place in self.done.places:
            self._answer(target, place)
        elif target in self.base:
            self._changed(target)
        elif "." in target:
            self._method(target)
        # A function of the student's own is a statement like any other.

    def _is_students(self, target: str) -> bool:
        node, old = self.mine[target], self.base.get(target)
        if old is None:
            return not is_stub(node)
        mine, base = cut(self.text, node), cut(self.base_text or "", old)
        # What a stub says when it is called belongs to a version; only what somebody has noted in it is the student's.
        return _notes(mine) != _notes(base) if is_stub(node) else mine.lines != base.lines

    def _answer(self, target: str, place: str) -> None:
        text = self.done.places[place]
        node = functions(text, place).get(target)
        if node is None:
            self.done.lost[target] = f"has been taken out of {place}"
            return
        mine, new = cut(self.text, self.mine[target]), cut(text, node)
        if not is_stub(node):
            self.done.lost |= {} if mine.body == new.body else {target: f"is answered in {place} already"}
            return
        base = cut(self.base_text or "", self.base[target]) if target in self.base else None
        lines, look = grafted(mine, base, new)
        self._put(place, target, lines)
        self.done.answers.append(target)
        self.done.look += [f"{target}: {look}"] if look else []

    def _changed(self, target: str) -> None:
        """A function that is no exercise: the student's change stays if the lesson's has not changed."""
        old = cut(self.base_text or "", self.base[target]).lines
        for place, text in self.done.places.items():
            node = functions(text, place).get(target)
            if node is not None and cut(text, node).lines == old and not is_stub(node):
                self._put(place, target, cut(self.text, self.mine[target]).lines)
                return
        is_exercise = is_stub(self.base[target])
        self.done.lost[target] = GONE if is_exercise else "was changed by you, and is gone or changed in the course"

    def _method(self, target: str) -> None:
        """A method that the student added goes to the end of its class."""
        owner = target.split(".")[0]
        for place, text in self.done.places.items():
            if target in functions(text, place):
                # Without a base it may just as well be the engine's.
                if self.base_text is not None:
                    self.done.lost[target] = "is in the course now as well"
                return
            classes = [node for node in _definitions(text) if node.name == owner and isinstance(node, ast.ClassDef)]
            if classes:
                lines = text.splitlines()
                added = indented(cut(self.text, self.mine[target]).lines, classes[0].body[0].col_offset)
                lines[classes[0].end_lineno : classes[0].end_lineno] = ["", *added]
                self.done.places[place] = _joined(lines, text)
                return
        if any(name.startswith(f"{owner}.") for name in self.base):
            self.done.lost[target] = "is yours, and its class is gone"

    def _put(self, place: str, target: str, lines: tuple[str, ...]) -> None:
        self.done.places[place] = replaced(self.done.places[place], target, lines)
        self.touched.setdefault(place, []).append(target)

    def statements(self) -> None:
        """Bring the student's own statements to the answers that need them, the rest to where the text was."""
        own = [statement for statement in statements(self.text, comments=True) if self._is_own(statement)]
        needed = {place: self._needed(place, names, own) for place, names in self.touched.items()}
        left = [statement for statement in own if not any(statement in some for some in needed.values())]
        rest = self.here if self.here in self.done.places else next(iter(self.touched), None)
        if self.base_text is None and rest != self.here:
            rest = None  # much of it may be the engine's own, of an older version
        if rest is None:
            self.done.lost |= {_named(statement): "is yours, and has no file here any more" for statement in left}
        else:
            needed[rest] = [statement for statement in own if statement in [*needed.get(rest, []), *left]]
        for place, some in needed.items():
            self._insert(place, some)

    def _is_own(self, statement: Statement) -> bool:
        """Whether the student added it; what a student changed in the lesson's is named as having no place."""
        lessons = [self.base_text] if self.base_text is not None else list(self.done.places.values())
        known = [other for text in lessons for other in statements(text, comments=True)]
        bound = {name for other in known for name in other.names}
        is_unwritten = isinstance(statement.node, Function) and is_stub(statement.node)
        if is_unwritten or statement.text in {other.text for other in known}:
            return False
        if isinstance(statement.node, Definition) and statement.names & (bound | set(self.homes)):
            return False  # looked at function by function
        if isinstance(statement.node, ast.Import | ast.ImportFrom):
            return not statement.names <= bound
        if statement.names & bound:
            if self.base_text is not None:
                self.done.lost[_named(statement)] = "was changed by you, and is not one of the exercises"
            return False
        return bool(statement.names) or not _is_text(statement.node)

    def _needed(self, place: str, names: list[str], own: list[Statement]) -> list[Statement]:
        """The statements that bind a name which the answers of a place, or one of these, use; in their order."""
        there = functions(self.done.places[place], place)
        texts = ["\n".join(cut(self.done.places[place], there[name]).lines) for name in names]
        wanted: list[Statement] = []
        open_names = {name for text in texts for name in free_names(python_of(text))}
        while open_names:
            name = open_names.pop()
            for statement in own:
                if name in statement.names and statement not in wanted:
                    wanted.append(statement)
                    open_names |= free_names(python_of(statement.text))
        return [statement for statement in own if statement in wanted]

    def _insert(self, place: str, own: list[Statement]) -> None:
        """Put statements before the definition that they stood before, or at the end where none follows."""
        text = self.done.places[place]
        moved = [s for s in own if place != self.here and isinstance(s.node, ast.ImportFrom) and s.node.level]
        self.done.look += [f"an import of yours did not come along: {statement.text}" for statement in moved]
        by_follower: dict[str | None, list[Statement]] = {}
        for statement in own:
            if statement not in moved and statement.text not in text:
                by_follower.setdefault(self._follower(statement, text), []).append(statement)
        for name, group in by_follower.items():
            start = next((first_line(node) - 1 for node in _definitions(text) if node.name == name), None)
            lines = text.splitlines()
            if start is None:
                lines += ["", "", *_lines(group)]
            else:
                lines[start:start] = [*_lines(group), "", ""]
            text = _joined(lines, text)
        self.done.places[place] = text

    def _follower(self, statement: Statement, text: str) -> str | None:
        """The first definition behind a statement that the new text has as well."""
        there = {node.name for node in _definitions(text)}
        behind = [node.name for node in _definitions(self.text) if node.lineno > statement.node.lineno]
        return next((name for name in behind if name in there), None)


def _definitions(text: str) -> list[Function | ast.ClassDef]:
    return [node for node in ast.parse(python_of(text)).body if isinstance(node, Definition)]


def _joined(lines: list[str], like: str) -> str:
    return "\n".join(lines) + ("\n" if like.endswith("\n") else "")


def _lines(group: list[Statement]) -> list[str]:
    """Statements one below the other, definitions with two empty lines around them."""
    lines: list[str] = []
    for previous, statement in zip([None, *group], group, strict=False):
        apart = [previous, statement] if previous else []
        lines += ["", ""] if any(isinstance(each.node, Definition) for each in apart) else []
        lines += statement.text.splitlines()
    return lines


def _notes(function: Cut) -> list[str]:
    return [line.strip() for line in function.body or () if line.strip().startswith("#")]


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _named(statement: Statement) -> str:
    return ", ".join(sorted(statement.names)) or statement.text.splitlines()[0]
