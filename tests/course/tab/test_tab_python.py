"""Tests `course/tab/`: what a tab can check, the archive that it unpacks, and the notebook that runs in it."""

import subprocess
import zipfile

import pytest

from course.errors import CourseError
from course.grading import limits
from course.paths import ROOT
from course.registry import find
from course.tab import pyodide, reach
from course.tab.archive import archive
from course.tab.files import put
from course.tab.inside import Notebook

RIGHT = "def ridge_point(hardware):\n    return hardware.peak_flops_per_second / hardware.bandwidth_bytes_per_second\n"


@pytest.fixture
def wheel(tmp_path):
    with zipfile.ZipFile(tmp_path / "hypothesis.whl", "w") as made:
        made.writestr("hypothesis/__init__.py", "# for the browser")
    return tmp_path / "hypothesis.whl"


@pytest.fixture(autouse=True)
def _as_before(monkeypatch):
    """A notebook of a tab listens to limits.py; here for one test only."""
    monkeypatch.setattr(limits, "outside", limits.outside)


def notebook(set_up="", told=lambda seconds, text: None):
    return Notebook(set_up, told)


@pytest.mark.parametrize("name", ["torch", "torch.nn", "numpy", "psutil"])
def test_a_package_that_a_tab_lacks_is_hidden(name):
    with pytest.raises(ModuleNotFoundError, match=name):
        reach.Absent(reach.runners()).find_spec(name)


@pytest.mark.parametrize("name", ["pytest", "hypothesis", "pluggy", "sortedcontainers", "json"])
def test_what_runs_tests_is_not_hidden(name):
    assert reach.Absent(reach.runners()).find_spec(name) is None


def test_a_lookup_that_fails_is_told(monkeypatch):
    ended = subprocess.CompletedProcess([], 1, "", "no registry")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: ended)
    with pytest.raises(CourseError, match="could not be found out:\nno registry"):
        reach.checkable()


def test_the_archive_holds_the_engine_the_tests_asked_for_and_what_is_compiled_for_the_browser(wheel, tmp_path):
    exercise = find("ridge_point")
    (tmp_path / "python.zip").write_bytes(archive([exercise], wheel))
    names = set(zipfile.ZipFile(tmp_path / "python.zip").namelist())
    wanted = [
        "course/tab/inside.py",
        "course/registry.json",
        "pyproject.toml",
        "tests/conftest.py",
        "pytest/__init__.py",
    ]
    assert names.issuperset([*wanted, f"nanolm/{exercise.file}", *exercise.tests])
    assert "tests/cache/test_contiguous.py" not in names
    assert zipfile.ZipFile(tmp_path / "python.zip").read("hypothesis/__init__.py") == b"# for the browser"


def test_the_same_files_make_the_same_archive(wheel):
    assert archive([find("ridge_point")], wheel) == archive([find("ridge_point")], wheel)


def test_where_pyodide_cannot_be_fetched_the_tab_is_left_out_with_a_line(tmp_path, monkeypatch):
    monkeypatch.setattr(pyodide.shutil, "which", lambda name: None)
    lines = []
    assert put(tmp_path / "source", tmp_path / "kept", lines.append) == []
    assert len(lines) == 1 and pyodide.VERSION in lines[0]


def test_what_was_fetched_once_is_not_fetched_again(tmp_path, monkeypatch):
    def fetch(folder):
        for name in (*pyodide.FILES, "hypothesis.whl"):
            (folder / name).touch()
        return True

    monkeypatch.setattr(pyodide, "_npm", fetch)
    monkeypatch.setattr(pyodide, "_pip", lambda folder, wheel: True)
    first = pyodide.fetched(tmp_path)
    monkeypatch.setattr(pyodide, "_npm", lambda folder: pytest.fail("fetched again"))
    assert pyodide.fetched(tmp_path) == first != None  # noqa: E711


def test_a_fetch_that_breaks_off_leaves_nothing_that_looks_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(pyodide, "_npm", lambda folder: bool((folder / pyodide.FILES[0]).touch()) or True)
    monkeypatch.setattr(pyodide, "_pip", lambda folder, wheel: False)
    assert pyodide.fetched(tmp_path) is None
    assert [each.name for each in tmp_path.iterdir()] == ["being-fetched"]


def test_a_set_up_leaves_out_what_is_not_here():
    made = notebook("import no_such_package\nfrom math import pi\nfrom no_such_package.part import thing")
    assert made.run("own", "print(round(pi, 2), 'thing' in globals())") == "3.14 False\n"


def test_cells_share_what_they_define():
    made = notebook()
    made.run("own", "n = 6")
    assert made.run("own", "print(7 * n)") == "42\n"


def test_an_error_is_told_from_the_cells_own_line_on():
    said = notebook().run("own", "print(1)\n1 / 0")
    assert said.startswith('1\nTraceback (most recent call last):\n  File "<cell own>", line 2')
    assert said.endswith("ZeroDivisionError: division by zero\n") and "inside.py" not in said


def test_a_cell_that_is_no_python_is_told_and_not_checked():
    said, points = notebook().check("ridge_point", "def ridge_point(:")
    assert "SyntaxError" in said and points == 0


def test_a_cell_that_ends_the_program_ends_nothing():
    assert "SystemExit" in notebook().run("own", "import sys; sys.exit()")


def test_a_right_answer_gets_its_points_and_the_line_of_a_notebook():
    said, points = notebook().check("ridge_point", f"{RIGHT}print('seen')", seed=1)
    assert said.startswith("seen\nridge_point: ") and "tests passed, 1 point" in said and points == 1


def test_a_wrong_answer_leaves_its_failing_call_for_the_next_cell():
    made = notebook()
    said, points = made.check("ridge_point", RIGHT.replace(" / ", " * "), seed=1)
    assert "failed" in said and points < 1
    assert "ridge_point" in made.run("own", "print(failing)")


def test_a_tab_is_told_how_long_a_test_may_take_and_what_to_say_then(monkeypatch):
    told = []
    notebook(told=lambda *said: told.append(said))
    monkeypatch.setattr(limits, "_IN_TAB", True)
    with limits.limits(20) as clock:
        assert 0 < clock.left() <= 20
    assert told == [(20, "still running after 20 seconds: look for a loop that does not end")]


def test_the_tool_that_fetches_pins_its_version_in_one_place():
    holders = [path for path in ROOT.glob("c*/**/*.py") if pyodide.VERSION in path.read_text(encoding="utf-8")]
    assert [path.name for path in holders] == ["pyodide.py"]
