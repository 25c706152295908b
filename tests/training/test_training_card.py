"""The card's sections are replaced between their markers and nowhere else; curves become pictures."""

import pytest

from training.card import replace_section, table
from training.plots import plot_curve, smooth

CARD = "# Card\n<!-- figures -->\nold\n<!-- /figures -->\nprose\n<!-- speed -->\nfast\n<!-- /speed -->\n"


def test_only_the_named_section_changes():
    expected = "# Card\n<!-- figures -->\nnew\n<!-- /figures -->\nprose\n<!-- speed -->\nfast\n<!-- /speed -->\n"
    assert replace_section(CARD, "figures", "\nnew\n\n") == expected


def test_writing_a_section_twice_changes_nothing_more():
    once = replace_section(CARD, "speed", "faster")
    assert replace_section(once, "speed", "faster") == once


@pytest.mark.parametrize("card", ["no markers", CARD + CARD, "<!-- /figures --> <!-- figures -->"])
def test_a_card_without_its_markers_is_refused(card):
    with pytest.raises(ValueError, match="card: needs the markers <!-- figures --> and <!-- /figures --> once each"):
        replace_section(card, "figures", "new")


def test_a_table_has_one_line_for_the_head_one_for_alignment_and_one_a_row():
    assert table(["", "a"], [["x", "1"], ["y", "2"]]) == "|  | a |\n| :-- | --: |\n| x | 1 |\n| y | 2 |"


def test_smoothing_averages_over_the_last_values_only():
    assert smooth([4.0, 2.0, 0.0, 4.0], width=2) == [4.0, 3.0, 1.0, 2.0]


def test_a_curve_becomes_a_picture(tmp_path):
    evaluations = [{"step": 2, "bits_per_byte": 3.0, "accuracy": {"all": 0.5}}]
    curve = {"name": "tiny", "recipe": {"tokens_per_step": 4096}, "losses": [5.0, 4.0], "evaluations": evaluations}
    plot_curve(curve, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
