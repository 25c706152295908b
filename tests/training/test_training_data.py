"""Batches: a pure function of the step, every window used once a pass, targets one ahead."""

from dataclasses import replace

import numpy as np
import pytest

import nanolm
from nanolm.config import ModelConfig
from training.recipe import END_ID, Recipe
from training.texts.data import Batches, Windows, join_documents
from training.texts.tokenizer import train_tokenizer

MODEL = ModelConfig(
    vocab_size=300, d_model=16, n_layers=1, n_heads=2, n_kv_heads=1, head_dim=8, d_ff=32, max_positions=64
)
RECIPE = Recipe(MODEL, steps=10, tokens_per_step=32, short=8, long=16, long_share=0.2, problem_share=0.25)


def batches(recipe=RECIPE):
    # Plays count up from 0, problems from 10,000: a token tells where it comes from.
    return Batches(recipe, np.arange(500), np.arange(10_000, 10_500))


def test_a_batch_depends_on_its_step_alone():
    in_order = batches()
    seen = [in_order.at(step)[0].tolist() for step in range(10)]
    assert [batches().at(step)[0].tolist() for step in reversed(range(10))] == seen[::-1]


def test_targets_are_the_inputs_one_position_ahead():
    tokens, targets = batches().at(3)
    assert (targets == tokens + 1).all()


def test_the_last_fifth_of_the_steps_runs_long_sequences():
    assert [tuple(batches().at(step)[0].shape) for step in (0, 7, 8, 9)] == [(4, 8), (4, 8), (2, 16), (2, 16)]


def test_a_quarter_of_the_rows_are_problems():
    rows = [row for step in range(8) for row in batches().at(step)[0].tolist()]
    assert sum(row[0] >= 10_000 for row in rows) == 8, "of 32 rows 8 should be problems"


def test_a_pass_reads_every_window_once_and_the_next_in_another_order():
    windows = Windows(np.arange(101), length=10, seed=0)
    first, second = ([int(windows[p * windows.count + i][0]) for i in range(windows.count)] for p in (0, 1))
    assert np.diff(sorted(first)).tolist() == [10] * (windows.count - 1), "a window is missing or read twice"
    assert first != second


def test_documents_are_parted_by_the_end_token():
    tokenizer = train_tokenizer(iter(["one two three"]), vocabulary=258)
    ids = join_documents(tokenizer, ["one", "two"]).tolist()
    assert ids[0] == ids[-1] == END_ID and ids.count(END_ID) == 3
    assert tokenizer.decode(ids, skip_special_tokens=False) == "<|endoftext|>one<|endoftext|>two<|endoftext|>"


def test_too_few_tokens_for_a_window_are_refused():
    with pytest.raises(ValueError, match="tokens: 12 are too few for windows of 10; at least 21"):
        Windows(np.arange(12), length=10, seed=0)


@pytest.mark.parametrize(("name", "value"), [("steps", 0), ("problem_share", 1.5), ("short", 7)])
def test_an_impossible_recipe_is_refused_by_the_name_of_its_number(name, value):
    with pytest.raises(ValueError, match=f"^{name}: {value}"):
        replace(RECIPE, **{name: value})


def test_the_learning_rate_warms_up_stays_and_falls():
    recipe = replace(RECIPE, steps=100, warmup_steps=10, decay_share=0.2, learning_rate=1.0)
    rates = [recipe.learning_rate_at(step) for step in (0, 4, 9, 50, 80, 90, 99)]
    # Warm-up: (step + 1) / 10. Decay over the last 20 steps: steps left / 20.
    assert rates == pytest.approx([0.1, 0.5, 1.0, 1.0, 1.0, 0.5, 0.05])


def test_documents_are_joined_by_one_end_token_though_the_shipped_tokenizer_begins_every_text_with_it():
    _, tokenizer = nanolm.load("target")
    joined = join_documents(tokenizer.inner, ["1 + 1", "2"]).tolist()
    assert joined == [END_ID, *tokenizer.encode("1 + 1"), END_ID, *tokenizer.encode("2"), END_ID]
