"""course similar: what makes two answers alike, and what does not."""

import pytest
from click.testing import CliRunner
from submissions import put, right, untouched, with_body
from typer.main import get_command

from course.cli import app
from course.intake.reading import read_each
from course.intake.similar import similar, tokens
from course.intake.submission import sort_by_student
from course.registry import registry

WEEK4 = [exercise for exercise in registry() if exercise.week == 4]
LONG = """total = 0.0
for index in range(len(target_probs)):
    gap = float(target_probs[index]) - float(draft_probs[index])
    if gap > 0:
        total = total + gap
result = [max(float(p) - float(q), 0.0) / total for p, q in zip(target_probs, draft_probs)]
return torch.tensor(result)"""
RENAMED = LONG.replace("total", "s").replace("gap", "d").replace("index", "i").replace("result", "r") + "  # mine"


@pytest.fixture
def pairs(tmp_path):
    """Return a function that compares notebooks by their students' names."""

    def compare(**notebooks):
        for student, notebook in notebooks.items():
            put(tmp_path / student / "week04_speculative" / "week04_speculative.ipynb", notebook)
        return similar(read_each(4, sort_by_student([tmp_path])[0], []), WEEK4)

    return compare


def first(pair, name="residual_distribution"):
    return dict(pair.exercises)[name]


def test_other_names_and_comments_change_nothing():
    assert tokens("total = a + 1  # sum\n") == tokens("s = b + 1\n")


def test_a_copy_with_other_names_and_comments_is_whole_likeness(pairs):
    (pair,) = pairs(
        ada=with_body(right(), "residual_distribution", LONG), bo=with_body(right(), "residual_distribution", RENAMED)
    )
    assert (pair.one, pair.other, first(pair)) == ("ada", "bo", 1.0)


def test_another_way_to_write_it_is_less_alike(pairs):
    other = LONG.replace("for index in range(len(target_probs)):", "while len(target_probs) > total:")
    other = other.replace("if gap > 0:", "if not gap <= 0 and gap is not None:")
    (pair,) = pairs(
        ada=with_body(right(), "residual_distribution", LONG), bo=with_body(right(), "residual_distribution", other)
    )
    assert first(pair) < 0.9


def test_the_released_stub_is_no_likeness(pairs):
    assert pairs(ada=untouched(), bo=untouched()) == []


def test_an_answer_too_short_to_tell_is_left_out(pairs):
    (pair,) = pairs(ada=with_body(right(), "residual_distribution", "return target_probs"), bo=right())
    assert "residual_distribution" not in dict(pair.exercises)


def test_the_command_shows_pairs_with_the_caveat(tmp_path):
    put(tmp_path / "ada" / "week04_speculative" / "week04_speculative.ipynb", right())
    put(tmp_path / "bo" / "week04_speculative" / "week04_speculative.ipynb", right())
    done = CliRunner().invoke(get_command(app), ["similar", "4", str(tmp_path)])
    assert "100%  ada and bo:" in done.output and "no proof: short functions look alike" in done.output, done.output
