"""CONTRIBUTING.md: its example of an exercise is followed here to the letter, in a course of one lesson."""

import ast
import re
import shutil
import subprocess
import sys

from small_course import LESSON, small_course

from course.building.build import build
from course.paths import ROOT, read, write
from course.registry import registry

CELL, TEST, MISTAKE = re.findall(r"```python\n(.*?)```", read(ROOT / "CONTRIBUTING.md"), flags=re.DOTALL)


def followed(folder):
    """The small course after steps 1 to 3."""
    small_course(folder)
    shutil.copytree(
        ROOT / "nanolm" / "sampling", folder / "nanolm" / "sampling", ignore=shutil.ignore_patterns("__pycache__")
    )
    lesson = folder / "solutions" / f"{LESSON}.py"
    write(lesson, f"{read(lesson)}\n{CELL}")
    write(folder / "tests" / "sampling" / "test_min_p.py", TEST)
    build(folder)
    return folder


def test_the_example_makes_an_exercise_with_its_stub_and_its_test(tmp_path):
    root = followed(tmp_path)
    (exercise,) = [each for each in registry(root) if each.name == "min_p_filter"]
    assert exercise.points == 2 and exercise.tests == ("tests/sampling/test_min_p.py",)
    stub = read(root / "exercises" / exercise.file)
    assert "def min_p_filter(" in stub and "min_p * probs.max" not in stub
    assert 'check("min_p_filter")' in read(root / "notebooks" / LESSON / f"{LESSON}.ipynb").replace('\\"', '"')


def test_the_example_s_test_passes_on_the_engine_and_names_the_example_s_mistake(tmp_path):
    mistake = ast.literal_eval(MISTAKE)
    reference = read(ROOT / "nanolm" / mistake["file"])
    assert reference.count(mistake["old"]) == 1
    right, wrong = (graded(tmp_path, text) for text in (reference, reference.replace(mistake["old"], mistake["new"])))
    assert right.returncode == 0, right.stdout
    assert wrong.returncode == 1 and mistake["says"] in wrong.stdout, wrong.stdout
    assert f"def {mistake['test']}(" in TEST


def graded(folder, text):
    """The example's test run on a module with this text in the place of the filters."""
    write(folder / "answer.py", text.replace("from .", "from nanolm.sampling."))
    fixture = "import pytest\n\n\n@pytest.fixture\ndef impl():\n    import answer\n\n    return answer\n"
    write(folder / "conftest.py", fixture)
    write(folder / "test_min_p.py", TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder)]
    command += ["-c", str(folder / "none.ini"), "test_min_p.py"]
    write(folder / "none.ini", "[pytest]\npythonpath = .\n")
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, encoding="utf-8")
