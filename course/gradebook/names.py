"""Students' names where not every letter may stand: in paths, in nbgrader, in a table."""

import hashlib
import re

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_RESERVED = re.compile(r"(?i)(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?")


def identity(student: str) -> str:
    """Return the name as nbgrader and file systems take it: itself where it can be, else with a mark of its own.

    It starts no formula either: nbgrader's own export writes it as it is.
    Two different names never become one.
    """
    safe = re.sub(r'^[=@-]|[\\/:*?"<>|+\x00-\x1f]', "_", student).strip(" .")
    while len(safe.encode("utf-8")) > 120:
        safe = safe[:-1]
    if safe and safe == student and not _RESERVED.fullmatch(safe):
        return student
    return f"{safe or 'student'}_{hashlib.sha256(student.encode('utf-8')).hexdigest()[:6]}"


def cell(text: str) -> str:
    """Return a text for a table in which no spreadsheet sees a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def text_of(cell: str) -> str:
    """Return what `cell` has made a cell of."""
    return cell[1:] if cell[:1] == "'" and cell[1:].startswith(_FORMULA) else cell
