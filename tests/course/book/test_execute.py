"""What cells put out: run once, kept by the hash of what they run, and a cell that fails ends the book."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from course.book import execute
from course.book.execute import outputs_of
from course.errors import CourseError

CHECK = 'from course import check\n\ncheck("double")'


@pytest.fixture
def notebook(tmp_path):
    cells = [new_markdown_cell("A lab."), new_code_cell("print(6 * 7)", id="lab"), new_code_cell(CHECK, id="check")]
    (tmp_path / "nanolm").mkdir()
    (tmp_path / "nanolm" / "engine.py").write_text("answer = 42\n", encoding="utf-8")
    path = tmp_path / "week01_small.ipynb"
    nbformat.write(new_notebook(cells=cells), path)
    return path


def told(notebook, tmp_path):
    """Ask for the outputs; return them and what was said of running."""
    said = []
    return outputs_of(notebook, tmp_path / "kept", said.append, tmp_path), said


@pytest.fixture
def runs(monkeypatch):
    """Counts runs instead of starting kernels; every cell prints 42."""
    counted = []

    def run(cells, path):
        counted.append(path.stem)
        for cell in cells.cells:
            if cell.cell_type == "code":
                cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text="42\n")]

    monkeypatch.setattr(execute, "_run", run)
    return counted


def test_outputs_are_kept_and_the_cells_are_run_once(notebook, tmp_path, runs):
    first, said = told(notebook, tmp_path)
    assert first == {"lab": [{"output_type": "stream", "name": "stdout", "text": "42\n"}]}, "the check is not run"
    assert "running its cells" in said[0]
    assert told(notebook, tmp_path) == (first, []) and runs == ["week01_small"]


@pytest.mark.parametrize("changed", ["a cell", "the engine"])
def test_a_change_of_code_runs_the_cells_again(notebook, tmp_path, runs, changed):
    told(notebook, tmp_path)
    path, old = (notebook, "6 * 7") if changed == "a cell" else (tmp_path / "nanolm" / "engine.py", "42")
    path.write_text(path.read_text(encoding="utf-8").replace(old, "41"), encoding="utf-8")
    told(notebook, tmp_path)
    assert len(runs) == 2 and len(list((tmp_path / "kept").iterdir())) == 1, "the old ones are gone"


def test_a_change_of_prose_runs_nothing(notebook, tmp_path, runs):
    told(notebook, tmp_path)
    notebook.write_text(notebook.read_text(encoding="utf-8").replace("A lab.", "One lab."), encoding="utf-8")
    told(notebook, tmp_path)
    assert len(runs) == 1


def test_a_cell_that_fails_ends_the_book_with_the_notebook_s_name_and_the_error(tmp_path):
    path = tmp_path / "week01_small.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell("1 / 0")]), path)
    with pytest.raises(
        CourseError, match=r"week01_small\.ipynb: a cell fails, and with it the book: ZeroDivisionError"
    ):
        told(path, tmp_path)
    assert not (tmp_path / "kept").exists()
