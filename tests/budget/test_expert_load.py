"""Grades `load_imbalance` of `nanolm/budget/experts.py`: figures by hand, laws by random loads."""

import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naming import named
from refusal import assert_refuses

from nanolm.budget import effective_experts

law = settings(max_examples=60)


def load_mistakes(counts):
    busy = [count for count in counts if count]
    mean = sum(counts) / len(counts)
    return {
        "experts that did nothing count in the mean: the mean is over all E": max(counts) / (sum(busy) / len(busy)),
        "the busiest expert's share of all choices: over the mean, it is E times that": max(counts) / sum(counts),
        "upside down: the busiest over the mean": mean / max(counts),
        "the first expert's load over the mean: the busiest one's counts": counts[0] / mean,
        "the busiest less the mean: over the mean": max(counts) - mean,
        "the excess over the mean: 1 when balanced, not 0": max(counts) / mean - 1,
        "the busiest over the least busy that did anything: over the mean": max(counts) / min(busy),
        "the busiest over the median: over the mean": max(counts) / max(statistics.median(counts), 1e-9),
        "the mean over the least busy: the busiest over the mean": mean / min(busy),
    }


@pytest.mark.exercise("load_imbalance")
@pytest.mark.parametrize(
    ("counts", "imbalance"),
    [([6, 2, 0, 0], 3.0), ([5, 5, 5, 5], 1.0), ([9, 2, 1], 2.25), ([0, 0, 7], 3.0), ([4], 1.0)],
    ids=["6 where 2 would be even", "balanced", "9 where 4 would be even", "collapsed", "one expert"],
)
def test_load_imbalance_is_the_busiest_over_the_mean(impl, counts, imbalance):
    try:
        got = impl.load_imbalance(counts)
    except ZeroDivisionError:
        got = None
    assert got is not None, f"{counts} gave a division by 0: the mean over all experts is above 0 here"
    otherwise = f"{counts}: the largest is {imbalance} times the mean, not {got}"
    assert got == pytest.approx(imbalance), named(got, load_mistakes(counts), otherwise)


@pytest.mark.exercise("load_imbalance")
@law
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=9).filter(sum))
def test_load_imbalance_is_1_to_E_and_asks_neither_who_nor_how_long(impl, counts):
    imbalance = impl.load_imbalance(counts)
    assert 1 - 1e-12 <= imbalance <= len(counts) + 1e-12, f"{counts}: from 1 to E = {len(counts)}, not {imbalance}"
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
