"""What is said of a mixture's routers: kinds of tokens, favourites, experts a step reads; and the card's section."""

import numpy as np
import pytest
import torch

from training.mixture_card import render
from training.routing import KINDS, choices, experts_read, favourites, kind_of, load_by_layer, texts_to_route


class Spelling:
    """A tokenizer of a few tokens."""

    def decode(self, ids):
        return ["", "7", " th", "x"][ids[0]]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("7", "digit"),
        (" 7", "digit"),
        (",", "punctuation"),
        (" --", "punctuation"),
        ("'", "punctuation"),
        ("\n", "line break"),
        (".\n", "line break"),
        ("HAM", "capitals"),
        (" KING", "capitals"),
        (" I", "start of a word"),
        (" the", "start of a word"),
        ("ing", "inside a word"),
        ("A", "inside a word"),
        (" ", None),
        ("", None),
        ("�", None),
    ],
)
def test_a_token_has_the_kind_of_what_it_spells(text, kind):
    assert kind_of(text) == kind


def test_texts_to_route_are_50_stretches_of_plays_and_14_of_problems():
    texts = texts_to_route(np.zeros(1000, dtype=np.int16), np.ones(300, dtype=np.int16))
    assert texts.shape == (64, 256) and texts.dtype == torch.int64
    assert texts[:, 0].sum() == 14
    assert texts[:14, 0].sum() < 14 and texts[50:, 0].sum() < 14, "a batch of neighbours would be all of one kind"


# One layer, two texts of four positions, two of four experts each.
CHOSEN = torch.tensor([[[[0, 1], [0, 1], [0, 1], [0, 2]], [[2, 3], [2, 3], [2, 3], [2, 3]]]])


def test_load_by_layer_is_the_share_of_all_choices():
    (layer,) = load_by_layer(CHOSEN, 4)
    # Of 16 choices expert 0 got 4, expert 1 got 3, expert 2 got 5, expert 3 got 4.
    assert layer["shares"] == [4 / 16, 3 / 16, 5 / 16, 4 / 16]
    assert layer["imbalance"] == pytest.approx(1.25)
    assert 3.9 < layer["effective_experts"] < 4


def test_experts_read_are_the_different_ones_of_a_step():
    rows = {row["positions"]: row for row in experts_read(CHOSEN.repeat(1, 32, 16, 1), 4)}
    assert rows[1]["texts"] == rows[1]["one_text"] == 2
    # Two texts: {0, 1} and {2, 3} at three places, {0, 2} and {2, 3} at the fourth: (4 + 4 + 4 + 3) / 4.
    assert rows[2]["texts"] == 3.75
    # Neighbours in the first text: {0, 1}, then {0, 1, 2}; in the second always {2, 3}: (2 + 3 + 2 + 2) / 4.
    assert rows[2]["one_text"] == 2.25
    assert rows[2]["balanced"] == 4 - 4 * (1 / 2) ** 2
    # Chances of a position: 4/8, 3/8, 5/8, 4/8; unused by two: 0.25 + 0.390625 + 0.140625 + 0.25.
    assert rows[2]["as_loaded"] == pytest.approx(4 - 1.03125)


def test_favourites_are_the_experts_that_most_tokens_of_a_kind_go_through():
    texts = torch.tensor([[1, 1, 2, 2], [0, 3, 3, 3]])
    found = favourites(CHOSEN, texts, Spelling(), 4)
    assert list(found) == list(KINDS)
    assert found["digit"] == {"tokens": 2, "layers": [[0, 1.0]]}
    assert found["start of a word"] == {"tokens": 2, "layers": [[0, 1.0]]}
    assert found["inside a word"] == {"tokens": 3, "layers": [[2, 1.0]]}


def test_choices_are_those_of_each_position_layer_by_layer():
    from tiny_models import tiny_model, tokens_of

    model, texts = tiny_model(n_experts=4, experts_per_token=2), tokens_of(10, 5)
    chosen = choices(model, texts)
    assert chosen.shape == (3, 10, 5, 2)
    assert torch.equal(chosen[:, 9:], choices(model, texts[9:])), "texts are routed on their own, in their own place"


def test_the_section_is_made_of_four_tables():
    kinds = {kind: {"tokens": 1, "layers": [[2, 0.5]]} for kind in KINDS}
    read = [{"positions": 1, "balanced": 2.0, "as_loaded": 2.0, "texts": 2.0, "one_text": 2.0}]
    model = {
        "parameters": 9, "shape": {"n_layers": 1, "d_model": 8, "d_ff": 4}, "bits_per_byte_plays": 2.0,
        "bits_per_byte_problems": 1.0,
        "accuracy": dict.fromkeys(("sum", "difference", "fare", "question", "all"), 0.5),
    }  # fmt: skip
    figures = {
        "mixture": model, "n_experts": 4, "experts_per_token": 2, "active_parameters": 5,
        "load": load_by_layer(CHOSEN, 4), "favourites": kinds, "experts_read": read,
    }  # fmt: skip
    text = render(figures, {"tokens": 1000, "seconds": 60, "device": "cpu"})
    assert text.count("| :-- |") == 4
    assert "| parameters, all in memory | 9 |" in text and "| 0 | 25.0% | 18.8% | 31.2% | 25.0% | 1.25 |" in text
