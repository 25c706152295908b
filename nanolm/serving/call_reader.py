"""An answer that may hold calls of tools, read while it comes: text first, then the parts of each call."""

import re
from collections.abc import Iterator

from ..openai_api.response import CallPiece
from ..text.detokenizer import overlap
from ..text.tool_calls import ID, ID_LENGTH, ToolCallFormat

_NAME = re.compile(r"[A-Za-z0-9_.-]+")


class CallReader:
    """Reads one answer's text.

    Args:
        calls: how calls look.
    """

    def __init__(self, calls: ToolCallFormat) -> None:
        self.calls, self._opening, self._held = calls, calls.opening.lstrip(), ""
        self._is_blank = True  # whether no text but space has come: it is none if calls follow
        self._n_calls = 0
        self._arguments: _JsonObject | None = None  # of the last call, once its name is there
        self._middle = _pattern(calls.middle)
        self._between = None if calls.between is None else _pattern(calls.between)

    def push(self, text: str) -> tuple[str, list[CallPiece]]:
        """Take what comes next; return what can be shown of it: text, and pieces of calls."""
        self._held += text
        shown = "" if self._n_calls else self._text()
        return shown, list(self._pieces()) if self._n_calls else []

    def end(self, text: str) -> tuple[str, list[CallPiece]]:
        """Take the last of it; return the rest."""
        shown, pieces = self.push(text)
        return shown if self._n_calls else shown + self._held, pieces

    def _text(self) -> str:
        """Take out the text in front of a call, and the call's beginning; what may be one stays."""
        at = self._held.find(self._opening)
        if at >= 0 and self._may_begin(at):
            shown, self._held = self._held[:at], self._held[at + len(self._opening) :]
            self._n_calls = 1
            return "" if self._is_blank and not shown.strip() else shown
        cut = len(self._held) - overlap(self._held, self._opening)
        cut = cut if self._may_begin(cut) else len(self._held)
        if self._is_blank and not self._held[:cut].strip():
            return ""
        self._is_blank = False
        shown, self._held = self._held[:cut], self._held[cut:]
        return shown

    def _may_begin(self, at: int) -> bool:
        return self.calls.is_marked or (self._is_blank and not self._held[:at].strip())

    def _pieces(self) -> Iterator[CallPiece]:
        while True:
            if self._arguments is None:
                name = _NAME.match(self._held)
                middle = self._middle.match(self._held, name.end()) if name else None
                if name is None or middle is None:
                    return
                self._arguments, self._held = _JsonObject(), self._held[middle.end() :]
                yield CallPiece(self._n_calls - 1, self.calls.new_id(), name[0])
            n_read = self._arguments.read(self._held)
            if n_read:
                yield CallPiece(self._n_calls - 1, arguments=self._held[:n_read])
            self._held = self._held[n_read:]
            following = self._between.match(self._held) if self._between and self._arguments.is_whole else None
            if following is None:
                return
            self._arguments, self._held = None, self._held[following.end() :]
            self._n_calls += 1


def _pattern(part: str) -> re.Pattern[str]:
    return re.compile("".join(f"[A-Za-z0-9]{{{ID_LENGTH}}}" if each == ID else re.escape(each) for each in part))


class _JsonObject:
    """Finds the end of an object of JSON that comes in pieces."""

    def __init__(self) -> None:
        self._depth, self._in_string, self._is_escaped = 0, False, False
        self.is_whole = False

    def read(self, text: str) -> int:
        """Return how many characters of the text belong to it."""
        for i, letter in enumerate(text):
            if self.is_whole:
                return i
            self._take(letter)
        return len(text)

    def _take(self, letter: str) -> None:
        if self._in_string:
            self._in_string = self._is_escaped or letter != '"'
            self._is_escaped = letter == "\\" and not self._is_escaped
            return
        self._in_string = letter == '"'
        self._depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(letter, 0)
        self.is_whole = self._depth == 0
