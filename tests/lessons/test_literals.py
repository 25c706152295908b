"""Every figure in a lesson's prose is computed anew: the tables beside this file, one a lesson."""

import importlib.util

import pytest

from course.building.lesson import Lesson, lessons
from course.paths import ROOT

from .literals import Derived, Given, agrees, check, read_figure

LESSONS = {lesson.name: lesson for lesson in lessons(ROOT / "solutions")}


def table_of(name):
    path = ROOT / "tests" / "lessons" / f"{name}.py"
    assert path.exists(), f"{name} has no table of its figures: write tests/lessons/{name}.py, a list TABLE"
    spec = importlib.util.spec_from_file_location(f"tests.lessons.{name}", path)
    module = importlib.util.module_from_spec(spec)
    module.__package__ = __package__
    spec.loader.exec_module(module)
    return module.TABLE


@pytest.fixture(scope="module", params=LESSONS)
def checked(request):
    return check(LESSONS[request.param], table_of(request.param))


def test_every_figure_comes_out_as_it_is_written(checked):
    assert not checked.wrong, "\n".join(checked.wrong)


def test_every_sentence_of_the_table_stands_in_the_lesson(checked):
    assert not checked.missing, "\n".join(checked.missing)


def test_no_figure_of_the_lesson_is_left_out_of_the_table(checked):
    assert not checked.uncovered, "\n".join([f"{len(checked.uncovered)} figures", *checked.uncovered[:40]])


@pytest.mark.parametrize(
    ("written", "value", "unit"),
    [
        ("4,096", 4096, 1),
        ("10.8", 10.8, 0.1),
        ("3·10⁹", 3e9, 1e9),
        ("1.5 · 10⁻³", 1.5e-3, 1e-4),
        ("2³⁰", 2**30, 0),
        ("sixteen %", None, None),
        ("seven", 7, 1),
        ("⅓", 1 / 3, 0),
        ("95 %", 95, 1),
    ],
)
def test_a_written_figure_is_read_with_the_size_of_its_last_digit(written, value, unit):
    if value is None:
        with pytest.raises(ValueError):
            read_figure(written)
    else:
        assert read_figure(written) == pytest.approx((value, unit))


def test_half_of_the_last_digit_is_allowed_and_no_more():
    assert agrees("1.52", 1.5249) and not agrees("1.53", 1.5249)
    assert agrees("14", 14.4) and not agrees("14", 14.6)


@pytest.fixture
def lesson(tmp_path):
    path = tmp_path / "week99_made_up.py"
    path.write_text("# %% [markdown]\n# # Week 99\n#\n# Half of 30 is 15, see 2.4 in `f(7)`.\n", encoding="utf-8")
    return Lesson(path)


def test_a_wrong_figure_a_lost_sentence_and_a_figure_in_no_sentence_are_found(lesson):
    assert check(lesson, []).uncovered
    good = check(lesson, [Derived("Half of 30 is 15, see 2.4", {"15": 30 / 2})])
    assert (good.wrong, good.missing, good.uncovered) == ([], [], [])
    assert check(lesson, [Derived("Half of 30 is 15, see 2.4", {"15": 30 / 3})]).wrong
    assert check(lesson, [Given("Half of 32 is 16")]).missing
