"""What people do to the cell of a right answer, and that it earns its points all the same."""

import pytest
from classroom import HereJudge
from submissions import WEEK4, bytes_of, cell_of, put, right, with_body

from course.intake.reading import read_each
from course.intake.submission import sort_by_student
from course.registry import find

NAME = "acceptance_rate"
RATE = find(NAME)
HELPER = "def my_overlap(p, q):\n    return torch.minimum(p, q)\n"
ONE_TOKEN = "torch.tensor([1.0]), torch.tensor([1.0])"


def points(folder, notebook):
    """Return the state and the points of the one exercise that was changed."""
    put(folder / "ana" / WEEK4, notebook)
    (found,) = read_each(4, sort_by_student([folder])[0], [])
    (mark,) = HereJudge().grade(found.answers[RATE.number], [RATE], 5)
    return mark.state, mark.points


@pytest.mark.parametrize(
    "change",
    {
        "a lambda": "acceptance_rate = lambda p, q: torch.minimum(p, q).sum(-1)",
        "a decorator": "@torch.no_grad()\n{cell}",
        "a shell command": "!pip install numpy\n{cell}",
        "a timing below": f"{{cell}}\n%timeit acceptance_rate({ONE_TOKEN})",
        "a question mark": "{cell}\nacceptance_rate?",
        "a try and a plot below": f"{{cell}}\nprint(acceptance_rate({ONE_TOKEN}))\nplt.plot([1, 2]); plt.show()",
        "an own assert that fails": "{cell}\nassert False, 'to do'",
        "an end of the program": "quit()\n{cell}",
        "a form's title": '#@title My answer { display-mode: "form" }\n{cell}',
        "a main block": "{cell}\nif __name__ == '__main__':\n    acceptance_rate(1, 2)",
        "a first attempt above": "def acceptance_rate(p, q):\n    return 0\n\n\n{cell}",
        "captured output": "%%capture out\n{cell}",
        "a helper above": HELPER + "\n\ndef acceptance_rate(p, q):\n    return my_overlap(p, q).sum(-1)",
        "other names for arguments": "def acceptance_rate(p, q):\n    return torch.minimum(p, q).sum(-1)",
        "a package that is perhaps not there": "try:\n    import cupy\nexcept ImportError:\n    cupy = None\n{cell}",
        "a function that makes it": (
            "def made():\n    def acceptance_rate(p, q):\n        return torch.minimum(p, q).sum(-1)\n"
            "    return acceptance_rate\n\n\nacceptance_rate = made()"
        ),
        "a function with an argument fixed": (
            "from functools import partial\ndef over(n, p, q):\n    return torch.minimum(p, q).sum(n)\n"
            "acceptance_rate = partial(over, -1)"
        ),
    }.items(),
    ids=lambda change: change[0],
)
def test_a_cell_changed_as_people_do_earns_its_points(tmp_path, change):
    notebook = right()
    cell = cell_of(notebook, NAME)
    cell["source"] = change[1].replace("{cell}", cell["source"])
    assert points(tmp_path, notebook) == ("passed", RATE.points)


@pytest.mark.parametrize(
    ("body", "cell", "below"),
    [
        ("return my_overlap(target_probs, draft_probs).sum(-1)", HELPER, False),
        ("return my_overlap(target_probs, draft_probs).sum(-1)", HELPER, True),
        ("return torch.minimum(target_probs, draft_probs).sum(LAST)", "LAST = -1", False),
        ("return th.minimum(target_probs, draft_probs).sum(-1)", "import torch as th", False),
        ("return minimum(target_probs, draft_probs).sum(-1)", "from torch import *", False),
    ],
)
def test_what_an_answer_needs_is_found_in_the_student_s_own_cells(tmp_path, body, cell, below):
    notebook = with_body(right(), NAME, body)
    place = notebook["cells"].index(cell_of(notebook, NAME)) + below
    own = {"cell_type": "code", "metadata": {}, "source": cell, "outputs": [], "execution_count": None, "id": "own"}
    notebook["cells"].insert(place, own)
    assert points(tmp_path, notebook) == ("passed", RATE.points)


def test_tabs_and_a_block_around_it_change_nothing(tmp_path):
    notebook = right()
    cell = cell_of(notebook, NAME)
    lines = cell["source"].replace("    ", "\t").split("\n")
    cell["source"] = "\n".join(["if True:", *(f"\t{line}" for line in lines)])
    assert points(tmp_path, notebook) == ("passed", RATE.points)


def test_an_answer_whose_cell_became_text_is_read_and_that_is_said(tmp_path):
    notebook = right()
    cell_of(notebook, NAME)["cell_type"] = "markdown"
    (tmp_path / "ana").mkdir()
    (tmp_path / "ana" / "week04_speculative.ipynb").write_bytes(bytes_of(notebook))
    (found,) = read_each(4, sort_by_student([tmp_path])[0], [])
    assert found.states[RATE.number] == "answered"
    assert any("its cell was no code cell any more" in note for note in found.notes)
