"""Tests the set-up files: pyproject.toml, environment.yml, constraints.txt and the Makefile say the same things."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
CONSTRAINTS = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()

# Written in halves, so that this file does not find itself.
REGISTRY_HOSTS = [f"{name}.{domain}" for name, domain in [
    ("pypi", "org"), ("pythonhosted", "org"), ("download.pytorch", "org"), ("anaconda", "org"), ("anaconda", "com"),
    ("pypi", "nvidia.com"), ("registry.npmjs", "org"), ("registry.yarnpkg", "com"), ("conda", "io"),
]]  # fmt: skip
NO_SOURCE = {"__pycache__", "node_modules", "build", "dist", "runs"}
PRIVATE = {"work", "grading"}  # at the top: copies of notebooks, with whatever was written there, and submissions


def normalised(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def direct_requirements():
    extras = PROJECT["optional-dependencies"]
    return {*PROJECT["dependencies"], *extras["course"], *extras["serve"], *extras["test"], *extras["train"]}


def source_files():
    for folder, subfolders, names in os.walk(ROOT):
        hidden = {name for name in subfolders if name.startswith(".") and name not in (".ci", ".github")}
        generated = {name for name in subfolders if name in NO_SOURCE or name.endswith(".egg-info")}
        students = PRIVATE if Path(folder) == ROOT else set()
        subfolders[:] = sorted(set(subfolders) - hidden - generated - students)
        yield from (Path(folder, name) for name in sorted(names))


def pip_section():
    return next(entry["pip"] for entry in ENVIRONMENT["dependencies"] if isinstance(entry, dict))


def test_environment_yml_names_the_same_requirements_as_pyproject():
    options = [line for line in pip_section() if line.startswith("-")]
    assert options == ["-c constraints.txt", "-e ."], "the pins apply, and the packages themselves are installed"
    requirements = [line for line in pip_section() if not line.startswith("-")]
    assert sorted(requirements) == sorted(direct_requirements()), "environment.yml and pyproject.toml differ"


def test_environment_yml_names_the_same_pythons_as_pyproject_and_nothing_else_from_conda():
    conda = [entry for entry in ENVIRONMENT["dependencies"] if isinstance(entry, str)]
    assert conda == [f"python{PROJECT['requires-python']}", "pip"]


def test_constraints_pin_one_exact_version_of_every_direct_requirement():
    lines = [line for line in CONSTRAINTS if line and not line.startswith("#")]
    loose = [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!]+", line)]
    assert not loose, f"a constraint is a name, == and a version (no + of one platform's build): {loose}"
    pinned = [normalised(line.split("==")[0]) for line in lines]
    assert len(pinned) == len(set(pinned)), "a name is pinned twice"
    names = {normalised(re.match(r"[A-Za-z0-9._-]+", requirement)[0]) for requirement in direct_requirements()}
    assert not names - set(pinned), f"not pinned: {sorted(names - set(pinned))}"


def test_constraints_pin_torch_2_13_0():
    assert "torch==2.13.0" in CONSTRAINTS


def test_pyproject_leaves_exact_versions_to_the_constraints():
    versions = [requirement.partition(";")[0] for requirement in direct_requirements()]  # no marker: which system, say
    assert not [version for version in versions if "==" in version]


def test_no_source_file_names_a_package_registry_host():
    pattern = re.compile("|".join(rf"\b{re.escape(host)}\b" for host in REGISTRY_HOSTS).encode())
    named = [str(path.relative_to(ROOT)) for path in source_files() if pattern.search(path.read_bytes())]
    assert not named, f"which registry to use is each machine's own setting, not the course's: {named}"


needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@pytest.fixture
def installed(tmp_path):
    """A copy of the set-up files with an environment that counts as installed."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
        os.utime(tmp_path / name, (1e9, 1e9))
    bin_folder = tmp_path / ".venv" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "python").symlink_to(sys.executable)
    (tmp_path / ".venv" / "installed").touch()
    return tmp_path


def make(folder, *arguments):
    return subprocess.run(["make", *arguments], cwd=folder, capture_output=True, text=True, timeout=60)


@needs_make
@pytest.mark.parametrize("target", ["lab", "test", "nightly", "lint", "build"])
def test_make_installs_nothing_a_second_time(installed, target):
    planned = make(installed, "--dry-run", target)
    assert planned.returncode == 0, planned.stderr
    assert "pip install" not in planned.stdout


@needs_make
@pytest.mark.parametrize("changed", ["pyproject.toml", "constraints.txt"])
def test_make_installs_again_when_the_requirements_change(installed, changed):
    os.utime(installed / changed, (4e9, 4e9))
    planned = make(installed, "--dry-run", "lab")
    command = "pip install --disable-pip-version-check -e '.[course,serve,test,train]' -c constraints.txt"
    assert command in planned.stdout
    assert "-m venv" not in planned.stdout, "the environment is there: it is kept"


@needs_make
def test_make_lab_opens_the_start_page_with_the_arguments_given(installed):
    planned = make(installed, "--dry-run", "lab", "LAB_ARGS=--no-browser")
    copies, _, opens = planned.stdout.partition("course start\n")
    assert opens and "jupyter" not in copies, "the student's copies are made before they are opened"
    assert "jupyter lab --LabApp.default_url=/lab/tree/work/start.ipynb --no-browser" in opens


@needs_make
def test_make_without_a_usable_python_says_which_ones_are(installed):
    shutil.rmtree(installed / ".venv")
    (installed / "tools").mkdir()
    for name in ("python", "python3", "python3.11", "python3.12", "python3.13"):
        (installed / "tools" / name).write_text("#!/bin/sh\n[ $1 = --version ] && echo Python 3.9.1\n")
        (installed / "tools" / name).chmod(0o755)
    answer = make(installed, "lab", f"PATH={installed / 'tools'}:/usr/bin:/bin")
    assert answer.returncode != 0
    assert "NanoLM needs Python 3.11, 3.12 or 3.13; found: Python 3.9.1." in answer.stderr


@needs_make
def test_make_help_lists_every_target(installed):
    listed = make(installed, "help").stdout
    assert all(f"make {target} " in listed for target in ("lab", "test", "nightly", "lint", "build", "help"))


def test_the_workflow_runs_every_python_that_the_course_runs_on_and_three_systems():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8"))
    job = workflow["jobs"]["test"]
    named = [line for line in PROJECT["classifiers"] if line.startswith("Programming Language :: Python :: 3.")]
    assert [f"Programming Language :: Python :: {each}" for each in job["strategy"]["matrix"]["python"]] == named
    assert {each.partition("-")[0] for each in job["strategy"]["matrix"]["os"]} == {"ubuntu", "macos", "windows"}
    said = [step["run"] for step in job["steps"] if "run" in step]
    assert any(".[course,serve,test,train]" in line and "-c constraints.txt" in line for line in said)
    assert any("pytest" in line for line in said)
