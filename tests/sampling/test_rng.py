"""`sampling/rng.py`: the two random choices, by frequency (chernoff.py counts the false alarms) and at their edges."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from chernoff import assert_sampled_from

from nanolm.sampling import Rng, draw_rows
from nanolm.sampling import rng as rng_file

# The ends of what the hash can give: a number of 64 bits for bernoulli, a uniform one for categorical.
LOWEST, HIGHEST = 0, 2**64 - 1
NEAR_0, NEAR_1 = 2.0**-53, 1 - 2.0**-53
N = 60_000  # draws of a test by frequency; with δ = 1e-6 a right rng fails less than once in a million seeds


def vector(*numbers, dtype=torch.float64):
    return torch.tensor(numbers, dtype=dtype)


def drawn_at_positions(probs, n=N, seed=0, stream=0, start=0):
    """n draws from one distribution at positions that follow each other, (n,)."""
    return draw_rows(probs.expand(n, -1), [Rng(seed, start + i, stream) for i in range(n)])


# --- the numbers, once more in plain Python ----------------------------------------------------------------------


def splitmix(start):
    """SplitMix64 as its authors print it, a state that grows, in ints."""
    state = start
    while True:
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        yield z ^ (z >> 31)


def first(start):
    return next(splitmix(start))


def numbers_at(seed, position, stream=0):
    return splitmix(first(first(first(seed % 2**64) ^ (stream % 2**64)) ^ (position % 2**64)))


def race_by_hand(probs, seed, position, stream=0):
    """The index with the smallest E/p: one number a token, 53 bits of it with the last one set, and its logarithm."""
    numbers, times = numbers_at(seed, position, stream), {}
    for index, (p, number) in enumerate(zip(probs, numbers, strict=False)):
        if p > 0:
            times[index] = -math.log((number >> 11 | 1) / 2**53) / p
    return min(times, key=lambda index: (times[index], index))


def test_the_hash_is_splitmix64():
    # Published outputs for the start 1234567 (rosettacode.org, "Pseudo-random numbers/Splitmix64").
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [number for _, number in zip(published, splitmix(1234567), strict=False)] == published
    assert [rng_file._number(1234567, i) for i in range(4)] == published


@pytest.mark.parametrize(("seed", "stream"), [(0, 0), (7, 0), (7, 3), (2**64 - 1, 2**63), (-5, -1)])
def test_a_draw_is_the_race_of_its_position(seed, stream):
    make = torch.Generator().manual_seed(seed % 1000)
    for position in (*range(30), 2**40, 2**64 - 1):
        for V in (1, 2, 5, 300):
            probs = torch.rand(V, generator=make, dtype=torch.float64)
            probs[torch.rand(V, generator=make) < position % 3 / 3] = 0  # none, a third, two thirds of them
            probs[position % V] = 0.5
            actual, expected = (
                Rng(seed, position, stream).categorical(probs),
                race_by_hand(probs.tolist(), seed, position, stream),
            )
            assert actual == expected, f"V = {V}, position {position}: index {actual}, by hand {expected}"


def test_a_bernoulli_is_number_0_of_its_position():
    for position in range(50):
        uniform = (next(numbers_at(11, position, 2)) >> 11) / 2**53
        assert Rng(11, position, 2).bernoulli(0.4) is (uniform < 0.4)


# --- bernoulli ---------------------------------------------------------------------------------------------------


def test_bernoulli_of_zero_is_never_true_and_of_one_always():
    rng = Rng(seed=1)
    assert not any(rng.bernoulli(0.0) for _ in range(10_000)), (
        "probability 0 came true: compare u < prob, not u <= prob"
    )
    assert all(rng.bernoulli(1.0) for _ in range(10_000)), "probability 1 failed"


@pytest.mark.parametrize(
    ("number", "prob", "result"),
    [
        (LOWEST, 0.0, False),
        (LOWEST, 5e-324, True),
        (HIGHEST, 1.0, True),
        (HIGHEST, 1.25, True),
        (HIGHEST, 1 - 2**-53, False),
        (2**63, 0.5, False),
        (2**63 - 1, 0.5, True),
    ],
)
def test_bernoulli_is_exact_at_its_edges(monkeypatch, number, prob, result):
    # u lies in [0, 1): u < prob is never true at 0 and always at 1. p/q may exceed 1.
    monkeypatch.setattr(rng_file, "_number", lambda block, index: number)
    assert Rng().bernoulli(prob) is result, f"{number} of 2^64 with probability {prob}"


@pytest.mark.parametrize("prob", [0.5, 0.03, 0.999])
def test_bernoulli_comes_true_with_its_probability(prob):
    rng = Rng(seed=2)
    true = sum(rng.bernoulli(prob) for _ in range(N))
    assert_sampled_from([N - true, true], [1 - prob, prob], "bernoulli")


# --- categorical -------------------------------------------------------------------------------------------------


def counted(draws, size):
    return np.bincount(draws, minlength=size).tolist()


@pytest.mark.parametrize(
    "probs",
    [
        # K = 7 cells, n = 60,000, δ = 1e-6: n·KL may reach ln(2·7/1e-6) = 16.5 in a cell. Cells of 0 must stay empty.
        (0.4, 0.0, 0.3, 0.2, 0.0, 0.0995, 0.0005),
        (0.5, 0.5),
        (0.05,) * 20,
        (0.9, *[0.0] * 40, 0.1),  # mostly zeros: only the possible ones get a number
    ],
    ids=["seven", "a coin", "twenty equals", "two of forty-two"],
)
def test_categorical_draws_each_index_with_its_probability(probs):
    assert_sampled_from(counted(drawn_at_positions(vector(*probs), seed=3), len(probs)), probs, "categorical")


@pytest.mark.parametrize("scale", [0.5, 3.0, 1e-9, 1e-300])
def test_categorical_of_a_sum_off_one_favours_no_index(scale):
    # 0.2 to 0.3, whatever they sum to: 0.4 and 0.6.
    draws = drawn_at_positions(vector(0.2, 0.3) * scale, seed=4)
    assert_sampled_from(counted(draws, 2), [0.4, 0.6], f"categorical, sum {0.5 * scale}")


def test_categorical_of_the_smallest_numbers_there_are_keeps_their_shares():
    # 1 and 3 times the smallest float64 above 0, and a zero between them.
    draws = drawn_at_positions(vector(5e-324, 0.0, 1.5e-323), seed=5)
    assert_sampled_from(counted(draws, 3), [0.25, 0.0, 0.75], "categorical of denormal numbers")


def test_categorical_as_good_as_never_draws_a_tiny_probability_beside_a_large_one():
    # The chance that one of 60,000 draws meets 1e-18 is below 1e-13.
    assert set(drawn_at_positions(vector(1e-18, 1.0, 5e-324), seed=6)) == {1}


@pytest.mark.parametrize("probs", [(0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (1.0, 0.0, 0.0), (0.0, 0.3, 0.0, 0.7, 0.0, 0.2)])
@pytest.mark.parametrize("uniform", [NEAR_0, NEAR_1, None])
def test_categorical_never_draws_a_zero(monkeypatch, probs, uniform):
    # Each number alone may be at either end while the others are anywhere.
    uniforms = rng_file._uniforms

    def with_an_extreme(*arrays):
        numbers = uniforms(*arrays)
        numbers.ravel()[:: 1 + numbers.size % 3] = uniform
        return numbers

    if uniform is not None:
        monkeypatch.setattr(rng_file, "_uniforms", with_an_extreme)
    drawn = set(drawn_at_positions(vector(*probs), n=1000, seed=7))
    zeros = [index for index in drawn if probs[index] == 0]
    assert not zeros, f"index {zeros} of {probs} has probability 0 and was drawn (at u = {uniform})"


def test_the_numbers_of_a_race_lie_strictly_between_0_and_1():
    # The steps of the hash that lead to all zeros and all ones are found backwards.
    for target, expected in ((0, NEAR_0), (2**64 - 1, NEAR_1)):
        start = np.array([unmixed(target)], dtype=np.uint64)
        assert rng_file._uniforms(start).tolist() == [expected]


def unmixed(bits):
    """The 64 bits that SplitMix64's last step turns into these."""

    def unshifted(value, distance):
        result = value
        for _ in range(64 // distance + 1):
            result = value ^ (result >> distance)
        return result

    bits = unshifted(bits, 31) * pow(0x94D049BB133111EB, -1, 2**64) % 2**64
    bits = unshifted(bits, 27) * pow(0xBF58476D1CE4E5B9, -1, 2**64) % 2**64
    return unshifted(bits, 30)


def test_categorical_of_one_token_is_certain():
    assert [Rng(seed).categorical(vector(0.3)) for seed in range(20)] == [0] * 20


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_categorical_takes_shorter_numbers_for_what_they_are(dtype):
    probs = torch.rand(100, 50, generator=torch.Generator().manual_seed(0)).to(dtype)
    draw = [Rng(8, position).categorical(row) for position, row in enumerate(probs)]
    assert draw == [Rng(8, position).categorical(row.double()) for position, row in enumerate(probs)]


def test_categorical_returns_a_python_int():
    assert type(Rng(seed=0).categorical(vector(0.5, 0.5))) is int


@pytest.mark.parametrize("probs", [(0.0, 0.0), (0.5, math.nan), (math.nan, *[0.0] * 9), (-0.5, 0.0), (-1.0,)])
def test_what_has_no_probability_is_refused(probs):
    with pytest.raises(ValueError, match=r"probs hold a NaN or nothing above 0 in row 1"):
        draw_rows(torch.stack([torch.ones(len(probs)).double(), vector(*probs)]), [Rng(1), Rng(2)])


# --- rows --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("V", [1, 3, 1024, 20_000, 70_000])
@pytest.mark.parametrize("kept", [1.0, 0.4, 0.001], ids=["dense", "some", "few"])
def test_draw_rows_draws_what_each_row_draws_alone(V, kept):
    make = torch.Generator().manual_seed(V)
    probs = torch.rand(9, V, generator=make, dtype=torch.float64)
    probs *= torch.rand(9, V, generator=make) <= kept
    probs[:, V // 2] += 1e-3
    probs[4] = 1 / V  # one dense row among sparse ones
    seats = [(seed, 5 * seed, seed % 2) for seed in range(9)]
    rows = [Rng(*seat) for seat in seats]
    assert draw_rows(probs, rows) == [Rng(*seat).categorical(row) for seat, row in zip(seats, probs, strict=True)]
    assert [rng.position for rng in rows] == [position + 1 for _, position, _ in seats]


def test_draw_rows_with_one_rng_for_two_rows_draws_the_second_after_the_first():
    rng, again = Rng(3), Rng(3)
    probs = torch.full((2, 1000), 1e-3).double()
    assert draw_rows(probs, [rng, rng]) == [again.categorical(row) for row in probs]
    assert rng.position == 2


def test_draw_rows_takes_rows_in_any_layout_and_leaves_them_alone():
    probs = torch.rand(40, 7, generator=torch.Generator().manual_seed(0)).double()
    before, seats = probs.clone(), range(7)
    turned = draw_rows(probs.T, [Rng(seed) for seed in seats])
    assert turned == draw_rows(probs.T.contiguous(), [Rng(seed) for seed in seats])
    assert torch.equal(probs, before)


def test_draw_rows_of_no_rows_is_empty():
    assert draw_rows(torch.empty(0, 5), []) == []


def test_draw_rows_wants_one_rng_a_row():
    with pytest.raises(ValueError, match="rng has 1 entries for 2 rows; each row needs its own"):
        draw_rows(torch.ones(2, 3), [Rng(1)])


# --- positions, streams and seeds --------------------------------------------------------------------------------


def draws(rng, n=50):
    return [(rng.bernoulli(0.5), rng.categorical(torch.full((10,), 0.1))) for _ in range(n)]


def test_each_draw_moves_one_position_on():
    rng = Rng(seed=7)
    assert rng.position == 0
    rng.bernoulli(0.5)
    rng.categorical(vector(0.5, 0.5))
    rng.categorical(vector(1.0))
    assert rng.position == 3


def test_a_position_set_again_gives_the_same_draws_again():
    rng = Rng(seed=7)
    rng.position = 5
    written = draws(rng)
    rng.position = 5
    assert draws(rng) == written == draws(Rng(7, position=5)) == draws(Rng(7).at(5))
    rng.position = 6
    assert draws(rng) != written


def test_at_leaves_the_rng_itself_where_it_is():
    rng = Rng(seed=7, position=3, stream=1)
    other = rng.at(9, stream=4)
    assert (other.seed, other.position, other.stream) == (7, 9, 4)
    assert (rng.at(9).position, rng.at(9).stream) == (9, 0)
    other.bernoulli(0.5)
    assert (rng.seed, rng.position, rng.stream) == (7, 3, 1)


def test_one_seed_gives_one_sequence():
    assert draws(Rng(seed=7)) == draws(Rng(seed=7))
    assert draws(Rng(seed=7)) != draws(Rng(seed=8))
    assert draws(Rng(seed=7)) != draws(Rng(seed=7, stream=1))


def test_random_sources_without_a_seed_differ_and_can_be_drawn_again():
    # 50 draws of 20 equally likely outcomes agree by chance with probability 20^-50.
    rng = Rng()
    written = draws(rng)
    assert written != draws(Rng())
    assert draws(Rng(rng.seed)) == written


@pytest.mark.parametrize("seed", [0, -1, 2**64, 2**64 + 7, -(10**40), np.int64(-3)])
def test_any_int_is_a_seed_modulo_2_to_the_64(seed):
    assert Rng(seed).seed == int(seed) % 2**64
    assert draws(Rng(seed), 5) == draws(Rng(int(seed) % 2**64), 5)


@pytest.mark.parametrize("wrong", [1.0, True, "7", [7]])
def test_what_is_no_int_is_refused(wrong):
    for name in ("seed", "position", "stream"):
        with pytest.raises(ValueError, match=rf"{name} is {str([wrong])[1:-1].replace('[', '.').replace(']', '.')}; "):
            Rng(**{name: wrong})


def test_an_rng_and_torch_s_own_randomness_leave_each_other_alone():
    torch.manual_seed(1)
    before = draws(Rng(seed=7))
    after = torch.rand(3)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(3), after), "the rng used up torch's global random numbers"
    assert draws(Rng(seed=7)) == before, "torch.manual_seed changed the rng: it needs numbers of its own"


# --- independence: two draws together come out with the product of their probabilities -----------------------------

THREE = (0.5, 0.3, 0.2)
PAIRS = {
    "the next position": lambda i: (Rng(1, 2 * i), Rng(1, 2 * i + 1)),
    "position 0 and 1 of each seed": lambda i: (Rng(i), Rng(i, 1)),
    "the neighbouring stream": lambda i: (Rng(1, i), Rng(1, i, stream=1)),
    "the neighbouring seed": lambda i: (Rng(2 * i), Rng(2 * i + 1)),
    "seed and position exchanged": lambda i: (Rng(i, i + 1), Rng(i + 1, i)),
    "seed and stream exchanged": lambda i: (Rng(i, 0, i + 1), Rng(i + 1, 0, i)),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_two_draws_have_nothing_to_do_with_each_other(pair):
    # 9 cells: n·KL may reach ln(2·9/1e-6) = 16.7 in a cell.
    rngs = [pair(i) for i in range(N // 2)]
    rows = vector(*THREE).expand(N // 2, -1)
    one, other = (draw_rows(rows, [both[side] for both in rngs]) for side in (0, 1))
    together = counted([3 * a + b for a, b in zip(one, other, strict=True)], 9)
    assert_sampled_from(together, [p * q for p, q in product(THREE, THREE)], "pairs")


@pytest.mark.parametrize("others", [(2, 3), (4, 5), (1026, 1027)], ids=str)
def test_the_numbers_of_different_tokens_have_nothing_to_do_with_each_other(others):
    # At one position, tokens 0 and 1 race for one draw, two other tokens for another.
    first_pair, second_pair = torch.zeros(2, 1028, dtype=torch.float64)
    first_pair[[0, 1]], second_pair[list(others)] = vector(0.7, 0.3), vector(0.4, 0.6)
    one, other = (drawn_at_positions(probs, n=20_000, seed=9) for probs in (first_pair, second_pair))
    together = counted([2 * a + (b == others[1]) for a, b in zip(one, other, strict=True)], 4)
    assert_sampled_from(together, [0.28, 0.42, 0.12, 0.18], "pairs")


def test_a_bernoulli_and_the_draw_after_it_have_nothing_to_do_with_each_other():
    rng, counts = Rng(10), [0] * 4
    for _ in range(N // 3):
        counts[2 * rng.bernoulli(0.3) + rng.categorical(vector(0.6, 0.4))] += 1
    assert_sampled_from(counts, [0.42, 0.28, 0.18, 0.12], "pairs")


# --- two distributions at one position ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("p", "q"),
    [
        ((0.4, 0.3, 0.2, 0.1), (0.5, 0.1, 0.1, 0.3)),
        ((0.5, 0.3, 0.2), (0.3, 0.3, 0.4)),
        ((0.5, 0.5, 0.0), (0.0, 0.5, 0.5)),
        ((1.0, 0.0), (0.0, 1.0)),
        ((0.25,) * 4, (0.25,) * 4),
    ],
    ids=str,
)
def test_two_distributions_at_one_position_agree_as_often_as_their_race_says(p, q):
    # Both draw v if E_w ≥ E_v · max(p_w/p_v, q_w/q_v) for all w: probability 1 / Σ_w max(p_w/p_v, q_w/q_v).
    def both_draw(v):
        return 1 / sum(max(a / p[v], b / q[v]) for a, b in zip(p, q, strict=True)) if p[v] and q[v] else 0.0

    agree = [both_draw(v) for v in range(len(p))]
    distance = sum(abs(a - b) for a, b in zip(p, q, strict=True)) / 2
    assert sum(agree) >= (1 - distance) / (1 + distance) - 1e-12, "the bound of Daliri, Musco, Suresh 2024"
    one, other = (drawn_at_positions(vector(*probs), seed=11) for probs in (p, q))
    together = counted([v if v == w else len(p) for v, w in zip(one, other, strict=True)], len(p) + 1)
    # Rounding may leave a hair between the sum and 1, where they always agree.
    assert_sampled_from(together, [*agree, max(0.0, 1 - sum(agree))], "the same token from both")
