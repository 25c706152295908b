"""The front doors of nanolm's packages: all public names come through, each from its file, and torch when needed."""

import ast
import inspect
import shutil
import subprocess
import sys
from importlib import import_module

import pytest
from small_course import change, small_course

import nanolm
from course.building.build import build, check_build
from course.building.front_doors import front_door, home, names_of, packages
from course.errors import CourseError
from course.paths import ROOT, read, write

SPECULATIVE = "nanolm/speculative/__init__.py"


@pytest.fixture
def course(tmp_path):
    """A built course of two rooms."""
    root = small_course(tmp_path)
    build(root)
    return root


def python(code):
    """Run code in a fresh process; return what it prints."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("package", packages())
def test_every_public_name_comes_through_the_door_from_the_file_that_it_says(package):
    door = import_module(f"nanolm.{package}")
    assert names_of(package) == {name: file for file, names in door._HOMES.items() for name in names}
    for name, file in names_of(package).items():
        value = getattr(door, name)
        assert value is vars(import_module(f"nanolm.{package}.{file}"))[name]
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__module__ == f"nanolm.{package}.{file}", f"{name} is defined in {value.__module__}"


@pytest.mark.parametrize("package", sorted({*packages()} - {"cli", "kernels"}))
def test_no_public_function_or_class_of_a_file_is_forgotten(package):
    # Seen by Python itself: what is defined under an `if` or by a decorator is a name too.
    for path in (ROOT / "nanolm" / package).glob("*.py"):
        module = import_module(f"nanolm.{package}.{path.stem}")
        own = {name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}
        forgotten = {name for name in own if not name.startswith("_")} - {*names_of(package)}
        assert path.stem == "__init__" or not forgotten, f"{path.name} defines {forgotten}"


@pytest.mark.parametrize("package", packages())
def test_no_public_name_is_a_file_s_too(package):
    # `import nanolm.budget.capacity` would put the file in the function's place.
    files = {path.stem for path in (ROOT / "nanolm" / package).glob("*.py")}
    assert not files & {*names_of(package)}


@pytest.mark.parametrize("package", packages())
def test_what_an_editor_is_told_is_what_there_is(package):
    tree = ast.parse(read(ROOT / "nanolm" / package / "__init__.py"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    told = {alias.asname: node.module for node in block.body for alias in node.names if alias.asname == alias.name}
    assert told == names_of(package)


@pytest.mark.parametrize("package", packages())
def test_a_door_lists_its_names_and_its_files(package):
    door = import_module(f"nanolm.{package}")
    assert {*names_of(package), *names_of(package).values()} <= {*dir(door)}


@pytest.mark.parametrize("package", packages())
def test_a_name_that_there_is_not_is_an_error_that_names_the_package(package):
    with pytest.raises(AttributeError, match=f"module 'nanolm.{package}' has no attribute 'nowhere'"):
        _ = import_module(f"nanolm.{package}").nowhere
    with pytest.raises(ImportError, match=f"cannot import name 'nowhere' from 'nanolm.{package}'"):
        exec(f"from nanolm.{package} import nowhere")


def test_the_door_of_the_house_gives_what_it_lists():
    assert sorted(nanolm._HOMES) == nanolm.__all__
    for name, room in nanolm._HOMES.items():
        assert getattr(nanolm, name) is getattr(import_module(f"nanolm.{room}"), name)
    with pytest.raises(AttributeError, match="module 'nanolm' has no attribute 'nowhere'"):
        _ = nanolm.nowhere


@pytest.mark.parametrize(
    "code",
    [
        "; ".join(f"import nanolm.{package}" for package in packages()),
        f"from nanolm.budget import {', '.join(names_of('budget'))}",
        "from nanolm.text import Tokenizer",
        "from nanolm.workload import Trace, load_trace",
    ],
)
def test_what_needs_no_torch_does_not_wait_for_it(code):
    assert python(f"{code}\nimport sys\nprint('torch' in sys.modules)") == "False"


def test_a_file_stays_reachable_as_an_attribute_of_its_package():
    assert python("import nanolm.cache\nprint(nanolm.cache.contiguous.KVCache.__name__)") == "KVCache"


def test_the_door_of_a_room_of_exercises_gives_answers_first_and_the_engine_s_names_behind_them(untouched, tmp_path):
    shutil.copytree(untouched, tmp_path / "mine")
    write(tmp_path / "mine" / "__init__.py", read(ROOT / "exercises" / "__init__.py"))
    code = f"""
import inspect, sys
sys.path.insert(0, {str(tmp_path)!r})
from mine.speculative import Session, residual_distribution
print(inspect.getfile(residual_distribution), inspect.getfile(Session), sep="\\n")
"""
    files = [tmp_path / "mine" / "speculative" / "acceptance.py", ROOT / "nanolm" / "speculative" / "session.py"]
    assert python(code).splitlines() == [str(file) for file in files]


# --- what a build makes of them ------------------------------------------------------------------------------------


def names_after(course, text):
    """The names of a file of the small course that says `text`."""
    write(course / "nanolm" / "cache" / "extra.py", text)
    return [name for name, file in names_of("cache", course).items() if file == "extra"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def f(): pass\nasync def g(): pass\nclass C: pass", ["f", "g", "C"]),
        ("A = 1\nB: int = 2\nC, (D, *E) = 1, (2, 3)\nF = G = 4", ["A", "B", "C", "D", "E", "F", "G"]),
        ("A = {x: y for x, y in ()}\nfor i in (): pass", ["A"]),
        ("def _f(): pass\n_A = 1\nclass _C: pass", []),
        ("import torch\nfrom torch import Tensor", []),
        ("A.b = 1\nA[0] = 1", []),
    ],
)
def test_public_is_what_a_file_defines_without_an_underscore(course, text, names):
    assert names_after(course, text) == names


def test_a_new_name_is_missed_until_the_next_build(course):
    write(course / "nanolm" / "cache" / "extra.py", "def borrow():\n    pass\n")
    (report,) = check_build(course)
    assert report.startswith("nanolm/cache/__init__.py differs from its source")
    assert build(course).written == ["nanolm/cache/__init__.py"]
    assert "    from .extra import borrow as borrow\n" in read(course / "nanolm" / "cache" / "__init__.py")
    assert check_build(course) == []


@pytest.mark.parametrize("docstring", ['"""Another purpose."""', 'r"""A \\ and a ü."""', "'''One line.\n\nMore.\n'''"])
def test_a_docstring_written_by_hand_stays_and_the_lists_below_it_do_not(course, docstring):
    built = read(course / SPECULATIVE)
    _, _, lists = built.partition('"""\n\nfrom typing')
    write(course / SPECULATIVE, f"{docstring}\n\n_HOMES = {{'acceptance': ['residual_distribution']}}\n")
    outcome = build(course)
    assert (outcome.written, outcome.kept) == ([SPECULATIVE], [])
    assert read(course / SPECULATIVE) == f"{docstring}\n\nfrom typing{lists}"
    assert build(course).written == [] and check_build(course) == []


def test_a_docstring_edited_in_a_door_that_is_right_is_no_edit_to_refuse(course):
    change(course / SPECULATIVE, '"""', '"""Above all: ', count=1)
    assert build(course).written == []
    assert check_build(course) == []


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({"cache/extra.py": "class KVCache: pass"}, "nanolm/cache: contiguous.py and extra.py both define KVCache"),
        (
            {"cache/extra.py": "ragged = 1"},
            "nanolm/cache: ragged is a file and, in extra.py, a public name: choose one",
        ),
        ({"cache/__init__.py": "x = 1\n"}, "nanolm/cache/__init__.py has no docstring: it says what the room is for"),
        ({"cache/__init__.py": ""}, "nanolm/cache/__init__.py has no docstring"),
        ({"new/__init__.py": "from .a import b\n", "new/a.py": ""}, "nanolm/new/__init__.py has no docstring"),
        ({"cache/extra.py": "def f(:"}, "nanolm/cache/extra.py, line 1: invalid syntax"),
        ({"cache/__init__.py": "def f(:"}, "nanolm/cache/__init__.py, line 1: invalid syntax"),
    ],
)
def test_a_door_that_cannot_be_written_stops_the_build_with_one_sentence(course, files, complaint):
    for file, text in files.items():
        write(course / "nanolm" / file, text)
    with pytest.raises(CourseError) as caught:
        build(course)
    assert str(caught.value).startswith(complaint) or str(caught.value).endswith(complaint)
    assert "\n" not in str(caught.value)


def test_home_is_the_file_that_defines_a_name_and_a_lone_module_is_its_own():
    assert home("cache", "KVCache") == "cache.contiguous"
    assert home("config", "ModelConfig") == "config"


@pytest.mark.parametrize(
    ("package", "name", "complaint"),
    [
        ("cash", "KVCache", "there is no nanolm.cash; there are attention, budget, cache, "),
        ("cache", "KVCash", r"nanolm.cache gives no KVCash; did you mean KVCache"),
        ("sampling", "x", "nanolm.sampling gives no x; it gives .*, sample_next, "),
        ("cache", "_rows", "nanolm.cache gives no _rows"),
    ],
)
def test_home_of_what_there_is_not_says_what_there_is(package, name, complaint):
    with pytest.raises(CourseError, match=complaint):
        home(package, name)


def test_the_doors_of_this_repository_are_as_built():
    for package in packages():
        assert read(ROOT / "nanolm" / package / "__init__.py") == front_door(package)
