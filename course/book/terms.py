"""The glossary, with every term and letter of the course, and the links to it from where a week first uses a term."""

import re
from collections.abc import Sequence

from ..building.lesson import Cell, Lesson
from ..building.words import LEGEND, Word

# Where no link can stand: code, formulas, links, addresses, HTML, headings, the first column of a table.
_CLOSED = re.compile(
    r"```.*?```|`[^`]*`|\$\$.*?\$\$|\$[^$\n]+\$|!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\([^)]*\)|<[^>]+>|^#+ [^\n]*|\{\w+\}",
    re.DOTALL | re.MULTILINE,
)


class Terms:
    """Links each term where a page uses it first.

    Args:
        words: those that the page may link.
    """

    def __init__(self, words: Sequence[Word]) -> None:
        self.left = list(words)

    def linked(self, text: str) -> str:
        """Return Markdown in which the first use of each term not yet linked on the page leads to the glossary."""
        open_text = _CLOSED.sub(lambda found: "\0" * len(found[0]), text)
        places: list[tuple[int, int, Word]] = []
        # Longer names first, so that "KV cache" is linked and not the "cache" in it.
        for word in sorted(self.left, key=lambda word: -len(word.name)):
            found = word.find(open_text)
            if found and all(found.end() <= start or found.start() >= end for start, end, _ in places):
                places.append((found.start(), found.end(), word))
        for start, end, word in sorted(places, reverse=True, key=lambda place: place[0]):
            text = f"{text[:start]}{{term}}`{text[start:end]} <{word.name}>`{text[end:]}"
            self.left.remove(word)
        return text


def known_in(lesson: Lesson, words: Sequence[Word]) -> list[Word]:
    """Return the words that a week explains or takes from earlier ones."""
    return [word for word in words if word.week <= lesson.week]


def glossary_page(words: Sequence[Word], lessons: Sequence[Lesson]) -> str:
    """Return the glossary as Markdown: the letters of all legends, then every term by the alphabet."""
    terms = "\n\n".join(
        f"{word.name}\n  {word.means} ([week {word.week}](weeks/{_page(word, lessons)}.ipynb))"
        for word in sorted(words, key=lambda word: word.name.lower())
    )
    return "\n".join(
        [
            *("# Glossary", ""),
            *("## Terms", "", "Each is explained in the week named behind it.", ""),
            *("````{glossary}", terms, "````", ""),
            *("## Letters", "", "A letter means one thing in a week; where weeks differ, each meaning names its own."),
            *("", "| letter | meaning | weeks |", "|---|---|---|", *_letter_rows(lessons)),
        ]
    )


def _page(word: Word, lessons: Sequence[Lesson]) -> str:
    of_week = [lesson for lesson in lessons if lesson.week == word.week]
    text = {lesson.name: "\n\n".join(c.text for c in lesson.cells if isinstance(c, Cell)) for lesson in of_week}
    return next((lesson.name for lesson in of_week if word.find(text[lesson.name])), of_week[0].name)


def _letter_rows(lessons: Sequence[Lesson]) -> list[str]:
    meanings: dict[tuple[str, str], list[str]] = {}
    for lesson in lessons:
        for letters, meaning in legend_rows(lesson):
            week = f"[{lesson.week}](weeks/{lesson.name}.ipynb)"
            meanings.setdefault((letters, meaning), []).append(week)
    ordered = sorted(meanings.items(), key=lambda item: (item[0][0].lower(), item[0][0]))
    return [f"| {letters} | {meaning} | {', '.join(weeks)} |" for (letters, meaning), weeks in ordered]


def legend_rows(lesson: Lesson) -> list[tuple[str, str]]:
    """Return the rows of a lesson's legend as pairs: a letter or several, and what they mean."""
    text = next((c.text for c in lesson.cells if isinstance(c, Cell) and LEGEND in c.text), "")
    table = [[part.strip() for part in line.strip("| ").split(" |")] for line in text.splitlines() if line[:1] == "|"]
    if not table:
        return []
    columns = [i for i, head in enumerate(table[0]) if head.strip(" |") == "letter"]
    pairs = [(row[i].strip(" |"), row[i + 1].strip(" |")) for row in table[2:] for i in columns if i + 1 < len(row)]
    return [(letters, meaning) for letters, meaning in pairs if letters]
