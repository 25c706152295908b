"""Submissions built by code: a right notebook, and what people and programs do to it."""

import copy
import json
import re

from course.paths import ROOT, read

WEEK4 = "week04_speculative/week04_speculative.ipynb"


def right(lesson=WEEK4):
    """Return the solution notebook as a student would hand it in: answered, without markers."""
    notebook = json.loads(read(ROOT / "solutions" / lesson))
    for cell in notebook["cells"]:
        cell["source"] = re.sub(r"(?m)^ *### (BEGIN|END) SOLUTION\n?", "", "".join(cell["source"]))
    return notebook


def untouched(lesson=WEEK4):
    """Return the released notebook."""
    notebook = json.loads(read(ROOT / "notebooks" / lesson))
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
    return notebook


def cell_of(notebook, name):
    """Return the answer's cell, to be changed."""
    return next(cell for cell in notebook["cells"] if cell["metadata"].get("nbgrader", {}).get("grade_id") == name)


def with_body(notebook, name, body):
    """Put other statements under the signature of an answer."""
    cell = cell_of(notebook, name)
    signature = re.match(r"(?s)def .*?:\n(?=    \"\"\")", cell["source"])[0]
    cell["source"] = signature + "".join(f"    {line}\n" for line in body.splitlines())
    return notebook


def without(notebook, *names):
    """Delete cells."""
    notebook["cells"] = [c for c in notebook["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") not in names]
    return notebook


def doubled(notebook, name):
    """Copy a cell as JupyterLab does: its metadata comes along, its id does not."""
    cell = cell_of(notebook, name)
    twin = copy.deepcopy(cell) | {"id": "a-new-id"}
    notebook["cells"].insert(notebook["cells"].index(cell) + 1, twin)
    return notebook


def stripped(notebook):
    """Take all metadata and ids away, as some programs do."""
    for cell in notebook["cells"]:
        cell["metadata"] = {}
        cell.pop("id", None)
    notebook["metadata"] = {}
    return notebook


def older(notebook, minor=4):
    """Make it a notebook of nbformat 4.0 to 4.4, which has no ids."""
    notebook["nbformat_minor"] = minor
    for cell in notebook["cells"]:
        cell.pop("id", None)
    return notebook


def bytes_of(notebook, bom=False, newline="\n"):
    """Return the notebook's file."""
    text = json.dumps(notebook, indent=1, ensure_ascii=False)
    if newline != "\n":
        text = text.replace("\n", newline)
    return (b"\xef\xbb\xbf" if bom else b"") + text.encode("utf-8")


def put(path, notebook, **options):
    """Write a notebook's file; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes_of(notebook, **options))
    return path


def the_eighteen(folder):
    """Write the eighteen ordinary submissions of week 4 as nbgrader keeps them; return what each deserves of 36."""
    lesson, deserved = "week04_speculative/week04_speculative.ipynb", {}

    def hand_in(student, notebook, points, name=lesson, **options):
        put(folder / student / name, notebook, **options)
        deserved[student] = points

    hand_in("untouched", untouched(), 0)
    hand_in("right", right(), 36)
    hand_in("no ids", older(right()), 36)
    hand_in("Ana María", right(), 36)
    timed = right()
    cell_of(timed, "acceptance_rate")["source"] = "%%time\n" + cell_of(timed, "acceptance_rate")["source"]
    hand_in("magic", timed, 36)
    hand_in("new cell", in_a_new_cell(right(), "acceptance_rate"), 36)
    wrong = with_body(right(), "residual_distribution", "return target_probs")
    wrong = with_body(wrong, "acceptance_rate", "return (target_probs - draft_probs).abs().sum(-1)")
    hand_in("three wrong", with_body(wrong, "verify_draft", "return list(drafted)"), 26)
    loop, stop, gone = "while True:\n    pass", "import sys\nsys.exit()", "import os\nos._exit(1)"
    hand_in("loop", with_body(right(), "accept_or_resample", loop), 31)
    hand_in("sys.exit", with_body(right(), "accept_or_resample", stop), 31)
    hand_in("os._exit", with_body(right(), "accept_or_resample", gone), 31)
    hand_in("browser", right(), 36, "week04_speculative/Week04_Speculative (1).ipynb")
    hand_in("check twice", doubled(right(), "acceptance_rate-check"), 36)
    hand_in("answer twice", doubled(right(), "acceptance_rate"), 36)
    hand_in("check deleted", without(right(), "accept_or_resample-check"), 36)
    hand_in("stripped", stripped(right()), 36)
    hand_in("torch beside", right(), 36)
    (folder / "torch beside" / "week04_speculative" / "torch").mkdir()
    (folder / "torch beside" / "week04_speculative" / "torch" / "__init__.py").write_text("raise SystemExit\n")
    hand_in("BOM and CRLF", right(), 36, bom=True, newline="\r\n")
    warned = right()
    cell = cell_of(warned, "residual_distribution")
    cell["source"] = re.sub(
        r"(?m)^(    excess = )", r"    target_probs = torch.tensor(target_probs)\n\1", cell["source"]
    )
    hand_in("warning", warned, 36)
    return deserved


def in_a_new_cell(notebook, name):
    """Leave the stub as it was and put the answer into a cell below it."""
    cell, stub = cell_of(notebook, name), cell_of(untouched(), name)
    below = {"cell_type": "code", "metadata": {}, "source": cell["source"], "outputs": [], "execution_count": None}
    notebook["cells"].insert(notebook["cells"].index(cell) + 1, below | {"id": "typed-below"})
    cell["source"] = stub["source"]
    return notebook
