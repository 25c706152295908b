"""The houses: rooms in an order, imports only towards the ground, through inner doors, no room or file too large."""

import ast
import re

import pytest
from houses import BENCHMARKS, COURSE, HOUSES, NANOLM, House

from course.building.front_doors import packages
from course.paths import ROOT, read

MOST_FILES = 13  # of a room, its __init__.py counted
MOST_LINES = 250


def each(attribute, *houses):
    """A parameter for every file or room of the houses, named by its path."""
    pairs = [(house, name) for house in houses for name in getattr(house, attribute)]
    return [pytest.param(house, name, id=f"{house.name}/{name}") for house, name in pairs]


by_name = pytest.mark.parametrize("house", HOUSES, ids=lambda house: house.name)


@by_name
def test_every_room_has_its_place_in_the_order(house):
    found = {file.removesuffix(".py").split("/")[0] for file in house.inside}
    assert found == set(house.rooms), f"in one and not in the other: {found ^ set(house.rooms)}"


@pytest.mark.parametrize(("house", "file"), each("inside", *HOUSES))
def test_a_file_imports_only_from_its_room_and_those_before_it_and_through_inner_doors(house, file):
    found = house.complaints(file, house.text(file))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("house", "room"), each("packages", *HOUSES))
def test_a_room_has_few_files(house, room):
    files = [file for file in house.files if file.startswith(f"{room}/")]
    number = f"{house.name}/{room} has {len(files)} files"
    assert len(files) <= MOST_FILES, f"{number}, at most {MOST_FILES}: make two rooms of it"
    deep = [file for file in files if file.count("/") > 1]
    assert not deep, f"a room has no rooms in it: {deep}"


@by_name
def test_few_files_lie_outside_the_rooms(house):
    files = [file for file in house.files if "/" not in file]
    assert len(files) <= MOST_FILES, f"{house.name} has {len(files)} files at its top, at most {MOST_FILES}: {files}"


@pytest.mark.parametrize(("house", "room"), each("packages", COURSE))
def test_a_room_of_the_course_says_in_one_sentence_what_it_is_for_and_holds_nothing(house, room):
    tree = ast.parse(house.text(f"{room}/__init__.py"))
    doc = ast.get_docstring(tree) or ""
    assert len(tree.body) == 1 and doc.endswith(".") and "\n" not in doc


@pytest.mark.parametrize(("house", "file"), each("files", *HOUSES))
def test_a_file_is_short_or_says_why_not(house, file):
    n = len(house.text(file).splitlines())
    if file in house.longer:
        assert n > MOST_LINES, f"{house.name}/{file} has {n} lines by now: strike it from the list of longer ones"
    else:
        assert n <= MOST_LINES, f"{house.name}/{file} has {n} lines, at most {MOST_LINES}, or a reason in `longer`"


@by_name
def test_the_list_of_longer_files_names_files(house):
    assert house.longer.keys() <= set(house.files)


def test_the_engine_s_rooms_are_those_that_the_build_makes_doors_for():
    assert NANOLM.packages == packages()


@pytest.mark.parametrize("house", [NANOLM, COURSE], ids=lambda house: house.name)
def test_the_plan_of_the_house_shows_every_room(house):
    plan = "\n".join(re.findall(r"```\n(.*?)```", read(ROOT / "ARCHITECTURE.md"), flags=re.DOTALL))
    missing = [room for room in house.packages if not re.search(rf"(?m)(^|[·→] ){room}\b", plan)]
    assert not missing, f"ARCHITECTURE.md shows no {', '.join(missing)} of {house.name}"


def test_every_room_of_the_engine_and_every_folder_is_told_in_words():
    text = read(ROOT / "CONTRIBUTING.md")
    rows = re.findall(r"(?m)^\| `([a-z_]+)/` \|", text[text.index("| room of `nanolm/` |") :])
    assert sorted(rows) == sorted(room for room in NANOLM.packages if room), "a row a room"
    for folder in ("nanolm", "solutions", "notebooks", "exercises", "work", "course", "tests", "benchmarks", "book"):
        assert f"| `{folder}/` |" in text


def test_every_file_that_the_plan_leads_to_is_there():
    named = re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.\w+)?)`", read(ROOT / "ARCHITECTURE.md"))
    missing = [path for path in named if not ((ROOT / path).exists() or (ROOT / "nanolm" / path).exists())]
    assert named and not missing, f"ARCHITECTURE.md leads to {', '.join(missing)}"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("from ..engine.engine import Engine", "cache must not know engine"),
        ("def later():\n    from ..engine.engine import Engine", "cache must not know engine"),
        ("from nanolm.engine.engine import Engine", "cache must not know engine"),
        ("import nanolm.engine.engine", "cache must not know engine"),
        ("from ..engine import engine", "cache must not know engine"),
        ("try:\n    from .. import engine\nexcept ImportError:\n    pass", "cache must not know engine"),
        ("from ..attention import attend", "not from the front door"),
        ("from . import StaticKVCache", "not from the front door"),
        ("import nanolm.attention", "not from the front door"),
        ("from .. import attention", "not from the front door"),
        ("from .. import KVCache", "nanolm itself is no room"),
        ("import nanolm", "nanolm itself is no room"),
        ("from course import check", "nanolm knows nothing of course, which is built on it"),
        ("import training.train", "nanolm knows nothing of training, which is built on it"),
        ("from ..shipped import model", "shipped is no room"),
        ("if not TYPE_CHECKING:\n    from ..engine.engine import Engine", "cache must not know engine"),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    from ..engine.engine import Engine", "cache must not know engine"),
    ],
)
def test_an_import_that_breaks_a_rule_is_found_with_its_line(text, complaint):
    (found,) = {line for line in NANOLM.complaints("cache/static.py", text) if complaint in line}
    number = next(i for i, line in enumerate(text.splitlines(), start=1) if "import" in line)
    assert found.startswith(f"nanolm/cache/static.py, line {number}: ")


@pytest.mark.parametrize(
    "text",
    [
        "from ..attention.dot_product import attend",
        "from ..attention import dot_product",
        "from .ragged import RaggedKVCache",
        "from . import ragged",
        "from ..config import ModelConfig",
        "from .. import config",
        "from .._require import require",
        "import torch",
        "if TYPE_CHECKING:\n    from ..engine.engine import Engine",
        "if typing.TYPE_CHECKING:\n    from ..engine import Engine",
    ],
)
def test_an_import_that_keeps_the_rules_is_none_of_those(text):
    assert NANOLM.complaints("cache/static.py", text) == []


@pytest.mark.parametrize(
    ("house", "file", "text", "complaint"),
    [
        (COURSE, "text/source.py", "from ..building.lesson import Lesson", "text must not know building"),
        (COURSE, "work/start.py", "from course.update.update import update", "work must not know update"),
        (COURSE, "registry.py", "from .grading.status import show", "registry must not know grading"),
        (COURSE, "grading/runner.py", "from .. import CourseError", "course itself is no room"),
        (COURSE, "grading/runner.py", "import tests.impl", "course knows nothing of tests"),
        (BENCHMARKS, "tools/report.py", "from ..serving import main", "tools must not know serving"),
    ],
)
def test_the_other_houses_are_held_to_the_same_rules(house: House, file, text, complaint):
    assert any(complaint in line for line in house.complaints(file, text))


@pytest.mark.parametrize("text", ["from nanolm.budget import capacity", "from ..errors import CourseError"])
def test_the_course_knows_the_engine_and_its_own_ground(text):
    assert COURSE.complaints("lab/calculator.py", text) == []
