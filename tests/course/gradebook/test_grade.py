"""course grade: marks, table, feedback and gradebook of a class, whatever happens on the way."""

import csv
import json
import subprocess
import sys

import pytest
from classroom import QuickJudge
from nbgrader.api import Gradebook
from submissions import WEEK4, put, right, with_body

from course.errors import CourseError
from course.gradebook import store
from course.gradebook.book import only_writer
from course.gradebook.grade import grade
from course.gradebook.summary import show
from course.paths import ROOT
from course.registry import registry
from course.text.json_lines import append

WEEK = [exercise for exercise in registry() if exercise.week == 4]
FULL = sum(exercise.points for exercise in WEEK)
WRONG = {"'wrong'": ("failed", 0)}


def run(classroom, grading, judge=None, **options):
    options = {"seed": 1, "table": grading / "marks.csv", **options}
    return grade(4, [classroom], options.pop("table"), judge or QuickJudge(WRONG), folder=grading, **options)


def table(grading):
    with (grading / "marks.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def scores(grading):
    """Return every student's score and every cell's in nbgrader's gradebook."""
    with Gradebook(f"sqlite:///{grading / 'gradebook.db'}") as book:
        found = {}
        for submission in book.assignment_submissions("week04_speculative"):
            for notebook in submission.notebooks:
                for entry in notebook.grades:
                    found[submission.student.id, entry.name] = (entry.score, entry.needs_manual_grade)
        return found


def test_every_student_and_exercise_is_a_row_that_tells_what_happened(classroom, grading):
    run(classroom, grading)
    rows = {(row["student"], row["exercise"]): row for row in table(grading)}
    assert len(rows) == 4 * (len(WEEK) + 2)
    state = {key: (row["points"], row["state"]) for key, row in rows.items()}
    assert state["right", "best_gamma"] == ("2", "passed")
    assert state["untouched", "best_gamma"] == ("0", "unwritten")
    assert state["'=cmd_x", "best_gamma"] == ("0", "failed")
    assert state["Ana, María", "best_gamma"] == ("0", "missing")
    assert state["Ana, María", "acceptance_rate"] == ("0", "unreadable")
    assert state["right", "proof of exactness"] == ("", "to mark")
    assert state["untouched", "proof of exactness"] == ("0", "unwritten")
    assert {row["week"] for row in rows.values()} == {"4"}


def test_the_table_is_quoted_utf_8_and_starts_no_formula(classroom, grading):
    run(classroom, grading)
    data = (grading / "marks.csv").read_bytes()
    lines = data.decode("utf-8").splitlines()
    assert all(line.startswith('"') and line.endswith('"') for line in lines) and b"\r" not in data
    assert '"Ana, María","4"' in data.decode("utf-8")
    assert not any(field[:1] in "=+-@\t" for row in table(grading) for field in row.values() if field)


def test_the_gradebook_has_the_same_marks(classroom, grading):
    run(classroom, grading)
    found = scores(grading)
    assert found["right", "best_gamma-check"] == (2, False)
    assert found["untouched", "best_gamma-check"] == (0, False)
    assert found["right", "proof-of-exactness"][1] and not found["untouched", "proof-of-exactness"][1]
    by_student = {}
    for (student, _), (score, _) in found.items():
        by_student[student] = by_student.get(student, 0) + score
    assert (by_student["right"], by_student["Ana, María"], by_student["untouched"]) == (FULL, FULL - 4, 0)


def test_each_student_gets_a_file_with_check_s_words_by_exercise(classroom, grading):
    run(classroom, grading)
    (path,) = (grading / "reports").glob("_cmd_x_*/week04.md")
    text = path.read_text(encoding="utf-8")
    assert "## 4.6 best_gamma: 0 of 2\n\n    best_gamma: 'wrong' was found" in text
    assert "inputs of seed 1; tests and lesson " in text
    ana = (grading / "reports" / "Ana, María" / "week04.md").read_text(encoding="utf-8")
    assert "line 2: invalid syntax" in ana and "best_gamma was not handed in" in ana


def test_a_run_killed_half_way_goes_on_where_it_was_and_ends_alike(classroom, grading, tmp_path, empty_gradebook):
    other = tmp_path / "other"
    other.mkdir()
    (other / "gradebook.db").write_bytes(empty_gradebook.read_bytes())
    run(classroom, other)
    script = f"""
import os, sys
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "tests" / "helpers")!r}]
from pathlib import Path
from classroom import QuickJudge
from course.gradebook.grade import grade
class Killed(QuickJudge):
    def grade(self, *given):
        return os._exit(9) if len(self.asked) == 7 else super().grade(*given)
grade(4, [Path({str(classroom)!r})], None, Killed({WRONG!r}), folder=Path({str(grading)!r}), seed=1)
"""
    killed = subprocess.run([sys.executable, "-c", script], capture_output=True, cwd=tmp_path, text=True)
    assert killed.returncode == 9, killed.stderr
    judge, first = QuickJudge(WRONG), QuickJudge(WRONG)
    kept = (grading / "results" / "week04.jsonl").read_text(encoding="utf-8").count('"key"')
    assert kept == 7
    with (grading / "results" / "week04.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"key": "cut')  # as a full disk leaves it
    run(classroom, grading, judge)
    run(classroom, other, first)
    assert first.asked == [] and scores(grading) == scores(other)
    for name in ("marks.csv", "marks/week04.json"):
        assert (grading / name).read_bytes() == (other / name).read_bytes(), name
    everything = store.Results(other / "results" / "week04.jsonl").marks
    assert len(judge.asked) == len(everything) - kept


def test_what_has_been_graded_is_not_graded_again(classroom, grading):
    run(classroom, grading)
    again = QuickJudge(WRONG)
    run(classroom, grading, again, seed=None)
    assert again.asked == []


def test_one_failure_of_the_judge_stops_nobody_and_is_made_good_by_the_next_run(classroom, grading):
    report = run(classroom, grading, QuickJudge(WRONG, fails_at=3))
    assert len(report.failures) == 1 and "the server is gone" in report.failures[0]
    assert sum(row["state"] == "not graded" for row in table(grading)) == 1
    again = QuickJudge(WRONG)
    assert run(classroom, grading, again).failures == [] and len(again.asked) <= 1
    assert not any(row["state"] == "not graded" for row in table(grading))
    marks = json.loads((grading / "marks" / "week04.json").read_text(encoding="utf-8"))
    numbers = [exercise.number for exercise in WEEK]
    assert all(list(of_student) == numbers for of_student in marks.values()), "in the order of the week"


def test_a_disk_that_takes_no_more_results_ends_the_run_at_once_and_gives_nobody_a_mark(
    classroom, grading, monkeypatch
):
    monkeypatch.setattr(store.Results, "keep", lambda self, *_: append(self.path / "no folder", {}))
    with pytest.raises(CourseError, match=r"cannot be written: .*; what was kept so far is safe"):
        run(classroom, grading)
    assert not (grading / "marks.csv").exists()


def test_after_a_corrected_test_only_what_it_touches_is_graded_again(classroom, grading, monkeypatch):
    run(classroom, grading)
    known = store.version
    monkeypatch.setattr(store, "version", lambda e: known(e) + ("-corrected" if e.name == "best_gamma" else ""))
    again = QuickJudge(WRONG)
    run(classroom, grading, again)
    assert set(again.asked) == {"4.6"}


def test_marks_that_change_are_shown_and_written_only_when_told_so(classroom, grading):
    run(classroom, grading)
    mended = QuickJudge({"'wrong'": ("passed", 1)})
    (grading / "results" / "week04.jsonl").unlink()
    said = []
    report = run(classroom, grading, mended)
    show(report, said.append)
    assert [str(change) for change in report.changes] == [
        line.removeprefix("CHANGED: ") for line in said if "CHANGED" in line
    ]
    assert len(report.changes) == 1 and "=cmd_x, 4.6: 0 (failed) would become 2 (passed)" in str(report.changes[0])
    assert any("--yes writes the new ones" in line for line in said)
    row = next(row for row in table(grading) if row["student"] == "'=cmd_x" and row["exercise"] == "best_gamma")
    assert row["points"] == "0"
    run(classroom, grading, mended, yes=True)
    row = next(row for row in table(grading) if row["student"] == "'=cmd_x" and row["exercise"] == "best_gamma")
    assert row["points"] == "2" and run(classroom, grading, mended).changes == []


def test_a_new_student_is_written_while_others_wait(classroom, grading):
    run(classroom, grading)
    (grading / "results" / "week04.jsonl").unlink()
    put(classroom / "late" / WEEK4, right())
    run(classroom, grading, QuickJudge({"'wrong'": ("passed", 1)}))
    assert ("late", "best_gamma-check") in scores(grading)


def test_what_a_person_gave_stays_and_counts(classroom, grading):
    run(classroom, grading)
    with Gradebook(f"sqlite:///{grading / 'gradebook.db'}") as book:
        entry = book.find_grade("best_gamma-check", "week04_speculative", "week04_speculative", "right")
        entry.manual_score = 1.5
        book.db.commit()
    run(classroom, grading)
    row = next(row for row in table(grading) if (row["student"], row["exercise"]) == ("right", "best_gamma"))
    assert (row["points"], row["state"]) == ("1.5", "marked")


def test_a_suspicious_answer_waits_for_a_person(classroom, grading):
    run(classroom, grading, QuickJudge({"'wrong'": ("suspicious", 0)}))
    (name,) = [student for student, cell in scores(grading) if cell == "best_gamma-check" and "cmd" in student]
    assert scores(grading)[name, "best_gamma-check"] == (0, True)


def test_a_notebook_of_every_student_lies_where_formgrader_looks_with_each_graded_cell_once(classroom, grading):
    import nbformat

    run(classroom, grading)
    for student in ("right", "untouched", "Ana, María"):
        path = grading / "autograded" / student / WEEK4
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        names = [cell.metadata.nbgrader.grade_id for cell in notebook.cells if "nbgrader" in cell.metadata]
        assert len(names) == len(set(names)) and "best_gamma-check" in names
    text = (grading / "autograded" / "right" / WEEK4).read_text(encoding="utf-8")
    assert "best_gamma: all tests passed" in text


def test_only_one_process_writes_a_gradebook(tmp_path):
    with only_writer(tmp_path):
        (tmp_path / "course-grade.lock").write_text("1", encoding="utf-8")
        with pytest.raises(CourseError, match="process 1 is writing"), only_writer(tmp_path):
            pass


def test_a_lock_of_a_killed_process_is_no_hindrance(tmp_path):
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    (tmp_path / "course-grade.lock").write_text(ended.stdout.strip(), encoding="utf-8")
    with only_writer(tmp_path):
        pass
    assert not (tmp_path / "course-grade.lock").exists()


def test_a_week_that_does_not_exist_is_one_clear_error(classroom, grading):
    with pytest.raises(CourseError, match="week is 44; there are weeks 1 to 10"):
        grade(44, [classroom], None, QuickJudge(), folder=grading)


def test_the_week_s_inputs_stay_the_same_from_run_to_run(classroom, grading):
    first = run(classroom, grading, seed=None).seed
    assert run(classroom, grading, seed=None).seed == first


def test_a_new_answer_of_one_student_is_the_only_one_graded(classroom, grading):
    run(classroom, grading)
    put(classroom / "right" / WEEK4, with_body(right(), "acceptance_rate", "return 'other'"))
    again = QuickJudge(WRONG)
    report = run(classroom, grading, again)
    assert again.asked == ["4.3"] and report.changes == []


def test_a_student_who_handed_nothing_in_is_told_apart_from_one_who_wrote_nothing(classroom, grading):
    (classroom / "nothing" / "week04_speculative").mkdir(parents=True)
    run(classroom, grading)
    states = {
        name: {row["state"] for row in table(grading) if row["student"] == name} for name in ("nothing", "untouched")
    }
    assert states == {"nothing": {"missing"}, "untouched": {"unwritten"}}


def test_a_student_of_the_gradebook_without_a_submission_is_in_the_table(classroom, grading):
    with Gradebook(f"sqlite:///{grading / 'gradebook.db'}") as book:
        book.add_student("absent")
    run(classroom, grading)
    assert {row["state"] for row in table(grading) if row["student"] == "absent"} == {"missing"}


def test_what_needs_a_person_is_said_at_the_end(classroom, grading):
    (classroom / "roster.csv").write_text("ana", encoding="utf-8")
    said = []
    show(run(classroom, grading), said.append)
    assert any(line.startswith("NOT PLACED: ") and "roster.csv" in line for line in said)
    assert any("4 submissions, inputs of seed 1: " in line and "1 unreadable" in line for line in said)
