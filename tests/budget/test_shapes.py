"""Tests `shapes` and `hardware`, which are given: parameters of known models, config.json files, refused numbers."""

import json
from dataclasses import replace

import pytest

from nanolm.budget import (
    A100,
    DEEPSEEK_V3,
    H100,
    H200,
    LLAMA_3_8B,
    LLAMA_3_70B,
    MODEL_13B,
    PRESETS,
    SMALL_MHA,
    Experts,
    Hardware,
    LatentAttention,
    ModelShape,
)
from nanolm.config import ModelConfig

LLAMA_CONFIG = {
    "hidden_size": 4096,
    "intermediate_size": 14_336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128_256,
}
DEEPSEEK_CONFIG = {
    "first_k_dense_replace": 3,
    "hidden_size": 7168,
    "intermediate_size": 18_432,
    "kv_lora_rank": 512,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_attention_heads": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 61,
    "num_key_value_heads": 128,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 129_280,
}


def shape_of(folder, config):
    (folder / "config.json").write_text(json.dumps(config))
    return ModelShape.from_config(folder)


def test_model_shape_has_the_published_parameter_count_of_llama_3():
    # Meta's checkpoints hold 8,030,261,248 and 70,553,706,496 parameters.
    assert LLAMA_3_8B.n_params == 8_030_261_248
    assert LLAMA_3_70B.n_params == 70_553_706_496


def test_model_shape_multiplies_all_but_the_embedding_and_the_norms():
    # 8,030,261,248 less the embedding, 128,256 · 4,096 = 525,336,576, and 65 norms of 4,096: about 7.5·10⁹.
    got = LLAMA_3_8B.n_multiplied_params
    assert got < 8e9, "the embedding is counted: a row of it is looked up, nothing is multiplied with it"
    assert got == 7_504_658_432
    # A tied matrix is held once and multiplied all the same.
    tied = replace(LLAMA_3_8B, tie_embeddings=True)
    assert tied.n_params == 7_504_924_672
    assert tied.n_multiplied_params == 7_504_658_432


def test_model_shape_of_a_mixture_holds_every_expert_and_multiplies_the_chosen():
    # DeepSeek-V3: 671·10⁹ in all, 37·10⁹ active.
    held = DEEPSEEK_V3.n_params
    assert held != pytest.approx(37e9, rel=0.05), "only active parameters counted: memory holds every expert"
    assert held == pytest.approx(671e9, rel=1e-3)
    assert DEEPSEEK_V3.n_multiplied_params == pytest.approx(37e9, rel=0.02)


def test_model_shape_presets_are_of_the_size_they_are_named_after():
    assert MODEL_13B.n_params == pytest.approx(13e9, rel=2e-3)
    assert SMALL_MHA.n_kv_heads == SMALL_MHA.n_heads
    assert 1e9 < SMALL_MHA.n_params < 1.3e9
    assert set(PRESETS.values()) == {LLAMA_3_8B, MODEL_13B, LLAMA_3_70B, SMALL_MHA, DEEPSEEK_V3}


def test_from_config_reads_a_folder_or_a_file(tmp_path):
    shape = shape_of(tmp_path, LLAMA_CONFIG)
    assert shape == ModelShape.from_config(tmp_path / "config.json")
    assert replace(shape, name=LLAMA_3_8B.name) == LLAMA_3_8B


def test_from_config_falls_back_where_a_key_is_missing_or_null(tmp_path):
    config = {**LLAMA_CONFIG, "head_dim": None, "num_key_value_heads": None}
    assert shape_of(tmp_path, config).n_kv_heads == 32, "without num_key_value_heads every query head has its own"
    assert shape_of(tmp_path, config).head_dim == 128, "4,096 / 32 heads"
    # Some models' heads are not hidden_size / heads wide: what the file says comes first.
    assert shape_of(tmp_path, {**LLAMA_CONFIG, "head_dim": 256}).head_dim == 256
    assert shape_of(tmp_path, {**LLAMA_CONFIG, "tie_word_embeddings": True}).tie_embeddings


def test_from_config_reads_experts_and_latent_attention(tmp_path):
    assert replace(shape_of(tmp_path, DEEPSEEK_CONFIG), name=DEEPSEEK_V3.name) == DEEPSEEK_V3
    mixtral = {**LLAMA_CONFIG, "num_local_experts": 8, "num_experts_per_tok": 2}
    assert shape_of(tmp_path, mixtral).experts == Experts(n_experts=8, n_experts_per_token=2, d_ff=14_336)


@pytest.mark.parametrize("change", [{}, {"head_dim": None}, {"head_dim": 256}, {"num_key_value_heads": None}])
def test_from_config_reads_what_the_engine_reads(tmp_path, change):
    config = {**LLAMA_CONFIG, "max_position_embeddings": 8192, **change}
    shape, ours = shape_of(tmp_path, config), ModelConfig.from_hf(config)
    for name in ["n_layers", "d_model", "n_heads", "n_kv_heads", "head_dim", "d_ff", "vocab_size", "tie_embeddings"]:
        assert getattr(shape, name) == getattr(ours, name), name


@pytest.mark.parametrize(
    ("change", "blamed"),
    [
        ({"hidden_size": None}, r"config\.json lacks hidden_size \(in .*config\.json\)"),
        ({"num_hidden_layers": 0}, "num_hidden_layers = 0"),
        ({"num_attention_heads": "32"}, "num_attention_heads = '32'"),
        ({"vocab_size": 1.5}, "vocab_size = 1.5"),
        ({"num_key_value_heads": 0}, "num_key_value_heads = 0"),
        ({"num_key_value_heads": 5}, "n_heads is 32.* multiple of n_kv_heads, 5"),
        ({"hidden_size": 4100}, "lacks head_dim, .* 4100 is no multiple of 32"),
        ({"num_experts": 4}, "lacks num_experts_per_tok"),
    ],
)
def test_from_config_names_what_is_wrong_with_an_entry(tmp_path, change, blamed):
    with pytest.raises(ValueError, match=blamed):
        shape_of(tmp_path, {**LLAMA_CONFIG, **change})


def test_from_config_names_a_path_without_a_readable_config(tmp_path):
    with pytest.raises(ValueError, match=r"path is .* must be a config\.json"):
        ModelShape.from_config(tmp_path / "nowhere")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ValueError, match="is not JSON"):
        ModelShape.from_config(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ValueError, match="holds a list"):
        ModelShape.from_config(tmp_path)


@pytest.mark.parametrize(
    ("build", "blamed"),
    [
        (lambda: replace(LLAMA_3_8B, n_layers=0), "n_layers is 0"),
        (lambda: replace(LLAMA_3_8B, head_dim=True), "head_dim is True"),
        (lambda: replace(LLAMA_3_8B, n_kv_heads=3), "n_heads is 32"),
        (lambda: Experts(n_experts=4, n_experts_per_token=5, d_ff=64), "n_experts_per_token is 5"),
        (lambda: replace(LLAMA_3_8B, experts=Experts(4, 2, 64, n_dense_layers=33)), "n_dense_layers is 33"),
        (lambda: LatentAttention(kv_latent_dim=0, rotary_dim=64, value_dim=128), "kv_latent_dim is 0"),
        (lambda: replace(H100, bandwidth_bytes_per_second=0), "bandwidth_bytes_per_second is 0"),
        (lambda: replace(H100, dollars_per_hour="3"), "dollars_per_hour is '3'"),
    ],
)
def test_shapes_and_hardware_refuse_numbers_that_make_no_sense(build, blamed):
    with pytest.raises(ValueError, match=f"{blamed}.* must be "):
        build()


def test_hardware_holds_the_data_sheets_figures():
    assert Hardware("H100", 80e9, 3.35e12, 989e12, 3.0) == H100
    # A100 80 GB SXM: 2,039 GB/s, 312 TFLOP/s dense. H200: 141 GB, 4.8 TB/s, the H100's arithmetic.
    assert (A100.memory_bytes, A100.bandwidth_bytes_per_second, A100.peak_flops_per_second) == (80e9, 2.039e12, 312e12)
    assert (H200.memory_bytes, H200.bandwidth_bytes_per_second, H200.peak_flops_per_second) == (141e9, 4.8e12, 989e12)
