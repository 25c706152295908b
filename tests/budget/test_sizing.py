"""Tests `nanolm/budget/sizing.py`. Figures are literals, derived by hand in the comment beside them."""

from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nanolm.budget import (
    DEEPSEEK_V3,
    H100,
    LLAMA_3_8B,
    LLAMA_3_70B,
    MODEL_13B,
    SMALL_MHA,
    attention_kind,
    capacity,
    in_words,
    params_read,
    size_in_words,
    with_attention,
)


def test_an_8b_with_16_sequences_of_8192_tokens_on_an_h100():
    found = capacity(LLAMA_3_8B, H100, 8192, batch_size=16)
    # 8,030,261,248 parameters of 2 B. 131,072 B a token, 2³⁴ B in all. A tenth of 80 GB.
    assert (found.weight_bytes, found.kv_bytes_per_token) == (16_060_522_496, 131_072)
    assert (found.cache_bytes, found.headroom_bytes) == (17_179_869_184, 8e9)
    # 80 - 8 - 16.0605 - 17.1799 = 38.7596 GB.
    assert found.fits and found.free_bytes == pytest.approx(38_759_608_320)
    # (72 - 16.0605) GB / 2³⁰ B = 52.1. 55.9395 GB / (16 · 131,072 B) = 26,674.
    assert (found.max_batch_size, found.max_context_tokens, found.n_gpus_needed) == (52, 26_674, 1)
    # 7,504,658,432 parameters are read: 15.009 GB, 4.480 ms; 16 caches of 0.3205 ms: 5.128 ms. In all 9.609 ms.
    assert found.tpot_seconds == pytest.approx(9.609e-3, abs=1e-6)
    # 1 / 9.609 ms = 104.1; 16 times that 1,665; 3 dollars / 3,600 / 1,665 · 10⁶ = 0.50.
    assert found.tokens_per_second_per_user == pytest.approx(104.07, abs=0.01)
    assert found.tokens_per_second == pytest.approx(1665.2, abs=0.1)
    assert found.dollars_per_million == pytest.approx(0.50, abs=0.005)
    assert found.limit == "bandwidth"


def test_without_headroom_59_sequences_of_8192_tokens_fit():
    # (80 - 16.06) GB / 1,073,741,824 B = 59.5. int8 for both: (80 - 8.03) GB / 536,870,912 B = 134.05.
    assert capacity(LLAMA_3_8B, H100, 8192, headroom=0).max_batch_size == 59
    assert capacity(LLAMA_3_8B, H100, 8192, weight_bits=8, kv_bits=8, headroom=0).max_batch_size == 134


def test_what_does_not_fit_has_no_speed_and_is_limited_by_memory():
    # 70B: 141.107 GB, 4 · 10.737 GB of caches, 8 GB kept free: 192.06 - 80 = 112.06 GB are missing.
    found = capacity(LLAMA_3_70B, H100, 32_768, batch_size=4)
    assert not found.fits and found.limit == "memory"
    assert found.free_bytes == pytest.approx(-112.06e9, abs=0.01e9)
    assert (found.max_batch_size, found.max_context_tokens) == (0, 0)
    speeds = found.tpot_seconds, found.tokens_per_second_per_user, found.tokens_per_second, found.dollars_per_million
    assert speeds == (None, None, None, None)
    # 184.057 GB in nine tenths of 80 GB each: 2.56.
    assert found.n_gpus_needed == 3


def test_gpus_share_weights_caches_and_speed_evenly():
    # 240 - 24 GB; 3 × 3.35 TB/s. 69,501,714,432 parameters read are 139.003 GB, 13.831 ms; 42.950 GB 4.274 ms.
    found = capacity(LLAMA_3_70B, H100, 32_768, batch_size=4, n_gpus=3)
    assert found.fits and found.hardware.name == "3 × H100"
    assert found.free_bytes == pytest.approx(31.94e9, abs=0.01e9)
    assert found.tpot_seconds == pytest.approx(18.105e-3, abs=1e-6)
    assert found.hardware.dollars_per_hour == 9


def test_the_last_sequence_that_fits_fits_and_one_more_does_not():
    assert capacity(LLAMA_3_8B, H100, 8192, batch_size=52).fits
    assert not capacity(LLAMA_3_8B, H100, 8192, batch_size=53).fits
    assert capacity(LLAMA_3_8B, H100, 26_674, batch_size=16).fits
    assert not capacity(LLAMA_3_8B, H100, 26_675, batch_size=16).fits


def test_a_large_batch_of_short_contexts_is_limited_by_arithmetic():
    # 16-token caches: 600 · 2.1 MB = 1.26 GB, with the weights 16.27 GB, 4.86 ms; 600 · 15.009 GFLOP in 9.11 ms.
    found = capacity(LLAMA_3_8B, H100, 16, batch_size=600)
    assert found.limit == "compute"
    # Arithmetic hides the reading of the weights, never that of the caches: 9.106 + 0.376 ms.
    assert found.tpot_seconds == pytest.approx(9.481e-3, abs=1e-6)
    # 600 · 1,000 tokens: 78.6 GB of caches, 23.5 ms of reading, do not fit; 300 do: 39.3 GB and 15 GB are 16.2 ms.
    assert capacity(LLAMA_3_8B, H100, 1000, batch_size=300).limit == "bandwidth"


@pytest.mark.parametrize(
    ("attention", "n_kv_heads", "a_token", "caches"),
    # 2 · 32 layers · K · 128 · 2 B: 524,288 with 32 heads, 131,072 with 8, 16,384 with one. × 8,192 × 16.
    [("MHA", 32, 524_288, 68.72e9), ("gqa", 8, 131_072, 17.18e9), ("MQA", 1, 16_384, 2.147e9)],
)
def test_attention_decides_the_cache(attention, n_kv_heads, a_token, caches):
    found = capacity(LLAMA_3_8B, H100, 8192, 16, attention=attention)
    assert found.shape.n_kv_heads == n_kv_heads
    assert found.kv_bytes_per_token == a_token
    assert found.cache_bytes == pytest.approx(caches, rel=1e-3)


def test_attention_of_a_model_without_groups_gets_groups_of_four():
    assert with_attention(SMALL_MHA, "GQA").n_kv_heads == 4
    assert with_attention(MODEL_13B, "GQA") == MODEL_13B, "its own groups of five"
    assert with_attention(SMALL_MHA, None) is SMALL_MHA


def test_another_attention_replaces_latent_attention():
    # 576 numbers a token and layer with MLA; 2 · 128 · 128 = 32,768 with MHA.
    with_mla, with_mha = (capacity(DEEPSEEK_V3, H100, 100, n_gpus=20, attention=kind) for kind in (None, "MHA"))
    assert with_mla.kv_bytes_per_token == 61 * 576 * 2
    assert with_mha.kv_bytes_per_token == 61 * 32_768 * 2
    kinds = [attention_kind(with_attention(DEEPSEEK_V3, kind)) for kind in (None, "MHA", "GQA", "MQA")]
    assert kinds == ["MLA", "MHA", "GQA", "MQA"]


def test_a_batch_reads_more_experts_than_one_token():
    # 8 of 256 experts each: 16 tokens leave 256 · (31/32)¹⁶ = 154.0 alone and read 102. One expert of one layer has
    # 3 · 7,168 · 2,048 parameters, and 58 layers have some: (102 - 8) · 58 · 44,040,192 more than one token reads.
    one, sixteen = params_read(DEEPSEEK_V3), params_read(DEEPSEEK_V3, 16)
    assert one == DEEPSEEK_V3.n_multiplied_params
    assert sixteen - one == pytest.approx((256 - 154.04 - 8) * 58 * 44_040_192, rel=1e-4)
    assert params_read(LLAMA_3_8B, 16) == LLAMA_3_8B.n_multiplied_params


@given(st.integers(1, 10_000))
def test_no_batch_reads_more_than_all_parameters(batch_size):
    assert params_read(DEEPSEEK_V3, batch_size) <= params_read(DEEPSEEK_V3, batch_size + 1) <= DEEPSEEK_V3.n_params


@given(
    st.sampled_from([LLAMA_3_8B, LLAMA_3_70B, SMALL_MHA, DEEPSEEK_V3]),
    st.integers(1, 10**6),
    st.integers(1, 1000),
    st.sampled_from([2, 4, 4.125, 8, 16]),
    st.integers(1, 16),
    st.floats(0, 0.5),
)
def test_whatever_is_asked_the_parts_add_up_to_the_memory(shape, context, batch, bits, n_gpus, headroom):
    found = capacity(shape, H100, context, batch, bits, bits, n_gpus=n_gpus, headroom=headroom)
    parts = found.weight_bytes + found.cache_bytes + found.headroom_bytes + found.free_bytes
    assert parts == pytest.approx(n_gpus * 80e9)
    assert found.fits == (found.free_bytes >= 0) or abs(found.free_bytes) < 1
    assert found.fits == (found.max_context_tokens >= context) or abs(found.free_bytes) < 1
    assert found.fits == (found.n_gpus_needed <= n_gpus) or abs(found.free_bytes) < 1
    assert (found.limit == "memory") == (not found.fits) == (found.tpot_seconds is None)
    assert "None" not in " ".join(in_words(found).values())


@pytest.mark.parametrize(
    ("changes", "blamed"),
    [
        ({"context_tokens": 0}, "context_tokens"),
        ({"context_tokens": -8192}, "context_tokens"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 1.5}, "batch_size"),
        ({"n_gpus": 0}, "n_gpus"),
        ({"weight_bits": 0}, "weight_bits"),
        ({"weight_bits": float("nan")}, "weight_bits"),
        ({"kv_bits": -8}, "kv_bits"),
        ({"headroom": 1.0}, "headroom"),
        ({"headroom": -0.1}, "headroom"),
        ({"attention": "flash"}, "attention"),
        ({"attention": 3}, "attention"),
        ({"shape": replace(SMALL_MHA, n_heads=6, n_kv_heads=6), "attention": "GQA"}, "n_heads"),
    ],
)
def test_impossible_sizes_are_refused_by_name(changes, blamed):
    with pytest.raises(ValueError, match=f"{blamed}.* must be "):
        capacity(**{"shape": LLAMA_3_8B, "hardware": H100, "context_tokens": 8192, **changes})


def test_in_words_every_figure_has_its_unit():
    words = in_words(capacity(LLAMA_3_8B, H100, 8192, batch_size=16))
    assert words["weights"] == "16.06 GB: 8.03 billion parameters"
    assert words["caches"] == "17.18 GB: 16 × 8,192 tokens of 131,072 B (GQA)"
    assert (words["left"], words["memory"]) == ("38.76 GB", "80.00 GB, H100")
    assert (words["time per token"], words["each user"], words["all users"]) == (
        "9.61 ms",
        "104 tokens/s",
        "1,665 tokens/s",
    )
    assert words["limited by"].startswith("bandwidth")


def test_in_words_what_is_missing_is_positive_and_speeds_are_dashes():
    words = in_words(capacity(LLAMA_3_70B, H100, 32_768, batch_size=4))
    assert words["missing"] == "112.06 GB" and "left" not in words
    assert words["all users"] == words["price"] == "–"


@pytest.mark.parametrize(
    ("n_bytes", "words"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (2.5e6, "2.50 MB"), (8e9, "8.00 GB"), (1.28e12, "1.28 TB")],
)
def test_size_in_words_takes_the_largest_unit(n_bytes, words):
    assert size_in_words(n_bytes) == words


def test_the_result_is_plain_data():
    assert asdict(capacity(LLAMA_3_8B, H100, 8192))["max_batch_size"] == 52
