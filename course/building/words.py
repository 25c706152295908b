"""The words of the course: each means one thing, is explained where it first stands, and is at hand in later weeks.

`solutions/words/weekNN.toml` holds the words that a week explains: `[[word]]` with a name, what it means, and the forms
it stands in where they are more than the name and its plural. The legend of a week holds its letters.
"""

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import CourseError
from ..paths import read
from .lesson import Cell, ExerciseCell, Lesson

LEGEND = "### The legend"
_NOT_PROSE = re.compile(r"```.*?```|`[^`]*`|\$\$.*?\$\$|\$[^$]*\$|\]\([^)]*\)|<[^>]+>", re.DOTALL)
_CODE = re.compile(r"`([^`]+)`|\$\$(.+?)\$\$|\$([^$]+)\$", re.DOTALL)
_LETTER = re.compile(r"(?<![A-Za-z\\_.{\"'])([A-Z])(?![A-Za-z0-9_(\"'=])")
_LATEX_NAME = re.compile(r"\\(?:text|mathrm|operatorname)\{[^}]*\}|\\[A-Za-z]+")


@dataclass(frozen=True)
class Word:
    """A term of the field: what it means, the week that explains it, the forms in which it stands in a text."""

    name: str
    means: str
    week: int
    forms: tuple[str, ...]

    def find(self, text: str) -> re.Match | None:
        """Return its first place in a text."""
        forms = "|".join(map(re.escape, sorted(self.forms, key=len, reverse=True)))
        return re.search(rf"(?<![\w-])(?:{forms})(?![\w-])", text, 0 if self.forms[0].isupper() else re.IGNORECASE)


def words(root: Path) -> list[Word]:
    """Return all words, in the order of the weeks; raise CourseError for one that is malformed or stands twice."""
    found: dict[str, Word] = {}
    for path in sorted((root / "solutions" / "words").glob("week*.toml")):
        try:
            entries = tomllib.loads(read(path)).get("word", [])
        except tomllib.TOMLDecodeError as error:
            raise CourseError(f"{path.name}: {error}") from None
        for entry in entries:
            word = _word(entry, int(path.stem[4:6]), path.name)
            for form in word.forms:
                if form.lower() in found:
                    other = found[form.lower()]
                    raise CourseError(f"{path.name}: {form!r} stands in week {other.week} too; a word means one thing")
            found |= {form.lower(): word for form in word.forms}
    return list(dict.fromkeys(found.values()))


def _word(entry: dict, week: int, where: str) -> Word:
    name, means = entry.get("name"), entry.get("means")
    if not (isinstance(name, str) and isinstance(means, str)) or set(entry) - {"name", "means", "forms"}:
        raise CourseError(f"{where}: {entry}; a word has a name, a means and, if need be, forms")
    return Word(name, " ".join(means.split()), week, tuple(entry.get("forms", (name, f"{name}s"))))


def prose(lesson: Lesson) -> Iterator[str]:
    """Yield a lesson's text in the order of reading, without the page's head, code, formulas and addresses."""
    first = True
    for cell in lesson.cells:
        if isinstance(cell, Cell):
            if cell.kind == "markdown" and not first:
                yield _NOT_PROSE.sub(" ", cell.text)
            first = False
        elif isinstance(cell, ExerciseCell):
            yield from (_NOT_PROSE.sub(" ", str(cell.fields[name])) for name in ("tested", "why", "hint"))
        else:
            yield from (_NOT_PROSE.sub(" ", cell.question), _NOT_PROSE.sub(" ", cell.answer))


def complaints(lesson: Lesson, known: Sequence[Word], engine: str = "") -> list[str]:
    """Return a line for each word that a lesson uses before it is explained, and each letter that its legend lacks.

    Args:
        engine: the text of the lesson's answers, whose shapes use letters too.
    """
    text = _text_of(lesson)
    found = [line for word in known for line in _misused(word, lesson, text)]
    legend = legend_letters(lesson)
    return found + [f"{lesson.name}: the legend lacks {letter}" for letter in sorted(letters(lesson, engine) - legend)]


def _text_of(lesson: Lesson) -> str:
    return "\n\n".join(prose(lesson))


def _misused(word: Word, lesson: Lesson, text: str) -> Iterator[str]:
    place, parts = word.find(text), lesson.parts
    # A week of several notebooks explains a word in the first that uses it.
    used_in = [part.name for part in parts if word.find(_text_of(part))] if len(parts) > 1 else [lesson.name]
    if lesson.week == word.week and used_in and used_in[0] != lesson.name:
        return
    if place is None:
        if word.week == lesson.week and (len(parts) == 1 or lesson.name == parts[0].name):
            yield f"{lesson.name}: {word.name} is explained in no text of this week"
        return
    around = " ".join(text[max(0, place.start() - 50) : place.end() + 30].split())
    if lesson.week < word.week:
        yield f"{lesson.name}: {word.name} stands here, and week {word.week} explains it: …{around}…"
    elif lesson.week == word.week and not _is_bold(text, place):
        yield f"{lesson.name}: {word.name} is used before it is explained, or not set in bold there: …{around}…"


def _is_bold(text: str, place: re.Match) -> bool:
    """Whether a place lies between two ** of one paragraph."""
    start = text.rfind("\n\n", 0, place.start()) + 1
    return text.count("**", start, place.start()) % 2 == 1


def legend_letters(lesson: Lesson) -> set[str]:
    """Return the letters that a lesson's legend explains; raise CourseError where it has none."""
    for cell in lesson.cells:
        if isinstance(cell, Cell) and LEGEND in cell.text:
            rows = [
                [part.strip() for part in line.strip("| ").split("|")] for line in cell.text.splitlines() if "|" in line
            ]
            return {
                letter
                for row in rows
                for part in row[::2]
                for letter in re.split(r"[,\s]+", part.strip("$`"))
                if letter
            }
    raise CourseError(f"{lesson.path.name} has no cell with {LEGEND!r}")


def letters(lesson: Lesson, engine: str = "") -> set[str]:
    """Return the single capital letters in a lesson's formulas and shapes."""
    found: set[str] = set()
    for cell in lesson.cells:
        if isinstance(cell, Cell) and cell.kind == "markdown":
            for match in _CODE.finditer(cell.text):
                found |= set(_LETTER.findall(_LATEX_NAME.sub(" ", next(filter(None, match.groups())))))
    shapes = re.findall(
        r'\w+\[[\w.]*(?:Tensor|ndarray), "([^"]*)"\]|#[^#\n]*\(((?:[A-Z]|\d|[A-Z·/+ ]+)(?:, [\w·/+ ]+)*)\)', engine
    )
    for pair in shapes:
        found |= set(re.findall(r"(?<!\w)[A-Z](?!\w)", " ".join(pair)))
    return found


def words_of(lesson: Lesson, known: Sequence[Word]) -> list[Word]:
    """Return the words of earlier weeks that a lesson uses, by their names."""
    text = "\n\n".join(prose(lesson))
    return sorted(
        (word for word in known if word.week < lesson.week and word.find(text)), key=lambda word: word.name.lower()
    )


def words_cell(lesson: Lesson, known: Sequence[Word]) -> str:
    """Return Markdown, folded: what the words of earlier weeks mean that this one uses; empty where there are none."""
    rows = [f"- **{word.name}** (week {word.week}): {word.means}" for word in words_of(lesson, known)]
    if not rows:
        return ""
    return "\n".join(["<details><summary>Words from earlier weeks</summary>", "", *rows, "", "</details>"])


def glossary(known: Sequence[Word]) -> str:
    """Return Markdown: every word of the course by the alphabet, and the week that explains it."""
    ordered = sorted(known, key=lambda word: word.name.lower())
    rows = [f"| **{word.name}** | {word.means} | {word.week} |" for word in ordered]
    return "\n".join(["# The words of the course", "", "| word | means | week |", "|---|---|---:|", *rows])
