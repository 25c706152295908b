"""Grades `roofline`: what bounds a pass, and how long a request waits. Figures are literals, derived by hand."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusal import assert_refuses

from nanolm.budget import H100, Hardware

# The chip of the worked examples: round arithmetic, an H100's bandwidth.
CHIP = replace(H100, peak_flops_per_second=1e15)
SLOWER = replace(CHIP, bandwidth_bytes_per_second=3.0e12)
N_PARAMS = 8e9
WEIGHT_BYTES = 16e9  # 2 bytes each
# Of those 8·10⁹ the embedding's half billion is looked up, not multiplied.
N_MULTIPLIED = 7.5e9
MULTIPLIED_BYTES = 15e9

law = settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
chips = st.builds(
    Hardware,
    name=st.just("any"),
    memory_bytes=st.just(80e9),
    bandwidth_bytes_per_second=st.floats(1e9, 1e13),
    peak_flops_per_second=st.floats(1e9, 1e16),
    dollars_per_hour=st.just(3.0),
)
params = st.floats(1e6, 1e12)


@pytest.mark.exercise("matmul_flops")
def test_matmul_flops_counts_a_multiplication_and_an_addition_for_each_parameter_and_position(impl):
    got = impl.matmul_flops(N_PARAMS, 2000)
    assert got != 1.6e13, "factor 2 forgotten: each parameter is multiplied and added"
    assert got == pytest.approx(3.2e13), "2 · 8·10⁹ · 2,000 = 3.2·10¹³ operations"
    # One position of a model with 8·10⁹ and of one with 37·10⁹ active parameters.
    assert impl.matmul_flops(8e9, 1) == pytest.approx(1.6e10)
    assert impl.matmul_flops(37e9, 1) == pytest.approx(7.4e10)


@pytest.mark.exercise("arithmetic_intensity")
def test_arithmetic_intensity_is_1_for_decode_and_1000_for_a_prefill_of_1000_tokens(impl):
    # Decode: 2 · 8·10⁹ operations for 16·10⁹ bytes. Prefill reads the same bytes for 1,000 positions.
    decode = impl.arithmetic_intensity(1, N_PARAMS, WEIGHT_BYTES)
    assert decode != 0.5, "factor 2 forgotten: each parameter is multiplied and added"
    assert decode == pytest.approx(1.0)
    prefill = impl.arithmetic_intensity(1000, N_PARAMS, WEIGHT_BYTES)
    assert prefill != pytest.approx(1.0), "weights counted once per position: a pass reads them once for all of them"
    assert prefill == pytest.approx(1000.0)


@pytest.mark.exercise("arithmetic_intensity")
def test_arithmetic_intensity_of_a_batch_falls_with_the_bytes_of_its_caches(impl):
    # 32 sequences with a gigabyte of cache each: 2 · 8·10⁹ · 32 / (16 + 32)·10⁹ = 512 / 48.
    got = impl.arithmetic_intensity(32, N_PARAMS, WEIGHT_BYTES, kv_bytes=32e9)
    assert got != pytest.approx(32.0), "the cache's bytes are left out of what the pass reads"
    assert got == pytest.approx(10.6667, rel=1e-4)


@pytest.mark.exercise("ridge_point")
def test_ridge_point_is_operations_per_second_over_bytes_per_second(impl):
    # 10¹⁵ / 3.35·10¹² and 10¹⁵ / 3·10¹².
    got = impl.ridge_point(CHIP)
    assert got != pytest.approx(3.35e-3), "upside down: operations a byte, not bytes an operation"
    assert got == pytest.approx(298.5, abs=0.05)
    assert impl.ridge_point(SLOWER) == pytest.approx(333.3, abs=0.05)


@pytest.mark.exercise("bottleneck")
def test_bottleneck_is_memory_for_decode_and_compute_for_a_long_prefill(impl):
    # Intensities 1 and 1,024 against a ridge point of 298.5.
    assert impl.bottleneck(1.0, CHIP) == "memory", "far below the ridge point the chip waits for bytes"
    assert impl.bottleneck(1024.0, CHIP) == "compute", "far above the ridge point the chip waits for arithmetic"
    # 13B in a batch of 32: 2 · 13·10⁹ · 32 operations for 26·10⁹ bytes, intensity 32; the H100's ridge is at 295.
    assert impl.bottleneck(32.0, H100) == "memory"


@pytest.mark.exercise("bottleneck")
def test_bottleneck_says_compute_exactly_at_the_ridge_point(impl):
    chip = replace(CHIP, bandwidth_bytes_per_second=2.0e12)  # 10¹⁵ / 2·10¹² = 500 exactly
    assert impl.bottleneck(499.99, chip) == "memory"
    assert impl.bottleneck(500.0, chip) == "compute", "at the ridge point itself the arithmetic counts"


@pytest.mark.exercise("decode_seconds_per_token")
def test_decode_seconds_per_token_is_the_time_to_read_all_weights_once(impl):
    # 16·10⁹ / 3.35·10¹² = 4.78 ms, at most 209 tokens/s; 16·10⁹ / 3·10¹² = 5.33 ms, 187.5 tokens/s.
    got = impl.decode_seconds_per_token(N_PARAMS, WEIGHT_BYTES, CHIP)
    assert got != pytest.approx(16e-6), "arithmetic only: one position waits for the weights to be read"
    assert got != pytest.approx(4.792e-3, rel=1e-4), "reading and arithmetic added: only the longer counts"
    assert got == pytest.approx(4.776e-3, rel=1e-4)
    assert 1 / got == pytest.approx(208.8, abs=0.7)
    slower = impl.decode_seconds_per_token(N_PARAMS, WEIGHT_BYTES, SLOWER)
    assert slower == pytest.approx(5.333e-3, rel=1e-4)
    assert 1 / slower == pytest.approx(187.5, rel=1e-4)
    # 7.5·10⁹ multiplied: 15·10⁹ / 3.35·10¹² = 4.48 ms. 13B: 26·10⁹ / 3.35·10¹² = 7.76 ms, 129 tokens/s.
    assert impl.decode_seconds_per_token(N_MULTIPLIED, MULTIPLIED_BYTES, CHIP) == pytest.approx(4.478e-3, rel=1e-4)
    assert 1 / impl.decode_seconds_per_token(13e9, 26e9, H100) == pytest.approx(128.8, abs=0.1)


@pytest.mark.exercise("decode_seconds_per_token")
def test_decode_seconds_per_token_adds_the_reading_of_the_cache(impl):
    # 131,072 tokens of 131,072 bytes: 17.18 GB more than the 15 GB of weights, (15 + 17.18) / 15 = 2.145.
    short = impl.decode_seconds_per_token(N_MULTIPLIED, MULTIPLIED_BYTES, CHIP)
    long = impl.decode_seconds_per_token(N_MULTIPLIED, MULTIPLIED_BYTES, CHIP, kv_bytes=17_179_869_184)
    assert long / short != pytest.approx(1.145, abs=2e-3), "the longer of cache and weights was taken: they add up"
    assert long / short == pytest.approx(2.145, abs=2e-3)


@pytest.mark.exercise("decode_seconds_per_token")
def test_decode_seconds_per_token_is_arithmetic_on_a_chip_that_reads_faster_than_it_multiplies(impl):
    chip = replace(CHIP, peak_flops_per_second=1e12)  # 2 · 8·10⁹ / 10¹² = 16 ms against 4.78 ms of reading
    got = impl.decode_seconds_per_token(N_PARAMS, WEIGHT_BYTES, chip)
    assert got == pytest.approx(16e-3), "reading only: here the arithmetic takes longer"


@pytest.mark.exercise("prefill_seconds")
def test_prefill_seconds_of_a_long_prompt_are_its_arithmetic(impl):
    # 2 · 8·10⁹ · 1,000 / 10¹⁵ = 16.0 ms; 2,000 tokens 32 ms; 2 · 7.5·10⁹ · 1,024 / 10¹⁵ = 15.36 ms.
    got = impl.prefill_seconds(1000, N_PARAMS, WEIGHT_BYTES, CHIP)
    assert got != pytest.approx(8e-3), "factor 2 forgotten: each parameter is multiplied and added"
    assert got != pytest.approx(4.776, rel=1e-3), "weights read once per position: a prefill reads them once"
    assert got == pytest.approx(16.0e-3)
    assert impl.prefill_seconds(2000, N_PARAMS, WEIGHT_BYTES, SLOWER) == pytest.approx(32e-3)
    assert impl.prefill_seconds(1024, N_MULTIPLIED, MULTIPLIED_BYTES, CHIP) == pytest.approx(15.36e-3)


@pytest.mark.exercise("prefill_seconds")
def test_prefill_seconds_of_a_short_prompt_are_the_reading_of_the_weights(impl):
    # 0.015 ms of arithmetic a position: 100 positions take 1.5 ms, and the weights 15·10⁹ / 3.35·10¹² = 4.48 ms.
    got = impl.prefill_seconds(100, N_MULTIPLIED, MULTIPLIED_BYTES, CHIP)
    assert got != pytest.approx(1.5e-3), "arithmetic only: the weights must be read, however short the prompt"
    assert got == pytest.approx(4.478e-3, rel=1e-4)


@pytest.mark.exercise("prefill_seconds")
def test_prefill_seconds_per_prompt_token_are_a_300th_of_a_written_token(impl):
    # 4.478 ms of reading for a written token; 15.36 ms / 1,024 = 0.015 ms for one of the prompt.
    per_token = impl.prefill_seconds(1024, N_MULTIPLIED, MULTIPLIED_BYTES, CHIP) / 1024
    assert per_token == pytest.approx(0.015e-3)
    assert 4.478e-3 / per_token == pytest.approx(298.5, abs=0.1)


@pytest.mark.exercise("attention_share_of_prefill")
def test_attention_share_of_prefill_is_about_2_percent_for_1024_tokens(impl):
    # 4 · 32 layers · 4,096 · 512.5 positions seen on average = 2.687·10⁸, against 2 · 7.5·10⁹ a position: 1.79 %.
    got = impl.attention_share_of_prefill(1024, N_MULTIPLIED, n_layers=32, n_heads=32, head_dim=128)
    assert got != pytest.approx(0.0358, abs=3e-4), "causal mask forgotten: a position sees half the prompt on average"
    assert got != pytest.approx(0.0090, abs=2e-4), "only the scores, or only the values, were counted"
    assert got == pytest.approx(0.0179, abs=5e-5)


@pytest.mark.exercise("attention_share_of_prefill")
def test_attention_share_of_prefill_counts_the_current_token(impl):
    # A prompt of one token sees itself: 4 · 1 · 2 · 8 · 1 operations against 2 · 64.
    got = impl.attention_share_of_prefill(1, 64, n_layers=1, n_heads=2, head_dim=8)
    assert got != 0, "current token left out: position t sees t positions, itself included"
    assert got == pytest.approx(0.5)


@pytest.mark.exercise("end_to_end_seconds")
def test_end_to_end_seconds_waits_once_for_the_first_token_and_then_for_each_other(impl):
    # 0.2 s + 299 · 25 ms = 7.675 s.
    got = impl.end_to_end_seconds(0.200, 0.025, 300)
    assert got != pytest.approx(7.7), "the first token is already there after TTFT: 299 others follow"
    assert got == pytest.approx(7.675)
    assert impl.end_to_end_seconds(0.200, 0.025, 1) == pytest.approx(0.200), "one token: TTFT and nothing more"


@pytest.mark.exercise("tokens_per_second")
def test_tokens_per_second_count_one_token_for_each_sequence_and_step(impl):
    # 1 / 25 ms = 40. A batch of 32 in 15.05 ms: 2,126; one sequence in 5.115 ms: 195.5. Caches alone, 0.3205 ms a
    # sequence: 3,120, the ceiling that a growing batch approaches.
    assert impl.tokens_per_second(0.025) == pytest.approx(40)
    got = impl.tokens_per_second(15.0507e-3, 32)
    assert got != pytest.approx(66.4, abs=0.1), "batch forgotten: each of the 32 sequences gets a token"
    assert got == pytest.approx(2126, abs=1)
    assert impl.tokens_per_second(5.1146e-3) == pytest.approx(195.5, abs=0.05)
    assert impl.tokens_per_second(0.32052e-3) == pytest.approx(3120, abs=1)


@pytest.mark.exercise("bottleneck")
@law
@given(chip=chips, n_params=params, n_tokens=st.integers(1, 10_000))
def test_bottleneck_names_the_longer_of_reading_and_arithmetic(impl, chip, n_params, n_tokens):
    reading = 2 * n_params / chip.bandwidth_bytes_per_second
    arithmetic = 2 * n_params * n_tokens / chip.peak_flops_per_second
    if reading == pytest.approx(arithmetic):
        return
    assert impl.bottleneck(float(n_tokens), chip) == ("memory" if reading > arithmetic else "compute")


@pytest.mark.exercise("prefill_seconds")
@law
@given(chip=chips, n_params=params, n_tokens=st.integers(1, 10_000))
def test_prefill_seconds_never_fall_when_the_prompt_grows(impl, chip, n_params, n_tokens):
    shorter = impl.prefill_seconds(n_tokens, n_params, 2 * n_params, chip)
    longer = impl.prefill_seconds(n_tokens + 1, n_params, 2 * n_params, chip)
    assert shorter <= longer <= 2 * shorter, "a longer prompt is never faster, and one token never doubles the time"


BAD_INPUT = [
    ("matmul_flops", (0, 10), "n_params"),
    ("matmul_flops", (8e9, -1), "n_tokens"),
    ("arithmetic_intensity", (0, 8e9, 16e9), "n_tokens"),
    ("arithmetic_intensity", (1, 8e9, 0), "weight_bytes"),
    ("arithmetic_intensity", (1, 8e9, 16e9, -1), "kv_bytes"),
    ("bottleneck", (-1.0, CHIP), "intensity"),
    ("bottleneck", (float("nan"), CHIP), "intensity"),
    ("decode_seconds_per_token", (-8e9, 16e9, CHIP), "n_params"),
    ("decode_seconds_per_token", (8e9, 16e9, CHIP, -1), "kv_bytes"),
    ("prefill_seconds", (0, 8e9, 16e9, CHIP), "n_prompt_tokens"),
    ("prefill_seconds", (10, 8e9, float("inf"), CHIP), "weight_bytes"),
    ("attention_share_of_prefill", (1024, 7.5e9, 0, 32, 128), "n_layers"),
    ("attention_share_of_prefill", (0.5, 7.5e9, 32, 32, 128), "n_prompt_tokens"),
    ("end_to_end_seconds", (-0.1, 0.025, 300), "ttft_seconds"),
    ("end_to_end_seconds", (0.2, 0.025, 0), "n_output_tokens"),
    ("tokens_per_second", (0.0,), "step_seconds"),
    ("tokens_per_second", (0.01, 0), "batch_size"),
]


@pytest.mark.parametrize(
    ("function", "arguments", "blamed"),
    [pytest.param(*c, marks=pytest.mark.exercise(c[0]), id=f"{c[0]}-{c[2]}") for c in BAD_INPUT],
)
def test_bad_input_is_refused_and_named_by(impl, function, arguments, blamed):
    assert_refuses(blamed, getattr(impl, function), *arguments)
