"""Grades `budget`: how much fits.

Figures are literals, derived by hand in the comment beside them.
"""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusal import assert_refuses

from nanolm import budget
from nanolm.budget import DEEPSEEK_V3, LLAMA_3_8B, LLAMA_3_70B, MODEL_13B, SMALL_MHA

MHA = replace(LLAMA_3_8B, n_kv_heads=32)
MQA = replace(LLAMA_3_8B, n_kv_heads=1)


def check(got, expected, what="the result"):
    assert got == expected, f"{what}: got {got:,}, expected {expected:,}"


def check_is_whole(got, what):
    assert not isinstance(got, float), f"{what} are a whole number, an int; {got} is a float"


law = settings(max_examples=50)


@pytest.mark.exercise("kv_bytes_per_token")
def test_kv_bytes_per_token_of_llama3_8b_are_128_kib(impl):
    # 2 (key and value) · 32 layers · 8 KV heads · 128 = 65,536 numbers of 2 bytes = 131,072 B.
    got = impl.kv_bytes_per_token(LLAMA_3_8B)
    assert got != 524_288, "N heads used in place of K: 4x too large"
    assert got != 65_536, "factor 2 for K and V forgotten: 2x too small"
    assert got != 4_096, "layers forgotten: each of the 32 layers has keys and values of its own"
    assert got != 1_048_576, "bits taken for bytes: 8x too large"
    check(got, 131_072)
    check_is_whole(got, "bytes")


@pytest.mark.exercise("kv_bytes_per_token")
def test_kv_bytes_per_token_follow_the_kv_heads(impl):
    # Of 131,072 B with 8 KV heads: 32 take 4 times as much, 1 an eighth.
    check(impl.kv_bytes_per_token(MHA), 524_288, "32 query heads and 32 KV heads")
    check(impl.kv_bytes_per_token(MQA), 16_384, "32 query heads and a single KV head")
    # 70B: 2 · 80 · 8 · 128 · 2 B = 320 KiB. 13B: 2 · 40 · 8 · 128 · 2 B. Small MHA: 2 · 16 · 16 · 128 · 2 B.
    assert impl.kv_bytes_per_token(LLAMA_3_70B) == 327_680, "64 query heads share 8 KV heads: those are cached"
    check(impl.kv_bytes_per_token(MODEL_13B), 163_840, "13B, 40 layers")
    check(impl.kv_bytes_per_token(SMALL_MHA), 131_072, "16 layers, 16 KV heads")


@pytest.mark.exercise("kv_bytes_per_token")
def test_kv_bytes_per_token_at_fewer_bits_are_rounded_up(impl):
    got = impl.kv_bytes_per_token(LLAMA_3_8B, kv_bits=8)
    assert got != 131_072, "`kv_bits` was not used: at 8 bits a number takes one byte, not two"
    check(got, 65_536, "8 bits a number")
    check(impl.kv_bytes_per_token(LLAMA_3_8B, kv_bits=4), 32_768, "4 bits a number")
    # 1 layer, 1 KV head, H 1: two numbers of 3 bits, 6 bits, one byte.
    one = impl.kv_bytes_per_token(replace(MQA, n_layers=1, head_dim=1), kv_bits=3)
    check(one, 1, "two numbers of 3 bits: a started byte is a byte")
    # 3 layers: 3 · 2 numbers of 1 bit, 6 bits, are one byte; of 1.5 bits, 9 bits, two.
    three = replace(MQA, n_layers=3, head_dim=1)
    got = impl.kv_bytes_per_token(three, kv_bits=1)
    assert got != 3, "rounded up in every layer: 3 layers of 2 bits share one byte; round once, in the end"
    check(got, 1, "six numbers of 1 bit")
    check(impl.kv_bytes_per_token(three, kv_bits=1.5), 2, "six numbers of 1.5 bits, 9 bits: a started byte is a byte")


@pytest.mark.exercise("kv_bytes_per_token")
def test_kv_bytes_per_token_of_latent_attention_are_one_latent_and_one_rotary_key_a_layer(impl):
    # 61 layers · (512 + 64) numbers · 2 B = 70,272 B. With GQA a layer keeps 2 · 8 · 128 = 2,048 numbers: 3.6x.
    got = impl.kv_bytes_per_token(DEEPSEEK_V3)
    assert got != 3_997_696, "keys and values of all 128 heads counted: latent attention caches what they are made from"
    assert got != 140_544, "no factor 2 for K and V: one latent vector makes both"
    assert got != 62_464, "the rotary key is left out: its 64 numbers are cached beside the 512 of the latent vector"
    assert got != 1_152, "layers forgotten: each of the 61 layers has a latent vector and a rotary key"
    assert got != 562_176, "bits taken for bytes: 8x too large"
    check(got, 70_272)


@pytest.mark.exercise("kv_cache_bytes")
def test_kv_cache_bytes_multiply_tokens_and_sequences(impl):
    # 8,192 · 131,072 B = 2³⁰ B; 16 sequences 2³⁴ B, and 16 GB of weights beside them make 33.18 GB.
    got = impl.kv_cache_bytes(LLAMA_3_8B, 8192)
    assert got != 131_072, "tokens forgotten: this is what one token takes, and there are 8,192"
    check(got, 1_073_741_824, "8,192 tokens of one sequence")
    got = impl.kv_cache_bytes(LLAMA_3_8B, 8192, batch_size=16)
    assert got != 1_073_741_824, "batch forgotten: every sequence has a cache of its own"
    check(got, 17_179_869_184, "16 sequences of 8,192 tokens")
    check_is_whole(got, "bytes")
    assert (got + 16e9) / 1e9 == pytest.approx(33.18, abs=0.005)
    # 256 sequences of 1,024 tokens: 2¹⁸ · 2¹⁷ B = 2³⁵ B; with 15 GB of weights a pass reads 49.4 GB.
    read = impl.kv_cache_bytes(LLAMA_3_8B, 1024, batch_size=256)
    check(read, 34_359_738_368, "256 sequences of 1,024 tokens")
    assert (read + 15e9) / 1e9 == pytest.approx(49.4, abs=0.05)
    # FP8: half of 17.18 GB. MHA: 4 times as much. MQA: an eighth.
    got = impl.kv_cache_bytes(LLAMA_3_8B, 8192, 16, kv_bits=8)
    assert got != 17_179_869_184, "`kv_bits` was not used: at 8 bits the caches take half as much as at 16"
    check(got, 8_589_934_592, "8 bits a number")
    check(impl.kv_cache_bytes(MHA, 8192, 16), 68_719_476_736, "MHA")
    check(impl.kv_cache_bytes(MQA, 8192, 16), 2_147_483_648, "MQA")
    assert impl.kv_cache_bytes(LLAMA_3_8B, 0) == 0, "no token takes no byte: the caches are empty"


@pytest.mark.exercise("kv_cache_bytes")
@pytest.mark.parametrize(
    ("shape", "n_tokens", "batch_size", "gigabytes"),
    [
        # 131,072 B a token with 8 KV heads, 524,288 B with 32.
        (LLAMA_3_8B, 1024, 1, 0.134217728),
        (LLAMA_3_8B, 32_000, 1, 4.194304),
        (LLAMA_3_8B, 131_072, 1, 17.179869184),
        (MHA, 1024, 1, 0.536870912),
        (MHA, 8192, 1, 4.294967296),
        (MHA, 131_072, 1, 68.719476736),
        # 327,680 B a token of the 70B, 163,840 B of the 13B.
        (LLAMA_3_70B, 32_768, 1, 10.73741824),
        (LLAMA_3_70B, 32_768, 4, 42.94967296),
        (MODEL_13B, 4096, 1, 0.67108864),
        # One system prompt of 1,000 tokens: once 131 MB, for each of 20 conversations 2.62 GB.
        (LLAMA_3_8B, 1000, 1, 0.131072),
        (LLAMA_3_8B, 1000, 20, 2.62144),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_kv_cache_bytes_of_known_models(impl, shape, n_tokens, batch_size, gigabytes):
    got = impl.kv_cache_bytes(shape, n_tokens, batch_size)
    assert batch_size == 1 or got * batch_size != round(gigabytes * 1e9), "batch forgotten: each sequence has its own"
    check(got, round(gigabytes * 1e9), f"{shape.name}, {n_tokens:,} tokens, batch {batch_size}")


@pytest.mark.exercise("kv_cache_bytes")
@law
@given(a=st.integers(0, 10**6), b=st.integers(0, 10**6), batch_size=st.integers(1, 500))
def test_kv_cache_bytes_are_additive_in_tokens_and_in_sequences(impl, a, b, batch_size):
    both = impl.kv_cache_bytes(LLAMA_3_8B, a + b, batch_size)
    apart = impl.kv_cache_bytes(LLAMA_3_8B, a, batch_size) + impl.kv_cache_bytes(LLAMA_3_8B, b, batch_size)
    assert both == apart, f"{a:,} and {b:,} tokens take {both:,} B together and {apart:,} B apart"
    one_more = impl.kv_cache_bytes(LLAMA_3_8B, a, batch_size + 1) - impl.kv_cache_bytes(LLAMA_3_8B, a, batch_size)
    assert one_more == impl.kv_cache_bytes(LLAMA_3_8B, a), "batch forgotten: one sequence more, one cache more"


@pytest.mark.exercise("weight_bytes")
def test_weight_bytes_are_parameters_times_bits_in_bytes(impl):
    # 8·10⁹ at 16 bits 16 GB; 70·10⁹ at 16 bits 140 GB, at 4 bits 35 GB.
    got = impl.weight_bytes(8e9)
    assert got != 128e9, "bits taken for bytes: 8x too large"
    check(got, 16_000_000_000, "8·10⁹ parameters of 16 bits")
    check_is_whole(got, "bytes")
    check(impl.weight_bytes(70e9, weight_bits=16), 140_000_000_000, "70·10⁹ parameters of 16 bits")
    got = impl.weight_bytes(70e9, weight_bits=4)
    assert got != 140e9, "`weight_bits` was not used: at 4 bits a parameter takes half a byte, not two"
    assert got != 70e9, "a byte for each parameter: two of 4 bits share one"
    assert got != 0, "half a byte was rounded down to none: divide by 8 in the end, not the bits before"
    check(got, 35_000_000_000, "70·10⁹ parameters of 4 bits")
    # 8,030,261,248 parameters, Llama 3 8B exactly: 16.06 GB. 671·10⁹ at one byte: 671 GB.
    check(impl.weight_bytes(8_030_261_248), 16_060_522_496, "8,030,261,248 parameters of 16 bits")
    check(impl.weight_bytes(671e9, weight_bits=8), 671_000_000_000, "671·10⁹ parameters of 8 bits")


@pytest.mark.exercise("weight_bytes")
def test_weight_bytes_take_fractions_of_bits_and_round_up(impl):
    # A group of 128 at 4 bits and a scale of 2 bytes: 64 + 2 = 66 B, 4.125 bits a weight. Three at 4 bits: 12 bits.
    got = impl.weight_bytes(128, weight_bits=4.125)
    assert got != 64, "the fraction of `weight_bits` was cut off: 0.125 bits of each of 128 weights are 2 bytes"
    check(got, 66, "128 weights of 4.125 bits")
    # 1 or 5 weights of 4 bits are 4 or 20 bits, half a byte or 2.5; 9 of 1 bit are 9, a byte and an eighth.
    for n, bits, n_bytes in ((1, 4, 1), (3, 4, 2), (5, 4, 3), (9, 1, 2)):
        got = impl.weight_bytes(n, weight_bits=bits)
        assert got == n_bytes, f"{n} weights of {bits} bits, {n * bits / 8} bytes: a started byte is a byte, not {got}"


@pytest.mark.exercise("max_concurrent_requests")
def test_max_concurrent_requests_are_what_fits_beside_the_weights_rounded_down(impl):
    # (80 − 16) GB / 1,073,741,824 B = 59.6.
    got = impl.max_concurrent_requests(80e9, 16e9, 1_073_741_824)
    assert got != 74, "weights forgotten: they share the memory with the caches"
    assert got != 60, "59.6 sequences are 59: the 60th does not fit"
    check(got, 59)
    got = impl.max_concurrent_requests(80e9, 16e9, 1e9)
    assert got != 63, "what fits exactly fits: 64 GB hold 64 caches of 1 GB"
    check(got, 64, "64 caches of 1 GB in 64 GB")
    # 64 GB / 4,194,304,000 B = 15.3; / 134,217,728 B = 476.8. int8 for both: 71.97 GB / 536,870,912 B = 134.05.
    check(impl.max_concurrent_requests(80e9, 16e9, 4_194_304_000), 15, "15.3 caches of 32,000 tokens")
    check(impl.max_concurrent_requests(80e9, 16e9, 134_217_728), 476, "476.8 caches of 1,024 tokens")
    check(impl.max_concurrent_requests(80e9, 8.03e9, 536_870_912), 134, "134.05 caches in int8")
    check(impl.max_concurrent_requests(80e9, 16.06e9, 1_073_741_824), 59, "59.5 caches beside 16.06 GB of weights")


@pytest.mark.exercise("max_concurrent_requests")
def test_max_concurrent_requests_leave_the_reserve_alone(impl):
    # 13B: (80 − 26 − 6) GB / 671,088,640 B = 71.5.
    got = impl.max_concurrent_requests(80e9, 26e9, 671_088_640, reserved_bytes=6e9)
    assert got != 80, "reserve forgotten: 6 GB stay free"
    check(got, 71, "71.5 caches")
    assert impl.max_concurrent_requests(80e9, 140e9, 1e9) == 0, "weights that do not fit leave room for none, not fewer"


@pytest.mark.exercise("max_concurrent_requests")
def test_max_concurrent_requests_are_a_whole_number(impl):
    check_is_whole(impl.max_concurrent_requests(80e9, 16e9, 1_073_741_824), "requests")
    check_is_whole(impl.max_concurrent_requests(80e9, 140e9, 1e9), "no requests")


@pytest.mark.exercise("max_context")
@pytest.mark.parametrize(
    ("weights", "kv_bytes_per_token", "batch_size", "tokens"),
    [
        # 0.9 · 80 GB = 72 GB. 8B BF16: 56 GB / (16 · 131,072 B) = 26,702.9; with an FP8 cache twice as many, 53,405.8.
        (16e9, 131_072, 16, 26_702),
        (16e9, 65_536, 16, 53_405),
        # 70B BF16: 140 GB of weights do not fit. INT4: 37 GB / (8 · 327,680 B) = 14,114.4; FP8 cache 28,228.8.
        (140e9, 327_680, 4, 0),
        (35e9, 327_680, 8, 14_114),
        (35e9, 163_840, 8, 28_228),
    ],
)
def test_max_context_on_80_gb_with_a_tenth_kept_free(impl, weights, kv_bytes_per_token, batch_size, tokens):
    got = impl.max_context(80e9, weights, kv_bytes_per_token, batch_size)
    assert got >= 0, "weights that do not fit leave room for 0 tokens, not for fewer"
    # The four divisions above with one step wrong: not by the batch; 80 GB in place of 72; 0.9 of what is left.
    assert got not in (427_246, 854_492, 112_915, 225_830), "batch forgotten: all sequences need room at the same time"
    assert got not in (30_517, 61_035, 17_166, 34_332), "headroom forgotten"
    assert got not in (27_465, 54_931, 15_449, 30_899), (
        "headroom is a fraction of the whole memory, not of what the weights leave"
    )
    check(got, tokens)


@pytest.mark.exercise("max_context")
def test_max_context_is_a_whole_number(impl):
    check_is_whole(impl.max_context(80e9, 16e9, 131_072, 16), "tokens of context")
    check_is_whole(impl.max_context(80e9, 140e9, 131_072), "no tokens of context")


@pytest.mark.exercise("max_context")
def test_max_context_keeps_free_the_fraction_it_is_told(impl):
    # Half of 80 GB less 16 GB: 24 GB / 131,072 B = 183,105.5; all of it: 64 GB / 131,072 B = 488,281.25.
    got = impl.max_context(80e9, 16e9, 131_072, headroom=0.5)
    assert got != 427_246, "`headroom` was not used: half of the memory stays free, not a tenth"
    assert got != 183_106, "183,105.5 tokens are 183,105: the next one does not fit"
    check(got, 183_105, "half of the memory kept free")
    check(impl.max_context(80e9, 16e9, 131_072, headroom=0), 488_281, "nothing kept free")
    check(impl.max_context(80e9, 16e9, 1e6, headroom=0), 64_000, "64 GB hold 64,000 tokens of 1 MB exactly")


@pytest.mark.exercise("max_context")
@law
@given(st.floats(1e9, 200e9), st.integers(1000, 10**6), st.integers(1, 200), st.floats(0, 0.9))
def test_max_context_fits_and_one_token_more_does_not(impl, weights, kv_bytes, batch_size, headroom):
    tokens = impl.max_context(80e9, weights, kv_bytes, batch_size, headroom)
    usable = 80e9 - headroom * 80e9
    assert tokens == 0 or weights + batch_size * tokens * kv_bytes <= usable + 1e-3, "does not fit"
    assert weights + batch_size * (tokens + 1) * kv_bytes >= usable - 1e-3, "there is room for one more"


def test_gpus_needed_are_rounded_up():
    # 182.95 / 80 = 2.29; 112.95 / 80 = 1.41; 671 / 80 = 8.39; 160 / 80 = 2 exactly.
    assert budget.gpus_needed(182.95e9, 80e9) == 3, "2.29 GPUs are 3"
    assert budget.gpus_needed(112.95e9, 80e9) == 2
    assert budget.gpus_needed(671e9, 80e9) == 9
    assert budget.gpus_needed(160e9, 80e9) == 2, "what fits exactly needs no further GPU"
    assert_refuses("total_bytes", budget.gpus_needed, 0, 80e9)


@pytest.mark.exercise("positions_run")
def test_positions_run_without_a_cache_repeat_prompt_and_text(impl):
    # Prompt of 8, 16 passes: 8 + 9 + … + 23 = 16 · 15.5 = 248. 3 passes: 8 + 9 + 10 = 27.
    got = impl.positions_run(8, 16, cached=False)
    assert got != 128, "tokens written so far left out: each pass runs them again"
    assert got != 232, "current token left out: the newest token is run too"
    assert got != 264, "one position a pass too many: the last token is written, never run"
    assert got != 225, "one pass too few: each pass yields one token, the first pass included"
    assert got != 23, "23 are the positions with a cache: is `cached` used, and the right way round?"
    check(got, 248)
    check(impl.positions_run(8, 3, cached=False), 27, "a prompt of 8 and 3 passes")


@pytest.mark.exercise("positions_run")
def test_positions_run_with_a_cache_are_the_prompt_once_and_then_one_a_pass(impl):
    # 8 + 15 = 23, 10.8 times fewer than 248. 3 passes: 8 + 2 = 10.
    got = impl.positions_run(8, 16, cached=True)
    assert got != 8, "current token left out: each later pass runs the token written last"
    assert got != 24, "the last token is written, never run"
    assert got != 22, "one pass too few: the first yields one token, and each of the other 15 runs one position"
    assert got != 248, "248 are the positions without a cache: is `cached` used, and the right way round?"
    check(got, 23)
    assert 248 / got == pytest.approx(10.8, abs=0.05)
    check(impl.positions_run(8, 3, cached=True), 10, "a prompt of 8 and 3 passes")


@pytest.mark.exercise("positions_run")
@pytest.mark.parametrize("cached", [False, True])
def test_positions_run_for_no_new_token_are_none(impl, cached):
    got = impl.positions_run(8, 0, cached=cached)
    assert got == 0, f"no new token: no pass, and no position run; not {got}"


@pytest.mark.exercise("positions_run")
@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("n_new", [0, 1, 16])
def test_positions_run_are_a_whole_number(impl, n_new, cached):
    check_is_whole(impl.positions_run(8, n_new, cached=cached), "positions")


@pytest.mark.exercise("positions_run")
@law
@given(n_prompt=st.integers(1, 500), n_new=st.integers(0, 300))
def test_positions_run_agree_with_counting_pass_by_pass(impl, n_prompt, n_new):
    passes = [list(range(n_prompt + written)) for written in range(n_new)]
    what = f"a prompt of {n_prompt} and {n_new} new tokens"
    check(impl.positions_run(n_prompt, n_new, cached=False), sum(map(len, passes)), what)
    distinct = {position for positions in passes for position in positions}
    got = impl.positions_run(n_prompt, n_new, cached=True)
    assert n_new or got == 0, f"no new token: no pass, and no position run; not {got}"
    check(got, len(distinct), f"each position runs once, the last never: {what}")


@pytest.mark.exercise("kv_projections")
def test_kv_projections_are_two_for_each_position_run(impl):
    # One token to start from, 12 passes: 2 · (1 + 2 + … + 12) = 2 · 78 = 156 without a cache, 2 · 12 = 24 with one.
    without, cached = impl.kv_projections(1, 12, cached=False), impl.kv_projections(1, 12, cached=True)
    assert (without, cached) != (78, 12), "factor 2 forgotten: each position is projected to a key and to a value"
    assert without != cached, f"{without} with and without a cache: is `cached` used?"
    assert (without, cached) != (24, 156), "more with a cache than without: `cached` is the wrong way round"
    assert (without, cached) == (156, 24), f"{without} and {cached}, not 156 and 24: count each position that is run"
    assert without / cached == pytest.approx(6.5)
    check_is_whole(without, "projections")
    check_is_whole(cached, "projections")


@pytest.mark.exercise("kv_projections")
def test_kv_projections_are_made_in_every_layer(impl):
    got = impl.kv_projections(1, 12, cached=True, n_layers=3)
    assert got != 24, "`n_layers` was not used: every layer has projections of its own"
    check(got, 72, "24 in each of 3 layers")


@pytest.mark.exercise("kv_projections")
def test_kv_projections_of_a_prompt_and_one_new_token_are_those_of_the_prompt(impl):
    # One pass over 5 positions: 2 · 5. A prompt of 1 and 5 new tokens: 2 · (1 + 4) with a cache, 2 · 15 without.
    got = impl.kv_projections(5, 1, cached=False)
    assert got != 30, "prompt and new tokens are swapped: 5 tokens of prompt and one new are one pass of 5 positions"
    check(got, 10, "a prompt of 5 and one new token")
    assert impl.kv_projections(5, 0, cached=True) == 0, "no new token: no pass, and nothing is projected"


# --- bad input ---------------------------------------------------------------------------------------------------

BAD_INPUT = [
    ("weight_bytes", (-8e9,), "n_params"),
    ("weight_bytes", (8e9, 0), "weight_bits"),
    ("kv_bytes_per_token", (LLAMA_3_8B, 0), "kv_bits"),
    ("kv_cache_bytes", (LLAMA_3_8B, -1), "n_tokens"),
    ("kv_cache_bytes", (LLAMA_3_8B, 0.5), "n_tokens"),
    ("kv_cache_bytes", (LLAMA_3_8B, 8192, 1.5), "batch_size"),
    ("kv_cache_bytes", (LLAMA_3_8B, 8192, 0), "batch_size"),
    ("kv_cache_bytes", (LLAMA_3_8B, 8192, 1, 0), "kv_bits"),
    ("max_concurrent_requests", (0, 16e9, 1e9), "memory_bytes"),
    ("max_concurrent_requests", (80e9, -16e9, 1e9), "weight_bytes"),
    ("max_concurrent_requests", (80e9, 16e9, 0), "kv_bytes"),
    ("max_concurrent_requests", (80e9, 16e9, 1e9, -1), "reserved_bytes"),
    ("max_context", (0, 16e9, 131_072), "memory_bytes"),
    ("max_context", (80e9, -16e9, 131_072), "weight_bytes"),
    ("max_context", (80e9, 16e9, 0), "kv_bytes_per_token"),
    ("max_context", (80e9, 16e9, 131_072, 0), "batch_size"),
    ("max_context", (80e9, 16e9, 131_072, 1.5), "batch_size"),
    ("max_context", (80e9, 16e9, 131_072, 16, -0.1), "headroom"),
    ("max_context", (80e9, 16e9, 131_072, 16, 1.0), "headroom"),
    ("max_context", (80e9, 16e9, 131_072, 16, float("nan")), "headroom"),
    ("positions_run", (0, 16, True), "n_prompt_tokens"),
    ("positions_run", (1.5, 16, False), "n_prompt_tokens"),
    ("positions_run", (8, -1, False), "n_new_tokens"),
    ("positions_run", (8, 0.5, True), "n_new_tokens"),
    ("kv_projections", (0, 16, True), "n_prompt_tokens"),
    ("kv_projections", (8, -1, False), "n_new_tokens"),
    ("kv_projections", (8, 16, True, 0), "n_layers"),
    ("kv_projections", (8, 16, True, 1.5), "n_layers"),
]


def bad_input_of(function):
    """Mark a test as one of this exercise, and hand it the exercise's own cases."""
    cases = [pytest.param(*case[1:], id=case[2]) for case in BAD_INPUT if case[0] == function]

    def marked(test):
        return pytest.mark.exercise(function)(pytest.mark.parametrize(("arguments", "blamed"), cases)(test))

    return marked


@bad_input_of("weight_bytes")
def test_weight_bytes_refuse_impossible_sizes(impl, arguments, blamed):
    assert_refuses(blamed, impl.weight_bytes, *arguments)


@bad_input_of("kv_bytes_per_token")
def test_kv_bytes_per_token_refuse_impossible_bits(impl, arguments, blamed):
    assert_refuses(blamed, impl.kv_bytes_per_token, *arguments)


@bad_input_of("kv_cache_bytes")
def test_kv_cache_bytes_refuse_impossible_counts_and_bits(impl, arguments, blamed):
    assert_refuses(blamed, impl.kv_cache_bytes, *arguments)


@bad_input_of("max_concurrent_requests")
def test_max_concurrent_requests_refuse_impossible_sizes(impl, arguments, blamed):
    assert_refuses(blamed, impl.max_concurrent_requests, *arguments)


@bad_input_of("max_context")
def test_max_context_refuses_impossible_sizes_and_fractions(impl, arguments, blamed):
    assert_refuses(blamed, impl.max_context, *arguments)


@bad_input_of("positions_run")
def test_positions_run_refuse_impossible_counts(impl, arguments, blamed):
    assert_refuses(blamed, impl.positions_run, *arguments)


@bad_input_of("kv_projections")
def test_kv_projections_refuse_impossible_counts(impl, arguments, blamed):
    assert_refuses(blamed, impl.kv_projections, *arguments)


@pytest.mark.parametrize(("function", "arguments", "blamed"), [*BAD_INPUT, ("gpus_needed", (0, 80e9), "total_bytes")])
def test_the_engine_says_of_bad_input_what_is_allowed(function, arguments, blamed):
    with pytest.raises(ValueError, match=f"{blamed} is .* must be "):
        getattr(budget, function)(*arguments)
