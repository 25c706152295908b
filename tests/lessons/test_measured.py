"""What lessons print beside a comparison: figures of the same rounds, which must not contradict it."""

import re

import pytest

from course.paths import ROOT

LESSONS = sorted((ROOT / "solutions").glob("week*.py"))
_COMPARES = re.compile(r"\b(which_is_faster|ratio)\(")
# A time or a rate made of the fastest round: the ratio beside it is a median, by rounds.
_FASTEST_ROUND = re.compile(r"\{[^{}]*\bmin\((seconds|rounds|times|\w+_rounds)\b[^{}]*\}")


def contradictions(text: str) -> list[str]:
    """What a lesson's cells print of fastest rounds beside a comparison by rounds."""
    cells = [cell for cell in text.split("\n# %%") if _COMPARES.search(cell)]
    return [found.group() for cell in cells for found in _FASTEST_ROUND.finditer(cell)]


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_no_lesson_prints_the_fastest_round_beside_a_comparison_by_all_of_them(lesson):
    assert not contradictions(lesson.read_text(encoding="utf-8"))


def test_a_rate_of_the_fastest_round_beside_a_comparison_is_found():
    cell = '\n# %%\nprint(f"{B * n / min(seconds):,.0f} tokens/s; {which_is_faster(rounds, name, other)}")\n'
    assert contradictions(cell) == ["{B * n / min(seconds):,.0f}"]
