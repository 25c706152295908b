"""A course of one short lesson in two versions, in a git repository that students have cloned at the first.

The second version corrects the prose, a lab, a question and two docstrings; `largest` is `maximum` now, `mean` stands
in another file, `median` is gone.
"""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from course.building.build import build
from course.registry import homes, registry

LESSON = "week01_sums"
COPY, BUILT = f"work/{LESSON}/{LESSON}.ipynb", f"notebooks/{LESSON}/{LESSON}.ipynb"
SUMS, AVERAGES = "exercises/arithmetic/sums.py", "exercises/arithmetic/averages.py"
STUB = "    # Write your code here, in the place of the next line.\n    raise NotYetWritten"

_HEAD = '''"""Sums."""

import math

'''
_DOUBLE = '''
def double(x: float) -> float:
    """Return twice a number."""
    return 2 * x

'''
_HALF = '''
def half(x: float) -> float:
    """Return half of a nubmer."""
    return x / 2

'''
_LARGEST = '''
def largest(values: list[float]) -> float:
    """Return the largest of some numbers."""
    return max(values)

'''
_MEAN = '''
def mean(values: list[float]) -> float:
    """Return the mean of some numbers."""
    return math.fsum(values) / len(values)

'''
_MEDIAN = '''
def median(values: list[float]) -> float:
    """Return the median of some numbers."""
    return sorted(values)[len(values) // 2]

'''
_TALLY = '''
class Tally:
    """A sum that grows."""

    def __init__(self) -> None:
        self.value = 0.0

    def add(self, x: float) -> None:
        """Add a nubmer."""
        self.value += x

    def total(self) -> float:
        """Return the sum."""
        return self.value

    def clear(self) -> None:
        """Begin anew."""
        self.value = 0.0
'''
_FIELDS = """# points: 2
# minutes: 5
# difficulty: 1
# tested: it.
# why: because.
# hint: think.
"""


def _exercise(name: str, asked: str = "") -> str:
    return f"# %%\nfrom nanolm.arithmetic import {name}  # exercise: {asked or name}\n{_FIELDS}\n"


_BEGIN = "# %% [markdown]\n# # Week 1 · Sums\n\n# %%\nimport math\n\n"
_PROSE = "# %% [markdown]\n# Some prosse.\n\n# %%\nnumber = 3\n\n# %%\nother = 4\n\n"
_QUESTION = """# %% [markdown] written="proof" points=3 minutes=10 difficulty=2
# Prove taht it is so.
#
# ### BEGIN SOLUTION
# It is.
# ### END SOLUTION
"""


def first_version(root: Path) -> None:
    """Write and build the first version of the course."""
    (root / "course").mkdir()
    (root / ".gitignore").write_text("/work/\n__pycache__/\n", encoding="utf-8")
    _write(root / "nanolm/arithmetic/__init__.py", '"""Arithmetic."""\n')
    _write(root / "nanolm/arithmetic/sums.py", _HEAD + _DOUBLE + _HALF + _LARGEST + _MEAN + _MEDIAN + _TALLY)
    _write(root / "solutions/start.py", "# %% [markdown]\n# # Start\n#\n# {{weeks}}\n")
    names = ["double", "half", "largest", "mean", "median"]
    asked = "".join(map(_exercise, names)) + _exercise("Tally", "add, total")
    _write(root / f"solutions/{LESSON}.py", _BEGIN + _PROSE + asked + _QUESTION)
    build(root)


def second_version(root: Path) -> None:
    """Write and build the second version over the first."""
    mended = [text.replace("nubmer", "number") for text in (_HALF, _TALLY)]
    maximum = _LARGEST.replace("def largest", "def maximum")
    _write(root / "nanolm/arithmetic/sums.py", '"""Sums."""\n' + _DOUBLE + mended[0] + maximum + mended[1])
    _write(root / "nanolm/arithmetic/averages.py", _HEAD.replace("Sums", "Averages") + _MEAN)
    asked = "".join(map(_exercise, ["double", "half", "maximum", "mean"])) + _exercise("Tally", "add, total")
    prose = _PROSE.replace("prosse", "prose").replace("other = 4", "other = 5")
    _write(root / f"solutions/{LESSON}.py", _BEGIN + prose + asked + _QUESTION.replace("taht", "that"))
    build(root)


def git(folder: Path, *arguments: str, check: bool = True) -> str:
    """Run git in a folder and return what it prints."""
    who = ["-c", "user.name=A Student", "-c", "user.email=student@example.org", "-c", "init.defaultBranch=main"]
    command = ["git", "-C", str(folder), *who, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=check)
    return done.stdout


def repository(folder: Path) -> Path:
    """Return a repository with both versions, tagged "first" and "second"."""
    git(folder, "init", "--quiet", "--template=")
    for name, write in (("first", first_version), ("second", second_version)):
        write(folder)
        git(folder, "add", "-A")
        git(folder, "commit", "--quiet", "-m", name)
        git(folder, "tag", name)
    git(folder, "gc", "--quiet")  # one file instead of some two hundred in as many folders, which every clone would get
    return folder


def clone(upstream: Path, folder: Path) -> Path:
    """Return a clone at the first version, which knows nothing of the second yet."""
    git(upstream, "clone", "--quiet", "--template=", "--branch", "main", str(upstream), str(folder))
    git(folder, "config", "user.name", "A Student")
    git(folder, "config", "user.email", "student@example.org")
    git(folder, "reset", "--quiet", "--hard", "first")
    return folder


def forget_registry() -> None:
    """The list of exercises is read once a process, which otherwise lives with one version."""
    registry.cache_clear()
    homes.cache_clear()


def cells(path: Path) -> dict[str, str]:
    """Return the texts of a notebook's cells by their ids."""
    found = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return {cell["id"]: "".join(cell["source"]) for cell in found}


def edit_notebook(path: Path, edit: Callable[[list[dict[str, Any]]], None]) -> None:
    """Change the list of a notebook's cells in place."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    edit(notebook["cells"])
    path.write_text(json.dumps(notebook, indent=1) + "\n", encoding="utf-8", newline="\n")


def answer(path: Path, **sources: str) -> None:
    """Write into cells of a notebook: for an answer in code the body, otherwise all of the text."""

    def edit(found: list[dict[str, Any]]) -> None:
        for cell in found:
            if cell["id"] in sources:
                text, new = "".join(cell["source"]), sources[cell["id"]]
                cell["source"] = text.replace(STUB, new) if STUB in text else new

    edit_notebook(path, edit)


def insert(path: Path, before: str, source: str, kind: str = "code") -> None:
    """Put a cell of the student's own before another."""

    def edit(found: list[dict[str, Any]]) -> None:
        place = [cell["id"] for cell in found].index(before)
        cell = {"cell_type": kind, "id": f"mine-{place}", "metadata": {}, "source": source}
        found.insert(place, cell | ({"outputs": [], "execution_count": None} if kind == "code" else {}))

    edit_notebook(path, edit)


def answer_file(path: Path, **bodies: str) -> None:
    """Write the bodies of functions into a file of exercises."""
    text = path.read_text(encoding="utf-8")
    for name, body in bodies.items():
        start = text.index(f"def {name}(")
        begin = text.rindex("\n", 0, text.index("raise NotYetWritten(", start)) + 1
        end = text.index(")\n", text.index('"\n', begin)) + 2
        indent = " " * (len(text[begin:end]) - len(text[begin:end].lstrip()))
        text = text[:begin] + f"{indent}{body}\n" + text[end:]
    path.write_text(text, encoding="utf-8", newline="\n")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
