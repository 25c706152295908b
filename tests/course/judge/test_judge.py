"""The judge's marks: the points and words of `check`, and a state that tells one kind of nothing from another."""

import importlib
import threading

import pytest
from attacks import answer

from course.errors import CourseError
from course.grading.checking import examine
from course.grading.implementation import chosen
from course.judge import judge as judges
from course.judge.judge import Judge
from course.judge.marks import version
from course.judge.worker import Lost
from course.paths import ROOT, read, write
from course.registry import find, registry

SEED = 23
RATE = find("acceptance_rate")
BEGIN = "import torch\n\n\ndef acceptance_rate(target_probs, draft_probs):\n"
TEXT_OF_ENGINE = read(ROOT / "nanolm" / RATE.file)


def mark_of(judge, body, exercise=RATE):
    text = BEGIN + "".join(f"    {line}\n" for line in body.splitlines())
    (mark,) = judge.grade({exercise.file: text}, [exercise], SEED)
    return mark


def check_of(exercise, text, folder):
    """What `check` says of the same text, with the same inputs."""
    write(folder / exercise.file, text)
    answers = vars(importlib.import_module(f"{chosen(str(folder)).package}.{exercise.module}"))
    try:
        return examine(exercise.name, answers, SEED)
    except Exception as error:
        return str(error)


def _body(text, name):
    """The text of a method, from its first line to the next definition."""
    start = text.index(f"    def {name}(")
    return text[start : text.index("    def ", start + 1)]


@pytest.mark.parametrize(
    ("body", "state"),
    [
        ("return torch.minimum(target_probs, draft_probs).sum(dim=-1)", "passed"),
        ("return torch.minimum(target_probs, draft_probs).sum()", "partial"),
        ("return None", "failed"),
        ("raise KeyError('x')", "failed"),
        ("raise NotYetWritten", "unwritten"),
    ],
)
def test_points_and_words_are_those_of_check(plain, tmp_path, body, state):
    text = "from course import NotYetWritten\n" + BEGIN + f"    {body}\n"
    (mark,) = plain.grade({RATE.file: text}, [RATE], SEED)
    assert mark.state == state
    assert mark.feedback == check_of(RATE, text, tmp_path)
    assert (mark.points == RATE.points) == (state == "passed") and (mark.points > 0) == (state in ("passed", "partial"))


def test_of_two_methods_the_one_that_is_written_earns_its_part_in_the_words_of_check(plain, tmp_path):
    exercise = find("BlockAllocator")
    stub = read(ROOT / "exercises" / exercise.file)
    engine = read(ROOT / "nanolm" / exercise.file)
    text = stub.replace(_body(stub, "allocate"), _body(engine, "allocate"))
    (mark,) = plain.grade({exercise.file: text}, [exercise], SEED)
    assert mark.feedback == check_of(exercise, text, tmp_path)
    assert "not written yet: BlockAllocator.share, BlockAllocator.free" in mark.feedback


@pytest.mark.parametrize(
    ("files", "state"),
    [
        ({}, "missing"),
        ({RATE.file: "x = 1\n"}, "missing"),
        ({RATE.file: "def acceptance_rate(:\n"}, "unreadable"),
        ({RATE.file: BEGIN + "    import os\n    return os.name\n"}, "suspicious"),
        ({RATE.file: BEGIN + "    raise NotImplementedError\n"}, "unwritten"),
    ],
)
def test_what_need_not_be_run_is_told_apart_without_a_server(files, state):
    with Judge(sandbox=False) as judge:
        (mark,) = judge.grade(files, [RATE], SEED)
        assert (mark.state, mark.points, mark.max_points, mark.seed) == (state, 0, 2, SEED)
        assert judge.cpu_seconds == 0


@pytest.mark.parametrize(
    ("body", "state", "says"),
    [
        ("import sys\nsys.exit()", "failed", "the answer ended the program"),
        ("raise KeyboardInterrupt", "crashed", "the answer ended the process"),
        ("while True:\n    pass", "time", "look for a loop that does not end"),
        ("return torch.zeros(1 << 40)", "failed", "allocate"),
    ],
)
def test_an_accident_has_a_state_and_a_sentence(plain, body, state, says):
    mark = mark_of(plain, body)
    assert (mark.state, mark.points) == (state, 0)
    assert says in mark.feedback


def test_a_segmentation_fault_is_a_crash_by_its_signal(plain):
    text = answer("import ctypes", "ctypes.string_at(0)")
    (mark,) = plain.grade({"speculative/acceptance.py": text}, [find("4.1")], SEED, screened=False)
    assert mark.state == "crashed" and "by signal 11" in mark.feedback


def test_a_warning_costs_nothing(plain):
    assert mark_of(plain, "return torch.minimum(torch.tensor(target_probs), draft_probs).sum(-1)").state == "passed"


def test_a_helper_with_the_engine_s_name_stays_the_student_s(plain):
    text = BEGIN + "    return check_distributions(target_probs, draft_probs)\n\n\ndef check_distributions(p, q):\n"
    (mark,) = plain.grade({RATE.file: text + "    return torch.minimum(p, q).sum(dim=-1)\n"}, [RATE], SEED)
    assert mark.state == "passed"


def test_each_exercise_is_graded_alone(plain):
    text = TEXT_OF_ENGINE.replace("(target_probs - draft_probs).clamp(min=0)", "target_probs")
    exercises = [find(name) for name in ("residual_distribution", "accept_or_resample", "acceptance_rate")]
    states = [mark.state for mark in plain.grade({RATE.file: text}, exercises, SEED)]
    assert states[0] in ("failed", "partial") and states[1:] == ["passed", "passed"]


def test_other_weeks_are_read_when_they_are_asked(plain):
    exercise = find("10.1")
    (mark,) = plain.grade({exercise.file: read(ROOT / "nanolm" / exercise.file)}, [exercise], SEED)
    assert mark.state == "passed"


def test_a_mark_names_the_version_of_its_tests_and_points(plain, monkeypatch):
    mark = mark_of(plain, "return None")
    assert mark.version == version(RATE)
    monkeypatch.setattr("course.judge.marks.fingerprint", lambda exercise: "another")
    assert mark.version != version(RATE)


def test_a_judge_that_fails_on_the_engine_s_own_text_says_so_and_marks_nobody(plain, monkeypatch):
    monkeypatch.setattr(judges, "canary", lambda *a: {"text": TEXT_OF_ENGINE, "test": ""})  # a canary that never fails
    monkeypatch.setattr(plain, "_sound", set())
    with pytest.raises(CourseError, match=r"the judge cannot grade 4\.3 here, not even the engine"):
        mark_of(plain, "return torch.minimum(target_probs, draft_probs).sum(dim=-1)")


def test_a_judge_without_a_sandbox_says_so_loudly(monkeypatch):
    monkeypatch.setattr(judges, "kind", lambda: ("plain", "there is no bubblewrap on this machine"))
    with pytest.warns(RuntimeWarning, match="NO SANDBOX: there is no bubblewrap on this machine"):
        assert "grade on a machine" in Judge().protection
    with pytest.raises(CourseError, match="there is no sandbox: there is no bubblewrap"):
        Judge(sandbox=True)


def test_the_number_of_workers_must_be_a_number():
    with pytest.raises(CourseError, match="workers is 0; it must be 1 or more"):
        Judge(workers=0)


def test_where_forks_are_not_safe_each_answer_gets_a_process_of_its_own(monkeypatch):
    monkeypatch.setattr(judges, "without", lambda: "spawn")
    with Judge(sandbox=False) as judge:
        first = mark_of(judge, "raise KeyboardInterrupt")
        last = mark_of(judge, "return torch.minimum(target_probs, draft_probs).sum(dim=-1)")
    assert (first.state, last.state) == ("crashed", "passed")


@pytest.mark.slow
@pytest.mark.parametrize("week", sorted({exercise.week for exercise in registry()}))
def test_the_engine_s_own_text_earns_every_point_in_the_sandbox(sandboxed, week):
    exercises = [exercise for exercise in registry() if exercise.week == week]
    files = {exercise.file: read(ROOT / "nanolm" / exercise.file) for exercise in exercises}
    marks = sandboxed.grade(files, exercises, SEED)
    assert [mark for mark in marks if mark.state != "passed"] == []


def test_a_server_in_a_box_outlives_the_thread_that_asked_it_first(sandboxed):
    text = {RATE.file: TEXT_OF_ENGINE}
    with Judge(sandbox=True, limits=sandboxed.limits) as judge:
        asking = threading.Thread(target=judge.grade, args=(text, [RATE], SEED))
        asking.start()
        asking.join()
        server = judge._seats[0]._worker
        with pytest.raises(Lost, match="time"):  # it says nothing, and has not ended
            server.receive(seconds=1)
        assert judge.grade(text, [RATE], SEED)[0].state == "passed" and judge._seats[0]._worker is server


@pytest.mark.parametrize("judge", ["plain", "sandboxed"])
def test_libraries_find_a_folder_for_what_is_temporary(judge, request):
    """torch makes one where an answer is the first to need its compiler's modules; the server's own is closed to it."""
    write = "    with tempfile.TemporaryFile('w') as file:\n        file.write('x')\n"
    text = f"import tempfile\n\n{BEGIN}{write}    return torch.minimum(target_probs, draft_probs).sum(dim=-1)\n"
    (mark,) = request.getfixturevalue(judge).grade({RATE.file: text}, [RATE], SEED, screened=False)
    assert mark.state == "passed", mark.feedback
