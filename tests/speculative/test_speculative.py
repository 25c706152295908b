"""Grades `nanolm/speculative/`. Distributions are compared exactly, by following every outcome (enumeration.py)."""

import math
from itertools import product
from numbers import Integral

import pytest
import torch
from chernoff import assert_sampled_from
from enumeration import ScriptedRng, count_paths, exact_distribution
from fakes import DRAFT_TABLE, TARGET_TABLE, ScriptedDraft, TableDraft, TableReader, one_hot_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusal import assert_refuses

from course.grading.seeds import fresh
from nanolm.sampling import Rng

# p - q = (-0.1, 0.2, 0.1, -0.2): the residual keeps the positive part 0.3 as (0, 2/3, 1/3, 0), and
# α = 0.4 + 0.1 + 0.1 + 0.1 = 0.7. Two tokens in the residual: taking the largest instead of drawing would show.
P = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
Q = torch.tensor([0.5, 0.1, 0.1, 0.3], dtype=torch.float64)


def vector(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


def close(actual, expected, tolerance=1e-6):
    expected = torch.as_tensor(expected, dtype=torch.float64)
    return torch.allclose(torch.as_tensor(actual).double(), expected, rtol=0, atol=tolerance)


def distributions(size=4):
    weights = st.lists(st.integers(0, 20), min_size=size, max_size=size).filter(any)
    return weights.map(lambda w: torch.tensor(w, dtype=torch.float64) / sum(w))


# --- residual_distribution ---------------------------------------------------------------------------------------


@pytest.mark.exercise("residual_distribution")
def test_residual_distribution_is_the_positive_part_of_p_minus_q_scaled_to_one(impl):
    actual = impl.residual_distribution(P, Q)
    assert not close(actual, [0, 0.2, 0.1, 0], 1e-6), "not normalised: divide max(p - q, 0) by its sum"
    assert not close(actual, [1 / 3, 0, 0, 2 / 3], 1e-6), "p and q are swapped: the residual is what p has *beyond* q"
    assert close(actual, [0, 2 / 3, 1 / 3, 0]), f"expected (0, 2/3, 1/3, 0), got {actual.tolist()}"


@pytest.mark.exercise("residual_distribution")
def test_residual_zeroes_tokens_the_draft_overrated(impl):
    residual = impl.residual_distribution(P, Q)
    overrated = [token for token in (0, 3) if residual[token] != 0]
    assert not overrated, (
        f"tokens {overrated} have q > p and residual {residual[overrated].tolist()}: the draft proposes them too often "
        "already, so a rejection must never lead back to them (clamp p - q at 0)"
    )


@pytest.mark.exercise("residual_distribution")
def test_residual_distribution_with_one_token_left_is_certain(impl):
    # p - q = (-0.3, 0.3): only the second token is left.
    actual = impl.residual_distribution(vector(0.6, 0.4), vector(0.9, 0.1))
    assert close(actual, [0, 1]), f"p - q is (-0.3, 0.3), so all of the residual is on token 1; got {actual.tolist()}"


@pytest.mark.exercise("residual_distribution")
def test_residual_distribution_of_disjoint_supports_is_the_target(impl):
    actual = impl.residual_distribution(vector(0.25, 0.75, 0, 0), vector(0, 0, 0.5, 0.5))
    assert close(actual, [0.25, 0.75, 0, 0]), (
        f"nothing in common: what p has beyond q is p itself, not {actual.tolist()}"
    )


@pytest.mark.exercise("residual_distribution")
def test_residual_distribution_of_equal_distributions_is_an_error_not_a_nan(impl):
    try:
        residual = impl.residual_distribution(P, P.clone())
    except ValueError:
        return
    pytest.fail(f"p = q leaves nothing over: raise a ValueError, do not return {residual.tolist()} (0 / 0)")


@pytest.mark.exercise("residual_distribution")
@settings(
    max_examples=200, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(distributions(), distributions())
def test_residual_distribution_completes_what_was_accepted_to_p(impl, p, q):
    kept = torch.minimum(p, q)
    if (1 - kept.sum()).abs() < 1e-12:
        return  # p = q: nothing is ever rejected
    total = kept + (1 - kept.sum()) * impl.residual_distribution(p, q)
    assert close(total, p), f"min(p, q) + (1 - Σ min) · residual is {total.tolist()}, not p = {p.tolist()}"


# --- accept_or_resample ------------------------------------------------------------------------------------------


def as_int(token):
    is_int = isinstance(token, Integral) and not isinstance(token, bool)
    assert is_int, f"the token is {token!r}, a {type(token).__name__}: return an int"
    return int(token)


def assert_no_other_token_counts_as_kept(outcome, drafted):
    """Of {(token, accepted): probability}."""
    for token, accepted in outcome:
        assert token == drafted or not accepted, (
            f"{drafted} was drafted and {token} came out: the token was replaced, but accepted is True"
        )


def output_of_one_token(impl, p, q):
    """The exact distribution of the token that comes out when the draft draws from q."""

    def run(rng):
        return as_int(impl.accept_or_resample(p, q, rng.categorical(q), rng)[0])

    outcome = exact_distribution(run)
    return vector(*(outcome.get(token, 0.0) for token in range(len(p))))


def name_the_mistake(actual, p, q):
    """What the output would be under each common mistake: a match names it."""
    kept = torch.minimum(p, q)
    residual = (p - q).clamp(min=0) / (p - q).clamp(min=0).sum()
    kept_inverted = q * (q / p).clamp(max=1)
    suspects = {
        "every draft is kept: compare p(x)/q(x) with a random number": q,
        "on rejection it draws from p: draw from the residual, or tokens kept already are counted twice": kept
        + (1 - kept.sum()) * p,
        "the ratio is upside down: keep with probability min(1, p(x)/q(x))": kept_inverted
        + (1 - kept_inverted.sum()) * residual,
        "on rejection it takes the residual's largest token: draw from it": kept
        + (1 - kept.sum()) * torch.nn.functional.one_hot(residual.argmax(), len(p)),
        "on rejection it draws from q again: draw from the residual": kept + (1 - kept.sum()) * q,
    }
    for mistake, result in suspects.items():
        if close(actual, result, 1e-6):
            return mistake
    return "the accepted and the resampled mass do not add up to p"


@pytest.mark.exercise("accept_or_resample")
def test_accept_or_resample_returns_a_token_and_whether_it_was_kept(impl):
    result = impl.accept_or_resample(P, P.clone(), 1, ScriptedRng())
    right = isinstance(result, tuple) and len(result) == 2 and not isinstance(result[0], bool)
    assert right and isinstance(result[1], bool), (
        f"return the pair (token, accepted), as (1, True) here; got {result!r}"
    )


@pytest.mark.exercise("accept_or_resample")
def test_accept_or_resample_takes_its_chances_from_the_rng(impl):
    rng = ScriptedRng()
    impl.accept_or_resample(P, Q, 3, rng)
    # p/q is 1/3 here: the scripted rng says no to bernoulli, and then one draw from the residual follows.
    asked = len(rng.taken)
    assert asked == 2, (
        "p/q is 1/3 here and the rng says no: rng.bernoulli(p/q), then rng.categorical(residual), two questions. "
        f"This answer asked {asked}: is the ratio upside down, or the randomness not from `rng` (torch.rand)?"
    )


@pytest.mark.exercise("accept_or_resample")
def test_accept_or_resample_has_output_distribution_p_when_every_outcome_is_followed(impl):
    actual = output_of_one_token(impl, P, Q)
    assert close(actual, P), f"{name_the_mistake(actual, P, Q)}. Comes out as {actual.tolist()}, p is {P.tolist()}"


@pytest.mark.exercise("accept_or_resample")
def test_output_distribution_equals_target_exactly(impl):
    # 20,000 draws, 4 cells: a right answer fails less than once in a million runs (see chernoff.py).
    rng, n = Rng(seed=fresh(4)), 20_000
    guesses = torch.multinomial(Q, n, replacement=True, generator=torch.Generator().manual_seed(fresh(4))).tolist()
    counts = [0] * 4
    for guess in guesses:
        counts[impl.accept_or_resample(P, Q, guess, rng)[0]] += 1
    assert_sampled_from(counts, P.tolist(), name_the_mistake_in_sample(counts))


def name_the_mistake_in_sample(counts):
    share = vector(*counts) / sum(counts)
    kept = torch.minimum(P, Q)
    if close(share, Q, 0.01):
        return "the output follows the draft, not the target"
    return (
        "on rejection it draws from p, not from the residual"
        if close(share, kept + 0.3 * P, 0.01)
        else "the output is not distributed as the target"
    )


@pytest.mark.exercise("accept_or_resample")
@pytest.mark.parametrize(("token", "keeps"), [(0, 1.0), (1, 1.0), (2, 0.5)])
def test_accept_or_resample_keeps_with_probability_p_over_q(impl, token, keeps):
    # p / q = 0.5/0.3, 0.3/0.3, 0.2/0.4: kept always, always, half of the time.
    p, q = vector(0.5, 0.3, 0.2), vector(0.3, 0.3, 0.4)
    outcome = exact_distribution(lambda rng: tuple(impl.accept_or_resample(p, q, token, rng)))
    assert_no_other_token_counts_as_kept(outcome, token)
    assert outcome.get((token, True), 0) == pytest.approx(keeps, abs=1e-6), (
        f"token {token}: p/q is {p[token] / q[token]:.3f}, so it is kept with probability {keeps}"
    )


@pytest.mark.exercise("accept_or_resample")
def test_accept_or_resample_turns_a_rejected_a_into_b(impl):
    # A is kept with 0.6/0.9 = 2/3, so 0.9 · 1/3 = 30 % are rejected, and all become B: 0.1 + 0.3 = 0.4.
    p, q = vector(0.6, 0.4), vector(0.9, 0.1)
    outcome = exact_distribution(lambda rng: tuple(impl.accept_or_resample(p, q, 0, rng)))
    assert_no_other_token_counts_as_kept(outcome, 0)
    assert outcome == {(0, True): pytest.approx(2 / 3), (1, False): pytest.approx(1 / 3)}, (
        f"a drafted A stays A with 2/3 and becomes B with 1/3; {{(token, accepted): probability}} is {outcome}"
    )
    assert close(output_of_one_token(impl, p, q), p), "B must come out with 0.1 + 0.9 · 1/3 = 0.4"


@pytest.mark.exercise("accept_or_resample")
def test_accept_or_resample_returns_the_drafted_token_when_it_is_kept(impl):
    p = vector(0.2, 0.8)
    assert tuple(impl.accept_or_resample(p, p.clone(), 1, ScriptedRng())) == (1, True), (
        "p = q: the draft is always kept, and the result is (draft_token, True)"
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
        ((0.5, 0.5), (1.5, -0.5), 0, "draft_probs"),
        ((0.5, math.nan), (0.5, 0.5), 0, "target_probs"),
        ((0.5, 0.5), (0.2, 0.3, 0.5), 0, "target_probs|draft_probs"),
        ((0.5, 0.5), (1.0, 0.0), 1, "draft_token"),
    ],
    ids=["sum above 1", "negative", "NaN", "two vocabularies", "a token that q cannot have drawn"],
)
def test_accept_or_resample_refuses_what_are_no_distributions(impl, p, q, token, names):
    assert_refuses(names, impl.accept_or_resample, vector(*p), vector(*q), token, ScriptedRng())


# --- the arithmetic ----------------------------------------------------------------------------------------------


@pytest.mark.exercise("acceptance_rate")
@pytest.mark.parametrize(
    ("p", "q", "alpha"),
    [
        ((0.4, 0.3, 0.2, 0.1), (0.5, 0.1, 0.1, 0.3), 0.7),  # 0.4 + 0.1 + 0.1 + 0.1
        ((0.5, 0.3, 0.2), (0.3, 0.3, 0.4), 0.8),  # 0.3 + 0.3 + 0.2
        ((0.2, 0.8), (0.2, 0.8), 1.0),
        ((1.0, 0.0), (0.0, 1.0), 0.0),
        ((0.5, 0.5, 0.0), (0.25, 0.75, 0.0), 0.75),  # a token that neither says adds 0, and no 0/0
    ],
)
def test_acceptance_rate_is_the_sum_of_the_smaller_probabilities(impl, p, q, alpha):
    actual = impl.acceptance_rate(vector(*p), vector(*q))
    assert float(actual) == pytest.approx(alpha, abs=1e-6), "α = Σ min(p, q): the mass both distributions share"


@pytest.mark.exercise("acceptance_rate")
def test_acceptance_rate_of_rows_is_one_number_a_row(impl):
    rows = impl.acceptance_rate(torch.stack([P, P]), torch.stack([Q, P]))
    assert rows.shape == (2,), (
        f"two rows of 4 tokens give 2 rates, not shape {tuple(rows.shape)}: sum over the last dimension"
    )
    assert close(rows, [0.7, 1.0]), f"the rows share 0.7 and 1.0 of their mass, not {rows.tolist()}"


@pytest.mark.exercise("expected_tokens_per_round")
@pytest.mark.parametrize(
    ("alpha", "gamma", "tokens"),
    [
        (0.8, 4, 3.3616),  # 1 + 0.8 + 0.64 + 0.512 + 0.4096
        (0.84, 4, 3.63618),  # (1 - 0.84^5) / 0.16 = 0.581788 / 0.16
        (0.5, 1, 1.5),
        (0.0, 4, 1.0),
        (0.7, 0, 1.0),
        (1.0, 4, 5.0),
    ],
)
def test_expected_tokens_per_round_is_the_sum_of_powers_of_alpha(impl, alpha, gamma, tokens):
    actual = impl.expected_tokens_per_round(alpha, gamma)
    assert actual != pytest.approx(tokens - 1), "the bonus or resampled token is missing: the sum starts at α⁰ = 1"
    assert actual == pytest.approx(tokens, abs=5e-5), f"1 + α + … + α^γ is {tokens} at α = {alpha}, γ = {gamma}"


@pytest.mark.exercise("expected_tokens_per_round")
@pytest.mark.parametrize(("alpha", "gamma", "names"), [(1.2, 4, "alpha"), (-0.1, 4, "alpha"), (0.5, -1, "gamma")])
def test_expected_tokens_per_round_refuses_impossible_arguments(impl, alpha, gamma, names):
    assert_refuses(names, impl.expected_tokens_per_round, alpha, gamma)


@pytest.mark.exercise("speculative_speedup")
@pytest.mark.parametrize(
    ("alpha", "gamma", "cost", "speedup"),
    [
        (0.8, 4, 0.05, 2.8013),  # 3.3616 / 1.2
        (0.5, 4, 0.05, 1.6146),  # 1.9375 / 1.2
        (0.6, 4, 0.05, 1.9213),  # 2.30560 / 1.2
        (1.0, 4, 0.0, 5.0),
        (0.3, 4, 0.5, 0.4750),  # 1.42510 / 3: a loss
        (0.9, 0, 0.5, 1.0),
    ],
)
def test_speculative_speedup_is_tokens_over_the_time_of_a_round(impl, alpha, gamma, cost, speedup):
    assert impl.speculative_speedup(alpha, gamma, cost) == pytest.approx(speedup, abs=1e-4), (
        "a round takes one target pass and γ draft passes: 1 + γ · draft_cost"
    )


@pytest.mark.exercise("speculative_speedup")
def test_speculative_speedup_refuses_a_negative_cost(impl):
    assert_refuses("draft_cost", impl.speculative_speedup, 0.5, 4, -0.1)


@pytest.mark.exercise("speculative_speedup")
def test_speculative_speedup_refuses_a_cost_that_is_no_number(impl):
    # NaN is neither below 0 nor above: `draft_cost < 0` lets it through.
    assert_refuses("draft_cost", impl.speculative_speedup, 0.5, 4, math.nan)


@pytest.mark.exercise("best_gamma")
@pytest.mark.parametrize(
    ("alpha", "gamma", "speedup"), [(0.6, 4, 1.92), (0.8, 8, 3.09), (0.9, 13, 4.67)]
)  # the largest of (1 - α^(γ+1)) / ((1 - α)(1 + 0.05 γ)) over whole γ
def test_best_gamma_grows_with_the_acceptance_rate(impl, alpha, gamma, speedup):
    best = impl.best_gamma(alpha, 0.05)
    assert best == gamma, (
        f"at α = {alpha} and c = 0.05 the speed-up is largest at γ = {gamma} ({speedup}), not at {best}"
    )
    tokens = (1 - alpha ** (gamma + 1)) / (1 - alpha)
    assert tokens / (1 + 0.05 * gamma) == pytest.approx(speedup, abs=0.005)


@pytest.mark.exercise("best_gamma")
def test_best_gamma_tries_max_gamma_too(impl):
    assert impl.best_gamma(0.95, 0.0, 5) == 5, (
        "a free draft should draft as far as allowed: max_gamma itself is allowed"
    )


@pytest.mark.exercise("best_gamma")
def test_best_gamma_takes_the_smallest_among_equals(impl):
    # α = 1 and c = 1: γ + 1 tokens in 1 + γ passes, a speed-up of 1 whatever γ is.
    assert impl.best_gamma(1.0, 1.0) == 0, "all γ are equally fast here: the smallest, 0, is the answer"


@pytest.mark.exercise("best_gamma")
def test_best_gamma_is_zero_when_speculation_cannot_pay(impl):
    # α = 0.2, a draft at half the target's time: γ = 1 gives 1.2 tokens for 1.5 passes.
    assert impl.best_gamma(0.2, 0.5) == 0, "every γ ≥ 1 is slower than plain decoding here: try γ = 0 too"


# --- verify_draft ------------------------------------------------------------------------------------------------

CERTAIN = torch.eye(4, dtype=torch.float64)


@pytest.mark.exercise("verify_draft")
def test_verify_draft_adds_a_bonus_token_when_all_are_kept(impl):
    # The target is certain of 1, then 2, then 3. The draft was certain of 1, and drew 2 where 0 was as likely.
    draft = torch.stack([CERTAIN[1], (CERTAIN[0] + CERTAIN[2]) / 2])
    new = list(impl.verify_draft(CERTAIN[[1, 2, 3]], draft, [1, 2], ScriptedRng()))
    assert new != [1, 2], "no bonus token: the target's last row is one more distribution, already paid for"
    assert new != [1, 1], "the second drafted token was held against row 0 of target_probs: drafted[i] goes with row i"
    row = {1: "row 0 of target_probs", 2: "row 1 of target_probs", 0: "the draft's last row"}
    assert new[:2] != [1, 2] or len(new) != 3 or new[2] == 3, (
        f"both were kept, and the bonus token was drawn from {row[new[2]]}: it comes from the target's last row, "
        f"target_probs[len(drafted)]. Expected [1, 2, 3], got {new}"
    )
    assert new == [1, 2, 3], f"the drafted 1 and 2 are kept for certain, and 3 is the bonus; got {new}"


@pytest.mark.exercise("verify_draft")
def test_verify_draft_draws_the_bonus_from_the_target(impl):
    target = torch.stack([CERTAIN[1], P])
    new = exact_distribution(lambda rng: tuple(impl.verify_draft(target, CERTAIN[[1]], [1], rng))[-1])
    actual = vector(*(new.get(token, 0.0) for token in range(4)))
    assert close(actual, P), (
        f"the bonus comes from the target's last row, p = {P.tolist()}; here it is {actual.tolist()}"
    )


@pytest.mark.exercise("verify_draft")
def test_verify_draft_stops_at_the_first_rejection(impl):
    # The target is certain of 0 where the draft proposed 1: rejected, 0 comes out, and the token behind it goes.
    new = impl.verify_draft(CERTAIN[[0, 2, 3]], CERTAIN[[1, 2]], [1, 2], ScriptedRng())
    assert list(new) != [], (
        "the drafted token was rejected, and the token that came instead is missing: it belongs to the result"
    )
    assert list(new[:1]) != [0] or len(new) == 1, (
        f"after a rejection the later drafted tokens continue another text; got {list(new)}, expected [0]"
    )
    assert list(new) == [0], f"the drafted 1 is rejected, and 0 comes in its place; got {list(new)}"


@pytest.mark.exercise("verify_draft")
def test_verify_draft_has_output_distribution_p_at_its_first_token(impl):
    # The draft draws from Q; whatever is decided then, the first token of a round is distributed as P.
    target = torch.stack([P, P])

    def run(rng):
        return impl.verify_draft(target, Q[None], [rng.categorical(Q)], rng)[0]

    new = exact_distribution(run)
    actual = vector(*(new.get(token, 0.0) for token in range(4)))
    assert close(actual, P, 1e-6), (
        f"{name_the_mistake(actual, P, Q)}. Comes out as {actual.tolist()}, p is {P.tolist()}"
    )


@pytest.mark.exercise("verify_draft")
def test_verify_draft_enumerated_has_the_joint_distribution_of_the_target(impl):
    def run(rng):
        drafted = [rng.categorical(DRAFT_TABLE[0])]
        drafted += [rng.categorical(DRAFT_TABLE[drafted[0]])]
        draft = DRAFT_TABLE[[0, drafted[0]]]
        new = list(impl.verify_draft(TARGET_TABLE[[0, *drafted]], draft, drafted, rng))
        while len(new) < 3:  # a rejection ended the round; the target writes on alone
            new.append(rng.categorical(TARGET_TABLE[new[-1]]))
        return tuple(new)

    actual = exact_distribution(run)
    for text in product(range(4), repeat=3):
        expected = math.prod(
            TARGET_TABLE[before, token].item() for before, token in zip((0, *text[:2]), text, strict=True)
        )
        assert abs(actual.get(text, 0.0) - expected) < 1e-6, (
            f"two drafted tokens, every outcome followed: text {text} comes out with probability "
            f"{actual.get(text, 0.0):.6f}, the target alone writes it with {expected:.6f}"
        )


@pytest.mark.exercise("verify_draft")
def test_verify_draft_without_guesses_draws_one_token_from_the_target(impl):
    empty = torch.empty(0, 4, dtype=torch.float64)
    new = exact_distribution(lambda rng: tuple(impl.verify_draft(P[None], empty, [], rng)))
    expected = {(token,): pytest.approx(P[token].item()) for token in range(4)}
    assert new == expected, f"no draft: one token, drawn from target_probs[0]; {{tokens: probability}} is {new}"


@pytest.mark.exercise("verify_draft")
def test_verify_draft_uses_each_guess_with_its_own_row(impl):
    # A drafted 0 under equal rows is always kept; a drafted 3 has p/q = 0.1/0.3 and is kept a third of the time.
    target, draft = torch.stack([P, P, CERTAIN[0]]), torch.stack([P, Q])
    new = exact_distribution(lambda rng: len(impl.verify_draft(target, draft, [0, 3], rng)))
    assert new == {2: pytest.approx(2 / 3), 3: pytest.approx(1 / 3)}, (
        "token i belongs to row i of both: the second is rejected with 2/3 (2 new tokens) and kept with 1/3 (3 with "
        f"the bonus); {{new tokens: probability}} is {new}"
    )


# --- speculative_round -------------------------------------------------------------------------------------------


@pytest.mark.exercise("speculative_round")
def test_speculative_round_reads_the_target_once(impl):
    target = TableReader()
    impl.speculative_round(target, TableDraft(), [0], 3, ScriptedRng())
    assert target.passes == 1, f"the target ran {target.passes} passes; all drafted tokens are checked in one"


@pytest.mark.exercise("speculative_round")
def test_speculative_round_truncates_the_target_after_a_rejection(impl):
    # After 0 the target is certain of 1, the draft proposes 2, 2: rejected at once, 1 comes out.
    target = TableReader(one_hot_rows(1, 2, 3, 0))
    done = impl.speculative_round(target, ScriptedDraft([2, 2]), [3, 0], 2, ScriptedRng())
    assert done.tokens == [1], f"the drafted 2 is rejected and 1 comes in its place; got {done.tokens}"
    assert len(target.read) >= 2, f"too much forgotten: the text [3, 0] has been read, and only {target.read} was kept"
    assert target.read[:2] == [3, 0], (
        f"the target skipped a part of the text: it has read {target.read}, and the text begins [3, 0]; feed "
        "text[target.length:] + drafted"
    )
    assert target.read == [3, 0], (
        f"stale cache: the target still holds {target.read[2:]} after the text [3, 0], so it goes on from a token that "
        "was rejected; truncate to len(text) + len(new) - 1"
    )


@pytest.mark.exercise("speculative_round")
def test_speculative_round_truncates_the_draft_after_a_rejection(impl):
    draft = TableDraft(one_hot_rows(2, 2, 2, 2))
    impl.speculative_round(TableReader(one_hot_rows(1, 2, 3, 0)), draft, [3, 0], 3, ScriptedRng())
    assert len(draft.read) >= 2, f"too much forgotten: the draft has read [3, 0], and only {draft.read} was kept"
    assert draft.read == [3, 0], f"stale cache in the draft: it still holds {draft.read[2:]}, which were rejected"


@pytest.mark.exercise("speculative_round")
def test_speculative_round_keeps_what_both_have_read_when_all_is_kept(impl):
    cycle = one_hot_rows(1, 2, 3, 0)
    target, draft = TableReader(cycle), TableDraft(cycle)
    done = impl.speculative_round(target, draft, [0], 2, ScriptedRng())
    assert done.tokens == [1, 2, 3], f"the drafted 1, 2 are right and 3 is the bonus; got {done.tokens}"
    assert target.read == [0, 1, 2], (
        "all drafted tokens were kept, and nobody has read the bonus token: keep the text and both of them"
    )
    assert draft.read == [0, 1], "the draft has not read its own last token; keep what it has read"


@pytest.mark.exercise("speculative_round")
def test_speculative_round_goes_on_from_where_the_last_one_stopped(impl):
    cycle = one_hot_rows(1, 2, 3, 0)
    target, draft, text = TableReader(cycle), TableDraft(cycle), [0]
    for _ in range(3):
        text += impl.speculative_round(target, draft, text, 2, ScriptedRng()).tokens
    assert text == [i % 4 for i in range(10)], f"0, 1, 2, 3 in turn was expected, three rounds gave {text}"
    assert target.read == text[:-1], "between rounds the target has read all but the last token"


@pytest.mark.exercise("speculative_round")
def test_speculative_round_with_gamma_zero_is_one_step_of_plain_decoding(impl):
    new = exact_distribution(
        lambda rng: tuple(impl.speculative_round(TableReader(), TableDraft(), [3, 1], 0, rng).tokens)
    )
    expected = {(token,): pytest.approx(TARGET_TABLE[1, token].item()) for token in range(4)}
    assert new == expected, f"γ = 0: one token from the target's distribution after the text; it gave {new}"


@pytest.mark.exercise("speculative_round")
def test_speculative_round_takes_a_draft_that_guesses_less_than_gamma(impl):
    done = impl.speculative_round(TableReader(one_hot_rows(1, 2, 3, 0)), ScriptedDraft([1]), [0], 3, ScriptedRng())
    assert done.tokens == [1, 2], (
        f"one token drafted although γ = 3: 1 is kept, the bonus 2, got {done.tokens}. Ask for a row for each one made "
        "(and one), not for γ + 1"
    )


@pytest.mark.exercise("speculative_round")
def test_speculative_round_reports_what_was_drafted(impl):
    done = impl.speculative_round(TableReader(one_hot_rows(1, 2, 3, 0)), ScriptedDraft([2, 2]), [0], 2, ScriptedRng())
    assert list(done.drafted) == [2, 2], "Round(drafted, tokens): what was drafted comes first"


@pytest.mark.exercise("speculative_round")
def test_speculative_round_refuses_a_negative_gamma(impl):
    assert_refuses("gamma", impl.speculative_round, TableReader(), TableDraft(), [0], -1, ScriptedRng())


# --- speculative_generate ----------------------------------------------------------------------------------------


def exact_texts(impl, n, gamma, start=0):
    return lambda rng: tuple(impl.speculative_generate(TableReader(), TableDraft(), [start], n, gamma, rng)[0])


@pytest.mark.exercise("speculative_generate")
@pytest.mark.parametrize(("n", "gamma"), [(2, 1), (3, 1), (3, 2)])
def test_speculative_generate_enumerated_has_the_joint_distribution_of_the_target(impl, n, gamma):
    actual = exact_distribution(exact_texts(impl, n, gamma))
    lengths = {len(text) for text in actual}
    assert lengths == {n}, (
        f"{n} new tokens were asked for, without the prompt; texts of {sorted(lengths)} tokens came out"
    )
    for text in product(range(4), repeat=n):
        expected = math.prod(
            TARGET_TABLE[before, token].item() for before, token in zip((0, *text), text, strict=False)
        )
        assert abs(actual.get(text, 0.0) - expected) < 1e-6, (
            f"text {text} comes out with probability {actual.get(text, 0.0):.6f}, the target alone writes it with "
            f"{expected:.6f}: look at the caches after a rejection, and at where the last token of a round comes from"
        )
    assert sum(actual.values()) == pytest.approx(1.0, abs=1e-6), "texts of another length came out too"


@pytest.mark.exercise("speculative_generate")
@pytest.mark.parametrize(("n", "gamma", "passes"), [(12, 3, 3), (13, 3, 4), (5, 4, 1), (7, 0, 7), (1, 5, 1)])
def test_speculative_generate_with_draft_equal_to_target_needs_n_over_gamma_plus_one_passes(impl, n, gamma, passes):
    target = TableReader()
    tokens, stats = impl.speculative_generate(target, TableDraft(TARGET_TABLE), [0], n, gamma, Rng(seed=1))
    assert len(tokens) == n, f"asked for {n} tokens, got {len(tokens)}"
    assert target.passes == passes, (
        f"draft = target keeps every token, so {n} tokens at γ = {gamma} take ⌈{n}/({gamma}+1)⌉ = {passes} passes, not "
        f"{target.passes}: is the bonus token missing?"
    )
    assert stats.target_forwards == passes, "call stats.count once a round"


@pytest.mark.exercise("speculative_generate")
def test_speculative_generate_writes_exactly_max_new_tokens(impl):
    for n in range(8):
        tokens, _ = impl.speculative_generate(TableReader(), TableDraft(TARGET_TABLE), [0], n, 3, Rng(seed=n))
        assert len(tokens) == n, f"asked for {n} tokens, got {len(tokens)}: the last round may overshoot"


class OneRound(TableDraft):
    """A draft whose first four tokens have an end token, 2, among them, so that it is asked once."""

    n_rounds = 0

    def propose(self, text, gamma, rng):
        self.n_rounds += 1
        assert self.n_rounds == 1, (
            "it went on behind an end token: 2 ends the text and is its last token, though it stands in the middle of "
            f"the first round; another round began, after {text}"
        )
        return super().propose(text, gamma, rng)


@pytest.mark.exercise("speculative_generate")
def test_speculative_generate_ends_at_an_end_token_inside_the_draft(impl):
    cycle = one_hot_rows(1, 2, 3, 0)
    tokens, stats = impl.speculative_generate(TableReader(cycle), OneRound(cycle), [0], 12, 4, Rng(1), end_tokens=[2])
    assert tokens == [1, 2], f"2 ends the text and is its last token: cut the rest of its round off; got {tokens}"
    assert stats.target_forwards > 0, (
        "one round was run and none is counted: the round that ends the text is counted too, so call stats.count "
        "before you stop"
    )
    assert stats.new_tokens == 2, "only what goes into the text counts as written: stats.count(done, len(new))"


@pytest.mark.exercise("speculative_generate")
def test_speculative_generate_goes_on_behind_an_end_token_of_the_prompt(impl):
    # 2 stands in the prompt; 0, 1 and then another 2 are written, in two rounds.
    cycle = one_hot_rows(1, 2, 3, 0)
    tokens, _ = impl.speculative_generate(TableReader(cycle), TableDraft(cycle), [2, 3], 12, 1, Rng(1), end_tokens=[2])
    assert tokens == [0, 1, 2], (
        f"the prompt [2, 3] has an end token, 2, and that ends nothing: only one that was written does. Expected "
        f"[0, 1, 2], got {tokens}"
    )


@pytest.mark.exercise("speculative_generate")
def test_speculative_generate_with_certain_models_is_greedy_decoding(impl):
    # Temperature 0 makes every distribution certain. The draft is wrong after 1 and after 3.
    target, draft = TableReader(one_hot_rows(1, 2, 3, 0)), TableDraft(one_hot_rows(1, 0, 3, 2))
    tokens, _ = impl.speculative_generate(target, draft, [0], 11, 3, Rng(seed=0))
    assert tokens == [(i + 1) % 4 for i in range(11)], "a wrong draft may cost time, never change the text"


@pytest.mark.exercise("speculative_generate")
def test_speculative_generate_hands_every_round_to_on_round(impl):
    cycle, seen = one_hot_rows(1, 2, 3, 0), []
    impl.speculative_generate(TableReader(cycle), TableDraft(cycle), [0], 6, 2, Rng(1), on_round=seen.append)
    assert [done.tokens for done in seen] == [[1, 2, 3], [0, 1, 2]], "call on_round once a round, if it is given"


@pytest.mark.exercise("speculative_generate")
def test_speculative_generate_counts_what_it_did(impl):
    # Round 1: drafted 2, 2 against 1: rejected. Round 2, after 1: drafted 2 kept, drafted 2 against 3 rejected.
    target = TableReader(one_hot_rows(1, 2, 3, 0))
    tokens, stats = impl.speculative_generate(target, ScriptedDraft([2, 2]), [0], 3, 2, Rng(seed=0))
    assert tokens == [1, 2, 3]
    counts = (stats.target_forwards, stats.examined, stats.accepted, stats.new_tokens)
    assert counts == (2, 2, 1, 3), f"2 passes, 2 drafted tokens examined, 1 kept, 3 tokens written; counted {counts}"


@pytest.mark.exercise("speculative_generate")
@pytest.mark.parametrize(
    ("prompt", "n", "gamma", "names"), [([], 3, 2, "prompt"), ([0], -1, 2, "max_new_tokens"), ([0], 3, -1, "gamma")]
)
def test_speculative_generate_refuses_an_impossible_request(impl, prompt, n, gamma, names):
    assert_refuses(names, impl.speculative_generate, TableReader(), TableDraft(), prompt, n, gamma, Rng(seed=0))


# --- the reference alone -----------------------------------------------------------------------------------------


def test_enumeration_follows_every_path_once():
    from nanolm import speculative

    same_p, same_q = P.repeat(4, 1), Q.repeat(4, 1)

    def run(rng):
        return tuple(speculative.speculative_generate(TableReader(same_p), TableDraft(same_q), [0], 2, 1, rng)[0])

    # A drafted 0 or 3 (p < q): kept, then 4 bonus tokens; or not, then 2 residual tokens with 4 tokens of plain
    # decoding behind each: 12 paths. A drafted 1 or 2 (p > q): kept for certain, 4 bonus tokens. 2·12 + 2·4 = 32.
    assert count_paths(run) == 32
    assert sum(exact_distribution(run).values()) == pytest.approx(1.0, abs=1e-6)


def test_baseline_generate_has_the_joint_distribution_of_the_target():
    from nanolm.speculative import baseline_generate

    actual = exact_distribution(lambda rng: tuple(baseline_generate(TableReader(), [0], 2, rng)[0]))
    for text in product(range(4), repeat=2):
        expected = (TARGET_TABLE[0, text[0]] * TARGET_TABLE[text[0], text[1]]).item()
        assert actual.get(text, 0.0) == pytest.approx(expected, abs=1e-6)


def test_baseline_generate_stops_at_the_end_token():
    from nanolm.speculative import baseline_generate

    tokens, stats = baseline_generate(TableReader(one_hot_rows(1, 2, 3, 0)), [0], 9, Rng(seed=0), end_tokens=[3])
    assert tokens == [1, 2, 3] and stats.target_forwards == 3


def test_stats_of_nothing_are_nan_not_an_error():
    from nanolm.speculative import SpecDecodeStats

    assert math.isnan(SpecDecodeStats().acceptance_rate) and math.isnan(SpecDecodeStats().tokens_per_target_forward)


def test_the_measured_acceptance_rate_estimates_alpha():
    from nanolm.speculative import speculative_generate

    # One row for every context, so α is 0.7 everywhere. About 4,000 examined tokens: 0.05 is 6.9 standard
    # deviations (√(0.21/4000) = 0.0072), a false alarm below 1e-10; the seed is fixed.
    same_p, same_q = P.repeat(4, 1), Q.repeat(4, 1)
    _, stats = speculative_generate(TableReader(same_p), TableDraft(same_q), [0], 5000, 3, Rng(seed=3))
    assert stats.examined > 3000
    assert stats.acceptance_rate == pytest.approx(0.7, abs=0.05)
    assert stats.tokens_per_target_forward == pytest.approx(2.533, abs=0.1)  # 1 + 0.7 + 0.49 + 0.343


def test_draft_table_has_a_zero_where_the_target_has_none():
    assert DRAFT_TABLE[3, 0] == 0 and TARGET_TABLE[3, 0] > 0  # the case is covered by the enumerations above
