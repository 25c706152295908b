"""The wheel: what is in it, and that it works away from the repository."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
import venv
from pathlib import Path

import pytest
from setuptools import Distribution

from course.bundles.wheel import material
from course.errors import CourseError
from course.paths import HOME, MANIFEST, ROOT
from course.registry import registry
from nanolm._require import how_to_install

# The reference's own text as an answer of a notebook.
CHECKED = """
import inspect
from nanolm.speculative import acceptance
from course import check
globals().update(vars(acceptance), __name__="__main__")
exec(inspect.getsource(acceptance.residual_distribution))
assert check("4.1", vars()) == 3
"""
PAUSE = 600  # seconds after which a command is taken for stuck


@pytest.fixture(scope="module")
def laid():
    """The material, which is the same for all tests here."""
    return material(ROOT)


def test_the_wheel_has_every_file_of_both_packages(monkeypatch):
    monkeypatch.chdir(ROOT)
    project = Distribution({"script_name": "setup.py"})
    project.parse_config_files()
    project.get_command_obj("build").ensure_finalized()
    build = project.get_command_obj("build_py")
    build.ensure_finalized()
    # The outputs lie in a folder for what is built; what follows is the path in the wheel.
    packed = {Path(path).relative_to(build.build_lib).as_posix() for path in build.get_outputs(include_bytecode=False)}
    here = {
        path.relative_to(ROOT).as_posix()
        for package in ("nanolm", "course")
        for path in (ROOT / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert here - packed == set()
    assert packed - here == set(), "nothing else is in it"


def test_a_folder_has_the_notebooks_the_exercises_and_every_test_that_grades(laid):
    for exercise in registry():
        assert {exercise.notebook, f"exercises/{exercise.file}", *exercise.tests} <= laid.keys()
    assert {"notebooks/start.ipynb", "pyproject.toml", "tests/conftest.py", "tests/impl.py"} <= laid.keys()


def test_a_folder_has_no_solution_no_planted_mistake_and_no_engine(laid):
    tops = {path.split("/")[0] for path in laid}
    assert tops == {"LICENSE", "constraints.txt", "exercises", "notebooks", "pyproject.toml", "tests"}
    assert not [path for path in laid if path.startswith(("tests/planted", "tests/right", "tests/course"))]


def test_its_pyproject_holds_pytest_s_settings_alone(laid):
    import tomllib

    ours = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert tomllib.loads(laid["pyproject.toml"].decode()) == {"tool": {"pytest": ours["tool"]["pytest"]}}


def test_a_file_of_exercises_with_an_answer_in_it_stops_the_wheel(tmp_path):
    for name in ("notebooks", "exercises"):
        shutil.copytree(ROOT / name, tmp_path / name)
    built = json.loads((ROOT / MANIFEST).read_text(encoding="utf-8"))
    (tmp_path / MANIFEST).parent.mkdir()
    (tmp_path / MANIFEST).write_text(json.dumps(built), encoding="utf-8")
    stub = tmp_path / "exercises/speculative/acceptance.py"
    stub.write_text(stub.read_text(encoding="utf-8") + "# mine\n", encoding="utf-8")
    with pytest.raises(CourseError, match=r"exercises/speculative/acceptance\.py is not as it was built"):
        material(tmp_path)


class Away:
    """An environment with the wheel in it, and a desk outside the repository to work at."""

    def __init__(self, place):
        self.program = place / "env" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        self.desk = place / "desk"
        self.desk.mkdir()
        settings = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NANOLM_IMPL")}
        self.settings = settings | {"OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"}

    def run(self, *arguments, at="", **variables):
        """Return the exit code of Python with these arguments, and everything it printed."""
        done = subprocess.run(
            [self.program, *map(str, arguments)],
            cwd=self.desk / at,
            env=self.settings | variables,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=PAUSE,
        )
        return done.returncode, done.stdout + done.stderr

    def does(self, *arguments, **where):
        """Return what a command printed that has to succeed."""
        code, said = self.run(*arguments, **where)
        assert code == 0, said
        return said

    def refuses(self, *arguments, **where):
        """Return the one line of a command that has to fail."""
        code, said = self.run(*arguments, **where)
        assert code == 1 and "Traceback" not in said and len(said.splitlines()) == 1, said
        return said


def _left_out(folder, names):
    """Of the repository's top: hidden files, and folders that are made or a person's own."""
    made = ("build", "grading", "releases", "site", "work")
    return [name for name in names if Path(folder) == ROOT and (name in made or name.startswith("."))]


@pytest.fixture(scope="module")
def away(tmp_path_factory):
    place = tmp_path_factory.mktemp("away")
    # Built from a copy: a build writes into the folder that it is made from.
    shutil.copytree(ROOT, place / "source", ignore=_left_out)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    wheel = ["wheel", "-q", "--no-deps", "--no-build-isolation", "-w", place, place / "source"]
    subprocess.run([*pip, *wheel], check=True, timeout=PAUSE)
    shutil.rmtree(place / "source")
    venv.create(place / "env", with_pip=False)
    desk = Away(place)
    install = ["install", "-q", "--no-deps", "--no-index", *place.glob("nanolm_course-*.whl")]
    subprocess.run([*pip, "--python", desk.program, *install], check=True, timeout=PAUSE)
    # What the course needs is borrowed from the environment of this run; the repository itself is not in sight.
    packages = [path for path in sys.path if path.endswith("-packages") and Path(path) != HOME]
    site = desk.does("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    Path(site, "borrowed.pth").write_text("\n".join(packages) + "\n", encoding="utf-8")
    return desk


@pytest.mark.slow
def test_the_engine_of_a_wheel_generates_and_serves(away):
    assert away.does("-m", "nanolm", "--version").startswith("nanolm ")
    assert away.does("-m", "nanolm", "generate", "ROMEO", "--max-new-tokens", "3").strip()
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    command = [away.program, "-m", "nanolm", "serve", "--port", str(port)]
    with subprocess.Popen(command, cwd=away.desk, env=away.settings, stderr=subprocess.DEVNULL) as server:
        try:
            assert _answers(f"http://127.0.0.1:{port}/health", server)
        finally:
            server.terminate()


def _answers(address, server):
    """Whether a server answers before it ends; it has as long as any command."""
    for _ in range(PAUSE):
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                return answer.status == 200
        except OSError:
            if server.poll() is not None:
                return False
            time.sleep(1)
    return False


@pytest.mark.slow
def test_a_course_installed_from_a_wheel_is_worked_in_from_start_to_check(away):
    assert "course start FOLDER" in away.refuses("-m", "course", "status")
    assert "start with x/work/start.ipynb" in away.does("-m", "course", "start", "x")
    said = away.does("-m", "course", "status", "--week", "4", at="x")
    assert "residual_distribution" in said and "not written" in said
    away.does("-c", CHECKED, at="x/work/week04_speculative")
    tests = ("-m", "pytest", "-q", "tests/speculative", "--exercise", "4.1")
    away.does(*tests, at="x")
    code, said = away.run(*tests, at="x", NANOLM_IMPL="exercises")
    assert code == 1 and "exercise 4.1 residual_distribution is not written yet" in said
    away.does("-m", "course", "reset", "4.1", at="x")
    away.does("-m", "course", "update", at="x")
    assert "run it in a clone" in away.refuses("-m", "course", "audit", at="x")
    _, said = away.run("-c", CHECKED)
    assert "course start FOLDER lays one out" in said


def test_away_from_a_checkout_an_extra_is_brought_to_the_package_that_is_there(monkeypatch, tmp_path):
    assert how_to_install("serve") == "pip install -e '.[serve]' -c constraints.txt"
    monkeypatch.setattr("nanolm._require._HOME", tmp_path)
    assert how_to_install("serve") == "pip install 'nanolm-course[serve]'"


def test_no_message_of_the_packages_installs_from_a_folder_that_a_wheel_has_not():
    # Those that know which of the two they are in; the rest ask `how_to_install`.
    knows = {"nanolm/_require.py", "course/work/doctor.py"}
    found = {
        path.relative_to(ROOT).as_posix()
        for package in ("nanolm", "course")
        for path in (ROOT / package).rglob("*.py")
        if re.search(r"pip install -e", path.read_text(encoding="utf-8"))
    }
    assert found == knows
