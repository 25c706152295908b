"""Grades `speculative/speedup.py`: values derived by hand, and for each value what common mistakes would give."""

import math

import pytest
from naming import named
from refusal import assert_refuses

# --- expected_tokens_per_round -----------------------------------------------------------------------------------


def powers(alpha, first, last):
    return math.fsum(alpha**i for i in range(first, last + 1))


def token_mistakes(alpha, gamma):
    return {
        "the bonus or resampled token is missing: the sum starts at α⁰ = 1": powers(alpha, 1, gamma),
        "the last drafted token is missing: the sum ends with α^γ, so it has γ + 1 terms": powers(alpha, 0, gamma - 1),
        "one drafted token too many: the sum ends with α^γ": powers(alpha, 0, gamma + 1),
        "1 + γ·α takes each drafted token as kept whatever became of those before it: token i is kept with αⁱ": (
            1 + gamma * alpha
        ),
        "1 + α^γ counts the drafted tokens only where all are kept: token i is kept with αⁱ": 1 + alpha**gamma,
        "γ is ignored: 1/(1 - α) is what endless rounds would give": 1 / (1 - alpha) if alpha < 1 else math.inf,
    }


@pytest.mark.exercise("expected_tokens_per_round")
@pytest.mark.parametrize(
    ("alpha", "gamma", "tokens"),
    [
        (0.8, 4, 3.3616),  # 1 + 0.8 + 0.64 + 0.512 + 0.4096
        (0.84, 4, 3.63618),  # (1 - 0.84^5) / 0.16 = 0.581788 / 0.16
        (0.5, 1, 1.5),
        (0.0, 4, 1.0),
        (0.7, 0, 1.0),
    ],
)
def test_expected_tokens_per_round_is_the_sum_of_powers_of_alpha(impl, alpha, gamma, tokens):
    actual = impl.expected_tokens_per_round(alpha, gamma)
    otherwise = f"1 + α + … + α^γ is {tokens} at α = {alpha}, γ = {gamma}, not {actual}"
    assert actual == pytest.approx(tokens, abs=5e-5), named(actual, token_mistakes(alpha, gamma), otherwise)


@pytest.mark.exercise("expected_tokens_per_round")
@pytest.mark.parametrize("gamma", [0, 1, 4])
def test_expected_tokens_per_round_of_a_perfect_draft_is_gamma_plus_one(impl, gamma):
    try:
        actual = impl.expected_tokens_per_round(1.0, gamma)
    except ZeroDivisionError:
        actual, problem = None, "a division by 0"
    except ValueError as error:
        actual, problem = None, f"a ValueError ({error})"
    assert actual is not None, (
        f"α = 1, a perfect draft, is allowed and gave {problem}: (1 - α^(γ+1)) / (1 - α) does not hold there, and all "
        "γ + 1 terms of the sum are 1"
    )
    otherwise = f"at α = 1 all {gamma} drafted tokens are kept, and one more comes: {gamma + 1}, not {actual}"
    assert actual == gamma + 1, named(actual, token_mistakes(1.0, gamma), otherwise)


@pytest.mark.exercise("expected_tokens_per_round")
@pytest.mark.parametrize(
    ("alpha", "gamma", "names"),
    [(1.2, 4, "alpha"), (-0.1, 4, "alpha"), (math.nan, 4, "alpha"), (0.5, -1, "gamma"), (1.0, -1, "gamma")],
)
def test_expected_tokens_per_round_refuses_impossible_arguments(impl, alpha, gamma, names):
    assert_refuses(names, impl.expected_tokens_per_round, alpha, gamma)


@pytest.mark.exercise("expected_tokens_per_round")
@pytest.mark.parametrize("alpha", [0.999, 0.9995, 0.99999])
def test_expected_tokens_per_round_of_a_nearly_perfect_draft_is_still_the_sum(impl, alpha):
    actual, tokens = impl.expected_tokens_per_round(alpha, 10), powers(alpha, 0, 10)
    assert actual == pytest.approx(tokens, abs=1e-8), (
        f"only α = 1 itself gives γ + 1: at α = {alpha}, γ = 10 the sum is {tokens:.6f}, not {actual:.6f}"
    )


@pytest.mark.exercise("expected_tokens_per_round")
def test_expected_tokens_per_round_has_a_term_for_each_of_many_drafted_tokens(impl):
    actual, tokens = impl.expected_tokens_per_round(0.99, 200), powers(0.99, 0, 200)
    assert actual == pytest.approx(tokens, rel=1e-9), (
        f"gamma has no upper limit: at α = 0.99 and γ = 200 the sum has 201 terms and is {tokens:.4f}, not {actual:.4f}"
    )


# --- speculative_speedup -----------------------------------------------------------------------------------------


def speedup_mistakes(alpha, gamma, cost):
    tokens = powers(alpha, 0, gamma)
    return {
        "the target's own pass is missing from the time of a round: 1 + γ · draft_cost": (
            tokens / (gamma * cost) if gamma * cost else math.inf
        ),
        "one draft pass too many: the draft runs γ times, once for each drafted token": tokens
        / (1 + (gamma + 1) * cost),
        "the draft runs γ times a round, not once: 1 + γ · draft_cost": tokens / (1 + cost),
        "the draft's time is missing from the time of a round: 1 + γ · draft_cost": tokens,
        "a target pass for each token: the target checks all of them in one": tokens / (gamma + 1 + gamma * cost),
        "upside down, time over tokens: tokens a round over the time of a round": (1 + gamma * cost) / tokens,
        "γ + 1 tokens a round come only where all are kept: take the expected number": (gamma + 1) / (1 + gamma * cost),
    }


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
    actual = impl.speculative_speedup(alpha, gamma, cost)
    otherwise = (
        f"a round takes one target pass and γ draft passes, 1 + γ · draft_cost: at α = {alpha}, γ = {gamma} and c = "
        f"{cost} the speed-up is {speedup}, not {actual}"
    )
    assert actual == pytest.approx(speedup, abs=1e-4), named(actual, speedup_mistakes(alpha, gamma, cost), otherwise)


@pytest.mark.exercise("speculative_speedup")
def test_speculative_speedup_with_a_draft_slower_than_the_target_is_a_loss(impl):
    # 1.5 tokens in a round of one target pass and one draft pass that takes 2 of them.
    try:
        actual = impl.speculative_speedup(0.5, 1, 2.0)
    except ValueError as error:
        pytest.fail(f"draft_cost = 2 was refused ({error}): a draft slower than the target is possible, and a loss")
    assert actual == pytest.approx(0.5), (
        f"1.5 tokens in the time of 3 target passes are a speed-up of 0.5, not {actual}"
    )


@pytest.mark.exercise("speculative_speedup")
def test_speculative_speedup_is_not_rounded(impl):
    # 1.5 tokens a round over 1.07, times and tokens as they are.
    actual = impl.speculative_speedup(0.5, 1, 0.07)
    assert actual == pytest.approx(1.5 / 1.07, rel=1e-9), (
        f"the speed-up was rounded: 1.5 / 1.07 is {1.5 / 1.07:.9f}, not {actual:.9f}"
    )


@pytest.mark.exercise("speculative_speedup")
def test_speculative_speedup_refuses_a_negative_cost(impl):
    assert_refuses("draft_cost", impl.speculative_speedup, 0.5, 4, -0.1)


@pytest.mark.exercise("speculative_speedup")
def test_speculative_speedup_refuses_a_cost_that_is_no_number(impl):
    # NaN is neither below 0 nor above: `draft_cost < 0` lets it through.
    assert_refuses("draft_cost", impl.speculative_speedup, 0.5, 4, math.nan)


@pytest.mark.exercise("speculative_speedup")
@pytest.mark.parametrize(("alpha", "gamma", "names"), [(1.2, 4, "alpha"), (-0.1, 4, "alpha"), (0.5, -1, "gamma")])
def test_speculative_speedup_refuses_an_impossible_rate_or_draft(impl, alpha, gamma, names):
    assert_refuses(names, impl.speculative_speedup, alpha, gamma, 0.05)


# --- best_gamma --------------------------------------------------------------------------------------------------


@pytest.mark.exercise("best_gamma")
@pytest.mark.parametrize(
    ("alpha", "gamma", "speedup"), [(0.6, 4, 1.92), (0.8, 8, 3.09), (0.9, 13, 4.67)]
)  # the largest of (1 - α^(γ+1)) / ((1 - α)(1 + 0.05 γ)) over whole γ
def test_best_gamma_grows_with_the_acceptance_rate(impl, alpha, gamma, speedup):
    best = impl.best_gamma(alpha, 0.05)
    assert best != pytest.approx(speedup, abs=0.005), (
        f"{best:.2f} is the largest speed-up; asked for is the γ that gives it"
    )
    assert best != 32, "the most tokens a round are not the largest speed-up: a draft pass takes time too"
    assert best == gamma, (
        f"at α = {alpha} and c = 0.05 the speed-up is largest at γ = {gamma} ({speedup}), not at {best}"
    )
    tokens = (1 - alpha ** (gamma + 1)) / (1 - alpha)
    assert tokens / (1 + 0.05 * gamma) == pytest.approx(speedup, abs=0.005)


@pytest.mark.exercise("best_gamma")
@pytest.mark.parametrize("most", [5, 40])
def test_best_gamma_tries_max_gamma_too(impl, most):
    best = impl.best_gamma(0.95, 0.0, most)
    assert best <= most, f"at most {most} tokens may be drafted, and it drafts {best}: max_gamma is the limit"
    assert best == most, (
        f"a free draft should draft as far as allowed, and max_gamma = {most} itself is allowed; it drafts {best}"
    )


@pytest.mark.exercise("best_gamma")
def test_best_gamma_tries_up_to_32_where_nothing_is_said(impl):
    best = impl.best_gamma(0.95, 0.0)
    assert best == 32, f"max_gamma is 32 where it is not given, and a free draft should draft as far; it drafts {best}"


@pytest.mark.exercise("best_gamma")
def test_best_gamma_may_be_told_not_to_speculate(impl):
    try:
        best = impl.best_gamma(0.9, 0.05, 0)
    except ValueError as error:
        pytest.fail(f"max_gamma = 0 was refused ({error}): it is allowed, and leaves γ = 0")
    assert best == 0, f"max_gamma = 0 leaves γ = 0 alone, not {best}"


@pytest.mark.exercise("best_gamma")
def test_best_gamma_takes_as_equal_only_what_is_equal(impl):
    # (1 - 0.5^(γ+1)) / 0.5 with a free draft: each further token adds half as much as the last, never nothing.
    best = impl.best_gamma(0.5, 0.0, 24)
    assert best == 24, (
        f"speed-ups that differ by little are not equal: with a free draft each token more gains a little, so γ = 24, "
        f"not {best}"
    )


@pytest.mark.exercise("best_gamma")
def test_best_gamma_takes_the_smallest_among_equals(impl):
    # α = 1 and c = 1: γ + 1 tokens in 1 + γ passes, a speed-up of 1 whatever γ is.
    best = impl.best_gamma(1.0, 1.0)
    assert best != 1, "every γ is equally fast here, γ = 0 too, and it was not tried: the smallest, 0, is the answer"
    assert best == 0, f"all γ are equally fast here: the smallest, 0, is the answer, not {best}"


@pytest.mark.exercise("best_gamma")
def test_best_gamma_is_zero_when_speculation_cannot_pay(impl):
    # α = 0.2, a draft at half the target's time: γ = 1 gives 1.2 tokens for 1.5 passes.
    best = impl.best_gamma(0.2, 0.5)
    assert best == 0, f"every γ ≥ 1 is slower than plain decoding here, so γ = 0; it drafts {best}"


@pytest.mark.exercise("best_gamma")
@pytest.mark.parametrize(
    ("names", "arguments"),
    [("alpha", (1.2, 0.05)), ("alpha", (math.nan, 0.05)), ("draft_cost", (0.5, -0.1)), ("gamma", (0.5, 0.05, -1))],
)
def test_best_gamma_refuses_impossible_arguments(impl, names, arguments):
    assert_refuses(names, impl.best_gamma, *arguments)
