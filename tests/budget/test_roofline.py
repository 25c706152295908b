"""Grades `roofline`: what bounds a pass. Figures are literals and their quotients, derived by hand.

How long a pass and a request take is graded in test_pass_times.py.
"""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from named import assert_number
from refusal import assert_refuses

from nanolm.budget import A100, H100, Hardware

NAN, INF = float("nan"), float("inf")
# The chip of the worked examples: round arithmetic, an H100's bandwidth.
CHIP = replace(H100, peak_flops_per_second=1e15)
SLOWER = replace(CHIP, bandwidth_bytes_per_second=3.0e12)

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


# --- matmul_flops ------------------------------------------------------------------------------------------------


@pytest.mark.exercise("matmul_flops")
def test_matmul_flops_counts_a_multiplication_and_an_addition_for_each_parameter_and_position(impl):
    wrong = {
        "factor 2 forgotten: each parameter is multiplied and added": 1.6e13,
        "a single position was counted: each of the 2,000 is multiplied with all parameters": 1.6e10,
        "6 operations a parameter are training's, with its backward pass: a forward pass has 2": 9.6e13,
        "one position too few: a pass over 2,000 multiplies 2,000": 2 * 8e9 * 1999,
        "one position too many: a pass over 2,000 multiplies 2,000": 2 * 8e9 * 2001,
        "every position was counted with every other, as in attention; a weight meets each position once": 6.4e16,
        "parameters and positions were added: each parameter is used at each position, so they multiply": 2 * 8e9 + 2e3,
    }
    assert_number(impl.matmul_flops(8e9, 2000), 3.2e13, wrong, "2 · 8·10⁹ · 2,000 = 3.2·10¹³ operations")
    # One position of a model with 8·10⁹ and of one with 37·10⁹ active parameters.
    assert_number(impl.matmul_flops(8e9, 1), 1.6e10, {}, "2 · 8·10⁹ · 1 = 1.6·10¹⁰ operations")
    assert_number(impl.matmul_flops(37e9, 1), 7.4e10, {}, "2 · 37·10⁹ · 1 = 7.4·10¹⁰ operations")


@pytest.mark.exercise("matmul_flops")
def test_matmul_flops_of_no_position_are_none(impl):
    try:
        got = impl.matmul_flops(8e9, 0)
    except ValueError as error:
        pytest.fail(f"no position is no mistake, 0 operations; it was refused: {error}")
    assert got == 0, f"a pass over no position has 0 operations, not {got}"


@pytest.mark.exercise("matmul_flops")
@law
@given(n_params=params, n_tokens=st.integers(1, 10**6))
def test_matmul_flops_grow_in_step_with_parameters_and_with_positions(impl, n_params, n_tokens):
    once = impl.matmul_flops(n_params, n_tokens)
    assert impl.matmul_flops(2 * n_params, n_tokens) == pytest.approx(2 * once), "twice the parameters, twice the work"
    assert impl.matmul_flops(n_params, 3 * n_tokens) == pytest.approx(3 * once), "three times the positions"


@pytest.mark.exercise("matmul_flops")
@pytest.mark.parametrize(
    ("arguments", "blamed"), [((0, 10), "n_params"), ((-8e9, 10), "n_params"), ((8e9, -1), "n_tokens")]
)
def test_matmul_flops_refuses_what_is_no_pass(impl, arguments, blamed):
    assert_refuses(blamed, impl.matmul_flops, *arguments)


@pytest.mark.exercise("matmul_flops")
def test_matmul_flops_refuses_half_a_position(impl):
    assert_refuses("n_tokens", impl.matmul_flops, 8e9, 1.5)


# --- arithmetic_intensity ----------------------------------------------------------------------------------------


@pytest.mark.exercise("arithmetic_intensity")
def test_arithmetic_intensity_is_1_for_decode_and_1000_for_a_prefill_of_1000_tokens(impl):
    # Decode: 2 · 8·10⁹ operations for 16·10⁹ bytes. Prefill reads the same bytes for 1,000 positions.
    wrong = {"factor 2 forgotten: each parameter is multiplied and added": 0.5}
    assert_number(impl.arithmetic_intensity(1, 8e9, 16e9), 1.0, wrong, "2 · 8·10⁹ operations for 16·10⁹ bytes")
    wrong = {
        "weights counted once per position, or n_tokens ignored: one reading serves all of them": 1.0,
        "upside down: operations a byte, not bytes an operation": 1e-3,
    }
    assert_number(impl.arithmetic_intensity(1000, 8e9, 16e9), 1000.0, wrong, "2 · 8·10⁹ · 1,000 over 16·10⁹ bytes")


@pytest.mark.exercise("arithmetic_intensity")
def test_arithmetic_intensity_of_a_batch_falls_with_the_bytes_of_its_caches(impl):
    # 32 sequences with a gigabyte of cache each: 2 · 8·10⁹ · 32 / (16 + 32)·10⁹ = 512 / 48.
    wrong = {
        "the cache's bytes are left out of what the pass reads": 32.0,
        "kv_bytes are of all sequences together already: they were multiplied by n_tokens again": 512 / (16 + 32 * 32),
        "the cache was added to the quotient: put the sum of all bytes in brackets": 512 / 16 + 32e9,
        "the weights' bytes are left out where there is a cache: a pass reads both": 512 / 32,
    }
    got = impl.arithmetic_intensity(32, 8e9, 16e9, kv_bytes=32e9)
    assert_number(got, 512 / 48, wrong, "512·10⁹ operations for 16·10⁹ + 32·10⁹ bytes")


@pytest.mark.exercise("arithmetic_intensity")
def test_arithmetic_intensity_of_8_bit_weights_is_twice_as_high(impl):
    # The same operations for half the bytes: what counts is what is read, not a fixed 2 bytes a parameter.
    wrong = {"weight_bytes ignored: 2 bytes a parameter were taken, and these weights have 1": 1.0}
    assert_number(impl.arithmetic_intensity(1, 8e9, 8e9), 2.0, wrong, "2 · 8·10⁹ operations for 8·10⁹ bytes")


@pytest.mark.exercise("arithmetic_intensity")
@law
@given(n_tokens=st.integers(1, 10**5), n_params=params, weights=params, cache=params)
def test_arithmetic_intensity_follows_each_argument(impl, n_tokens, n_params, weights, cache):
    once = impl.arithmetic_intensity(n_tokens, n_params, weights, cache)
    twice = impl.arithmetic_intensity(2 * n_tokens, n_params, weights, cache)
    assert twice == pytest.approx(2 * once), "twice the positions, twice the operations for the same bytes"
    twice = impl.arithmetic_intensity(n_tokens, 2 * n_params, weights, cache)
    assert twice == pytest.approx(2 * once), "twice the parameters, twice the operations for the same bytes"
    half = impl.arithmetic_intensity(n_tokens, n_params, 2 * weights, 2 * cache)
    assert half == pytest.approx(once / 2), "twice the bytes of both kinds, half the operations a byte"


@pytest.mark.exercise("arithmetic_intensity")
@pytest.mark.parametrize(
    ("arguments", "blamed"),
    [
        ((0, 8e9, 16e9), "n_tokens"),
        ((1.5, 8e9, 16e9), "n_tokens"),
        ((1, 0, 16e9), "n_params"),
        ((1, 8e9, 0), "weight_bytes"),
        ((1, 8e9, -1), "weight_bytes"),
        ((1, 8e9, 16e9, -1), "kv_bytes"),
    ],
)
def test_arithmetic_intensity_refuses_what_is_no_pass(impl, arguments, blamed):
    assert_refuses(blamed, impl.arithmetic_intensity, *arguments)


# --- ridge_point -------------------------------------------------------------------------------------------------


@pytest.mark.exercise("ridge_point")
def test_ridge_point_is_operations_per_second_over_bytes_per_second(impl):
    # 10¹⁵ / 3.35·10¹² = 298.5.
    wrong = {
        "upside down: operations a byte, not bytes an operation": 3.35e12 / 1e15,
        "a factor 2 too many: the peak counts multiplications and additions already": 2e15 / 3.35e12,
        "half of it: the peak counts multiplications and additions, and so does an intensity": 1e15 / 6.7e12,
        "rounded down: the ridge point is a quotient, 298.5…": 298.0,
        "the memory's size was taken for its bandwidth": 1e15 / 80e9,
        "bits taken for bytes": 1e15 / (8 * 3.35e12),
        "an H100's own figures were used: those of `hardware` count": 989e12 / 3.35e12,
    }
    assert_number(impl.ridge_point(CHIP), 1e15 / 3.35e12, wrong, "10¹⁵ operations a second / 3.35·10¹² bytes a second")
    assert_number(impl.ridge_point(SLOWER), 1e15 / 3e12, {}, "10¹⁵ operations a second / 3·10¹² bytes a second")


@pytest.mark.exercise("ridge_point")
@law
@given(chip=chips)
def test_ridge_point_is_where_reading_and_arithmetic_take_equally_long(impl, chip):
    ridge = impl.ridge_point(chip)
    # A gigabyte, and for each of its bytes as many operations as the ridge point says.
    reading, arithmetic = 1e9 / chip.bandwidth_bytes_per_second, 1e9 * ridge / chip.peak_flops_per_second
    assert reading == pytest.approx(arithmetic), f"a gigabyte is read in {reading} s and worked on in {arithmetic} s"


# --- bottleneck --------------------------------------------------------------------------------------------------


def said(impl, intensity, chip=CHIP):
    """What bottleneck says, which must be one of its two words."""
    got = impl.bottleneck(intensity, chip)
    assert got in ("memory", "compute"), f'the result is "memory" or "compute", not {got!r}'
    return got


@pytest.mark.exercise("bottleneck")
def test_bottleneck_is_memory_for_decode_and_compute_for_a_long_prefill(impl):
    # Intensities 1 and 1,024 against a ridge point of 298.5.
    decode, prefill = said(impl, 1.0), said(impl, 1024.0)
    assert (decode, prefill) != ("compute", "memory"), (
        "the wrong way round: far below the ridge point the chip waits for bytes, far above for arithmetic"
    )
    assert decode == "memory", "intensity 1 is far below this chip's ridge point, 298.5: the chip waits for bytes"
    assert prefill == "compute", "intensity 1,024 is far above the ridge point, 298.5: it waits for arithmetic"
    # 13B in a batch of 32: 2 · 13·10⁹ · 32 operations for 26·10⁹ bytes, intensity 32; the H100's ridge is at 295.
    assert said(impl, 32.0, H100) == "memory", "an intensity of 32 is above 1 and still below the ridge point, 295"


@pytest.mark.exercise("bottleneck")
def test_bottleneck_asks_the_chip_that_it_is_given(impl):
    # An A100 reads 2.039·10¹² bytes and does 312·10¹² operations a second: its ridge point is 153.
    assert said(impl, 200.0, H100) == "memory", "200 is below an H100's ridge point, 295"
    assert said(impl, 200.0, A100) == "compute", "200 is above an A100's ridge point, 153: each chip has its own"


@pytest.mark.exercise("bottleneck")
def test_bottleneck_says_compute_exactly_at_the_ridge_point(impl):
    chip = replace(CHIP, bandwidth_bytes_per_second=2.0e12)  # 10¹⁵ / 2·10¹² = 500 exactly
    assert said(impl, 499.99, chip) == "memory", "499.99 is below the ridge point of this chip, 500"
    assert said(impl, 500.0, chip) == "compute", "at the ridge point itself the arithmetic counts"


@pytest.mark.exercise("bottleneck")
def test_bottleneck_of_no_operation_at_all_is_memory(impl):
    try:
        got = said(impl, 0.0)
    except ValueError as error:
        pytest.fail(f"an intensity of 0 is allowed, a pass that only reads; it was refused: {error}")
    assert got == "memory", "a pass that only reads waits for memory"


@pytest.mark.exercise("bottleneck")
@law
@given(chip=chips, n_params=params, n_tokens=st.integers(1, 10_000))
def test_bottleneck_names_the_longer_of_reading_and_arithmetic(impl, chip, n_params, n_tokens):
    reading = 2 * n_params / chip.bandwidth_bytes_per_second
    arithmetic = 2 * n_params * n_tokens / chip.peak_flops_per_second
    if reading == pytest.approx(arithmetic):
        return
    longer = "memory" if reading > arithmetic else "compute"
    assert said(impl, float(n_tokens), chip) == longer, f"reading takes {reading:.3g} s, arithmetic {arithmetic:.3g} s"


@pytest.mark.exercise("bottleneck")
@pytest.mark.parametrize("intensity", [-1.0, -1e-9, NAN, INF])
def test_bottleneck_refuses_what_is_no_intensity(impl, intensity):
    assert_refuses("intensity", impl.bottleneck, intensity, CHIP)
