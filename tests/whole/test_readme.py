"""The front page and the texts behind it: lines, links, the picture, what a shell is taught."""

import re
import subprocess
import sys

import pytest

from course.book.picture import PICTURE, alternative_text, picture
from course.paths import ROOT, read

PAGES = ("README.md", "CONTRIBUTING.md", "book/index.md", "book/students.md", "book/use.md")
LONGEST, SCREENS = 120, 90  # characters of a line, lines of the front page


@pytest.mark.parametrize("page", PAGES)
def test_a_line_has_at_most_120_characters(page):
    lines = [line for line in read(ROOT / page).splitlines() if not line.startswith(("|", "![", "curl"))]
    assert [line for line in lines if len(line) > LONGEST] == []


def test_the_front_page_is_short():
    assert len(read(ROOT / "README.md").splitlines()) <= SCREENS


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "book/students.md", "book/use.md"])
def test_every_link_of_a_page_leads_to_a_file(page):
    found = re.findall(r"\]\(([^()#\s]+)[^()\s]*\)", read(ROOT / page))
    missing = [to for to in found if ":" not in to and not (ROOT / page).parent.joinpath(to).exists()]
    assert found and not missing


def test_the_picture_is_drawn_from_the_table_of_the_benchmarks_and_says_the_same_in_words():
    # Where matplotlib is another version, its bytes may differ; the pinned one gives these.
    assert (ROOT / PICTURE).read_bytes() == picture(), "python -m course.book.picture draws it"
    for page in ("README.md", "book/index.md"):
        assert f"![{alternative_text()}](" in read(ROOT / page)


@pytest.mark.parametrize("command", ["course", "nanolm"])
def test_a_shell_can_be_taught_the_commands(command):
    asked = [sys.executable, "-m", command, "--help"]
    said = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=True).stdout
    assert "--install-completion" in said and "--show-completion" in said
