"""The folder that an installed course works in: how it is laid out, and what is said where there is none."""

import zipfile

import pytest

from course.errors import CourseError
from course.folder import lay_out, require_folder
from course.paths import HOME, MARK, laid_out, packaged
from course.work.start import start_installed

FILES = {"notebooks/start.ipynb": '{"cells": []}', "exercises/__init__.py": "", "tests/conftest.py": "# tests\n"}


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "material.zip"
    with zipfile.ZipFile(path, "w") as material:
        for name, text in FILES.items():
            material.writestr(name, text)
    return path


@pytest.fixture
def folder(tmp_path, archive):
    lay_out(tmp_path / "x", "1.0", archive)
    return tmp_path / "x"


def test_a_new_folder_gets_every_file_and_the_version(folder):
    assert {name: (folder / name).read_text(encoding="utf-8") for name in FILES} == FILES
    assert (folder / MARK).read_text(encoding="utf-8") == "1.0\n"


def test_a_file_that_is_there_is_never_touched_and_one_that_is_missing_comes_back(folder, archive):
    (folder / "exercises/__init__.py").write_text("# mine", encoding="utf-8")
    (folder / "tests/conftest.py").unlink()
    assert lay_out(folder, "1.0", archive) == ["tests/conftest.py"]
    assert (folder / "exercises/__init__.py").read_text(encoding="utf-8") == "# mine"


def test_start_lays_out_a_folder_and_copies_its_notebooks_to_work(tmp_path, archive):
    said = start_installed(tmp_path / "x", "1.0", archive)
    assert said[0].startswith("laid out ") and said[0].endswith("/x: notebooks, exercises, tests")
    assert "copied 1 file of notebooks/" in said[1]
    assert (tmp_path / "x/work/start.ipynb").is_file()


def test_start_without_a_name_goes_on_with_the_folder_that_one_is_in(folder, archive, monkeypatch):
    monkeypatch.chdir(folder / "tests")
    start_installed(None, "1.0", archive)
    assert (folder / "work/start.ipynb").is_file()


def test_start_without_a_name_where_no_folder_is_asks_for_one(tmp_path, archive, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CourseError, match="course start FOLDER"):
        start_installed(None, "1.0", archive)


def test_a_folder_with_other_files_is_refused_and_left_as_it_is(tmp_path, archive):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/chapter.tex").write_text("mine", encoding="utf-8")
    with pytest.raises(CourseError, match="thesis holds other files; name a new folder"):
        lay_out(tmp_path / "thesis", "1.0", archive)
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["chapter.tex"]


def test_a_file_is_no_folder(tmp_path, archive):
    with pytest.raises(CourseError, match=r"material\.zip is a file"):
        lay_out(archive, "1.0", archive)


def test_a_folder_inside_a_folder_of_the_course_is_refused(folder, archive):
    with pytest.raises(CourseError, match="a folder of the course; name one outside it"):
        lay_out(folder / "work/again", "1.0", archive)


def test_where_no_folder_is_the_one_line_names_the_command_that_makes_one(tmp_path):
    with pytest.raises(CourseError, match="in no folder of the course: course start FOLDER lays one out"):
        require_folder(installed=True, root=tmp_path)


def test_the_course_s_own_folder_needs_none(tmp_path):
    require_folder(installed=False, root=tmp_path)


def test_a_folder_of_another_version_is_named_with_the_way_to_take_its_answers_over(folder, monkeypatch):
    monkeypatch.setattr("course.folder.metadata.version", lambda name: "2.0")
    with pytest.raises(CourseError, match=r"laid out by version 1\.0, and 2\.0 is installed: .* course update --from"):
        require_folder(installed=True, root=folder)


def test_the_folder_is_found_from_any_folder_below_it(folder, tmp_path):
    assert laid_out(folder / "notebooks") == laid_out(folder) == folder
    assert laid_out(tmp_path) is None


def test_the_engine_is_the_installed_one_in_a_folder_laid_out_and_else_the_folder_s_own(folder, tmp_path):
    assert packaged("nanolm", folder) == HOME / "nanolm"
    assert packaged("nanolm", tmp_path) == tmp_path / "nanolm"
