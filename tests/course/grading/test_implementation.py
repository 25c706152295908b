"""A folder or package of answers: whose function comes out of it, and what is said where there is none."""

import importlib
import inspect
import sys

import pytest
from answers import solve
from small_course import change

from course.errors import CourseError
from course.grading.implementation import chosen
from course.paths import ROOT, read, write

ANSWERS, CACHE = "speculative/acceptance.py", "cache/contiguous.py"


@pytest.fixture
def folder(tmp_path):
    """A folder in which one exercise's file is solved; it is not a package, nor is the room in it."""
    solve(tmp_path / "mine", ANSWERS)
    return tmp_path / "mine"


@pytest.fixture
def package(folder, monkeypatch):
    """The same as a package that can be imported by name, but its rooms are none yet."""
    write(folder / "__init__.py", read(ROOT / "exercises" / "__init__.py"))
    monkeypatch.syspath_prepend(folder.parent)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "mine"]:
        del sys.modules[name]


def residual(implementation):
    """The function as a test gets it."""
    return chosen(str(implementation)).module("speculative.acceptance", ["residual_distribution"]).residual_distribution


def refusal(implementation, module="speculative.acceptance", target="residual_distribution"):
    """What is said instead of a module, which must be one line."""
    with pytest.raises(CourseError) as caught:
        chosen(str(implementation)).module(module, [target])
    (line,) = str(caught.value).splitlines()
    return line


def test_a_folder_of_answers_need_not_be_a_package(folder):
    assert residual(folder).__code__.co_filename == str(folder / ANSWERS)


@pytest.mark.parametrize("own", [False, True])
def test_an_answer_s_neighbours_are_its_folder_s_own_files_and_else_the_engine_s_very_modules(folder, own):
    engine = importlib.import_module("nanolm.sampling.rng")
    if own:
        write(folder / "sampling" / "rng.py", "NAME = 'mine'\n")
    found = importlib.import_module(f"{chosen(str(folder)).package}.sampling.rng")
    assert found.NAME == "mine" if own else found is engine


def test_a_package_of_answers_is_found_by_name(package):
    write(package / "speculative" / "__init__.py", read(ROOT / "exercises" / "speculative" / "__init__.py"))
    assert residual("mine").__code__.co_filename == str(package / ANSWERS)


def test_a_room_of_a_package_without_its_init_file_is_told_so(package):
    assert refusal("mine") == "mine/speculative/__init__.py does not exist; `course build` makes it"


@pytest.mark.parametrize("init", ["", read(ROOT / "exercises" / "__init__.py")])
def test_a_file_that_a_package_lacks_is_named(package, init):
    write(package / "__init__.py", init)
    assert (
        refusal("mine", "cache.contiguous", "KVCache.update") == f"mine/{CACHE} does not exist; `course build` makes it"
    )


def test_a_file_that_a_folder_lacks_is_named_and_the_reference_is_not_graded_in_its_place(folder):
    assert (
        refusal(folder, "cache.contiguous", "KVCache.update")
        == f"{folder}/{CACHE} does not exist; `course build` makes it"
    )


def test_a_file_from_the_time_before_the_rooms_is_no_answer(folder):
    (folder / ANSWERS).rename(folder / "speculative.py")
    assert refusal(folder) == f"{folder}/{ANSWERS} does not exist; `course build` makes it"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("x = 1\n\n1 / 0\n", "cannot be imported: ZeroDivisionError: division by zero ({}, line 3)"),
        ("raise OSError('two\\nlines')\n", "cannot be imported: OSError: two lines ({}, line 1)"),
        ("import no_such\n", "cannot be imported: ModuleNotFoundError: No module named 'no_such' ({}, line 1)"),
        ("from ..cache.nowhere import X\n", "cannot be imported: ModuleNotFoundError: No module named "),
        ("x = 1\ndef residual_distribution(:\n", ", line 2: invalid syntax"),
    ],
)
def test_a_file_that_fails_on_import_is_named_with_its_line(folder, text, complaint):
    write(folder / ANSWERS, text)
    said = refusal(folder)
    assert said.removeprefix(f"{folder}/{ANSWERS}").lstrip().startswith(complaint.format(f"{folder}/{ANSWERS}"))


@pytest.mark.parametrize(("text", "line"), [("1 / 0\n", 1), ("x = (\n", 1)])
def test_of_a_file_that_fails_because_it_imports_another_that_one_is_named(folder, text, line):
    write(folder / "sampling" / "rng.py", text)  # acceptance.py imports it
    assert f"{folder}/sampling/rng.py, line {line}" in refusal(folder)


@pytest.mark.parametrize(
    ("file", "old", "target", "lacks"),
    [
        (ANSWERS, "residual_distribution", "residual_distribution", "residual_distribution"),
        (CACHE, "def update", "KVCache.update", "KVCache.update"),
        (CACHE, "class KVCache", "KVCache.update", "KVCache"),
    ],
)
def test_a_file_of_an_older_version_is_told_what_it_lacks(folder, file, old, target, lacks):
    solve(folder, file)
    change(folder / file, old, f"{old}_as_it_was_called")
    module = file.removesuffix(".py").replace("/", ".")
    assert refusal(folder, module, target) == f"{folder}/{file} defines no {lacks}"


def test_a_front_door_gives_the_answer_where_there_is_one_and_the_engine_s_name_otherwise(folder):
    solve(folder, CACHE)
    text = read(folder / ANSWERS)
    write(folder / ANSWERS, f"from ..cache import KVCache, StaticKVCache\n{text}")
    module = chosen(str(folder)).module("speculative.acceptance", ["residual_distribution"])
    assert inspect.getfile(module.KVCache) == str(folder / CACHE)
    assert inspect.getfile(module.StaticKVCache) == str(ROOT / "nanolm" / "cache" / "static.py")
