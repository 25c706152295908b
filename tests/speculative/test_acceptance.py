"""Grades `speculative/acceptance.py` on one token: distributions are exact, every outcome followed (enumeration.py)."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from chernoff import assert_sampled_from
from enumeration import ScriptedRng, exact_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from one_token import (
    P,
    Q,
    as_int,
    close,
    name_the_mistake,
    name_the_mistake_in_sample,
    no_chance_but_the_rngs,
    residual_of,
    vector,
)
from refusal import assert_refuses

from course.grading.seeds import fresh
from nanolm.sampling import Rng


def distributions(size=4):
    weights = st.lists(st.integers(0, 20), min_size=size, max_size=size).filter(any)
    return weights.map(lambda w: torch.tensor(w, dtype=torch.float64) / sum(w))


# --- residual_distribution ---------------------------------------------------------------------------------------

CLAMP = (
    "a token with q > p is overrated, and got something: the draft proposes them too often already, so a rejection "
    "must never lead back to them (clamp p - q at 0)"
)


def residual(impl, p, q):
    """What the answer gives for distributions that differ."""
    try:
        left = impl.residual_distribution(p, q)
    except ValueError as error:
        message = (
            f"p and q differ, so something is left over, and it raised a ValueError ({error}). Is p - q summed before "
            "it is clamped at 0 (that sum is always 0), or one equal entry taken for p = q?"
        )
    else:
        assert isinstance(left, torch.Tensor), f"return a tensor, (V,); it is a {type(left).__name__}"
        return left
    pytest.fail(message)


@pytest.mark.exercise("residual_distribution")
def test_residual_distribution_is_the_positive_part_of_p_minus_q_scaled_to_one(impl):
    actual = residual(impl, P, Q)
    suspects = {
        "not normalised: divide max(p - q, 0) by its sum": vector(0, 0.2, 0.1, 0),
        "divided by its largest entry: divide max(p - q, 0) by its sum": vector(0, 1, 0.5, 0),
        "a softmax in the place of a division: tokens with nothing left over must get 0": vector(
            0, 0.2, 0.1, 0
        ).softmax(0),
        "p and q are swapped: the residual is what p has *beyond* q": vector(1 / 3, 0, 0, 2 / 3),
        "p where it is above q: only what p has *beyond* q is left over": vector(0, 0.6, 0.4, 0),
        "all of it on the largest: it is a distribution, from which somebody draws": vector(0, 1, 0, 0),
        CLAMP: (P - Q).abs() / (P - Q).abs().sum(),
        f"{CLAMP}, and not normalised": (P - Q).abs(),
        f"{CLAMP}, p - q itself": P - Q,
    }
    assert actual.isfinite().all() and actual.abs().max() < 1e3, (
        f"divided by the sum of p - q, which is 0 but for rounding: clamp at 0 first, then sum; got {actual.tolist()}"
    )
    named = [mistake for mistake, result in suspects.items() if close(actual, result)]
    assert not named, named[0]
    assert close(actual, [0, 2 / 3, 1 / 3, 0]), f"expected (0, 2/3, 1/3, 0), got {actual.tolist()}"


@pytest.mark.exercise("residual_distribution")
def test_residual_zeroes_tokens_the_draft_overrated(impl):
    left = residual(impl, P, Q)
    overrated = [token for token in (0, 3) if left[token] != 0]
    assert not overrated, f"tokens {overrated} have q > p and residual {left[overrated].tolist()}: {CLAMP}"


@pytest.mark.exercise("residual_distribution")
def test_residual_distribution_with_one_token_left_is_certain(impl):
    # p - q = (-0.25, 0.25, 0): only the second token is left, and of the third both say the same.
    actual = residual(impl, vector(0.25, 0.5, 0.25), vector(0.5, 0.25, 0.25))
    assert close(actual, [0, 1, 0]), (
        f"p - q is (-0.25, 0.25, 0), so all of the residual is on token 1; got {actual.tolist()}"
    )


@pytest.mark.exercise("residual_distribution")
def test_residual_distribution_of_disjoint_supports_is_the_target(impl):
    actual = residual(impl, vector(0.25, 0.75, 0, 0), vector(0, 0, 0.5, 0.5))
    assert close(actual, [0.25, 0.75, 0, 0]), (
        f"nothing in common: what p has beyond q is p itself, not {actual.tolist()}"
    )


@pytest.mark.exercise("residual_distribution")
def test_residual_distribution_of_equal_distributions_is_an_error_not_a_nan(impl):
    try:
        left = impl.residual_distribution(P, P.clone())
    except ValueError:
        return
    pytest.fail(f"p = q leaves nothing over, 0 / 0: raise a ValueError; it returned {left.tolist()}")


@pytest.mark.exercise("residual_distribution")
def test_residual_distribution_of_nearly_equal_distributions_is_none_the_less_one(impl):
    # A draft may well be as good as this, and then a rejection comes once in a million tokens, and must not crash.
    p = vector(0.5, 0.5)
    q = p + vector(1e-6, -1e-6)
    try:
        left = impl.residual_distribution(p, q)
    except ValueError:
        left = None
    assert left is not None, (
        "p and q differ by a millionth, and a ValueError was raised: only where nothing at all is left over is there "
        "no residual (an allclose takes too much for equal)"
    )
    assert close(left, [0, 1]), f"p - q is a millionth at token 1, so the residual is (0, 1); got {left.tolist()}"


@pytest.mark.exercise("residual_distribution")
@settings(max_examples=100)
@given(distributions(), distributions())
def test_residual_distribution_completes_what_was_accepted_to_p(impl, p, q):
    kept = torch.minimum(p, q)
    if (1 - kept.sum()).abs() < 1e-12:
        return  # p = q: nothing is ever rejected
    total = kept + (1 - kept.sum()) * residual(impl, p, q)
    assert close(total, p), f"min(p, q) + (1 - Σ min) · residual is {total.tolist()}, not p = {p.tolist()}"


# --- accept_or_resample ------------------------------------------------------------------------------------------


def assert_no_other_token_counts_as_kept(outcome, drafted):
    """Of {(token, accepted): probability}."""
    for token, accepted in outcome:
        assert token == drafted or not accepted, (
            f"{drafted} was drafted and {token} came out: the token was replaced, but accepted is True"
        )


def decided(impl, p, q, drafted):
    """{(token, accepted): probability} of one drafted token."""
    return exact_distribution(lambda rng: tuple(impl.accept_or_resample(p, q, drafted, rng)))


def output_of_one_token(impl, p, q):
    """The exact distribution of the token that comes out when the draft draws from q."""

    def run(rng):
        return as_int(impl.accept_or_resample(p, q, rng.categorical(q), rng)[0])

    outcome = exact_distribution(run)
    return vector(*(outcome.get(token, 0.0) for token in range(len(p))))


@pytest.mark.exercise("accept_or_resample")
def test_accept_or_resample_returns_a_token_and_whether_it_was_kept(impl):
    # Nothing in common, so no chance keeps the drafted token, and what comes in its place is certain; then p = q.
    for p in (vector(1, 0), vector(0, 1)):
        result = impl.accept_or_resample(p, vector(0, 1), 1, ScriptedRng())
        right = isinstance(result, tuple) and len(result) == 2 and not isinstance(result[0], bool | np.bool_)
        right = right and isinstance(result[1], bool | np.bool_)
        assert right, f"return the pair (token, accepted), an int and a bool; got {result!r}"
        as_int(result[0])


@pytest.mark.exercise("accept_or_resample")
def test_accept_or_resample_takes_its_chances_from_the_rng(impl):
    with no_chance_but_the_rngs():
        for seed in range(20):
            impl.accept_or_resample(P, Q, 3, Rng(seed))


@pytest.mark.exercise("accept_or_resample")
def test_accept_or_resample_has_output_distribution_p_when_every_outcome_is_followed(impl):
    actual = output_of_one_token(impl, P, Q)
    assert close(actual, P), f"{name_the_mistake(actual, P, Q)}. Comes out as {actual.tolist()}, p is {P.tolist()}"


@pytest.mark.exercise("accept_or_resample")
def test_output_distribution_equals_target_exactly(impl):
    # 4,000 draws, 4 cells: a right answer fails less than once in a million runs (see chernoff.py).
    n = 4_000
    guesses = torch.multinomial(Q, n, replacement=True, generator=torch.Generator().manual_seed(fresh(4))).tolist()
    rng = Rng(seed=fresh(4))
    drawn = Counter(impl.accept_or_resample(P, Q, guess, rng)[0] for guess in guesses)
    counts = [drawn[token] for token in range(4)]
    assert_sampled_from(counts, P.tolist(), name_the_mistake_in_sample(counts, P, Q))


@pytest.mark.exercise("accept_or_resample")
@pytest.mark.parametrize(("token", "keeps"), [(0, 1.0), (1, 1.0), (2, 0.5)])
def test_accept_or_resample_keeps_with_probability_p_over_q(impl, token, keeps):
    # p / q = 0.5/0.3, 0.3/0.3, 0.2/0.4: kept always, always, half of the time.
    p, q = vector(0.5, 0.3, 0.2), vector(0.3, 0.3, 0.4)
    outcome = decided(impl, p, q, token)
    assert_no_other_token_counts_as_kept(outcome, token)
    kept = outcome.get((token, True), 0)
    assert kept or (token, False) not in outcome, f"the drafted {token} came out and accepted is False: it was kept"
    assert kept == pytest.approx(keeps, abs=1e-6), (
        f"token {token}: p/q is {p[token] / q[token]:.3f}, so it is kept with probability {keeps}, not {kept:.3f}"
    )


@pytest.mark.exercise("accept_or_resample")
def test_accept_or_resample_turns_a_rejected_a_into_b(impl):
    # A is kept with 0.6/0.9 = 2/3, so 0.9 · 1/3 = 30 % are rejected, and all become B: 0.1 + 0.3 = 0.4.
    p, q = vector(0.6, 0.4), vector(0.9, 0.1)
    outcome = decided(impl, p, q, 0)
    assert_no_other_token_counts_as_kept(outcome, 0)
    assert outcome == {(0, True): pytest.approx(2 / 3), (1, False): pytest.approx(1 / 3)}, (
        f"a drafted A stays A with 2/3 and becomes B with 1/3; {{(token, accepted): probability}} is {outcome}"
    )
    assert close(output_of_one_token(impl, p, q), p), "B must come out with 0.1 + 0.9 · 1/3 = 0.4"


@pytest.mark.exercise("accept_or_resample")
def test_accept_or_resample_returns_the_drafted_token_when_it_is_kept(impl):
    p = vector(0.2, 0.8)
    try:
        outcome = decided(impl, p, p.clone(), 1)
    except ValueError as error:
        pytest.fail(f"p = q: p/q is 1 and the draft is always kept, but it was rejected ({error})")
    assert outcome == {(1, True): pytest.approx(1)}, (
        f"p = q: the draft is always kept, and the result is (draft_token, True); "
        f"{{(token, accepted): probability}} is {outcome}"
    )


@pytest.mark.exercise("accept_or_resample")
def test_accept_or_resample_reaches_tokens_the_draft_never_proposes(impl):
    p, q = vector(0.5, 0.5, 0.0), vector(0.5, 0.0, 0.5)
    assert close(output_of_one_token(impl, p, q), p), (
        "q is 0 where p is not: such a token comes from the residual alone"
    )


@pytest.mark.exercise("accept_or_resample")
def test_accept_or_resample_always_resamples_when_the_supports_are_disjoint(impl):
    p, q = vector(0.25, 0.75, 0, 0), vector(0, 0, 0.5, 0.5)
    actual = output_of_one_token(impl, p, q)
    assert close(actual, p), f"the target never says what the draft proposes: the output is p, not {actual.tolist()}"


@pytest.mark.exercise("accept_or_resample")
@pytest.mark.parametrize(
    ("p", "q", "token", "names"),
    [
        ((0.5, 0.6), (0.5, 0.5), 0, "target_probs"),
        ((0.5, 0.4), (0.5, 0.5), 0, "target_probs"),
        ((0.5, 0.5), (1.5, -0.5), 0, "draft_probs"),
        ((0.5, math.nan), (0.5, 0.5), 0, "target_probs"),
        ((0.5, 0.5), (0.2, 0.3, 0.5), 0, "target_probs|draft_probs"),
        ((0.5, 0.5), (1.0, 0.0), 1, "draft_token"),
    ],
    ids=["sum above 1", "sum below 1", "negative", "NaN", "two vocabularies", "a token that q cannot have drawn"],
)
def test_accept_or_resample_refuses_what_are_no_distributions(impl, p, q, token, names):
    assert_refuses(names, impl.accept_or_resample, vector(*p), vector(*q), token, ScriptedRng())


def test_the_mistakes_of_one_token_differ_from_p_and_from_each_other():
    from one_token import common_mistakes

    results = [P, *common_mistakes(P, Q).values()]
    for i, one in enumerate(results):
        assert close(one.sum(), 1.0) and not any(close(one, other, 0.01) for other in results[:i])
    assert close(residual_of(P, Q), [0, 2 / 3, 1 / 3, 0])
