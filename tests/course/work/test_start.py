"""course start: copies of the notebooks, and nothing that is there is touched."""

import json
import re
import shutil
import subprocess

import pytest
from small_course import everything
from two_versions import COPY, LESSON, answer, cells, forget_registry, git

from course.errors import CourseError
from course.paths import ROOT
from course.work.layout import Work, version_of
from course.work.start import start

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def course(cloned, tmp_path):
    forget_registry()
    yield shutil.copytree(cloned, tmp_path / "course")
    forget_registry()


def test_every_notebook_is_copied_and_the_page_to_start_with_is_named(course):
    (said,) = start(root=course)
    assert said == "copied 2 files of notebooks/ to work/, yours to answer; start with work/start.ipynb"
    for name in ("start.ipynb", f"{LESSON}/{LESSON}.ipynb"):
        assert (course / "work" / name).read_bytes() == (course / "notebooks" / name).read_bytes()


def test_what_is_there_is_never_overwritten(course):
    start(root=course)
    answer(course / COPY, double="    return x + x")
    (course / "work" / "start.ipynb").unlink()
    before = (course / COPY).read_bytes()
    assert start(root=course)[0].startswith("copied 1 file of notebooks/")
    assert (course / COPY).read_bytes() == before and (course / "work" / "start.ipynb").exists()


def test_a_second_start_says_that_nothing_was_done(course):
    start(root=course)
    before = everything(course / "work")
    assert start(root=course) == ["work/ has every notebook already; nothing was copied, nothing changed"]
    assert everything(course / "work") == before


def test_the_version_that_each_copy_came_from_is_noted(course):
    start(root=course)
    note = json.loads((course / "work" / ".course.json").read_text(encoding="utf-8"))
    text = (course / "notebooks" / LESSON / f"{LESSON}.ipynb").read_text(encoding="utf-8")
    assert note["notebooks"][f"{LESSON}/{LESSON}.ipynb"] == version_of(text)
    assert set(note["notebooks"]) == {"start.ipynb", f"{LESSON}/{LESSON}.ipynb"}


def test_a_folder_of_ones_own_choice_gets_the_same(course, tmp_path):
    assert start(tmp_path / "mine", course)[0].endswith("start with " + (tmp_path / "mine").as_posix() + "/start.ipynb")
    assert (tmp_path / "mine" / LESSON / f"{LESSON}.ipynb").exists()


def test_answers_in_the_built_notebooks_come_along_and_are_not_taken_for_the_lesson(course):
    answer(course / "notebooks" / LESSON / f"{LESSON}.ipynb", double="    return x + x")
    assert f"notebooks/{LESSON}/{LESSON}.ipynb had been edited there: the edits are in your copy" in start(root=course)
    assert "return x + x" in cells(course / COPY)["double"]
    assert Work.at(root=course).original(f"{LESSON}/{LESSON}.ipynb") is None


def test_a_lesson_corrected_since_is_named_with_the_command_that_brings_it_in(course):
    start(root=course)
    git(course, "merge", "--quiet", "second")
    assert (
        start(root=course)[-1] == f"corrected since your copies were made: start, {LESSON}; course update brings it in"
    )


def test_opening_and_answering_the_copies_leaves_git_clean(course):
    start(root=course)
    answer(course / COPY, double="    return x + x", proof="Because.")
    (course / "work" / ".ipynb_checkpoints").mkdir()
    (course / "work" / ".ipynb_checkpoints" / "start-checkpoint.ipynb").write_text("{}", encoding="utf-8")
    assert git(course, "status", "--porcelain") == ""


def test_git_ignores_the_student_s_folder_and_not_the_code_of_the_same_name():
    if not (ROOT / ".git").exists():
        pytest.skip("no git clone")
    ignored = ["git", "-C", str(ROOT), "check-ignore", "--no-index", "--quiet"]
    assert subprocess.run([*ignored, "work/start.ipynb"], check=False).returncode == 0
    assert subprocess.run([*ignored, "course/work/start.py"], check=False).returncode == 1


def test_the_start_page_s_links_lead_to_the_copies(tmp_path):
    start(tmp_path / "work", ROOT)
    page = "\n".join(cells(tmp_path / "work" / "start.ipynb").values())
    links = re.findall(r"\]\(([^)#]+)\)", page)
    notebooks = {path.relative_to(ROOT / "notebooks").as_posix() for path in (ROOT / "notebooks").rglob("*.ipynb")}
    assert {link for link in links if link.endswith(".ipynb")} == notebooks - {"start.ipynb"}
    assert not [link for link in links if not (link.startswith("http") or (tmp_path / "work" / link).exists())]


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_lab_starts_and_opens_the_student_s_own_page():
    planned = subprocess.run(["make", "--dry-run", "lab"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    commands = [line for line in planned.splitlines() if "course start" in line or "jupyter lab" in line]
    assert commands[-2].endswith("course start")
    assert "--LabApp.default_url=/lab/tree/work/start.ipynb" in commands[-1]


def test_a_folder_that_is_a_file_is_refused_in_one_line(course, tmp_path):
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(CourseError, match=r"^.*file is a file; name a folder for your work$"):
        start(tmp_path / "file", course)
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


def test_a_folder_below_a_file_is_refused_in_one_line(course, tmp_path):
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    with pytest.raises(CourseError, match=r"^.*file is a file; name a folder for your work$"):
        start(tmp_path / "file" / "work", course)


def test_a_folder_that_cannot_be_written_to_is_refused_in_one_line(course, tmp_path, monkeypatch):
    def closed(dir):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("course.work.layout.tempfile.TemporaryFile", closed)
    with pytest.raises(CourseError, match=r"cannot be written to: Permission denied$"):
        start(tmp_path / "work", course)
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize("name", ["notebooks", "exercises/mine", "."])
def test_a_folder_of_the_course_itself_is_refused(course, name):
    with pytest.raises(CourseError, match="is a folder of the course itself; name another for your work"):
        start(course / name, course)


def test_a_course_without_notebooks_is_refused(tmp_path):
    with pytest.raises(CourseError, match="there are no notebooks in"):
        start(root=tmp_path)


def test_a_copy_that_fails_half_way_leaves_nothing(course, monkeypatch):
    from course.text import files

    real, done = files.put, []

    def full(path, content):
        if content is not None and len(done) == 1:
            raise OSError(28, "No space left on device")
        done.append(path)
        real(path, content)

    monkeypatch.setattr(files, "put", full)
    with pytest.raises(CourseError, match="No space left on device; every file is as it was"):
        start(root=course)
    assert everything(course / "work") == {}
