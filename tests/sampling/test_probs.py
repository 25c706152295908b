"""Grades `SamplingParams.probs`: each rule alone, and the order in which they follow each other."""

import pytest
import torch
from distributions import INF, NAN, RULES, assert_probs, close, vector, worked
from refusal import assert_refuses


def probs_by_rule(impl, probs, **rules):
    """What SamplingParams.probs makes of logits that are the logarithms of probs."""
    try:
        return impl.SamplingParams(**rules).probs(vector(*probs).log())
    except (TypeError, ValueError) as error:
        said = str(error)
    return pytest.fail(f"with {rules or 'no rule'} it stops ({said}): a filter that is None is left out")


@pytest.mark.exercise("SamplingParams.probs")
def test_probs_are_float64_in_the_shape_of_the_logits(impl):
    logits = torch.stack([worked(), worked().flip(0)])[:, None].log().float()  # (2, 1, 4)
    actual = impl.SamplingParams(top_k=3, top_p=0.9, min_p=0.1).probs(logits)
    assert actual.shape == (2, 1, 4), f"the result has the shape of logits, (2, 1, 4), not {tuple(actual.shape)}"
    assert actual.dtype == torch.float64, f"the result is float64 whatever the logits are, not {actual.dtype}"
    row = vector(0.5, 0.3, 0.15, 0) / 0.95
    expected = torch.stack([row, row.flip(0)])[:, None]
    assert close(actual, expected, 1e-6), f"two rows, each by itself, should be {expected.tolist()}; {actual.tolist()}"


@pytest.mark.exercise("SamplingParams.probs")
@pytest.mark.parametrize(("rules", "expected"), RULES, ids=str)
def test_probs_applies_each_rule_that_is_given(impl, rules, expected):
    wrong = {} if close(worked(), expected) else {f"{rules} changed nothing: is each rule asked for?": worked()}
    why = f"{rules or 'no rule'} should leave {expected}"
    assert_probs(probs_by_rule(impl, (0.5, 0.3, 0.15, 0.05), **rules), expected, wrong, why)


@pytest.mark.exercise("SamplingParams.probs")
def test_probs_hands_top_p_the_renormalised_probabilities(impl):
    # After top-k 3: 0.526, 0.316, 0.158. The first two total 0.842 ≥ 0.84 and stay: 0.625, 0.375. Unnormalised they
    # total 0.8, and the third would stay too.
    actual = probs_by_rule(impl, (0.5, 0.3, 0.15, 0.05), top_k=3, top_p=0.84)
    assert not close(actual, [0.5 / 0.95, 0.3 / 0.95, 0.15 / 0.95, 0]), (
        "a third token stays, as if top-p saw 0.5 + 0.3 = 0.8, below 0.84: no renormalisation between top-k and top-p, "
        "or the other order; top-k comes before top-p"
    )
    assert close(actual, [0.625, 0.375, 0, 0]), f"k = 3, then p = 0.84 leave (0.625, 0.375), not {actual.tolist()}"


@pytest.mark.exercise("SamplingParams.probs")
def test_probs_applies_the_temperature_before_the_filters(impl):
    # At T = 2 the probabilities go with their roots: 0.7071, 0.5477, 0.3873, 0.2236 of 1.8657 are 0.379, 0.294,
    # 0.208, 0.120. Two of them total 0.673, so p = 0.7 keeps three, in shares 0.7071, 0.5477, 0.3873 of 1.6421.
    actual = probs_by_rule(impl, (0.5, 0.3, 0.15, 0.05), temperature=2.0, top_p=0.7)
    # Filters first: 0.5 + 0.3 = 0.8 ≥ 0.7 keeps two, then 0.7071 and 0.5477 of 1.2548.
    assert not close(actual, [0.5635, 0.4365, 0, 0], 1e-4), (
        "the temperature is applied after the filters: it comes first, for it changes which tokens reach p"
    )
    assert close(actual, [0.4306, 0.3335, 0.2358, 0], 1e-4), (
        f"T = 2, then p = 0.7 leave (0.4306, 0.3335, 0.2358), not {actual.tolist()}"
    )


@pytest.mark.exercise("SamplingParams.probs")
def test_probs_applies_top_k_before_top_p(impl):
    # Top-p first: 0.4 + 0.35 = 0.75 ≥ 0.7 keeps two, and top-k 2 changes nothing. Top-k first: 0.4/0.75 = 0.533.
    actual = probs_by_rule(impl, (0.4, 0.35, 0.25), top_k=2, top_p=0.53)
    assert not close(actual, [0.4 / 0.75, 0.35 / 0.75, 0]), (
        "two tokens stay, so top-p saw 0.4 in place of 0.533, or ran not at all: top-k comes before top-p, renormalised"
    )
    assert close(actual, [1, 0, 0]), f"k = 2, then p = 0.53 leave the first token alone, not {actual.tolist()}"


@pytest.mark.exercise("SamplingParams.probs")
def test_probs_applies_min_p_after_top_p(impl):
    # Top-p first: 0.4 + 0.35 ≥ 0.53 keeps two, 0.533 and 0.467, and min-p 0.5 both. Min-p first: those two are left as
    # 0.533 and 0.467 before top-p looks, and 0.533 alone reaches 0.53.
    actual = probs_by_rule(impl, (0.4, 0.35, 0.15, 0.1), top_p=0.53, min_p=0.5)
    assert not close(actual, [1, 0, 0, 0]), "one token stays, so min-p ran first: min-p comes after top-p"
    assert close(actual, [0.4 / 0.75, 0.35 / 0.75, 0, 0]), (
        f"p = 0.53, then min-p 0.5 leave (0.533, 0.467), not {actual.tolist()}"
    )


@pytest.mark.exercise("SamplingParams.probs")
@pytest.mark.parametrize("wrong", [NAN, INF, -INF])
def test_probs_refuses_logits_that_say_nothing(impl, wrong):
    for rules in ({}, {"temperature": 0.0}, {"top_k": 1, "top_p": 0.5, "min_p": 0.5}):
        assert_refuses("logits", impl.SamplingParams(**rules).probs, torch.tensor([[1.0, 0.0], [wrong, wrong]]))


@pytest.mark.exercise("SamplingParams.probs")
def test_probs_at_temperature_zero_are_certain_whatever_the_filters(impl):
    actual = impl.SamplingParams(temperature=0.0, top_k=2, top_p=0.9).probs(
        torch.tensor([[1.0, 3.0, 2.0], [0.0, 0.0, -INF]])
    )
    assert actual.tolist() == [[0, 1, 0], [1, 0, 0]], f"temperature 0 leaves one token a row, not {actual.tolist()}"
