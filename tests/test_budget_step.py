"""Grades the batched half of `budget`: how long a decode step takes, and which batch to choose.

Figures are literals, derived by hand in the comment beside them.
"""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusal import assert_refuses

from nanolm import budget
from nanolm.hardware import H100

# Llama 3 8B with 16-bit weights and 8,192 tokens of context.
N_PARAMS = 7.5e9  # multiplied; the embedding is looked up
WEIGHTS = 16.06e9
CACHE = 1_073_741_824

CHIP = replace(H100, peak_flops_per_second=1e15)
law = settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.exercise("budget.decode_step_time")
@pytest.mark.parametrize(
    ("batch_size", "milliseconds"),
    # 16.06 GB / 3.35 TB/s = 4.794 ms for the weights and 0.3205 ms for each cache: 4.794 + 0.3205 · B.
    [(1, 5.115), (8, 7.358), (16, 9.922), (32, 15.051), (48, 20.179)],
)
def test_decode_step_time_is_fixed_for_the_weights_and_variable_for_the_caches(impl, batch_size, milliseconds):
    got = impl.decode_step_time(batch_size, N_PARAMS, WEIGHTS, CACHE, H100)
    assert got == pytest.approx(milliseconds / 1e3, abs=0.001e-3)
    # Per token 4.79 / B + 0.32 ms.
    assert got / batch_size == pytest.approx((4.79 / batch_size + 0.32) / 1e3, abs=0.006e-3)
    weights_alone = impl.decode_step_time(batch_size, N_PARAMS, WEIGHTS, 0, H100)
    assert weights_alone == pytest.approx(4.79e-3, abs=0.005e-3), "the weights are read once, for all"
    assert (got - weights_alone) / batch_size == pytest.approx(0.32e-3, abs=0.005e-3), "each user's cache takes 0.32 ms"


@pytest.mark.exercise("budget.decode_step_time")
@pytest.mark.parametrize(
    ("batch_size", "milliseconds", "tokens_per_second"),
    # 1,024 tokens each: 134,217,728 B, 0.04007 ms a sequence; 15 GB of weights, 4.478 ms. 256: 10.257 + 4.478 = 14.73.
    [(1, 4.518, 221), (16, 5.119, 3126), (64, 7.042, 9089), (256, 14.734, 17_374)],
)
def test_decode_step_time_of_short_contexts(impl, batch_size, milliseconds, tokens_per_second):
    got = impl.decode_step_time(batch_size, N_PARAMS, 15e9, 134_217_728, CHIP)
    assert got == pytest.approx(milliseconds / 1e3, abs=0.001e-3)
    assert batch_size / got == pytest.approx(tokens_per_second, abs=1)


@pytest.mark.exercise("budget.decode_step_time")
def test_decode_step_time_of_476_requests_is_no_longer_hidden_behind_the_weights(impl):
    # 476 caches of 0.04007 ms: 19.071 ms. Reading the weights takes 4.478 ms, their arithmetic
    # 2 · 7.5·10⁹ · 476 / 10¹⁵ = 7.140 ms, which is longer: 26.21 ms, 18,160 tokens/s.
    got = impl.decode_step_time(476, N_PARAMS, 15e9, 134_217_728, CHIP)
    assert got != pytest.approx(7.14e-3, abs=0.01e-3), "caches left out"
    assert got != pytest.approx(23.55e-3, abs=0.01e-3), "arithmetic left out: past 298 sequences it takes longer"
    assert got == pytest.approx(26.211e-3, abs=0.001e-3)
    assert 476 / got == pytest.approx(18_160, abs=1)


@pytest.mark.exercise("budget.decode_step_time")
def test_decode_step_time_of_476_requests_from_reading_alone(impl):
    # The same on a chip that multiplies in no time: 19.071 + 4.478 = 23.55 ms, at most 20,214 tokens/s.
    got = impl.decode_step_time(476, N_PARAMS, 15e9, 134_217_728, replace(CHIP, peak_flops_per_second=1e30))
    assert got == pytest.approx(23.548e-3, abs=0.001e-3)
    assert 476 / got == pytest.approx(20_214, abs=1)


@pytest.mark.exercise("budget.decode_step_time")
@pytest.mark.parametrize(
    ("n_params", "milliseconds"),
    # 2 · 32 · 7.5·10⁹ = 4.8·10¹¹ operations / 989·10¹² a second = 0.485 ms; with 13·10⁹ parameters 0.841 ms.
    [(7.5e9, 0.485), (13e9, 0.841)],
)
def test_decode_step_time_of_32_users_from_arithmetic_alone(impl, n_params, milliseconds):
    instant = replace(H100, bandwidth_bytes_per_second=1e30)
    got = impl.decode_step_time(32, n_params, WEIGHTS, CACHE, instant)
    assert got != pytest.approx(milliseconds / 2e3, rel=0.01), "factor 2 forgotten: a multiplication and an addition"
    assert got != pytest.approx(milliseconds / 32e3, rel=0.01), "batch forgotten: each sequence has its own position"
    assert got == pytest.approx(milliseconds / 1e3, abs=0.001e-3)


@pytest.mark.exercise("budget.decode_step_time")
def test_decode_step_time_at_int8_reads_half(impl):
    # (8.03 + 0.537) GB / 3.35 TB/s = 2.557 ms.
    assert impl.decode_step_time(1, N_PARAMS, 8.03e9, 536_870_912, H100) == pytest.approx(2.557e-3, abs=0.001e-3)


@pytest.mark.exercise("budget.decode_step_time")
def test_decode_step_time_of_13b_shows_whether_to_shrink_weights_or_cache(impl):
    # 26 GB: 7.761 ms. 32 caches of 0.671 GB: 6.410 ms. In all 14.17 ms, 2,258 tokens/s. The arithmetic,
    # 2 · 13·10⁹ · 32 / 989·10¹² = 0.84 ms, hides. int8 weights: 3.881 + 6.410; int8 cache: 7.761 + 3.205.
    got = impl.decode_step_time(32, 13e9, 26e9, 671_088_640, H100)
    assert got == pytest.approx(14.17e-3, abs=0.005e-3)
    assert 32 / got == pytest.approx(2258, abs=1)
    assert impl.decode_step_time(32, 13e9, 13e9, 671_088_640, H100) == pytest.approx(10.29e-3, abs=0.005e-3)
    assert impl.decode_step_time(32, 13e9, 26e9, 335_544_320, H100) == pytest.approx(10.97e-3, abs=0.005e-3)


@pytest.mark.exercise("budget.decode_step_time")
def test_decode_step_time_beyond_the_critical_batch_is_arithmetic_plus_caches(impl):
    # 1,000 sequences: 2 · 7.5·10⁹ · 1,000 / 10¹⁵ = 15 ms against 4.478 ms of reading; 1,000 caches of 3.35 MB: 1 ms.
    got = impl.decode_step_time(1000, N_PARAMS, 15e9, 3.35e6, CHIP)
    assert got != pytest.approx(15e-3, rel=1e-3), "caches hidden behind the arithmetic: their reading comes on top"
    assert got != pytest.approx(5.478e-3, rel=1e-3), "reading only: a batch this large waits for the arithmetic"
    assert got != pytest.approx(8.5e-3, rel=1e-3), "factor 2 forgotten: each parameter is multiplied and added"
    assert got == pytest.approx(16e-3)


@pytest.mark.exercise("budget.decode_step_time")
def test_decode_step_time_of_a_huge_batch_approaches_a_cache_and_the_arithmetic_of_one_position(impl):
    # What no batch can share: a cache of 0.32052 ms and 2 · 7.5·10⁹ / 989·10¹² = 0.01517 ms of arithmetic. In all
    # 0.33569 ms a token, so at most 2,979 tokens/s. The cache alone, 0.32052 ms, would be 3,120.
    got = 10**6 / impl.decode_step_time(10**6, N_PARAMS, WEIGHTS, CACHE, H100)
    assert got != pytest.approx(3120, abs=2), "arithmetic left out: past the critical batch it is longer than reading"
    assert got == pytest.approx(2979, abs=1)


@pytest.mark.exercise("budget.decode_step_time")
def test_decode_step_time_without_a_cache_is_the_time_to_read_the_weights(impl):
    # 26 GB / 3.35 TB/s = 7.761 ms, 129 tokens/s: the most that a single user of the 13B can see.
    got = impl.decode_step_time(1, 13e9, 26e9, 0, H100)
    assert got == pytest.approx(7.761e-3, abs=0.001e-3)
    assert 1 / got == pytest.approx(129, abs=0.5)


@pytest.mark.exercise("budget.decode_step_time")
@law
@given(batch_size=st.integers(1, 2000), weights=st.floats(1e6, 1e12), cache=st.floats(0, 1e10))
def test_decode_step_time_grows_with_the_batch_while_each_token_gets_cheaper(impl, batch_size, weights, cache):
    now = impl.decode_step_time(batch_size, weights / 2, weights, cache, H100)
    more = impl.decode_step_time(batch_size + 1, weights / 2, weights, cache, H100)
    assert more >= now, "a larger batch is never faster"
    assert more / (batch_size + 1) <= now / batch_size * (1 + 1e-12), "a larger batch never costs more a token"


@pytest.mark.exercise("budget.critical_batch")
def test_critical_batch_of_an_h100_is_295_at_16_bits(impl):
    # 2 B / 3.35·10¹² B/s = 2 · B / 989·10¹²: B = 295.2. At 8 bits half: 147.6. 10¹⁵ FLOP/s: 298.5.
    got = impl.critical_batch(H100)
    assert got != 590, "factor 2 forgotten: each parameter is multiplied and added"
    assert got != 296, "rounded up: with 296 the multiplying takes longer than the reading"
    assert got == 295
    halved = impl.critical_batch(H100, weight_bits=8)
    assert halved == 147, "weight_bits ignored: half the bytes are read in half the time"
    assert impl.critical_batch(CHIP) == 298


@pytest.mark.exercise("budget.crossover_batch")
def test_crossover_batch_is_where_the_caches_outweigh_the_weights(impl):
    # 16.06 / 1.0737 = 14.96: from 15 sequences on. 13B: 26 / 0.6711 = 38.7: from 39. Equal weights: from 2.
    got = impl.crossover_batch(26e9, 671_088_640)
    assert got != 38, "at 38 sequences the weights still weigh more"
    assert got == 39
    assert impl.crossover_batch(WEIGHTS, CACHE) == 15
    assert impl.crossover_batch(2e9, 1e9) == 2, "with exactly equal weight the caches weigh at least as much"


@pytest.mark.exercise("budget.max_batch_for_tpot")
def test_max_batch_for_tpot_of_10_ms_is_16(impl):
    # 4.794 + 0.3205 · 16 = 9.92 ms; with 17, 10.24 ms. One alone takes 5.11 ms.
    got = impl.max_batch_for_tpot(10e-3, N_PARAMS, WEIGHTS, CACHE, H100)
    assert got != 17, "with 17 the step takes 10.24 ms"
    assert got not in (658, 659), "caches left out: each sequence adds the reading of its own"
    assert got == 16
    alone = impl.max_batch_for_tpot(5.1e-3, N_PARAMS, WEIGHTS, CACHE, H100)
    assert alone == 0, "even one sequence takes 5.11 ms: no batch meets 5.1 ms, so the answer is 0"


@pytest.mark.exercise("budget.max_batch_for_tpot")
def test_max_batch_for_tpot_without_caches_is_limited_by_arithmetic(impl):
    # 2 · 7.5·10⁹ / 10¹⁵ = 0.015 ms a sequence: 10 ms hold 666 of them.
    assert impl.max_batch_for_tpot(10e-3, N_PARAMS, 15e9, 0, CHIP) == 666


BAD_INPUT = [
    ("decode_step_time", (0, N_PARAMS, WEIGHTS, CACHE, H100), "batch_size"),
    ("decode_step_time", (1, N_PARAMS, WEIGHTS, -1, H100), "kv_bytes"),
    ("decode_step_time", (1, N_PARAMS, float("inf"), CACHE, H100), "weight_bytes"),
    ("critical_batch", (H100, -16), "weight_bits"),
    ("crossover_batch", (WEIGHTS, 0), "kv_bytes"),
    ("max_batch_for_tpot", (0, N_PARAMS, WEIGHTS, CACHE, H100), "tpot_seconds"),
    ("max_batch_for_tpot", (0.01, N_PARAMS, WEIGHTS, -1, H100), "kv_bytes"),
]


@pytest.mark.parametrize(
    ("function", "arguments", "blamed"),
    [pytest.param(*c, marks=pytest.mark.exercise(f"budget.{c[0]}"), id=f"{c[0]}-{c[2]}") for c in BAD_INPUT],
)
def test_bad_input_is_refused(impl, function, arguments, blamed):
    assert_refuses(blamed, getattr(impl, function), *arguments)


@pytest.mark.parametrize(("function", "arguments", "blamed"), BAD_INPUT)
def test_the_engine_says_of_a_bad_step_what_is_allowed(function, arguments, blamed):
    with pytest.raises(ValueError, match=f"{blamed} is .* must be "):
        getattr(budget, function)(*arguments)
