"""What the book makes of the repository's texts: links, terms, folded parts, no answer; and what it says of faults."""

import nbformat
import pytest

from course.book.accessible import mended
from course.book.api import api_pages
from course.book.execute import is_check
from course.book.lesson_page import folded, run_it, shown, week_page
from course.book.links import Links, repository
from course.book.pages import text_pages
from course.book.terms import Terms, glossary_page, legend_rows
from course.building.front_doors import names_of, packages
from course.building.lesson import lessons
from course.building.words import Word, legend_letters, words
from course.errors import CourseError
from course.paths import ROOT

WEEKS = lessons(ROOT / "solutions")
KNOWN = words(ROOT)
HERE = Links.of(ROOT)
OUTPUT = {"output_type": "stream", "name": "stdout", "text": "42 tokens\n"}


def released(lesson):
    """The released notebook of a lesson."""
    return nbformat.read(ROOT / lesson.notebook_in("notebooks"), as_version=4)


@pytest.fixture(scope="module", params=WEEKS, ids=lambda lesson: lesson.name)
def week(request):
    """A lesson, and its page with the same output below every code cell."""
    notebook = released(request.param)
    outputs = {cell.id: [OUTPUT] for cell in notebook.cells if cell.cell_type == "code"}
    return request.param, week_page(notebook, request.param, outputs, KNOWN, HERE)


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("[week 2](../week02_kv_cache/week02_kv_cache.ipynb)", "[week 2](week02_kv_cache.ipynb)"),
        ("[`attend`](../../nanolm/attention/flash.py)", "[`attend`](../api/attention.rst)"),
        ("[the room](../../nanolm/sampling)", "[the room](../api/sampling.rst)"),
        ("[benchmarks](../../benchmarks/README.md#on-a-gpu)", "[benchmarks](../benchmarks.md#on-a-gpu)"),
        ("[a paper](https://arxiv.org/abs/1)", "[a paper](https://arxiv.org/abs/1)"),
        ("[a test](../../tests/impl.py)", "a test"),
        ("`x[i](y)`", "`x[i](y)`"),
        ("```\nfound[name](both, bits)\n```", "```\nfound[name](both, bits)\n```"),
    ],
)
def test_a_link_leads_to_the_page_of_the_book_or_is_plain_text(text, rewritten):
    source = "notebooks/week01_prefill_decode/week01_prefill_decode.ipynb"
    assert Links(HERE.pages, "").rewritten(text, source, "weeks/week01_prefill_decode") == rewritten


def test_with_the_repository_s_address_other_files_are_linked_there():
    links = Links(HERE.pages, "https://example.org/owner/nanolm")
    found = links.rewritten("[a test](tests/impl.py)", "README.md", "index")
    assert found == "[a test](https://example.org/owner/nanolm/blob/main/tests/impl.py)"


def test_a_link_to_a_file_that_is_not_there_ends_the_build():
    with pytest.raises(CourseError, match=r"README\.md links to gone\.py, and there is no gone\.py"):
        HERE.rewritten("[gone](gone.py)", "README.md", "index")


@pytest.mark.parametrize(
    ("page", "shown"), [("benchmarks", "_static/predicted.svg"), ("api/x", "../_static/predicted.svg")]
)
def test_a_picture_of_the_book_s_folder_is_shown_from_where_the_page_is(page, shown):
    text = "![two lines](../book/_static/predicted.svg)"
    assert HERE.rewritten(text, "benchmarks/README.md", page) == f"![two lines]({shown})"
    elsewhere = "![a badge](https://example.org/badge.svg)"
    assert HERE.rewritten(elsewhere, "README.md", page) == elsewhere


@pytest.mark.parametrize("target", ["book/_static/gone.svg", "nanolm/shipped/x.png"])
def test_a_picture_that_the_book_does_not_have_ends_the_build(target):
    with pytest.raises(CourseError, match=r"README\.md shows .*, and .* is no picture in book/"):
        HERE.rewritten(f"![alt]({target})", "README.md", "index")


@pytest.mark.parametrize("address", ["example.org/nanolm", "http://example.org/a", "https://example.org", "yes"])
def test_an_address_that_is_none_is_refused_by_the_variable_s_name(address, monkeypatch):
    monkeypatch.setenv("NANOLM_REPOSITORY", address)
    with pytest.raises(CourseError, match=r"NANOLM_REPOSITORY is .*; it must be an address"):
        repository()


def test_the_first_use_of_a_term_is_linked_and_no_other():
    terms = Terms([Word("KV cache", "Keys and values.", 2, ("KV cache", "KV caches"))])
    assert terms.linked("Two KV caches and a KV cache.") == "Two {term}`KV caches <KV cache>` and a KV cache."
    assert terms.linked("A KV cache.") == "A KV cache."


@pytest.mark.parametrize(
    "text",
    [
        "`batch`",
        "$batch$",
        "# The batch",
        "[a batch](x.md)",
        "<b title='batch'>",
        "```\nbatch\n```",
        "```\na\nbatch\n```",
    ],
)
def test_a_term_in_code_formulas_headings_and_links_stays_as_it_is(text):
    assert Terms([Word("batch", "Several.", 1, ("batch",))]).linked(text) == text


def test_of_two_terms_in_one_place_the_longer_is_linked():
    terms = Terms([Word("cache", "Kept.", 1, ("cache",)), Word("prefix cache", "Kept prompts.", 1, ("prefix cache",))])
    assert terms.linked("a prefix cache") == "a {term}`prefix cache <prefix cache>`"


def test_every_term_of_a_week_is_linked_exactly_once_on_its_page(week):
    lesson, page = week
    text = "\n".join(cell.source for cell in page.cells if cell.cell_type == "markdown")
    own = [word.name for word in KNOWN if word.week == lesson.week and f"<{word.name}>`" in text]
    assert own, "the week explains words, and links none"
    assert [name for name in own if text.count(f"<{name}>`") > 1] == []


def test_the_glossary_has_every_term_and_every_letter_of_the_legends():
    page = glossary_page(KNOWN, WEEKS)
    assert [word.name for word in KNOWN if f"\n{word.name}\n  {word.means}" not in page] == []
    for lesson in WEEKS:
        rows = " ".join(letters for letters, _ in legend_rows(lesson))
        assert [letter for letter in legend_letters(lesson) if len(letter) == 1 and letter not in rows] == []


def test_a_page_shows_outputs_of_labs_and_nothing_of_an_answer(week):
    _, page = week
    code = [cell for cell in page.cells if cell.cell_type == "code"]
    answers = [cell for cell in code if "raise NotYetWritten" in cell.source]
    assert answers and not any(cell.outputs for cell in answers)
    assert any(cell.outputs for cell in code if cell not in answers)
    assert not [cell for cell in code if is_check(cell)]
    assert "BEGIN SOLUTION" not in "".join(cell.source for cell in page.cells)


def test_a_page_has_no_line_that_says_what_a_cell_needs(week):
    _, page = week
    assert not [cell.source for cell in page.cells if cell.cell_type == "code" and cell.source.startswith("needs(")]


def test_what_is_folded_is_read_as_markdown():
    text = "<details><summary>Answer</summary>$x$ is\n3.</details>"
    assert folded(text) == "<details><summary>Answer</summary>\n\n$x$ is\n3.\n\n</details>"


def test_progress_bars_and_warnings_are_left_out_and_a_calculator_says_what_it_found():
    bar = {
        "output_type": "display_data",
        "metadata": {},
        "data": {"text/plain": "0%|", "application/vnd.jupyter.widget-view+json": {}},
    }
    said = bar | {"data": bar["data"] | {"text/plain": "capacity calculator: 12 GB"}}
    warning = {"output_type": "stream", "name": "stderr", "text": "careful"}
    found = shown([OUTPUT, bar, warning, said])
    assert [output["output_type"] for output in found] == ["stream", "display_data"]
    assert found[1]["data"] == {"text/plain": "capacity calculator: 12 GB"}


def test_the_bar_of_a_week_leads_to_the_exercises_in_the_browser_where_there_are_some():
    assert "(../try/week04_speculative.md)" in run_it(WEEKS[3], "", has_tab=True)
    assert "../try/" not in run_it(WEEKS[3], "")


def test_the_bar_of_a_week_names_the_notebook_and_with_a_github_address_colab_and_binder():
    assert "`work/week04_speculative/week04_speculative.ipynb`" in run_it(WEEKS[3], "")
    assert "Colab" not in run_it(WEEKS[3], "https://example.org/o/n")
    found = run_it(WEEKS[3], "https://github.com/o/n")
    at = "notebooks/week04_speculative/week04_speculative.ipynb"
    assert f"https://colab.research.google.com/github/o/n/blob/main/{at}" in found
    assert f"https://mybinder.org/v2/gh/o/n/HEAD?labpath={at}" in found


def test_every_public_name_of_the_engine_has_an_entry_in_the_api():
    pages = api_pages()
    for room in packages():
        for name in names_of(room) if room != "cli" else ():
            assert f":: nanolm.{room}.{name}\n" in pages[f"api/{room}.rst"] + "\n"


def test_the_start_page_has_the_fact_the_weeks_and_the_levers():
    page = text_pages(ROOT, WEEKS, HERE)["index.md"]
    assert "reads all of its weights and its whole cache from memory" in page
    assert "[Prefill and decode](weeks/week01_prefill_decode.ipynb)" in page and "| **bytes of cache** |" in page


@pytest.mark.parametrize(
    ("text", "better"),
    [
        ('<p class="caption" role="heading">', '<p class="caption" role="heading" aria-level="2">'),
        ('<summary aria-label="Toggle hidden content">', "<summary>"),
    ],
)
def test_a_page_is_mended_once_for_the_screen_reader(text, better):
    assert mended(text) == better == mended(better)
