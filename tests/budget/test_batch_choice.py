"""Grades `decode_batch`: which batch arithmetic, caches and a goal allow. Figures are literals, derived by hand."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from named import assert_number
from refusal import assert_refuses

from nanolm.budget import H100, decode_batch

# Llama 3 8B with 16-bit weights and 8,192 tokens of context.
N_PARAMS = 7.5e9
WEIGHTS = 16.06e9
CACHE = 1_073_741_824

CHIP = replace(H100, peak_flops_per_second=1e15)
# Powers of 2, whose quotients are exact in whatever order they are taken: 2⁴⁰ bytes and 2⁵⁰ operations a second.
EXACT = replace(H100, bandwidth_bytes_per_second=2.0**40, peak_flops_per_second=2.0**50)

law = settings(max_examples=50)


def check_is_whole(got, what):
    assert not isinstance(got, float), f"{what} is a whole number, an int; {got} is a float"


# --- critical_batch ----------------------------------------------------------------------------------------------


@pytest.mark.exercise("critical_batch")
def test_critical_batch_of_an_h100_is_295_at_16_bits(impl):
    # 2 B / 3.35·10¹² B/s = 2 · B / 989·10¹²: B = 295.2. At 8 bits half: 147.6. 10¹⁵ FLOP/s: 298.5.
    wrong = {
        "factor 2 forgotten: each parameter is multiplied and added": 590,
        "rounded up: with 296 the multiplying takes longer than the reading": 296,
        "bits taken for bytes: a weight of 16 bits is 2 bytes": 2361,
        "upside down: operations a second over bytes a second": 0,
        "not rounded: a batch is a whole number, 295": 989 / 3.35,
        "one too few: with 295 the multiplying still takes no longer than the reading": 294,
    }
    assert_number(impl.critical_batch(H100), 295, wrong, "2 B · 989·10¹² / (2 · 3.35·10¹²) = 295.2")
    wrong = {
        "weight_bits ignored: half the bytes are read in half the time": 295,
        "rounded to the nearest, or up: 147.6 are 147, since with 148 the multiplying takes longer": 148,
        "the wrong way round: fewer bits are read faster, which leaves less time to multiply": 590,
    }
    assert_number(impl.critical_batch(H100, weight_bits=8), 147, wrong, "1 B · 989·10¹² / (2 · 3.35·10¹²) = 147.6")
    assert_number(impl.critical_batch(CHIP), 298, {"an H100's own figures were used": 295}, "10¹⁵ / 3.35·10¹² = 298.5")


@pytest.mark.exercise("critical_batch")
def test_critical_batch_counts_the_batch_at_which_both_take_equally_long(impl):
    # 2 · 2⁵⁰ / (2 · 2⁴⁰) = 1,024 exactly.
    wrong = {"one too few: at 1,024 both take equally long, and that is no longer": 1023}
    assert_number(impl.critical_batch(EXACT), 1024, wrong, "2 B · 2⁵⁰ / (2 · 2⁴⁰) = 1,024")


@pytest.mark.exercise("critical_batch")
def test_critical_batch_may_be_none_at_all(impl):
    # A chip that reads as fast as it multiplies: already one sequence's multiplying takes 2 operations for 1 byte.
    slow = replace(EXACT, peak_flops_per_second=2.0**40)
    got = impl.critical_batch(slow, weight_bits=8)
    assert got == 0, f"one sequence already multiplies longer than the weights are read: 0, not {got}"


@pytest.mark.exercise("critical_batch")
def test_critical_batch_is_a_whole_number(impl):
    check_is_whole(impl.critical_batch(H100), "a batch")


@pytest.mark.exercise("critical_batch")
@law
@given(st.floats(1e9, 1e13), st.floats(1e9, 1e16), st.sampled_from([2, 4, 4.125, 8, 16, 32]))
def test_critical_batch_is_the_last_whose_arithmetic_hides_behind_the_reading(impl, bandwidth, peak, bits):
    chip = replace(H100, bandwidth_bytes_per_second=bandwidth, peak_flops_per_second=peak)
    batch, reading = impl.critical_batch(chip, bits), bits / 8 / bandwidth
    assert 2 * batch / peak <= reading * (1 + 1e-9), f"with {batch} the multiplying takes longer"
    assert 2 * (batch + 1) / peak >= reading * (1 - 1e-9), f"with {batch + 1} it takes no longer either"


@pytest.mark.exercise("critical_batch")
@pytest.mark.parametrize("bits", [0, -16])
def test_critical_batch_refuses_weights_without_bits(impl, bits):
    assert_refuses("weight_bits", impl.critical_batch, H100, bits)


# --- crossover_batch ---------------------------------------------------------------------------------------------


@pytest.mark.exercise("crossover_batch")
def test_crossover_batch_is_where_the_caches_outweigh_the_weights(impl):
    # 13B: 26 / 0.6711 = 38.7: from 39. 16.06 / 1.0737 = 14.96: from 15 sequences on.
    wrong = {
        "rounded down: at 38 sequences the weights still weigh more": 38,
        "not rounded: a batch is a whole number, 39": 26e9 / 671_088_640,
        "upside down: the weights are divided by a sequence's cache": 1,
        "one too many: at 39 the caches weigh more already": 40,
    }
    assert_number(impl.crossover_batch(26e9, 671_088_640), 39, wrong, "26·10⁹ / 671,088,640 = 38.7")
    assert_number(impl.crossover_batch(WEIGHTS, CACHE), 15, {}, "16.06·10⁹ / 1,073,741,824 = 14.96")
    # 26.1 / 1 = 26.1: from 27.
    wrong = {"rounded to the nearest: at 26 sequences the weights still weigh more": 26}
    assert_number(impl.crossover_batch(26.1e9, 1e9), 27, wrong, "26.1·10⁹ / 10⁹ = 26.1")


@pytest.mark.exercise("crossover_batch")
def test_crossover_batch_of_exactly_equal_weight_counts(impl):
    wrong = {"one too many: with exactly equal weight the caches weigh at least as much": 3}
    assert_number(impl.crossover_batch(2e9, 1e9), 2, wrong, "2 caches weigh as much as the weights")


@pytest.mark.exercise("crossover_batch")
def test_crossover_batch_is_a_whole_number(impl):
    check_is_whole(impl.crossover_batch(26e9, 671_088_640), "a batch")


@pytest.mark.exercise("crossover_batch")
@law
@given(weights=st.integers(1, 10**12), cache=st.integers(1, 10**9))
def test_crossover_batch_is_the_first_whose_caches_weigh_as_much(impl, weights, cache):
    batch = int(impl.crossover_batch(weights, cache))
    assert batch * cache >= weights, f"{batch} caches of {cache:,} weigh less than {weights:,}"
    assert (batch - 1) * cache < weights, f"{batch - 1} caches of {cache:,} weigh {weights:,} or more already"


@pytest.mark.exercise("crossover_batch")
@pytest.mark.parametrize(
    ("arguments", "blamed"), [((WEIGHTS, 0), "kv_bytes"), ((WEIGHTS, -1), "kv_bytes"), ((0, CACHE), "weight_bytes")]
)
def test_crossover_batch_refuses_what_weighs_nothing(impl, arguments, blamed):
    assert_refuses(blamed, impl.crossover_batch, *arguments)


# --- max_batch_for_tpot ------------------------------------------------------------------------------------------


@pytest.mark.exercise("max_batch_for_tpot")
def test_max_batch_for_tpot_of_10_ms_is_16(impl):
    # 4.794 + 0.3205 · 16 = 9.92 ms; with 17, 10.24 ms. One alone takes 5.11 ms.
    wrong = {
        "one too many: with 17 the step takes 10.24 ms": 17,
        "one too few: with 16 the step takes 9.92 ms": 15,
        "weights left out: reading them takes 4.79 of the 10 ms": 31,
        "weights left out: their arithmetic takes less, and reading them 4.79 of the 10 ms": 29,
        "caches left out: each sequence adds the reading of its own": 659,
    }
    got = impl.max_batch_for_tpot(10e-3, N_PARAMS, WEIGHTS, CACHE, H100)
    assert_number(got, 16, wrong, "4.794 + 0.3205 · 16 = 9.92 ms")


@pytest.mark.exercise("max_batch_for_tpot")
def test_max_batch_for_tpot_is_0_where_not_even_one_sequence_is_fast_enough(impl):
    got = impl.max_batch_for_tpot(5.1e-3, N_PARAMS, WEIGHTS, CACHE, H100)
    assert got == 0, f"even one sequence takes 5.11 ms: no batch meets 5.1 ms, so the answer is 0, not {got}"
    got = impl.max_batch_for_tpot(1e-3, N_PARAMS, WEIGHTS, CACHE, H100)
    assert got == 0, f"reading the weights takes 4.79 ms: no batch meets 1 ms, so the answer is 0, not {got}"


@pytest.mark.exercise("max_batch_for_tpot")
def test_max_batch_for_tpot_without_caches_is_limited_by_arithmetic(impl):
    # 2 · 7.5·10⁹ / 10¹⁵ = 0.015 ms a sequence: 10 ms hold 666 of them.
    wrong = {
        "one too many: with 667 the arithmetic takes 10.005 ms": 667,
        "factor 2 forgotten: each parameter is multiplied and added": 1333,
    }
    got = impl.max_batch_for_tpot(10e-3, N_PARAMS, 15e9, 0, CHIP)
    assert got < 10_000, f"the arithmetic is left out: without caches it alone ends the batch; {got:,} are far too many"
    assert_number(got, 666, wrong, "666 sequences multiply for 9.99 ms; did the search end too early?")


@pytest.mark.exercise("max_batch_for_tpot")
def test_max_batch_for_tpot_counts_arithmetic_and_caches_together(impl):
    # 15 µs of arithmetic and 1 µs of cache a sequence: 1,000 of them take 16 ms, against 4.478 ms of reading weights.
    got = impl.max_batch_for_tpot(16.001e-3, N_PARAMS, 15e9, 3.35e6, CHIP)
    assert got != 1001, "one too many: with 1,001 arithmetic and caches take 16.016 ms together"
    assert got <= 1000, (
        f"{got} are too many: with 1,001 arithmetic and caches take 16.016 ms together (is the arithmetic left out, or "
        "are the caches hidden behind it?)"
    )
    assert got == 1000, f"{got} are too few: with 1,000 arithmetic and caches take 16 ms together"


@pytest.mark.exercise("max_batch_for_tpot")
def test_max_batch_for_tpot_takes_a_step_of_exactly_that_long(impl):
    # 2³⁰ bytes of weights take 2⁻¹⁰ s and each 2²⁰ of cache 2⁻²⁰ s: 16 sequences take 2⁻¹⁰ + 2⁻¹⁶ s exactly.
    wrong = {
        "one too few: a step of exactly tpot_seconds is allowed, at most that long": 15,
        "one too many: with 17 a step takes longer than tpot_seconds": 17,
    }
    got = impl.max_batch_for_tpot(2.0**-10 + 2.0**-16, 2.0**20, 2.0**30, 2.0**20, EXACT)
    assert_number(got, 16, wrong, "2⁻¹⁰ + 16 · 2⁻²⁰ s")


@pytest.mark.exercise("max_batch_for_tpot")
@law
@given(
    tpot=st.floats(1e-4, 0.05), n_params=st.floats(1e9, 1e11), bytes_each=st.floats(0.5, 4), cache=st.floats(1e6, 1e10)
)
def test_max_batch_for_tpot_meets_the_goal_and_one_more_does_not(impl, tpot, n_params, bytes_each, cache):
    def step(batch_size):
        reading, arithmetic = n_params * bytes_each / 3.35e12, 2 * n_params * batch_size / 989e12
        return batch_size * cache / 3.35e12 + max(reading, arithmetic)

    got = impl.max_batch_for_tpot(tpot, n_params, n_params * bytes_each, cache, H100)
    assert got == 0 or step(got) <= tpot * (1 + 1e-9), f"with {got} a step takes {step(got)} s, longer than {tpot}"
    assert step(got + 1) >= tpot * (1 - 1e-9), f"with {got + 1} a step takes {step(got + 1)} s, no longer than {tpot}"


@pytest.mark.exercise("max_batch_for_tpot")
@pytest.mark.parametrize(
    ("arguments", "blamed"),
    [
        ((0, N_PARAMS, WEIGHTS, CACHE, H100), "tpot_seconds"),
        ((0.01, 0, WEIGHTS, CACHE, H100), "n_params"),
        ((0.01, N_PARAMS, 0, CACHE, H100), "weight_bytes"),
        ((0.01, N_PARAMS, WEIGHTS, -1, H100), "kv_bytes"),
    ],
)
def test_max_batch_for_tpot_refuses_what_is_no_goal(impl, arguments, blamed):
    assert_refuses(blamed, impl.max_batch_for_tpot, *arguments)


# --- the engine's own messages -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "arguments", "blamed"),
    [
        ("decode_step_time", (1, N_PARAMS, float("inf"), CACHE, H100), "weight_bytes"),
        ("critical_batch", (H100, -16), "weight_bits"),
        ("crossover_batch", (WEIGHTS, 0), "kv_bytes"),
        ("max_batch_for_tpot", (0.01, N_PARAMS, WEIGHTS, -1, H100), "kv_bytes"),
    ],
)
def test_the_engine_says_of_a_bad_batch_what_is_allowed(function, arguments, blamed):
    with pytest.raises(ValueError, match=f"{blamed} is .* must be "):
        getattr(decode_batch, function)(*arguments)
