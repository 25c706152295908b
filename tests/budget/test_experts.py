"""Grades `nanolm/budget/experts.py`: figures are literals derived by hand, laws are checked by enumeration."""

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusal import assert_refuses

from nanolm.budget import DEEPSEEK_V3, effective_experts, matmul_flops, weight_bytes

law = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


# --- parameter_counts --------------------------------------------------------------------------------------------


@pytest.mark.exercise("parameter_counts")
def test_parameter_counts_of_16_experts_of_which_a_token_uses_2(impl):
    counts = impl.parameter_counts(4e9, 2e9, n_experts=16, k=2)
    assert counts.total != pytest.approx(8e9), "only active parameters counted as memory: memory holds every expert"
    assert counts.total == pytest.approx(36e9), "4 + 16 · 2 = 36 billion"
    assert weight_bytes(counts.total) == 72_000_000_000, "at 2 bytes each"
    assert counts.active != pytest.approx(4e9), "the shared parameters left out: every token goes through them too"
    assert counts.active == pytest.approx(8e9), "4 + 2 · 2 = 8 billion, and so 1.6·10¹⁰ operations a position"
    assert matmul_flops(counts.active, 1) == pytest.approx(1.6e10)


@pytest.mark.exercise("parameter_counts")
def test_parameter_counts_of_whole_numbers_are_whole_and_exact(impl):
    counts = impl.parameter_counts(3, 10**18, n_experts=7, k=7)
    assert counts == (7 * 10**18 + 3, 7 * 10**18 + 3), "with k = E every parameter is active"
    assert impl.parameter_counts(5, 0, n_experts=4, k=1) == (5, 5)


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


@pytest.mark.exercise("expected_unused_experts")
def test_expected_unused_experts_of_256_positions_are_a_twelfth_of_one(impl):
    # 256 · (31/32)²⁵⁶ = 256 · e^(256 · ln 0.96875) = 256 · e^-8.1277 = 0.0756: each has 256 · 8 / 256 = 8 positions.
    unused = impl.expected_unused_experts(256, 256, 8)
    assert unused != pytest.approx(256 - 0.0756, abs=1e-3), "these are the used ones: asked for are those left unused"
    assert unused == pytest.approx(0.0756, abs=1e-4)


@pytest.mark.exercise("expected_unused_experts")
@pytest.mark.parametrize(("n_positions", "unused"), [(1, 248.0), (16, 154.04), (64, 33.56)])
def test_expected_unused_experts_of_small_batches(impl, n_positions, unused):
    # 256 · (31/32)^T: 31/32 of 256 is 248; (31/32)^16 = 0.60173, (31/32)^64 = 0.13110.
    got = impl.expected_unused_experts(n_positions, 256, 8)
    # 256 · (255/256)^(8·T): eight draws that may hit the same expert twice. At T = 1 that is 248.11.
    with_repetition = 256 * (255 / 256) ** (8 * n_positions)
    assert got != pytest.approx(with_repetition, rel=1e-6), "a position's k experts are different: it misses 1 - k/E"
    assert got == pytest.approx(unused, abs=0.01)


def unused_by_enumeration(n_positions, n_experts, k):
    """The mean over all ways in which the positions can choose, each as likely as any other."""
    choices = [set(chosen) for chosen in itertools.combinations(range(n_experts), k)]
    ways = list(itertools.product(choices, repeat=n_positions))
    return sum(n_experts - len(set().union(*way)) for way in ways) / len(ways)


@pytest.mark.exercise("expected_unused_experts")
@pytest.mark.parametrize(("n_positions", "n_experts", "k"), [(0, 4, 2), (1, 4, 2), (2, 4, 2), (3, 4, 1), (3, 5, 3)])
def test_expected_unused_experts_is_the_mean_over_all_choices(impl, n_positions, n_experts, k):
    expected = unused_by_enumeration(n_positions, n_experts, k)
    assert impl.expected_unused_experts(n_positions, n_experts, k) == pytest.approx(expected)


@pytest.mark.exercise("expected_unused_experts")
def test_expected_unused_experts_with_every_expert_chosen_are_none(impl):
    assert impl.expected_unused_experts(1, 8, 8) == 0


@pytest.mark.exercise("expected_unused_experts")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [("n_positions", (-1, 8, 2)), ("n_positions", (1.5, 8, 2)), ("n_experts", (1, 0, 1)), ("k", (1, 8, 9))],
)
def test_expected_unused_experts_refuses_impossible_numbers(impl, name, arguments):
    assert_refuses(name, impl.expected_unused_experts, *arguments)


# --- expected_unused_given ---------------------------------------------------------------------------------------


@pytest.mark.exercise("expected_unused_given")
def test_expected_unused_given_adds_each_expert_s_chance_to_be_left_alone(impl):
    # Two positions: 0.1² + 0.5² + 0.6² = 0.01 + 0.25 + 0.36.
    assert impl.expected_unused_given([0.9, 0.5, 0.4], 2) == pytest.approx(0.62)
    assert impl.expected_unused_given([1.0, 0.0], 5) == 1.0, "one is always chosen, the other never"


@pytest.mark.exercise("expected_unused_given")
@law
@given(st.lists(st.floats(0, 1), min_size=2, max_size=8), st.integers(0, 50))
def test_expected_unused_given_is_least_when_the_chances_are_even(impl, chances, n_positions):
    even = [sum(chances) / len(chances)] * len(chances)
    assert impl.expected_unused_given(even, n_positions) <= impl.expected_unused_given(chances, n_positions) + 1e-9


@pytest.mark.exercise("expected_unused_given")
@pytest.mark.parametrize("chances", [[0.5, 1.1], [-0.1], [float("nan")]])
def test_expected_unused_given_refuses_what_is_no_chance(impl, chances):
    assert_refuses("chances", impl.expected_unused_given, chances, 3)


@pytest.mark.exercise("expected_unused_given")
def test_expected_unused_given_refuses_a_number_of_positions_below_0(impl):
    assert_refuses("n_positions", impl.expected_unused_given, [0.5], -1)


# --- load ---------------------------------------------------------------------------------------------------------


@pytest.mark.exercise("load_imbalance")
@pytest.mark.parametrize(
    ("counts", "imbalance"),
    [([5, 5, 5, 5], 1.0), ([6, 2, 0, 0], 3.0), ([0, 0, 7], 3.0), ([4], 1.0)],
    ids=["balanced", "6 where 2 would be even", "collapsed", "one expert"],
)
def test_load_imbalance_is_the_busiest_over_the_mean(impl, counts, imbalance):
    got = impl.load_imbalance(counts)
    busy = [count for count in counts if count]
    without_idle = max(counts) / (sum(busy) / len(busy))
    assert got == imbalance or got != without_idle, "experts that did nothing count in the mean: the mean is over all E"
    assert got == pytest.approx(imbalance)


@pytest.mark.exercise("load_imbalance")
@law
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=9).filter(sum))
def test_load_imbalance_is_1_to_E_and_asks_neither_who_nor_how_long(impl, counts):
    imbalance = impl.load_imbalance(counts)
    assert 1 - 1e-12 <= imbalance <= len(counts) + 1e-12
    assert impl.load_imbalance([7 * count for count in counts[::-1]]) == pytest.approx(imbalance), (
        "a load seven times as long, with the experts in another order, is as uneven"
    )


@pytest.mark.exercise("load_imbalance")
@pytest.mark.parametrize("counts", [[], [0, 0], [-1, 2], [1.5, 2]])
def test_load_imbalance_refuses_counts_of_nothing(impl, counts):
    assert_refuses("counts", impl.load_imbalance, counts)


@pytest.mark.parametrize(
    ("counts", "experts"),
    # Shares of 3/4 and 1/4: exp(0.75 · ln(4/3) + 0.25 · ln 4) = exp(0.2158 + 0.3466) = 1.7548.
    [([5, 5, 5, 5], 4.0), ([6, 2, 0, 0], 1.7548), ([0, 0, 7], 1.0), ([9, 9, 0], 2.0)],
    ids=["balanced", "6 and 2", "collapsed", "two of three"],
)
def test_effective_experts_is_the_exponential_of_the_entropy(counts, experts):
    assert effective_experts(counts) == pytest.approx(experts, abs=1e-4)


@law
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=9).filter(sum))
def test_effective_experts_are_one_to_E_and_at_least_E_over_the_imbalance(counts):
    # The busiest share s gives an entropy of at least -ln s, and s = imbalance / E.
    effective, imbalance = effective_experts(counts), max(counts) * len(counts) / sum(counts)
    assert 1 - 1e-9 <= effective <= len(counts) + 1e-9
    assert effective >= len(counts) / imbalance - 1e-9


@pytest.mark.parametrize("counts", [[], [0, 0], [-1, 2], [1.5, 2]])
def test_effective_experts_refuses_counts_of_nothing(counts):
    assert_refuses("counts", effective_experts, counts)
