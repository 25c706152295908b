"""Grades `nanolm/budget/cache_sizes.py` against figures worked out by hand."""

from dataclasses import replace

import pytest
from refusal import assert_refuses

from nanolm.budget import DEEPSEEK_V3, LLAMA_3_8B, SMALL_MHA, cache_bytes_table, hybrid_windows

# Llama 3 8B: a position of one layer takes 2 · 8 · 128 · 2 B = 4,096 B, of 32 layers 131,072 B.


@pytest.mark.exercise("windowed_cache_bytes")
def test_windowed_cache_bytes_stop_growing_at_the_window(impl):
    for n_tokens, expected in ((1024, 134_217_728), (4096, 536_870_912), (131_072, 536_870_912)):
        got = impl.windowed_cache_bytes(LLAMA_3_8B, n_tokens, [4096] * 32)
        assert got != 4096 * 131_072 or n_tokens >= 4096, "a text shorter than the window fills only its own length"
        assert got != n_tokens * 131_072 or n_tokens <= 4096, "a text longer than the window leaves the window alone"
        assert got != expected // 32, "layers forgotten: each of the 32 keeps positions of its own"
        assert got != expected * 32, "the bytes of all layers were counted once for each layer"
        assert got == expected, f"{n_tokens} tokens, window 4,096: got {got:,}"


@pytest.mark.exercise("windowed_cache_bytes")
def test_windowed_cache_bytes_of_a_hybrid_add_up_layer_by_layer(impl):
    # 5 whole layers of 8,192 positions, 27 of 1,024: (40,960 + 27,648) · 4,096 B.
    windows = [None if layer in (5, 11, 17, 23, 29) else 1024 for layer in range(32)]
    got = impl.windowed_cache_bytes(LLAMA_3_8B, 8192, windows)
    assert got != 1_073_741_824, "the windows have no effect: each layer keeps its own number of positions"
    assert got != 113_246_208, "None keeps the whole text: layers without a window were left out"
    assert got == 281_018_368, f"got {got:,}"
    batch = impl.windowed_cache_bytes(LLAMA_3_8B, 8192, windows, batch_size=16)
    assert batch != 281_018_368, "batch forgotten: each of the 16 sequences has caches of its own"
    assert batch == 4_496_293_888, f"16 sequences: got {batch:,}"
    narrow = impl.windowed_cache_bytes(LLAMA_3_8B, 8192, windows, kv_bits=8)
    assert narrow != 281_018_368, "kv_bits forgotten: with 8 bits half of what 16 take"
    assert narrow == 140_509_184, f"8 bits: got {narrow:,}"
    whole = impl.windowed_cache_bytes(LLAMA_3_8B, 8192, [None] * 32)
    assert whole == 1_073_741_824, f"None keeps the whole text, 8,192 positions in each layer: got {whole:,}"
    assert impl.windowed_cache_bytes(LLAMA_3_8B, 0, windows) == 0, "no tokens take no bytes"


@pytest.mark.exercise("windowed_cache_bytes")
def test_windowed_cache_bytes_of_a_mixture_with_latent_attention(impl):
    # 576 numbers of 2 B = 1,152 B a position and layer; 61 layers of 100 positions.
    got = impl.windowed_cache_bytes(DEEPSEEK_V3, 8192, [100] * 61)
    assert got != 14_054_400, "no factor 2 for the latent vector: it makes keys and values both"
    assert got != 399_769_600, (
        "latent attention caches one latent vector and a rotary key, not keys and values of heads"
    )
    assert got == 7_027_200, f"got {got:,}"


@pytest.mark.exercise("windowed_cache_bytes")
def test_windowed_cache_bytes_refuse_what_is_no_window(impl):
    assert_refuses("windows", impl.windowed_cache_bytes, LLAMA_3_8B, 8192, [4096] * 31)
    assert_refuses("windows", impl.windowed_cache_bytes, LLAMA_3_8B, 8192, [0] * 32)
    assert_refuses("windows", impl.windowed_cache_bytes, LLAMA_3_8B, 8192, [4096] * 31 + [1.5])
    assert_refuses("n_tokens", impl.windowed_cache_bytes, LLAMA_3_8B, -1, [4096] * 32)
    assert_refuses("n_tokens", impl.windowed_cache_bytes, LLAMA_3_8B, 1.5, [4096] * 32)
    assert_refuses("batch_size", impl.windowed_cache_bytes, LLAMA_3_8B, 10, [4096] * 32, 0)
    assert_refuses("kv_bits", impl.windowed_cache_bytes, LLAMA_3_8B, 10, [4096] * 32, 1, 0)


def test_hybrid_windows_put_a_global_layer_after_the_local_ones():
    assert hybrid_windows(7, 512, 3) == [512, 512, None, 512, 512, None, 512]
    assert hybrid_windows(3, 512, 1) == [None, None, None]
    assert hybrid_windows(3, 512, 9) == [512, 512, 512]
    assert_refuses("global_every", hybrid_windows, 3, 512, 0)
    assert_refuses("window", hybrid_windows, 3, 0, 2)


def test_cache_bytes_table_of_an_8b_model_with_8192_tokens():
    table = {row.name: row for row in cache_bytes_table(LLAMA_3_8B, 8192)}
    assert {name: row.cache_bytes for name, row in table.items()} == {
        "MHA": 4_294_967_296,  # 32 heads in place of 8
        "GQA": 1_073_741_824,  # 131,072 B · 8,192
        "MQA": 134_217_728,  # an eighth
        "MLA": 301_989_888,  # 32 · 576 · 2 B = 36,864 B a token
        "window of 1,024": 134_217_728,  # 131,072 B · 1,024
        "window of 1,024, 1 layer in 6 global": 281_018_368,  # as above
        "8 bits": 545_259_520,  # 128 codes and a scale of 2 B: 130 of 256 B
        "4 bits": 276_824_064,  # 64 B of codes and 2 B of scale: 66 of 256
    }
    assert round(table["MLA"].times_smaller, 1) == 3.6 and table["GQA"].times_smaller == 1
    assert table["MHA"].times_smaller == 0.25 and all(row.price for row in table.values())


def test_cache_bytes_table_counts_every_sequence_of_the_batch():
    one, many = cache_bytes_table(LLAMA_3_8B, 8192), cache_bytes_table(LLAMA_3_8B, 8192, batch_size=16)
    assert [row.cache_bytes * 16 for row in one] == [row.cache_bytes for row in many]
    assert [row.times_smaller for row in one] == [row.times_smaller for row in many]


def test_cache_bytes_table_of_other_models():
    # 61 · 576 · 2 B · 1,000; with 8 bits one scale of 2 B for the 576 numbers: 578 of 1,152 B.
    latent = {row.name: row.cache_bytes for row in cache_bytes_table(DEEPSEEK_V3, 1000)}
    assert latent["MLA"] == 70_272_000 and latent["8 bits"] == 35_258_000
    three_heads = replace(SMALL_MHA, n_heads=3, n_kv_heads=3)  # they make no groups of four
    assert "GQA" not in [row.name for row in cache_bytes_table(three_heads, 100)]
    assert_refuses("n_tokens", cache_bytes_table, LLAMA_3_8B, 0)
