"""Grades `sample_next`: one draw a row, or none. What the rules leave to draw from is graded in test_probs.py."""

import pytest
import torch
from distributions import INF, NAN, RULES, assert_probs, close, vector, worked
from refusal import assert_refuses

from nanolm import sampling
from nanolm.sampling import Rng, SamplingParams


class RecordingRng:
    """Rng that take the last possible index, and remember the distribution they were handed."""

    def __init__(self):
        self.seen = []

    def categorical(self, probs):
        probs = torch.as_tensor(probs)
        assert probs.ndim == 1, f"rng.categorical takes one row at a time, (V,), not {tuple(probs.shape)}"
        self.seen.append(probs.tolist())
        return int(probs.nonzero()[-1])

    def bernoulli(self, prob):
        raise AssertionError("one draw from the vocabulary is one categorical")


@pytest.mark.exercise("sample_next")
def test_sample_next_draws_once_for_each_row_in_order(impl):
    logits = torch.stack([vector(0.2, 0.8, 0.0), vector(1.0, 0.0, 0.0), vector(0.1, 0.2, 0.7)]).log()
    rng = RecordingRng()
    tokens = impl.sample_next(logits, SamplingParams(), rng)
    first = [round(row[0], 6) for row in rng.seen]
    assert len(first) == 3, f"{len(first)} draws from `rng` for 3 rows: one for each, and none from elsewhere"
    assert first != [0.1, 1.0, 0.2], "the rows were drawn from the last to the first: the first row comes first"
    assert first == [0.2, 1.0, 0.1], f"one draw for each row, the first row first; token 0 had {first}"
    assert isinstance(tokens, torch.Tensor), f"the result is a tensor of ids, not a {type(tokens).__name__}"
    assert tokens.shape == (3,), f"one id a row, (B,) = (3,), not {tuple(tokens.shape)}"
    assert not tokens.is_floating_point(), f"ids are whole numbers, not {tokens.dtype}"
    assert tokens.tolist() == [1, 0, 2], f"the result is what the rng said, [1, 0, 2], not {tokens.tolist()}"


@pytest.mark.exercise("sample_next")
@pytest.mark.parametrize(("rules", "expected"), RULES, ids=str)
def test_sample_next_draws_from_what_the_rules_leave(impl, rules, expected):
    rng = RecordingRng()
    impl.sample_next(worked().log()[None], SamplingParams(**rules), rng)
    assert len(rng.seen) == 1, f"{len(rng.seen)} draws from `rng` for one token: one, and none from elsewhere"
    wrong = {} if close(worked(), expected) else {f"{rules} changed nothing: are the rules applied?": worked()}
    assert_probs(vector(*rng.seen[0]), expected, wrong, f"{rules or 'no rule'} should leave {expected} to draw from")


@pytest.mark.exercise("sample_next")
def test_sample_next_at_temperature_zero_is_greedy_and_uses_no_randomness(impl):
    rng = RecordingRng()
    logits = torch.tensor([[1.0, 3.0, 2.0], [5.0, 5.0, 5.0], [-INF, -INF, -9.0]])
    tokens = impl.sample_next(logits, SamplingParams(temperature=0.0, top_k=1, top_p=0.5), rng)
    assert isinstance(tokens, torch.Tensor), f"the result is a tensor of ids, not a {type(tokens).__name__}"
    assert not rng.seen, "greedy needs no rng: a seeded run would change with the temperature of another request"
    assert tokens.tolist() != [1, 2, 2], "the lowest id among equals, not the highest"
    assert tokens.tolist() == [1, 0, 2], f"the largest logit of each row: [1, 0, 2], not {tokens.tolist()}"
    assert tokens.shape == (3,), f"one id a row, (B,) = (3,), not {tuple(tokens.shape)}"
    assert not tokens.is_floating_point(), f"ids are whole numbers, not {tokens.dtype}"


@pytest.mark.exercise("sample_next")
@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("wrong", [NAN, INF, -INF])
def test_sample_next_refuses_scores_that_say_nothing(impl, temperature, wrong):
    # A row of -inf only, or one NaN or +inf in the second row.
    logits = torch.tensor([[1.0, 0.0], [wrong, wrong]])
    assert_refuses("logits", lambda rows: impl.sample_next(rows, SamplingParams(temperature), Rng(seed=0)), logits)


@pytest.mark.exercise("sample_next")
def test_sample_next_repeats_with_the_seed(impl):
    logits = torch.zeros(40, 11)
    first, again, other = ([*map(int, impl.sample_next(logits, SamplingParams(), Rng(seed)))] for seed in (1, 1, 2))
    assert first == again, "the same seed gave other tokens: is all randomness taken from `rng`?"
    assert first != other, "seeds 1 and 2 gave the same 40 tokens of 11: is the draw really random?"


# --- the engine's own messages, and its two ways to the same token ---


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SamplingParams(temperature=-1.0), r"temperature is -1\.0; .* 0 \(greedy\) or more"),
        (lambda: SamplingParams(temperature=NAN), r"temperature is nan; it must be finite"),
        (lambda: SamplingParams(temperature=INF), r"temperature is inf; it must be finite"),
        (lambda: SamplingParams(top_k=0), r"top_k is 0; it must be a whole number, 1 or more \(None keeps all\)"),
        (lambda: SamplingParams(top_p=0.0), r"top_p is 0\.0; it must be above 0 and at most 1"),
        (lambda: SamplingParams(top_p=1.5), r"top_p is 1\.5; it must be above 0 and at most 1"),
        (lambda: sampling.temperature_probs(vector(-INF, -INF), 1.0), r"logits hold NaN, \+inf, or a row of -inf"),
        (lambda: sampling.float32_sum([1.0, 2.0], [0, 2]), r"order is \[0, 2\]; .* each of 0 to 1 once"),
    ],
)
def test_a_bad_argument_is_refused_with_its_name_and_what_is_allowed(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_scores_that_are_nan_are_refused_also_when_greedy(temperature):
    with pytest.raises(ValueError, match="logits hold NaN"):
        sampling.sample_next(torch.tensor([[1.0, NAN, 0.0]]), SamplingParams(temperature), Rng(seed=0))


def test_greedy_as_a_distribution_and_as_a_pick_agree():
    logits = torch.tensor([[1.0, 3.0, 3.0], [0.0, -1.0, -INF]])
    assert SamplingParams(temperature=0.0).probs(logits).tolist() == [[0, 1, 0], [1, 0, 0]]


def test_top_p_of_float32_probabilities_allows_for_float32_rounding():
    # 0.7 + 0.1 in float32 is 0.8000000 or 0.79999995, by how it is rounded: two tokens either way.
    assert int((sampling.top_p_filter(vector(0.7, 0.1, 0.1, 0.1, dtype=torch.float32), 0.8) > 0).sum()) == 2
