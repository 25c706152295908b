"""Whose a file is: platforms' names, nbgrader's tree, folders, archives, loose notebooks."""

import zipfile

import pytest
from submissions import bytes_of, right

from course.intake.submission import sort_by_student

NOTEBOOK = bytes_of(right())
LESSON = "week04_speculative/week04_speculative.ipynb"


def names(*paths):
    handed, unplaced = sort_by_student(paths)
    return {each.student: len(each.files) for each in handed}, [str(each) for each in unplaced]


def folder_of(top, *files):
    for file in files:
        path = top / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(NOTEBOOK if file.endswith(".ipynb") else b"x = 1\n")
    return top


def archive_of(path, *files):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for file in files:
            archive.writestr(file, NOTEBOOK)
    return path


@pytest.mark.parametrize(
    ("files", "students"),
    [
        (["ana/week04_speculative/week04_speculative.ipynb", "ben/week04_speculative/w.ipynb"], ["ana", "ben"]),
        (["=cmd_x/week04.ipynb", "Ana, María/week04.ipynb"], ["=cmd_x", "Ana, María"]),
        (["ana.ipynb", "ben (1).ipynb"], ["ana", "ben"]),
        (["ana_week04_speculative.ipynb", "Week04_Speculative-ben.ipynb"], ["ana", "ben"]),
        (["ana/work/week04_speculative/week04_speculative.ipynb"], ["ana"]),
        (["ana/exercises/speculative/acceptance.py", "ben/speculative/acceptance.py"], ["ana", "ben"]),
        (["Ana María_12345_assignsubmission_file_/week04.ipynb", "Ben_7_assignsubmission_file/x/w.ipynb"],
         ["Ana María", "Ben"]),
        (["Ben_7_assignsubmission_file_week04_speculative.ipynb"], ["Ben"]),
        (["lopezana_123_456_week04_speculative.ipynb", "kimben_LATE_12_45_w-1.ipynb"], ["kimben", "lopezana"]),
        (["ana+week04_speculative+2026-11-30 12:00:00 UTC+abc/week04_speculative.ipynb"], ["ana"]),
    ],
)  # fmt: skip
def test_the_names_of_folders_and_files_say_whose_they_are(tmp_path, files, students):
    found, unplaced = names(folder_of(tmp_path / "class", *files))
    assert sorted(found) == students and unplaced == []


@pytest.mark.parametrize(
    ("files", "students"),
    [
        (["Ana María_12345_assignsubmission_file_/week04.ipynb", "Ben_7_assignsubmission_file_/w.ipynb"],
         ["Ana María", "Ben"]),
        (["lopezana_123_456_week04.ipynb", "kimben_12_45_week04.ipynb"], ["kimben", "lopezana"]),
        (["ana/week04.ipynb", "ben/week04.ipynb"], ["ana", "ben"]),
        (["ana.ipynb", "ben.ipynb"], ["ana", "ben"]),
        (["my homework/week04_speculative/week04_speculative.ipynb", "__MACOSX/._week04.ipynb"], ["class"]),
    ],
)  # fmt: skip
def test_an_archive_is_the_class_s_or_a_student_s(tmp_path, files, students):
    found, unplaced = names(archive_of(tmp_path / "class.zip", *files))
    assert sorted(found) == students and unplaced == []


def test_an_archive_in_a_student_s_folder_is_the_student_s(tmp_path):
    inner = archive_of(tmp_path / "hw.zip", "work/week04_speculative/week04_speculative.ipynb")
    with zipfile.ZipFile(tmp_path / "class.zip", "w") as archive:
        archive.write(inner, "Ana_12_assignsubmission_file_/hw.zip")
        archive.writestr("Ben_13_assignsubmission_file_/week04.ipynb", NOTEBOOK)
    assert names(tmp_path / "class.zip")[0] == {"Ana": 1, "Ben": 1}


@pytest.mark.parametrize("named", ["ana", "ana/work", "ana/work/week04_speculative", f"ana/work/{LESSON}"])
def test_what_was_named_is_the_student_where_nothing_in_it_has_a_name(tmp_path, named):
    folder_of(tmp_path, f"ana/work/{LESSON}")
    assert list(names(tmp_path / named)[0]) == ["ana"]


def test_two_students_of_one_name_are_told_apart_by_the_platform_s_number(tmp_path):
    top = folder_of(tmp_path / "c", "Kim_1_assignsubmission_file_/w.ipynb", "Kim_2_assignsubmission_file_/w.ipynb")
    assert names(top)[0] == {"Kim (1)": 1, "Kim (2)": 1}


def test_an_accent_spelled_in_two_ways_is_one_student(tmp_path):
    top = folder_of(tmp_path / "c", "Mari\u0301a/a.ipynb", "Mar\u00eda/b.ipynb")
    assert names(top)[0] == {"María": 2}


def test_checkpoints_and_backups_are_nobody_s_hand_in(tmp_path):
    files = [f"ana/{LESSON}", "ana/.ipynb_checkpoints/week04-checkpoint.ipynb", f"ana/backup/2026/{LESSON}"]
    assert names(folder_of(tmp_path / "c", *files))[0] == {"ana": 1}


def test_a_roster_beside_the_folders_of_a_class_is_nobody_s_and_is_named(tmp_path):
    top = folder_of(tmp_path / "class", f"ana/{LESSON}", "roster.csv", "ben.ipynb")
    found, unplaced = names(top)
    assert sorted(found) == ["ana", "ben"]
    assert len(unplaced) == 1 and "roster.csv is in no folder with a student's name" in unplaced[0]


def test_numbered_names_are_different_students(tmp_path):
    found, _ = names(folder_of(tmp_path / "class", "student_1.ipynb", "student_2.ipynb", "student_2 (1).ipynb"))
    assert found == {"student_1": 1, "student_2": 2}


def test_of_several_folders_that_are_named_each_is_a_student(tmp_path):
    folder_of(tmp_path, "ana/my stuff/week04.ipynb", f"ben/{LESSON}")
    assert sorted(names(tmp_path / "ana", tmp_path / "ben")[0]) == ["ana", "ben"]
    folder_of(tmp_path, "submitted/kim/my stuff/week04.ipynb")
    assert sorted(names(tmp_path / "submitted" / "kim")[0]) == ["kim"]


def test_of_several_classes_that_are_named_the_folders_in_them_are_students(tmp_path):
    folder_of(tmp_path, f"one/ana/{LESSON}", f"one/ben/{LESSON}", f"two/kim/{LESSON}", f"two/lee/{LESSON}")
    assert sorted(names(tmp_path / "one", tmp_path / "two")[0]) == ["ana", "ben", "kim", "lee"]


def test_an_archive_from_canvas_is_its_student_s(tmp_path):
    inner = archive_of(tmp_path / "hw.zip", f"work/{LESSON}")
    with zipfile.ZipFile(tmp_path / "submissions.zip", "w") as archive:
        archive.write(inner, "lopezana_123_456_hw.zip")
        archive.writestr("kimben_12_45_week04.ipynb", NOTEBOOK)
    assert sorted(names(tmp_path / "submissions.zip")[0]) == ["kimben", "lopezana"]


def test_a_student_with_an_empty_folder_is_not_forgotten(tmp_path):
    top = folder_of(tmp_path / "class", f"ana/{LESSON}")
    (top / "ben" / "week04_speculative").mkdir(parents=True)
    assert sorted(names(top)[0]) == ["ana", "ben"]
