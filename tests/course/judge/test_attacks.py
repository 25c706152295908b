"""Attacks on the judge: none earns a point, harms the machine or stops the next answer; the sandbox needs no screen."""

import os
import socket
import threading
from contextlib import closing

import pytest
from attacks import CHANGES_THE_JUDGE, ENDS, HEAVY, NOT_THERE, ONLY_SCREENED, RIGHT

from course.judge.sandbox import command
from course.paths import ROOT
from course.registry import find
from course.screening.answers import answer_to

EXERCISE = find("4.1")
SEED = 17
ALL = NOT_THERE | CHANGES_THE_JUDGE | ONLY_SCREENED | ENDS | HEAVY
# What a slip or an ordinary mistake may do as well: it is run, and fails.
NOT_SUSPICIOUS = {
    *("sys.exit", "KeyboardInterrupt", "recursion", "20 GB at once", "20 GB bit by bit", "a message that is too long"),
    *("an endless loop", "an endless loop that catches everything", "the reference called"),
    *("the reference as a default argument", "the reference as a constant of the file"),
}


@pytest.fixture(scope="module")
def port():
    """A port of this machine that listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[1]


@pytest.fixture
def submitted(tmp_path, port):
    """Make files of an attack, which knows where another's work lies and which port listens."""
    secret = tmp_path / "another.py"
    secret.write_text("the work of another", encoding="utf-8")

    def files(text):
        return {EXERCISE.file: text.replace("{secret}", str(secret)).replace("{port}", str(port))}

    return files


def run(judge, files):
    """The mark of an attack that the screen lets through, and of a right answer graded after it."""
    (attack,) = judge.grade(files, [EXERCISE], SEED, screened=False)
    (right,) = judge.grade({EXERCISE.file: RIGHT}, [EXERCISE], SEED)
    return attack, right


def assert_earns_nothing_and_harms_nobody(judge, files):
    attack, right = run(judge, files)
    assert attack.points == 0, attack
    assert right.points == EXERCISE.points, right


@pytest.mark.parametrize("name", sorted(ALL.keys() - NOT_SUSPICIOUS))
def test_the_screen_finds_an_attack_before_it_runs(submitted, name):
    assert answer_to(EXERCISE, submitted(ALL[name])).findings, name


@pytest.mark.parametrize("name", sorted(NOT_SUSPICIOUS))
def test_an_ordinary_mistake_is_no_attack(submitted, name):
    assert answer_to(EXERCISE, submitted(ALL[name])).findings == ()


@pytest.mark.parametrize("name", NOT_THERE)
def test_what_a_sandbox_does_not_hold_is_not_found_there(sandboxed, submitted, name):
    (attack,) = sandboxed.grade(submitted(NOT_THERE[name]), [EXERCISE], SEED, screened=False)
    assert attack.points == 0, attack


@pytest.mark.parametrize("name", CHANGES_THE_JUDGE)
def test_a_judge_that_was_changed_is_found(sandboxed, submitted, name):
    (attack,) = sandboxed.grade(submitted(CHANGES_THE_JUDGE[name]), [EXERCISE], SEED, screened=False)
    assert (attack.state, attack.points) == ("suspicious", 0), attack


@pytest.mark.parametrize("name", ENDS)
def test_what_ends_its_process_ends_no_other(sandboxed, submitted, name):
    assert_earns_nothing_and_harms_nobody(sandboxed, submitted(ENDS[name]))


@pytest.mark.slow
@pytest.mark.parametrize("name", HEAVY)
def test_what_takes_all_it_can_get_is_ended(sandboxed, submitted, name):
    assert_earns_nothing_and_harms_nobody(sandboxed, submitted(HEAVY[name]))


def test_nothing_is_written_beside_the_tests_or_into_the_engine(sandboxed, submitted):
    for name in ("a file among the tests", "a file of the engine"):
        run(sandboxed, submitted(ENDS[name]))
    assert not (ROOT / "tests" / "left.py").exists() and not (ROOT / "nanolm" / "left.py").exists()


LOOKS = """
import os
import torch

def residual_distribution(target_probs, draft_probs):
    numbers = [each for each in os.listdir("/proc") if each.isdigit()]
    shared = open("/proc/sysvipc/shm").read().strip().splitlines()[1:]
    files = sorted(os.listdir("/tmp"))
    raise AssertionError(f"seen: {numbers} {files} {os.listdir('/dev/shm')} {shared} {os.getpid()}")
"""
LEAVES = """
import ctypes, os, time
import torch

def residual_distribution(target_probs, draft_probs):
    open("/tmp/left", "w").write("x")
    open("/dev/shm/left", "w").write("x")
    assert ctypes.CDLL(None).shmget(4711, 4096, 0o1666) >= 0
    for _ in range(3):
        if os.fork() == 0:
            os.setsid()
            time.sleep(600)
    time.sleep(0.3)
"""


def alone(judge):
    """What LOOKS says where nobody else was; the box shows the course and its Python, also where they lie in /tmp."""
    shown = {path.split("/")[2] for path in command(judge.isolation) if path.startswith("/tmp/")}
    return f"seen: ['1'] {sorted(shown | {'answer'})} [] [] 1"


def seen_by(judge):
    (mark,) = judge.grade({EXERCISE.file: LOOKS}, [EXERCISE], SEED, screened=False)
    return mark.feedback


def test_no_fork_sees_processes_files_or_shared_memory_of_one_before_it(sandboxed):
    before = seen_by(sandboxed)
    sandboxed.grade({EXERCISE.file: LEAVES}, [EXERCISE], SEED, screened=False)
    assert alone(sandboxed) in before
    assert seen_by(sandboxed) == before


def test_no_fork_sees_another_that_runs_at_the_same_time(sandboxed):
    other = threading.Thread(target=sandboxed.grade, args=({EXERCISE.file: LEAVES}, [EXERCISE], SEED, False))
    other.start()
    seen = seen_by(sandboxed)
    other.join()
    assert alone(sandboxed) in seen


def test_no_variable_of_the_one_who_grades_reaches_an_answer(sandboxed):
    text = RIGHT.replace("import torch", "import os, torch\nraise AssertionError(sorted(os.environ))", 1)
    (mark,) = sandboxed.grade({EXERCISE.file: text}, [EXERCISE], SEED, screened=False)
    assert "NANOLM_SECRET" in os.environ
    assert "NANOLM_SECRET" not in mark.feedback and "NANOLM_TEST_SECONDS" in mark.feedback
