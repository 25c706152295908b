"""Exercises in a browser's tab: the references in Pyodide under Node, and the pages in a headless Chromium."""

import json
import shutil
import subprocess
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import nbformat
import pytest
from browser import program, serious_faults

from course.paths import ROOT, read
from course.registry import find, registry
from course.tab.files import FOLDER
from course.tab.inside import Notebook
from course.tab.reach import checkable
from course.work.collect import collect

SITE = ROOT / "site"
PYTHON = SITE / FOLDER
LESSON = "week01_prefill_decode"
NARROW = 400  # pixels
SET_UP = "# Set-up for the exercises"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (PYTHON / "python.zip").is_file(), reason="there is no tab in site/: make book, with npm"),
]
IN_BROWSER = pytest.mark.skipif(program() is None, reason="there is no Chromium here")


def solved(exercise):
    """The set-up of an exercise's lesson, and the reference as it stands in the solution notebook."""
    path = ROOT / exercise.notebook.replace("notebooks/", "solutions/")
    cells = {cell.id: cell.source for cell in nbformat.read(path, as_version=4).cells}
    return next(text for text in cells.values() if text.startswith(SET_UP)), cells[exercise.slug]


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node here")
def test_every_reference_of_the_tab_passes_its_check_under_pyodide(tmp_path):
    names = set(checkable())
    exercises = [exercise for exercise in registry() if exercise.name in names]
    pages = {}
    for exercise in exercises:
        set_up, text = solved(exercise)
        pages.setdefault(exercise.notebook, {"set_up": set_up, "cells": {}})["cells"][exercise.name] = text
    cells = tmp_path / "cells.json"
    cells.write_text(json.dumps(list(pages.values())), encoding="utf-8")
    script = ROOT / "tests" / "site" / "in_node.mjs"
    said = subprocess.run(
        ["node", script, PYTHON / "pyodide", PYTHON / "python.zip", cells],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    points = {name: points for name, (_, points) in json.loads(said.stdout.splitlines()[-1]).items()}
    assert points == {exercise.name: exercise.points for exercise in exercises}


def test_the_tab_has_every_exercise_of_the_weeks_that_need_no_torch():
    names = set(checkable())
    assert all(exercise.name in names for exercise in registry() if exercise.week in (1, 6, 7, 10))


@pytest.mark.parametrize("text", ["README.md", "CHANGELOG.md", "book/students.md"])
def test_what_is_said_of_the_tab_has_the_right_number_of_exercises(text):
    n, of = len(checkable()), len(registry())
    assert any(said in read(ROOT / text) for said in (f"{n} of {of}", f"{n} exercises"))


@pytest.fixture(scope="module")
def server():
    """The built book, served."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *said):
            pass

    serving = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{serving.server_address[1]}"
    serving.shutdown()
    serving.server_close()


@pytest.fixture
def page(browser, server):
    """A page of exercises without any answer kept."""
    browser.open_served(f"{server}/try/{LESSON}.html")
    browser.run("localStorage.clear()")
    browser.open_served(f"{server}/try/{LESSON}.html?again")
    return browser


def box(name):
    return f"document.querySelector('.answer[data-exercise=\"{name}\"]')"


def write(page, name, text):
    page.run(
        f"{box(name)}.querySelector('textarea').value = {json.dumps(text)};"
        f"{box(name)}.querySelector('textarea').dispatchEvent(new Event('input'))"
    )


def asked(page, name, what="check"):
    """What the page shows when an answer has been checked, or run, and how it marks it."""
    page.run(f"{box(name)}.querySelector('[data-ask={what}]').click()")
    page.until(f"{box(name)}.querySelector('.stop').hidden")
    return page.run(f"[{box(name)}.querySelector('pre').textContent, {box(name)}.querySelector('pre').className]")


@IN_BROWSER
def test_a_right_answer_is_accepted(page):
    write(page, "matmul_flops", solved(find("matmul_flops"))[1])
    said, marked = asked(page, "matmul_flops")
    assert "tests passed, 1 point" in said and marked == "right"
    assert page.complaints() == []


@IN_BROWSER
def test_a_wrong_answer_gets_the_words_that_a_notebook_shows(page):
    text = "def matmul_flops(n_params, n_positions):\n    return n_params * n_positions"
    write(page, "matmul_flops", text)
    said, marked = asked(page, "matmul_flops")
    seed = int(said.partition("seed=")[2].partition(")")[0])
    assert (said, marked) == (Notebook("", lambda *_: None).check("matmul_flops", text, seed)[0], "wrong")


@IN_BROWSER
def test_an_unwritten_answer_is_told_so(page):
    said, marked = asked(page, "matmul_flops")
    assert "is not written yet" in said and marked == "wrong"


@IN_BROWSER
def test_a_loop_without_an_end_is_ended_and_the_next_answer_is_checked(page):
    write(page, "matmul_flops", "def matmul_flops(n_params, n_positions):\n    while True:\n        pass")
    assert "still running after 20 seconds: look for a loop that does not end" in asked(page, "matmul_flops")[0]
    write(page, "matmul_flops", solved(find("matmul_flops"))[1])
    assert asked(page, "matmul_flops")[1] == "right"


@IN_BROWSER
def test_what_runs_is_stopped_by_its_button(page):
    asked(page, "own", "run")  # Python is there
    write(page, "own", "while True:\n    pass")
    page.run(f"{box('own')}.querySelector('[data-ask=run]').click()")
    page.until(f"{box('own')}.querySelector('pre').textContent == 'running …'")
    page.run(f"{box('own')}.querySelector('.stop').click()")
    page.until(f"{box('own')}.querySelector('pre').textContent == 'stopped'")


@IN_BROWSER
def test_a_cell_of_ones_own_sees_what_others_have_defined(page):
    write(page, "matmul_flops", "def matmul_flops(n_params, n_positions):\n    return 42")
    asked(page, "matmul_flops", "run")
    write(page, "own", "print(matmul_flops(1, 1))\nmatmul_flops(1)")
    said, _ = asked(page, "own", "run")
    assert said.startswith("42\n") and "TypeError" in said and "line 2" in said


@IN_BROWSER
def test_an_answer_is_there_when_the_page_is_opened_again(page, server):
    write(page, "matmul_flops", "def matmul_flops(): ...")
    page.open_served(f"{server}/try/{LESSON}.html")
    assert page.run(f"{box('matmul_flops')}.querySelector('textarea').value") == "def matmul_flops(): ..."


def downloaded(page, folder):
    page.ask("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    page.run("document.getElementById('download').click()")
    file = folder / f"{LESSON}.ipynb"
    for _ in range(600):
        if file.is_file():
            return file
        time.sleep(0.1)
    raise AssertionError("nothing was downloaded")


@IN_BROWSER
def test_the_notebook_that_is_downloaded_is_read_by_collect_and_by_the_page_itself(page, server, tmp_path):
    text = solved(find("matmul_flops"))[1]
    write(page, "matmul_flops", text)
    file = downloaded(page, tmp_path)
    nbformat.validate(nbformat.read(file, as_version=4))
    assert any(line.endswith("matmul_flops taken") for line in collect([file], tmp_path / "into"))
    page.run("localStorage.clear()")
    page.open_served(f"{server}/try/{LESSON}.html?read")
    where = page.ask("Runtime.evaluate", expression="document.getElementById('load')")["result"]["objectId"]
    page.ask("DOM.setFileInputFiles", files=[str(file)], objectId=where)
    page.until("document.getElementById('state').textContent.includes('answers were read')")
    assert page.run(f"{box('matmul_flops')}.querySelector('textarea').value") == text


@IN_BROWSER
@pytest.mark.parametrize(("width", "dark"), [(1400, False), (1400, True), (NARROW, False)])
def test_a_page_with_a_failed_check_fits_and_has_no_serious_fault(browser, server, axe, width, dark):
    browser.open_served(f"{server}/try/{LESSON}.html?{width}{dark}", width=width, dark=dark)
    write(browser, "matmul_flops", "def matmul_flops(n_params, n_positions):\n    return 7")
    assert asked(browser, "matmul_flops")[1] == "wrong"
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert serious_faults(browser, axe) == []
