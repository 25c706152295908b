"""Grades `roofline`: how long a pass takes, and how long a request waits. Figures are literals, derived by hand."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from named import assert_number
from refusal import assert_refuses

from nanolm.budget import H100, Hardware, roofline

# The chip of the worked examples: round arithmetic, an H100's bandwidth.
CHIP = replace(H100, peak_flops_per_second=1e15)
SLOWER = replace(CHIP, bandwidth_bytes_per_second=3.0e12)
N_PARAMS = 8e9
WEIGHT_BYTES = 16e9  # 2 bytes each
# Of those 8·10⁹ the embedding's half billion is looked up, not multiplied.
N_MULTIPLIED = 7.5e9
MULTIPLIED_BYTES = 15e9
READING = 15e9 / 3.35e12  # of these bytes on the chip, 4.478 ms

law = settings(max_examples=50)
chips = st.builds(
    Hardware,
    name=st.just("any"),
    memory_bytes=st.just(80e9),
    bandwidth_bytes_per_second=st.floats(1e9, 1e13),
    peak_flops_per_second=st.floats(1e9, 1e16),
    dollars_per_hour=st.just(3.0),
)
params = st.floats(1e6, 1e12)


# --- decode_seconds_per_token ------------------------------------------------------------------------------------


@pytest.mark.exercise("decode_seconds_per_token")
def test_decode_seconds_per_token_is_the_time_to_read_all_weights_once(impl):
    # 16·10⁹ / 3.35·10¹² = 4.78 ms, at most 209 tokens/s; 16·10⁹ / 3·10¹² = 5.33 ms, 187.5 tokens/s.
    wrong = {
        "arithmetic only, or the shorter of both: one position waits for the weights to be read": 16e-6,
        "reading and arithmetic added: only the longer counts": 16e9 / 3.35e12 + 16e-6,
        "bytes divided by operations a second: the bandwidth is what they are read with": 16e9 / 1e15,
        "parameters divided by the bandwidth: it is bytes that are read": 8e9 / 3.35e12,
        "bytes a second taken for bits": 8 * 16e9 / 3.35e12,
    }
    got = impl.decode_seconds_per_token(N_PARAMS, WEIGHT_BYTES, CHIP)
    assert_number(got, 16e9 / 3.35e12, wrong, "16·10⁹ bytes at 3.35·10¹² a second")
    got = impl.decode_seconds_per_token(N_PARAMS, WEIGHT_BYTES, SLOWER)
    assert_number(got, 16e9 / 3e12, {}, "16·10⁹ bytes at 3·10¹² a second")
    # 7.5·10⁹ multiplied: 15·10⁹ / 3.35·10¹² = 4.48 ms. 13B: 26·10⁹ / 3.35·10¹² = 7.76 ms, 129 tokens/s.
    got = impl.decode_seconds_per_token(N_MULTIPLIED, MULTIPLIED_BYTES, CHIP)
    assert_number(got, READING, {}, "15·10⁹ bytes at 3.35·10¹² a second")
    assert_number(impl.decode_seconds_per_token(13e9, 26e9, H100), 26e9 / 3.35e12, {}, "26·10⁹ bytes at 3.35·10¹²")


@pytest.mark.exercise("decode_seconds_per_token")
def test_decode_seconds_per_token_of_8_bit_weights_is_half(impl):
    wrong = {"weight_bytes ignored, or the two rates swapped: as if 2·n_params bytes were read": 16e9 / 3.35e12}
    got = impl.decode_seconds_per_token(8e9, 8e9, CHIP)
    assert_number(got, 8e9 / 3.35e12, wrong, "8·10⁹ bytes at 3.35·10¹² a second")


@pytest.mark.exercise("decode_seconds_per_token")
def test_decode_seconds_per_token_adds_the_reading_of_the_cache(impl):
    # 131,072 tokens of 131,072 bytes: 17.18 GB more than the 15 GB of weights, (15 + 17.18) / 15 = 2.145.
    cache = 17_179_869_184
    wrong = {
        "the longer of cache and weights was taken: they add up": cache / 3.35e12,
        "the cache was left out: its bytes are read as well": READING,
        "the shorter time was taken in place of the longer": 15e-6 + cache / 3.35e12,
    }
    got = impl.decode_seconds_per_token(N_MULTIPLIED, MULTIPLIED_BYTES, CHIP, kv_bytes=cache)
    assert_number(got, (15e9 + cache) / 3.35e12, wrong, "15·10⁹ + 17.18·10⁹ bytes at 3.35·10¹² a second")
    assert got / READING == pytest.approx(2.145, abs=2e-3)


@pytest.mark.exercise("decode_seconds_per_token")
def test_decode_seconds_per_token_is_arithmetic_on_a_chip_that_reads_faster_than_it_multiplies(impl):
    chip = replace(CHIP, peak_flops_per_second=1e12)  # 2 · 8·10⁹ / 10¹² = 16 ms against 4.78 ms of reading
    wrong = {
        "reading only: here the arithmetic takes longer": 16e9 / 3.35e12,
        "factor 2 forgotten: each parameter is multiplied and added": 8e-3,
        "reading and arithmetic added: only the longer counts": 16e9 / 3.35e12 + 16e-3,
        "arithmetic counted on bytes: it is parameters that are multiplied": 32e-3,
    }
    got = impl.decode_seconds_per_token(N_PARAMS, WEIGHT_BYTES, chip)
    assert_number(got, 16e-3, wrong, "2 · 8·10⁹ operations at 10¹² a second")
    wrong = {"the cache hides behind the arithmetic: its reading comes on top": 16e-3}
    got = impl.decode_seconds_per_token(N_PARAMS, WEIGHT_BYTES, chip, kv_bytes=3.35e9)  # 1 ms of reading
    assert_number(got, 17e-3, wrong, "16 ms of arithmetic and 1 ms for the cache")


@pytest.mark.exercise("decode_seconds_per_token")
@pytest.mark.parametrize(
    ("arguments", "blamed"),
    [
        ((-8e9, 16e9, CHIP), "n_params"),
        ((0, 16e9, CHIP), "n_params"),
        ((8e9, 0, CHIP), "weight_bytes"),
        ((8e9, 16e9, CHIP, -1), "kv_bytes"),
    ],
)
def test_decode_seconds_per_token_refuses_what_is_no_pass(impl, arguments, blamed):
    assert_refuses(blamed, impl.decode_seconds_per_token, *arguments)


# --- prefill_seconds ---------------------------------------------------------------------------------------------


@pytest.mark.exercise("prefill_seconds")
def test_prefill_seconds_of_a_long_prompt_are_its_arithmetic(impl):
    # 2 · 8·10⁹ · 1,000 / 10¹⁵ = 16.0 ms; 2,000 tokens 32 ms; 2 · 7.5·10⁹ · 1,024 / 10¹⁵ = 15.36 ms.
    wrong = {
        "factor 2 forgotten: each parameter is multiplied and added": 8e-3,
        "weights read once per position: a prefill reads them once": 16e12 / 3.35e12,
        "reading and arithmetic added: only the longer counts": 16e-3 + 16e9 / 3.35e12,
        "reading only: 1,000 positions take longer to multiply (are all counted? does the longer count?)": 16e9
        / 3.35e12,
        "one position too few: the last of the prompt is run too": 2 * 8e9 * 999 / 1e15,
        "arithmetic counted on bytes: it is parameters that are multiplied": 32e-3,
    }
    got = impl.prefill_seconds(1000, N_PARAMS, WEIGHT_BYTES, CHIP)
    assert_number(got, 16e-3, wrong, "2 · 8·10⁹ · 1,000 operations at 10¹⁵ a second")
    assert_number(impl.prefill_seconds(2000, N_PARAMS, WEIGHT_BYTES, SLOWER), 32e-3, {}, "2,000 positions")
    got = impl.prefill_seconds(1024, N_MULTIPLIED, MULTIPLIED_BYTES, CHIP)
    assert_number(got, 15.36e-3, {}, "2 · 7.5·10⁹ · 1,024 operations at 10¹⁵ a second")
    # 4.478 ms of reading for a written token; 15.36 ms / 1,024 = 0.015 ms for one of the prompt: a 300th.
    assert READING / (got / 1024) == pytest.approx(298.5, abs=0.1)


@pytest.mark.exercise("prefill_seconds")
def test_prefill_seconds_of_a_short_prompt_are_the_reading_of_the_weights(impl):
    # 0.015 ms of arithmetic a position: 100 positions take 1.5 ms, and the weights 15·10⁹ / 3.35·10¹² = 4.48 ms.
    wrong = {
        "arithmetic only: the weights must be read, however short the prompt": 1.5e-3,
        "weights read once per position: a prefill reads them once": 100 * READING,
    }
    got = impl.prefill_seconds(100, N_MULTIPLIED, MULTIPLIED_BYTES, CHIP)
    assert_number(got, READING, wrong, "15·10⁹ bytes at 3.35·10¹² a second, longer than 1.5 ms of arithmetic")
    wrong = {"weight_bytes ignored: 2 bytes a parameter were read, and these have 1": READING}
    got = impl.prefill_seconds(100, N_MULTIPLIED, 7.5e9, CHIP)
    assert_number(got, READING / 2, wrong, "7.5·10⁹ bytes at 3.35·10¹² a second")


@pytest.mark.exercise("prefill_seconds")
@law
@given(chip=chips, n_params=params, n_tokens=st.integers(1, 10_000))
def test_prefill_seconds_never_fall_when_the_prompt_grows(impl, chip, n_params, n_tokens):
    shorter = impl.prefill_seconds(n_tokens, n_params, 2 * n_params, chip)
    longer = impl.prefill_seconds(n_tokens + 1, n_params, 2 * n_params, chip)
    assert shorter <= longer * (1 + 1e-12), "a longer prompt is never faster"
    assert longer <= 2 * shorter * (1 + 1e-12), "one token more never more than doubles the time"


@pytest.mark.exercise("prefill_seconds")
@pytest.mark.parametrize(
    ("arguments", "blamed"),
    [
        ((0, 8e9, 16e9, CHIP), "n_prompt_tokens"),
        ((1.5, 8e9, 16e9, CHIP), "n_prompt_tokens"),
        ((10, 0, 16e9, CHIP), "n_params"),
        ((10, 8e9, 0, CHIP), "weight_bytes"),
        ((10, 8e9, -16e9, CHIP), "weight_bytes"),
    ],
)
def test_prefill_seconds_refuses_what_is_no_prompt(impl, arguments, blamed):
    assert_refuses(blamed, impl.prefill_seconds, *arguments)


# --- the engine's own messages -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "arguments", "blamed"),
    [
        ("matmul_flops", (0, 10), "n_params"),
        ("arithmetic_intensity", (1, 8e9, 16e9, -1), "kv_bytes"),
        ("bottleneck", (float("nan"), CHIP), "intensity"),
        ("decode_seconds_per_token", (8e9, float("inf"), CHIP), "weight_bytes"),
        ("prefill_seconds", (0.5, 8e9, 16e9, CHIP), "n_prompt_tokens"),
        ("attention_share_of_prefill", (1024, 7.5e9, 0, 32, 128), "n_layers"),
        ("end_to_end_seconds", (-0.1, 0.025, 300), "ttft_seconds"),
        ("tokens_per_second", (0.01, 0), "batch_size"),
    ],
)
def test_the_engine_says_of_bad_input_what_is_allowed(function, arguments, blamed):
    with pytest.raises(ValueError, match=f"{blamed} is .* must be "):
        getattr(roofline, function)(*arguments)
