"""Tests `course/tab/pages.py`: the pages in which exercises are answered."""

from html import unescape
from html.parser import HTMLParser

import nbformat
import pytest

from course.building.lesson import lessons
from course.paths import ROOT
from course.registry import find
from course.tab.pages import try_pages

LESSON = "week06_1_batching"


def prose(text, notebook, page):
    return text


@pytest.fixture(scope="module")
def found():
    return lessons(ROOT / "solutions")


@pytest.fixture(scope="module")
def pages(found):
    notebooks = {each.name: nbformat.read(ROOT / each.notebook_in("notebooks"), as_version=4) for each in found}
    return try_pages(found, notebooks, [find("6.1"), find("6.3")], prose)


class Boxes(HTMLParser):
    """The answers of a page: the attributes of each box, and its editor's text."""

    def __init__(self, text):
        super().__init__()
        self.boxes, self.texts, self.is_open = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        if tag == "div" and found.get("class") == "answer":
            self.boxes.append(found)
            self.texts.append("")
        self.is_open = tag == "textarea"

    def handle_endtag(self, tag):
        self.is_open = False

    def handle_data(self, data):
        if self.is_open:
            self.texts[-1] += data


def test_only_lessons_with_such_exercises_have_a_page(pages):
    assert sorted(pages) == ["try/index.md", f"try/{LESSON}.md"]


def test_a_page_has_an_editor_for_each_exercise_and_one_of_ones_own(pages):
    boxes = Boxes(pages[f"try/{LESSON}.md"]).boxes
    assert [box["data-exercise"] for box in boxes] == ["ServingRun", "simulate_continuous_batching", "own"]
    assert [box["data-points"] for box in boxes] == ["4", "5", "0"]


def test_an_editor_holds_the_released_cell_character_by_character(pages):
    released = nbformat.read(ROOT / find("6.1").notebook, as_version=4)
    cell = next(cell.source for cell in released.cells if cell.id == "ServingRun")
    assert unescape(Boxes(pages[f"try/{LESSON}.md"]).texts[0]).removeprefix("\n") == cell


def test_an_exercise_is_told_as_in_the_week_but_for_the_editors_command(pages):
    page = pages[f"try/{LESSON}.md"]
    assert "## Exercise 6.1 ·" in page and "What is tested" in page and "<summary>Hint</summary>" in page
    assert "In an editor instead" not in page


def test_the_overview_counts_exercises_points_and_minutes(pages):
    minutes = find("6.1").minutes + find("6.3").minutes
    assert f"]({LESSON}.md) | 2 | 9 | {minutes} |" in pages["try/index.md"]


def test_a_book_without_pyodide_says_so_in_the_overview(found):
    pages = try_pages(found, {}, [], prose)
    assert list(pages) == ["try/index.md"] and "could not be fetched" in pages["try/index.md"]
