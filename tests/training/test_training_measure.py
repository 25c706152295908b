"""Figures of models whose figures are known in advance."""

import math
from types import SimpleNamespace

import pytest
import torch

import nanolm
from training.measure import acceptance, accuracy_by_kind, bits_per_byte, solved, windows_of
from training.texts.problems import Problem, held_out_problems
from training.texts.tokenizer import train_tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(iter(["abc"]), vocabulary=257)


def uniform(tokens):
    return torch.zeros(*tokens.shape, 257)


def fixed(probabilities):
    """A model with the same distribution at every position."""
    logits = torch.tensor(probabilities, dtype=torch.float64).log()
    return lambda tokens: logits.expand(*tokens.shape, -1)


class Reciter:
    """A model that always prefers the next token of one text, whatever it is shown."""

    def __init__(self, tokenizer, text):
        self.ids = [0, *tokenizer.encode(text).ids]

    def __call__(self, tokens):
        logits = torch.zeros(*tokens.shape, 257)
        for i in range(min(tokens.shape[1], len(self.ids) - 1)):
            logits[:, i, self.ids[i + 1]] = 1.0
        return logits


def test_a_uniform_model_needs_the_logarithm_of_its_vocabulary_per_byte(tokenizer):
    tokens = torch.tensor([0, *tokenizer.encode("abc" * 30).ids]).numpy()
    # Without merges a token is a byte, so each byte costs log2(257) bits.
    assert bits_per_byte(uniform, tokens, tokenizer, length=10) == pytest.approx(math.log2(257), rel=1e-6)


def test_the_end_token_costs_bits_and_spells_no_byte(tokenizer):
    tokens = torch.tensor([0, *tokenizer.encode("abc").ids, 0]).numpy()
    # Four tokens to predict, three bytes spelled: a third more bits per byte.
    assert bits_per_byte(uniform, tokens, tokenizer, length=4) == pytest.approx(math.log2(257) * 4 / 3, rel=1e-6)


def test_windows_share_the_token_between_them():
    blocks = torch.cat(list(windows_of(torch.arange(31).numpy(), 10)))
    assert blocks.shape == (3, 11) and blocks[:, 0].tolist() == [0, 10, 20]


def test_only_the_exact_answer_counts_as_solved(tokenizer):
    asked = [
        Problem("1 + 1 =", " 2.", "sum", "a"),
        Problem("1 + 1 =", " 22.", "sum", "b"),
        Problem("9 - 8 =", " 1.", "other", "c"),
    ]
    shares = accuracy_by_kind(Reciter(tokenizer, "1 + 1 = 2."), tokenizer, asked)
    assert shares == {"sum": 0.5, "other": 0.0, "all": pytest.approx(1 / 3)}


def test_a_wrong_full_stop_is_a_wrong_answer(tokenizer):
    asked = [Problem("1 + 1 =", " 2.", "sum", "a")]
    assert accuracy_by_kind(Reciter(tokenizer, "1 + 1 = 2,"), tokenizer, asked)["all"] == 0.0


def test_the_shipped_target_solves_nine_of_ten_problems_in_the_tokens_of_its_own_tokenizer():
    target, its_tokenizer = nanolm.load("target")
    right = solved(target, its_tokenizer.inner, held_out_problems(10))
    assert sum(right) >= 0.9 * len(right)


def test_acceptance_is_the_overlap_of_the_two_distributions():
    # min(0.5, 0.3) + min(0.3, 0.3) + min(0.2, 0.4) = 0.8
    target, draft = fixed([0.5, 0.3, 0.2]), fixed([0.3, 0.3, 0.4])
    assert acceptance(target, draft, [torch.zeros(2, 5, dtype=torch.int64)], temperature=1) == pytest.approx(0.8)


def test_acceptance_at_temperature_0_asks_for_the_same_favourite():
    block = torch.zeros(1, 4, dtype=torch.int64)
    assert acceptance(fixed([0.5, 0.3, 0.2]), fixed([0.3, 0.3, 0.4]), [block], temperature=0) == 0.0
    assert acceptance(fixed([0.5, 0.3, 0.2]), fixed([0.9, 0.0, 0.1]), [block], temperature=0) == 1.0


def test_given_tokens_do_not_count_for_acceptance():
    block = torch.tensor([[7, 7, 7, 1, 1]])
    agree = SimpleNamespace(seen=[])

    def draft(tokens):
        # Agrees with the target only where the last token is a 1, that is after the given ones.
        agree.seen.append(tokens)
        sure = torch.tensor([[1.0, 0.0], [0.0, 1.0]]).log()
        return sure[(tokens == 1).long()]

    def target(tokens):
        return torch.tensor([0.0, 1.0]).log().expand(*tokens.shape, 2)

    # Tokens 4 and 5 are proposed, from the contexts ending in 7 and in 1: kept with chance 0 and 1.
    assert acceptance(target, draft, [block], temperature=1, context=3) == pytest.approx(0.5)


def test_a_negative_temperature_is_refused():
    with pytest.raises(ValueError, match="temperature: -1 is below 0"):
        acceptance(uniform, uniform, [], temperature=-1)
