"""Grades `nanolm/budget/experts.py`: figures are literals derived by hand, laws are checked by enumeration."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naming import named
from refusal import assert_refuses

from nanolm.budget import DEEPSEEK_V3, ParameterCounts, matmul_flops, weight_bytes

law = settings(max_examples=60)


# --- parameter_counts --------------------------------------------------------------------------------------------


def counted(impl, *arguments, **named_arguments):
    counts = impl.parameter_counts(*arguments, **named_arguments)
    assert isinstance(counts, ParameterCounts), f"return ParameterCounts(total, active), not {counts!r}"
    return counts


@pytest.mark.exercise("parameter_counts")
def test_parameter_counts_of_16_experts_of_which_a_token_uses_2(impl):
    counts = counted(impl, 4e9, 2e9, n_experts=16, k=2)
    assert counts != (8e9, 36e9), "total and active are swapped: ParameterCounts(total, active)"
    totals = {
        "only active parameters counted as memory: memory holds every expert": 8e9,
        "the shared parameters left out of the total: memory holds them too": 32e9,
        "the total holds all E experts, and those that a token uses are among them": 40e9,
        "the shared parameters once for each expert: all tokens share them": 16 * 6e9,
        "one expert in the total: memory holds all E of them": 6e9,
    }
    assert counts.total == pytest.approx(36e9), named(counts.total, totals, f"4 + 16 · 2 = 36, not {counts.total:g}")
    assert weight_bytes(counts.total) == 72_000_000_000, "at 2 bytes each"
    actives = {
        "the shared parameters left out: every token goes through them too": 4e9,
        "one expert active: a token goes through k of them": 6e9,
        "all experts active: a token goes through k of them": 36e9,
        "the shared parameters once for each expert that is used: a token goes through them once": 12e9,
        "a share k/E of everything: the shared parameters are always active": 36e9 * 2 / 16,
    }
    otherwise = f"4 + 2 · 2 = 8 billion are active, and so 1.6·10¹⁰ operations a position; not {counts.active:g}"
    assert counts.active == pytest.approx(8e9), named(counts.active, actives, otherwise)
    assert matmul_flops(counts.active, 1) == pytest.approx(1.6e10)


@pytest.mark.exercise("parameter_counts")
def test_parameter_counts_of_whole_numbers_are_whole_and_exact(impl):
    counts = counted(impl, 3, 10**18, n_experts=7, k=7)
    assert counts == (7 * 10**18 + 3, 7 * 10**18 + 3), (
        f"with k = E every parameter is active, 7·10¹⁸ + 3, exactly; got {counts}: a float has 16 digits, so whole "
        "numbers stay whole"
    )
    assert counted(impl, 5, 0, n_experts=4, k=1) == (5, 5), "experts of no parameters add nothing"


@pytest.mark.exercise("parameter_counts")
def test_parameter_counts_of_a_mixture_that_shares_nothing(impl):
    try:
        counts = counted(impl, 0, 3, n_experts=4, k=2)
    except ValueError as error:
        pytest.fail(f"shared_params = 0 was refused ({error}): 0 is allowed, a mixture may share nothing")
    assert counts == (12, 6), f"4 experts of 3 parameters are 12, and 2 of them 6; got {counts}"


@pytest.mark.exercise("parameter_counts")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("shared_params", (-1, 1, 2, 1)),
        ("expert_params", (1, -1, 2, 1)),
        ("n_experts", (1, 1, 0, 1)),
        ("n_experts", (1, 1, 2.5, 1)),
        ("k", (1, 1, 2, 0)),
        ("k", (1, 1, 2, 3)),
    ],
)
def test_parameter_counts_refuses_what_is_no_mixture(impl, name, arguments):
    assert_refuses(name, impl.parameter_counts, *arguments)


def test_a_token_of_the_large_preset_takes_74_billion_operations_for_37_billion_active_parameters():
    assert matmul_flops(DEEPSEEK_V3.n_multiplied_params, 1) == pytest.approx(7.4e10, rel=0.02)
    assert DEEPSEEK_V3.n_params == pytest.approx(671e9, rel=1e-3)


# --- expected_unused_experts -------------------------------------------------------------------------------------


def unused_mistakes(n_positions, n_experts, k):
    left = 1 - k / n_experts
    return {
        "these are the used ones: asked for are those left unused": n_experts * (1 - left**n_positions),
        # Draws that may hit the same expert twice.
        "a position's k experts are different: it misses 1 - k/E of them, not what k draws miss": (
            n_experts * (1 - 1 / n_experts) ** (k * n_positions)
        ),
        "k is ignored: a position chooses k experts, so each is missed with 1 - k/E": (
            n_experts * (1 - 1 / n_experts) ** n_positions
        ),
        "the chance of one expert to be left unused: there are E of them": left**n_positions,
        "each position was taken to choose experts that nobody else chose: positions choose on their own": max(
            0, n_experts - k * n_positions
        ),
        "one position is left out: P of them choose": n_experts * left ** (n_positions - 1),
        "P is ignored: each position misses 1 - k/E, so P of them miss its P-th power": n_experts * left,
    }


@pytest.mark.exercise("expected_unused_experts")
@pytest.mark.parametrize(("n_positions", "unused"), [(16, 154.04), (1, 248.0), (64, 33.56), (256, 0.0756)])
def test_expected_unused_experts_of_256_when_each_position_takes_8(impl, n_positions, unused):
    # 256 · (31/32)^P: 31/32 of 256 is 248; (31/32)^16 = 0.60173, (31/32)^64 = 0.13110, and
    # (31/32)²⁵⁶ = e^(256 · ln 0.96875) = e^-8.1277: a twelfth of one expert.
    got = impl.expected_unused_experts(n_positions, 256, 8)
    otherwise = f"256 · (31/32)^{n_positions} = {unused} of 256 are unused on average, not {got}"
    assert got == pytest.approx(unused, abs=0.01 if unused > 1 else 1e-4), named(
        got, unused_mistakes(n_positions, 256, 8), otherwise
    )


def unused_by_enumeration(n_positions, n_experts, k):
    """The mean over all ways in which the positions can choose, each as likely as any other."""
    choices = [set(chosen) for chosen in itertools.combinations(range(n_experts), k)]
    ways = list(itertools.product(choices, repeat=n_positions))
    return sum(n_experts - len(set().union(*way)) for way in ways) / len(ways)


@pytest.mark.exercise("expected_unused_experts")
@pytest.mark.parametrize(("n_positions", "n_experts", "k"), [(1, 4, 2), (0, 4, 2), (2, 4, 2), (3, 4, 1), (3, 5, 3)])
def test_expected_unused_experts_is_the_mean_over_all_choices(impl, n_positions, n_experts, k):
    expected = unused_by_enumeration(n_positions, n_experts, k)
    got = impl.expected_unused_experts(n_positions, n_experts, k)
    otherwise = f"{n_positions} positions with {k} of {n_experts} experts each leave {expected} unused, not {got}"
    assert got == pytest.approx(expected), named(got, unused_mistakes(n_positions, n_experts, k), otherwise)


@pytest.mark.exercise("expected_unused_experts")
def test_expected_unused_experts_with_every_expert_chosen_are_none(impl):
    got = impl.expected_unused_experts(1, 8, 8)
    assert got == 0, f"one position that takes all 8 of 8 leaves none unused, not {got}"


@pytest.mark.exercise("expected_unused_experts")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("n_positions", (-1, 8, 2)),
        ("n_positions", (1.5, 8, 2)),
        ("n_experts", (1, 0, 1)),
        ("n_experts", (1, 2.5, 1)),
        ("k", (1, 8, 9)),
        ("k", (1, 8, 0)),
    ],
)
def test_expected_unused_experts_refuses_impossible_numbers(impl, name, arguments):
    assert_refuses(name, impl.expected_unused_experts, *arguments)


# --- expected_unused_given ---------------------------------------------------------------------------------------


def given_mistakes(chances, n_positions):
    mean = sum(chances) / len(chances)
    unused = sum((1 - c) ** n_positions for c in chances)
    return {
        "these are the used ones: asked for are those left unused": len(chances) - unused,
        "a mean over the experts: the sum says how many are unused": unused / len(chances),
        "the chances were averaged first, as for a balanced router: each expert has its own": (
            len(chances) * (1 - mean) ** n_positions
        ),
        "the chance that all are left unused: asked for is how many are": math.prod(
            (1 - c) ** n_positions for c in chances
        ),
        "c^P is the chance that every position chooses the expert: it is unused when none does, (1 - c)^P": sum(
            c**n_positions for c in chances
        ),
        "1 - c^P is the chance that some position passes the expert by: all must, (1 - c)^P": sum(
            1 - c**n_positions for c in chances
        ),
        "P is ignored: all P positions must pass an expert by, (1 - c)^P": sum(1 - c for c in chances),
        "1 - P·c adds up chances that are not exclusive: P positions pass an expert by with (1 - c)^P": sum(
            1 - n_positions * c for c in chances
        ),
        "1 - P·c, cut at 0, adds up chances that are not exclusive: (1 - c)^P": sum(
            max(0, 1 - n_positions * c) for c in chances
        ),
    }


@pytest.mark.exercise("expected_unused_given")
@pytest.mark.parametrize(
    ("chances", "n_positions", "unused"),
    [
        ([0.9, 0.5, 0.4], 2, 0.62),  # 0.1² + 0.5² + 0.6² = 0.01 + 0.25 + 0.36
        ([0.9, 0.5, 0.4], 3, 0.342),  # 0.001 + 0.125 + 0.216
        ([1.0, 0.0], 5, 1.0),  # one is always chosen, the other never
        ([0.3, 0.8], 0, 2.0),  # nobody chooses
        ([0.25] * 8, 2, 4.5),  # k/E = 2/8 each: 8 · 0.75²
    ],
)
def test_expected_unused_given_adds_each_expert_s_chance_to_be_left_alone(impl, chances, n_positions, unused):
    try:
        got = impl.expected_unused_given(chances, n_positions)
    except ValueError as error:
        pytest.fail(f"chances {chances} and {n_positions} positions are fine, and were refused ({error})")
    otherwise = f"Σ (1 - c)^{n_positions} over {chances} is {unused}, not {got}"
    assert got == pytest.approx(unused), named(got, given_mistakes(chances, n_positions), otherwise)


@pytest.mark.exercise("expected_unused_given")
@law
@given(st.lists(st.floats(0, 1), min_size=2, max_size=8), st.integers(0, 50))
def test_expected_unused_given_is_least_when_the_chances_are_even(impl, chances, n_positions):
    even = [sum(chances) / len(chances)] * len(chances)
    least, got = impl.expected_unused_given(even, n_positions), impl.expected_unused_given(chances, n_positions)
    assert least <= got + 1e-9, f"even chances leave the fewest unused: {least} with {even}, {got} with {chances}"


@pytest.mark.exercise("expected_unused_given")
@pytest.mark.parametrize("chances", [[0.5, 1.1], [-0.1], [float("nan")]])
def test_expected_unused_given_refuses_what_is_no_chance(impl, chances):
    assert_refuses("chances", impl.expected_unused_given, chances, 3)


@pytest.mark.exercise("expected_unused_given")
@pytest.mark.parametrize("n_positions", [-1, 1.5])
def test_expected_unused_given_refuses_a_number_of_positions_below_0(impl, n_positions):
    assert_refuses("n_positions", impl.expected_unused_given, [0.5], n_positions)
