"""Each cell of a notebook runs after set-up and what it says it needs; a notebook without an answer runs to its end."""

import os
import subprocess
import sys

import nbformat
import pytest
from nbclient import NotebookClient
from sessions import before, cells_of, unexplained

from course.building.lesson import lessons
from course.building.session import draws, measures
from course.paths import ROOT
from course.registry import registry

NOTEBOOKS = {lesson.name: ROOT / lesson.notebook_in("notebooks") for lesson in lessons(ROOT / "solutions")}
WITHOUT_TORCH = [name for name in NOTEBOOKS if name[:6] in ("week01", "week06", "week07", "week10")]
NO_TORCH = "import sys; sys.modules['torch'] = None\n"


def code_of(path, kind):
    """The texts of a notebook's code cells that are answers, or the first set-up."""
    cells = nbformat.read(path, as_version=4).cells
    if kind == "set-up":
        return [next(cell.source for cell in cells if cell.cell_type == "code")]
    return [c.source for c in cells if c.cell_type == "code" and c.metadata.get("nbgrader", {}).get("solution")]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_every_name_that_a_lab_uses_is_set_up_asked_or_named_by_its_needs(name):
    found = unexplained(NOTEBOOKS[name])
    assert not found, "\n".join(found)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_cell_that_takes_times_draws_nothing_so_that_its_code_is_seen(name):
    _, labs = cells_of(NOTEBOOKS[name])
    both = [lab.title for lab in labs if draws(lab.source) and measures(lab.source)]
    assert not both, "\n".join(both)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_each_answer_cell_runs_right_after_the_set_up(name):
    set_up, answers = code_of(NOTEBOOKS[name], "set-up")[0], code_of(NOTEBOOKS[name], "answers")
    first = NO_TORCH if name in WITHOUT_TORCH else ""
    program = (
        f"{first}import json, sys\nset_up, *answers = json.loads(sys.stdin.read())\nspace = {{}}\nexec(set_up, space)\n"
    )
    program += "for answer in answers:\n    exec(answer, dict(space))\n"
    import json

    done = subprocess.run(
        [sys.executable, "-c", program], input=json.dumps([set_up, *answers]), capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_each_lab_runs_alone_after_the_set_up_and_what_it_needs(name):
    program = [sys.executable, str(ROOT / "tests" / "helpers" / "sessions.py"), str(NOTEBOOKS[name])]
    settings = {"NANOLM_ROUNDS": "1", "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg", "PYTHONUTF8": "1"}
    done = subprocess.run(program, capture_output=True, text=True, encoding="utf-8", env=os.environ | settings)
    assert done.returncode == 0, done.stderr[-2000:]
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    assert not failed, "\n".join(failed)


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_all_cells_of_a_release_run_to_the_end_with_every_plot_and_a_list_of_what_is_unwritten(name, monkeypatch):
    monkeypatch.setenv("NANOLM_ROUNDS", "1")
    path = NOTEBOOKS[name]
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(path.parent)}}).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code" and "figures.show(" in cell.source:
            shown = [output for output in cell.outputs if "<img" in output.get("data", {}).get("text/html", "")]
            assert shown, f"no plot came of {cell.source[:200]}"
    said = notebook.cells[-1].outputs[0].text
    numbers = [exercise.number for exercise in registry() if exercise.notebook.endswith(f"/{path.name}")]
    assert said.startswith("not written yet: ") and all(f"{number} " in said for number in numbers)


def test_what_has_to_run_before_a_cell_is_found_over_several_steps(tmp_path):
    cells = [
        ("# Set-up for the exercises\nimport math", []),
        ("a = 1", ["lab"]),
        ('needs(a="Here")\nb = a', ["lab"]),
        ("c = 2", ["lab"]),
        ('needs(b="There")\nb', ["lab"]),
        ("d", ["lab"]),
    ]
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(text, metadata={"tags": tags}) for text, tags in cells]
    path = tmp_path / "n.ipynb"
    path.write_text(nbformat.writes(notebook), encoding="utf-8")
    _, labs = cells_of(path)
    assert [lab.index for lab in before(labs[3], labs)] == [1, 2]
    assert unexplained(path) == ["cell 5, 'd': d"]
