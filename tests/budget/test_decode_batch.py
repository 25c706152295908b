"""Grades `decode_batch`: how long a decode step of a batch takes. Figures are literals, derived by hand.

Which batch to choose is graded in test_batch_choice.py.
"""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from named import assert_number
from refusal import assert_refuses

from nanolm.budget import H100

# Llama 3 8B with 16-bit weights and 8,192 tokens of context.
N_PARAMS = 7.5e9  # multiplied; the embedding is looked up
WEIGHTS = 16.06e9
CACHE = 1_073_741_824

CHIP = replace(H100, peak_flops_per_second=1e15)
READING, EACH = WEIGHTS / 3.35e12, CACHE / 3.35e12  # 4.794 ms for the weights, 0.3205 ms for each cache

law = settings(max_examples=50)


@pytest.mark.exercise("decode_step_time")
def test_decode_step_llama3_h100_batch_32_numbers(impl):
    # 32 caches of 8,192 tokens: 32 · 1,073,741,824 B / 3.35·10¹² B/s = 10.257 ms. Weights 16.06 GB: 4.794 ms; their
    # arithmetic, 2 · 7.5·10⁹ · 32 / 989·10¹² = 0.485 ms, hides behind them. In all 15.05 ms.
    arithmetic = 2 * 7.5e9 * 32 / 989e12
    wrong = {
        "batch forgotten: each of the 32 sequences reads its own cache": READING + EACH,
        "arithmetic added: it goes on while the weights are read": READING + 32 * EACH + arithmetic,
        "weights read once per sequence: the batch shares one reading": 32 * (READING + EACH),
        "caches left out: each of the 32 sequences reads its own": READING,
        "a sequence's share of the step: each user waits for the whole of it": READING / 32 + EACH,
        "the shorter of reading and arithmetic was taken: the longer counts": 32 * EACH + arithmetic,
        "caches and weights are read one after the other: the longer of both was taken": 32 * EACH,
        "weight_bytes ignored: 2 bytes a multiplied parameter were read": 15e9 / 3.35e12 + 32 * EACH,
        "bytes divided by operations a second": (WEIGHTS + 32 * CACHE) / 989e12,
    }
    step = impl.decode_step_time(32, 7.5e9, 16.06e9, 1_073_741_824, H100)
    assert_number(step, READING + 32 * EACH, wrong, "4.794 ms for the weights and 32 · 0.3205 ms for the caches")
    # 32 tokens a step: 2,126 tokens/s. At 3 dollars an hour: 3 / 3,600 / 2,126 · 10⁶ = 0.39 dollars a million.
    assert 32 / step == pytest.approx(2126, abs=1)
    assert 3 / 3600 * step / 32 * 1e6 == pytest.approx(0.39, abs=0.005)


@pytest.mark.exercise("decode_step_time")
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


@pytest.mark.exercise("decode_step_time")
@pytest.mark.parametrize(
    ("batch_size", "milliseconds", "tokens_per_second"),
    # 1,024 tokens each: 134,217,728 B, 0.04007 ms a sequence; 15 GB of weights, 4.478 ms. 256: 10.257 + 4.478 = 14.73.
    [(1, 4.518, 221), (16, 5.119, 3126), (64, 7.042, 9089), (256, 14.734, 17_374)],
)
def test_decode_step_time_of_short_contexts(impl, batch_size, milliseconds, tokens_per_second):
    got = impl.decode_step_time(batch_size, N_PARAMS, 15e9, 134_217_728, CHIP)
    assert got == pytest.approx(milliseconds / 1e3, abs=0.001e-3)
    assert batch_size / got == pytest.approx(tokens_per_second, abs=1)


@pytest.mark.exercise("decode_step_time")
def test_decode_step_time_of_1000_sequences_is_arithmetic_plus_caches(impl):
    # 1,000 sequences: 2 · 7.5·10⁹ · 1,000 / 10¹⁵ = 15 ms against 4.478 ms of reading; 1,000 caches of 3.35 MB: 1 ms.
    wrong = {
        "caches hidden behind the arithmetic: their reading comes on top": 15e-3,
        "reading only: the arithmetic of all 1,000 takes longer (left out, or that of one?)": 15e9 / 3.35e12 + 1e-3,
        "factor 2 forgotten: each parameter is multiplied and added": 8.5e-3,
        "reading and arithmetic added: only the longer counts": 16e-3 + 15e9 / 3.35e12,
    }
    got = impl.decode_step_time(1000, N_PARAMS, 15e9, 3.35e6, CHIP)
    assert_number(got, 16e-3, wrong, "15 ms of arithmetic and 1 ms for the caches")


@pytest.mark.exercise("decode_step_time")
def test_decode_step_time_of_476_requests_is_no_longer_hidden_behind_the_weights(impl):
    # 476 caches of 0.04007 ms: 19.071 ms. Reading the weights takes 4.478 ms, their arithmetic
    # 2 · 7.5·10⁹ · 476 / 10¹⁵ = 7.140 ms, which is longer: 26.21 ms, 18,160 tokens/s.
    got = impl.decode_step_time(476, N_PARAMS, 15e9, 134_217_728, CHIP)
    assert got != pytest.approx(7.14e-3, abs=0.01e-3), "caches left out"
    assert got != pytest.approx(23.55e-3, abs=0.01e-3), (
        "23.55 ms are all that is read: the arithmetic of all 476, 7.14 ms, takes longer than reading the weights, and "
        "the caches come on top of it"
    )
    assert got == pytest.approx(26.211e-3, abs=0.001e-3)
    assert 476 / got == pytest.approx(18_160, abs=1)
    # The same on a chip that multiplies in no time: 19.071 + 4.478 = 23.55 ms, at most 20,214 tokens/s.
    got = impl.decode_step_time(476, N_PARAMS, 15e9, 134_217_728, replace(CHIP, peak_flops_per_second=1e30))
    assert got == pytest.approx(23.548e-3, abs=0.001e-3)
    assert 476 / got == pytest.approx(20_214, abs=1)


@pytest.mark.exercise("decode_step_time")
@pytest.mark.parametrize(
    ("n_params", "milliseconds"),
    # 2 · 32 · 7.5·10⁹ = 4.8·10¹¹ operations / 989·10¹² a second = 0.485 ms; with 13·10⁹ parameters 0.841 ms.
    [(7.5e9, 0.485), (13e9, 0.841)],
)
def test_decode_step_time_of_32_users_from_arithmetic_alone(impl, n_params, milliseconds):
    instant = replace(H100, bandwidth_bytes_per_second=1e30)
    got = impl.decode_step_time(32, n_params, WEIGHTS, CACHE, instant)
    assert got != pytest.approx(milliseconds / 2e3, rel=0.01), "factor 2 forgotten: a multiplication and an addition"
    assert got != pytest.approx(milliseconds / 32e3, rel=0.01), (
        "a 32nd of it: each of the 32 has its own position, and each waits for the whole step"
    )
    assert got == pytest.approx(milliseconds / 1e3, abs=0.001e-3)


@pytest.mark.exercise("decode_step_time")
def test_decode_step_time_shows_whether_to_shrink_weights_or_cache(impl):
    # int8 for both: (8.03 + 0.537) GB / 3.35 TB/s = 2.557 ms.
    assert impl.decode_step_time(1, N_PARAMS, 8.03e9, 536_870_912, H100) == pytest.approx(2.557e-3, abs=0.001e-3)
    # 13B, 26 GB: 7.761 ms, at most 129 tokens/s for a single user. 32 caches of 0.671 GB: 6.410 ms. In all 14.17 ms,
    # 2,258 tokens/s. The arithmetic, 2 · 13·10⁹ · 32 / 989·10¹² = 0.84 ms, hides.
    assert impl.decode_step_time(1, 13e9, 26e9, 0, H100) == pytest.approx(7.761e-3, abs=0.001e-3)
    got = impl.decode_step_time(32, 13e9, 26e9, 671_088_640, H100)
    assert got == pytest.approx(14.17e-3, abs=0.005e-3)
    assert 32 / got == pytest.approx(2258, abs=1)
    # int8 weights: 3.881 + 6.410; int8 cache: 7.761 + 3.205.
    assert impl.decode_step_time(32, 13e9, 13e9, 671_088_640, H100) == pytest.approx(10.29e-3, abs=0.005e-3)
    assert impl.decode_step_time(32, 13e9, 26e9, 335_544_320, H100) == pytest.approx(10.97e-3, abs=0.005e-3)


@pytest.mark.exercise("decode_step_time")
def test_decode_step_time_of_a_huge_batch_approaches_a_cache_and_the_arithmetic_of_one_position(impl):
    # What no batch can share: a cache of 0.32052 ms and 2 · 7.5·10⁹ / 989·10¹² = 0.01517 ms of arithmetic. In all
    # 0.33569 ms a token, so at most 2,979 tokens/s. The cache alone, 0.32052 ms, would be 3,120.
    got = 10**6 / impl.decode_step_time(10**6, N_PARAMS, WEIGHTS, CACHE, H100)
    assert got != pytest.approx(3120, abs=2), (
        "3,120 tokens/s are the caches alone: the arithmetic of all takes longer than reading the weights, and the "
        "caches come on top of it"
    )
    assert got == pytest.approx(2979, abs=1)


@pytest.mark.exercise("decode_step_time")
@law
@given(batch_size=st.integers(1, 2000), weights=st.floats(1e6, 1e12), cache=st.floats(0, 1e10))
def test_decode_step_time_grows_with_the_batch_while_each_token_gets_cheaper(impl, batch_size, weights, cache):
    now = impl.decode_step_time(batch_size, weights / 2, weights, cache, H100)
    more = impl.decode_step_time(batch_size + 1, weights / 2, weights, cache, H100)
    # Two quotients of the same numbers, taken in another order, differ in their last digit.
    assert more >= now * (1 - 1e-12), "a larger batch is never faster"
    assert more / (batch_size + 1) <= now / batch_size * (1 + 1e-12), "a larger batch never costs more a token"


@pytest.mark.exercise("decode_step_time")
@pytest.mark.parametrize(
    ("arguments", "blamed"),
    [
        ((0, N_PARAMS, WEIGHTS, CACHE, H100), "batch_size"),
        ((1.5, N_PARAMS, WEIGHTS, CACHE, H100), "batch_size"),
        ((1, 0, WEIGHTS, CACHE, H100), "n_params"),
        ((1, N_PARAMS, 0, CACHE, H100), "weight_bytes"),
        ((1, N_PARAMS, WEIGHTS, -1, H100), "kv_bytes"),
    ],
)
def test_decode_step_time_refuses_what_is_no_step(impl, arguments, blamed):
    assert_refuses(blamed, impl.decode_step_time, *arguments)
