"""The figures that stand in a lesson's text, and what derives each of them anew.

A table of a week is a list of `Derived` and `Given`. Every number written in digits in the text of a lesson (its prose,
tables, formulas, hints, alternative texts and model answers) has to stand in a sentence of that table.
"""

import ast
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from course.building.lesson import Cell, ExerciseCell, Lesson

# 1,000 and 10⁹ and 0.25; a minus sign belongs to the number only where nothing stands before it.
NUMBER = re.compile(r"(?<![\w.,·/])(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?![\w]*\()")
SUPERSCRIPT = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
POWER = re.compile(r"(?:(?P<times>[\d.,]+) ?(?:·|\\cdot) ?)?10(?P<unicode>[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)|2(?P<two>[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)")
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
FRACTIONS = {"½": 1 / 2, "⅓": 1 / 3, "⅔": 2 / 3, "¼": 1 / 4, "¾": 3 / 4, "⅛": 1 / 8, "half": 1 / 2, "third": 1 / 3}
# What is a name and no figure: exercises and sections (2.4), versions, years, addresses, code.
NAMES = (
    re.compile(r"`[^`]*`"),
    re.compile(r"\]\([^)]*\)|https?://\S+|arXiv:\S+|doi:\S+"),
    re.compile(
        r"\b(?:Week|week|weeks|Weeks|Exercise|exercise|Prediction|Question|question|Section|section)s?\s+\d+(?:\.\d+)?"
    ),
    re.compile(r"^#+ .*$|^\s*\d+\. ", re.MULTILINE),
    re.compile(r"<[^>]+>"),
    re.compile(r"(?<![\d.,])(?:19|20)\d\d\b(?![,.]\d)"),
)


@dataclass(frozen=True)
class Derived:
    """A sentence of a lesson, or a part of one, and the figures in it that follow from something.

    Attributes:
        sentence: as it stands in the lesson, line breaks as spaces.
        values: each figure as it is written there, "1,536" or "10.8" or "sixteen", and what it is computed to be.
        within: how far the computed value may lie from the written one; None: half of its last digit.
    """

    sentence: str
    values: Mapping[str, float]
    within: float | None = None


@dataclass(frozen=True)
class Given:
    """A sentence whose figures follow from nothing here: assumed, chosen, or quoted, and where from."""

    sentence: str
    reason: str = "chosen for the example"


@dataclass
class Checked:
    """What is wrong with a week's table: sentences that the lesson lacks, wrong figures, figures in no sentence."""

    missing: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    uncovered: list[str] = field(default_factory=list)


def check(lesson: Lesson, table: list[Derived | Given]) -> Checked:
    """Return what is wrong between a lesson and its table."""
    text, found = one_line("\n\n".join(texts(lesson))), Checked()
    for row in table:
        sentence = one_line(row.sentence)
        if sentence not in text:
            found.missing.append(sentence)
        for written, value in row.values.items() if isinstance(row, Derived) else ():
            if written not in sentence:
                found.wrong.append(f"{written!r} does not stand in {sentence!r}")
            elif not agrees(written, value, row.within):
                found.wrong.append(f"{written!r} in {sentence!r} comes out as {value:.6g}")
    sentences = sorted({one_line(row.sentence) for row in table}, key=len, reverse=True)
    for piece in texts(lesson):
        left = one_line(_without_names(piece))
        for sentence in sentences:
            left = left.replace(one_line(_without_names(sentence)), " … ")
        found.uncovered += [
            left[max(0, match.start() - 60) : match.end() + 40].strip()
            for match in NUMBER.finditer(left)
            if match[0] not in ("0", "1")
        ]
    return found


def texts(lesson: Lesson) -> Iterator[str]:
    """Yield every piece of text that a reader of a lesson sees, code and outputs left out."""
    for cell in lesson.cells:
        if isinstance(cell, Cell):
            yield from [cell.text] if cell.kind == "markdown" else _alternative_texts(cell.text)
        elif isinstance(cell, ExerciseCell):
            yield from (str(cell.fields[name]) for name in ("tested", "why", "hint"))
        else:
            yield from (cell.question, cell.answer)


def _alternative_texts(code: str) -> Iterator[str]:
    """The constant texts given to `figures.show`; what a cell formats itself is computed there."""
    plain = re.sub(r"(?m)^[ \t]*[%!].*$", "pass", code)
    for node in ast.walk(ast.parse(plain)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "figures.show":
            yield from (
                part.value for part in node.args[1:] if isinstance(part, ast.Constant) and isinstance(part.value, str)
            )


def one_line(text: str) -> str:
    """Return a text with every run of blanks and line breaks, and of quoting signs after them, as one blank."""
    return " ".join(re.sub(r"\n> ?", "\n", text).split())


def _without_names(text: str) -> str:
    for pattern in NAMES:
        text = pattern.sub(" ", text)
    return text


def agrees(written: str, value: float, within: float | None = None) -> bool:
    """Return whether a value, rounded as the figure is written, is that figure.

    Raises:
        ValueError: the figure is not one that can be read.
    """
    stands, unit = read_figure(written)
    return math.isclose(stands, value, rel_tol=1e-9, abs_tol=(unit / 2 * 1.0001) if within is None else within)


def read_figure(written: str) -> tuple[float, float]:
    """Return a written figure's value and the size of its last digit: "10.8" is (10.8, 0.1), "3·10⁹" (3e9, 1e9)."""
    text = written.strip().replace("−", "-").replace("{,}", "").replace("%", "").strip()
    if text.lower() in WORDS:
        return float(WORDS.index(text.lower())), 1.0
    if text in FRACTIONS:
        return FRACTIONS[text], 0.0
    power = POWER.fullmatch(text)
    if power is None:
        digits = text.replace(",", "")
        return float(digits), 10.0 ** -len(digits.partition(".")[2])
    if power["two"]:
        return 2.0 ** int(power["two"].translate(SUPERSCRIPT)), 0.0
    scale = 10.0 ** int(power["unicode"].translate(SUPERSCRIPT))
    digits = (power["times"] or "1").replace(",", "")
    return float(digits) * scale, scale * 10.0 ** -len(digits.partition(".")[2])
