"""`sampling/rng.py`: the two random choices, by frequency (chernoff.py counts the false alarms) and at their edges."""

import pytest
import torch
from chernoff import assert_sampled_from

from nanolm.sampling import Rng

# What torch.rand can return in float64: 0 and the largest number below 1.
LOWEST, HIGHEST = 0.0, 1 - 2**-53


@pytest.fixture
def rand_returns(monkeypatch):
    """Let the next uniform numbers be these."""

    def script(*numbers):
        left = list(numbers)
        monkeypatch.setattr(torch, "rand", lambda *shape, **kw: torch.tensor(left.pop(0), dtype=torch.float64))

    return script


def vector(*numbers, dtype=torch.float64):
    return torch.tensor(numbers, dtype=dtype)


# --- bernoulli ---------------------------------------------------------------------------------------------------


def test_bernoulli_of_zero_is_never_true_and_of_one_always():
    rng = Rng(seed=1)
    assert not any(rng.bernoulli(0.0) for _ in range(10_000)), (
        "probability 0 came true: compare u < prob, not u <= prob"
    )
    assert all(rng.bernoulli(1.0) for _ in range(10_000)), "probability 1 failed"


@pytest.mark.parametrize(
    ("uniform", "prob", "result"),
    [(LOWEST, 0.0, False), (HIGHEST, 1.0, True), (HIGHEST, 1.25, True), (0.5, 0.5, False), (0.5, 0.5000001, True)],
)
def test_bernoulli_is_exact_at_its_edges(rand_returns, uniform, prob, result):
    # u lies in [0, 1): u < prob is never true at 0 and always at 1. p/q may exceed 1.
    rand_returns(uniform)
    assert Rng().bernoulli(prob) is result, f"u = {uniform!r} with probability {prob}"


@pytest.mark.parametrize("prob", [0.5, 0.03, 0.999])
def test_bernoulli_comes_true_with_its_probability(prob):
    # 60,000 draws and δ = 1e-6: a right rng fails less than once in a million runs, and this seed is fixed.
    rng = Rng(seed=2)
    true = sum(rng.bernoulli(prob) for _ in range(60_000))
    assert_sampled_from([60_000 - true, true], [1 - prob, prob], "bernoulli")


# --- categorical -------------------------------------------------------------------------------------------------


def test_categorical_draws_each_index_with_its_probability():
    # K = 7 cells, n = 60,000, δ = 1e-6: n·KL may reach ln(2·7/1e-6) = 16.5 in a cell; a false alarm is less likely
    # than 1 in a million. The two cells of probability 0 must stay empty.
    probs = [0.4, 0.0, 0.3, 0.2, 0.0, 0.0995, 0.0005]
    rng, counts = Rng(seed=3), [0] * 7
    for _ in range(60_000):
        counts[rng.categorical(vector(*probs))] += 1
    assert_sampled_from(counts, probs, "categorical")


@pytest.mark.parametrize("probs", [(0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (0.0, 0.3, 0.0, 0.7, 0.0)])
@pytest.mark.parametrize("uniform", [LOWEST, HIGHEST, 0.3, 0.30000000000000004, None])
def test_categorical_never_draws_a_zero(rand_returns, probs, uniform):
    if uniform is not None:
        rand_returns(*[uniform] * 1000)
    rng = Rng(seed=4)
    drawn = {rng.categorical(vector(*probs)) for _ in range(1000)}
    zeros = [index for index in drawn if probs[index] == 0]
    assert not zeros, f"index {zeros} of {probs} has probability 0 and was drawn (at u = {uniform})"


@pytest.mark.parametrize(
    ("uniform", "index"), [(LOWEST, 0), (0.2499, 0), (0.25, 1), (0.7499, 1), (0.75, 2), (HIGHEST, 2)]
)
def test_categorical_gives_each_index_an_interval_closed_below(rand_returns, uniform, index):
    # Running totals 0.25, 0.75, 1, all exact in binary: index 1 owns [0.25, 0.75), which is 0.5 wide.
    rand_returns(uniform)
    assert Rng().categorical(vector(0.25, 0.5, 0.25)) == index


def test_categorical_ends_on_a_possible_index_when_rounding_overshoots(rand_returns):
    # u = 1 cannot come from torch.rand; a product rounded up to the last total amounts to the same.
    rand_returns(1.0)
    assert Rng().categorical(vector(0.5, 0.5, 0.0)) == 1


def test_categorical_of_a_sum_slightly_off_one_favours_no_index(rand_returns):
    # Total 0.5: u is scaled by it, so that index 0 owns u below 0.2/0.5 = 0.4.
    for uniform, index in ((0.39, 0), (0.41, 1), (HIGHEST, 1)):
        rand_returns(uniform)
        assert Rng().categorical(vector(0.2, 0.3)) == index


def test_categorical_adds_float32_probabilities_in_float64(rand_returns):
    # Running totals 1, 1 + 2^-25, 1 + 2^-24: in float32 all three are 1, and index 1 would own nothing.
    rand_returns((1 + 2**-26) / (1 + 2**-24))
    tail = vector(1.0, 2**-25, 2**-25, dtype=torch.float32)
    assert Rng().categorical(tail) == 1, "the running total was rounded to float32: small probabilities vanish"


def test_categorical_returns_a_python_int():
    assert type(Rng(seed=0).categorical(vector(0.5, 0.5))) is int


# --- seeds -------------------------------------------------------------------------------------------------------


def draws(rng, n=50):
    return [(rng.bernoulli(0.5), rng.categorical(torch.full((10,), 0.1))) for _ in range(n)]


def test_one_seed_gives_one_sequence():
    assert draws(Rng(seed=7)) == draws(Rng(seed=7))
    assert draws(Rng(seed=7)) != draws(Rng(seed=8))


def test_dice_without_a_seed_differ():
    # 50 draws of 20 equally likely outcomes agree by chance with probability 20^-50.
    assert draws(Rng()) != draws(Rng())


def test_dice_and_torch_s_own_randomness_leave_each_other_alone():
    torch.manual_seed(1)
    first = draws(Rng(seed=7))
    after = torch.rand(3)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(3), after), "the rng used up torch's global random numbers"
    assert draws(Rng(seed=7)) == first, "torch.manual_seed changed the rng: it needs a generator of its own"
