"""Code cells as plain Python: what only IPython reads is taken out, and line numbers stay."""

import ast
import re

# Cell magics whose cell is Python of this very notebook; of any other the cell is something else's.
_RUNS_PYTHON = ("time", "timeit", "capture", "prun", "debug", "memit", "mprun", "lprun")
_LINE = re.compile(r"^(?P<indent>[ \t]*)(?P<left>[\w., \[\]]+=[ \t]*)?(?P<mark>%{1,2}|!{1,2}|\?{1,2})(?P<rest>.*)$")
_HELP = re.compile(r"^(?P<indent>[ \t]*)[%\w.*]+\?{1,2}[ \t]*;?[ \t]*$")
_STATEMENT = re.compile(r"(?:time|timeit|prun|memit)\s+(?:-\w+(?:\s+\d+)?\s+)*(?P<code>[^-\s].*)$")


def python_of(source: str) -> str:
    """Return a code cell as plain Python, as far as it is Python at all.

    `%time f(x)` becomes `f(x)`; other lines of IPython's own (`%`, `!`, `x?`, `files = !ls`) become statements that do
    nothing. A cell under `%%time`, `%%capture` and the like keeps its code; under `%%bash` and the like it has none.
    """
    text = source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    head = re.match(r"\s*%%(\w+)", text)
    if head:
        if head[1] not in _RUNS_PYTHON:
            return ""
        text = text[: head.start(1) - 2] + re.sub(r"^.*", "pass", text[head.start(1) - 2 :], count=1)
    return _without_magics(text)


def _without_magics(text: str) -> str:
    """Only a line at which the parser stops can be IPython's: `% b` in the middle of an expression is not."""
    lines = text.split("\n")
    for _ in range(len(lines)):
        try:
            ast.parse("\n".join(lines))
        except SyntaxError as error:
            number = (error.lineno or 0) - 1
            if not 0 <= number < len(lines):
                break
            plain = _plain(lines[number])
            if plain == lines[number]:
                break
            lines[number] = plain
        except (ValueError, RecursionError, MemoryError):
            break
        else:
            break
    return "\n".join(lines)


def _plain(line: str) -> str:
    if match := _HELP.match(line):
        return f"{match['indent']}pass"
    match = _LINE.match(line)
    if match is None:
        return line
    timed = _STATEMENT.match(match["rest"]) if match["mark"] == "%" else None
    if timed and not match["left"]:
        return match["indent"] + timed["code"]
    return f"{match['indent']}{match['left']}None" if match["left"] else f"{match['indent']}pass"
