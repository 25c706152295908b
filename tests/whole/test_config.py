"""`nanolm/config.py`: impossible shapes are refused, and a Hugging Face config.json is read as its writer meant it."""

import pytest
from tiny_models import tiny_config

from nanolm.config import ModelConfig

# What SmolLM2-135M's config.json says, as far as the engine cares.
HF = {
    "model_type": "llama",
    "vocab_size": 49_152,
    "hidden_size": 576,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "intermediate_size": 1536,
    "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-5,
    "rope_theta": 100_000,
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
}


def hf(**changes):
    """HF with changes; a value of None takes the entry out."""
    return {key: value for key, value in {**HF, **changes}.items() if value is not None}


def test_from_hf_translates_every_name():
    assert ModelConfig.from_hf(HF) == ModelConfig(
        vocab_size=49_152,
        d_model=576,
        n_layers=30,
        n_heads=9,
        n_kv_heads=3,
        head_dim=64,
        d_ff=1536,
        max_positions=8192,
        rope_theta=100_000.0,
        norm_eps=1e-5,
        tie_embeddings=True,
        bos_token_id=1,
        eos_token_ids=(2,),
    )


@pytest.mark.parametrize("absent", [{}, {"head_dim": None}])
def test_from_hf_without_head_dim_shares_the_width_among_the_heads(absent):
    assert ModelConfig.from_hf({**HF, **absent}).head_dim == 64  # 576 / 9


def test_from_hf_believes_a_head_dim_that_is_not_width_over_heads():
    assert ModelConfig.from_hf(hf(head_dim=128)).head_dim == 128


@pytest.mark.parametrize("absent", [hf(num_key_value_heads=None), {**HF, "num_key_value_heads": None}])
def test_from_hf_without_key_value_heads_is_multi_head_attention(absent):
    assert ModelConfig.from_hf(absent).n_kv_heads == 9


def test_from_hf_without_a_tie_is_untied():
    assert not ModelConfig.from_hf(hf(tie_word_embeddings=None)).tie_embeddings, "the default of Llama files is untied"


def test_from_hf_without_an_eps_takes_the_default_of_llama_files():
    assert ModelConfig.from_hf(hf(rms_norm_eps=None)).norm_eps == 1e-6


@pytest.mark.parametrize(
    ("entries", "theta"),
    [
        ({"rope_theta": None}, 10_000.0),
        ({"rope_theta": 5e5}, 5e5),
        ({"rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": 5e5}}, 5e5),
    ],
    ids=["absent", "an older file", "a newer file"],
)
def test_from_hf_finds_rope_theta_wherever_it_stands(entries, theta):
    assert ModelConfig.from_hf(hf(**entries)).rope_theta == theta


@pytest.mark.parametrize(
    ("value", "ids"), [(None, ()), (2, (2,)), (0, (0,)), ([2, 7], (2, 7))], ids=["none", "one", "id 0", "several"]
)
def test_from_hf_reads_any_number_of_end_tokens(value, ids):
    assert ModelConfig.from_hf({**HF, "eos_token_id": value}).eos_token_ids == ids


# What Mixtral-8x7B's config.json says, as far as the engine cares.
MIXTRAL = {
    "model_type": "mixtral",
    "vocab_size": 32_000,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14_336,
    "max_position_embeddings": 32_768,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1e6,
    "tie_word_embeddings": False,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "sliding_window": None,
    "router_aux_loss_coef": 0.02,
}


def test_from_hf_reads_a_mixtral():
    config = ModelConfig.from_hf(MIXTRAL)
    assert (config.n_experts, config.experts_per_token, config.d_ff) == (8, 2, 14_336)
    assert (config.rope_theta, config.head_dim, config.tie_embeddings) == (1e6, 128, False)


def test_from_hf_of_a_mixtral_takes_the_defaults_of_mixtral_files():
    config = ModelConfig.from_hf({k: v for k, v in MIXTRAL.items() if k not in ("rope_theta", "rms_norm_eps")})
    assert (config.rope_theta, config.norm_eps) == (1e6, 1e-5), "a Llama's defaults are 10,000 and 1e-6"


@pytest.mark.parametrize("name", ["num_local_experts", "num_experts_per_tok"])
def test_from_hf_names_a_mixtral_s_missing_entry(name):
    with pytest.raises(ValueError, match=rf"config\.json lacks {name}"):
        ModelConfig.from_hf({k: v for k, v in MIXTRAL.items() if k != name})


def test_from_hf_reads_the_window_of_a_mixtral():
    assert ModelConfig.from_hf({**MIXTRAL, "sliding_window": 4096}).windows == (4096,) * 32


def test_a_window_as_long_as_the_context_is_none():
    assert ModelConfig.from_hf({**MIXTRAL, "sliding_window": 32_768}).windows == ()


def test_a_mixture_goes_to_hf_and_back():
    config = tiny_config(n_experts=4, experts_per_token=3)
    hf = config.to_hf()
    assert (hf["model_type"], hf["architectures"]) == ("mixtral", ["MixtralForCausalLM"])
    assert (hf["num_local_experts"], hf["num_experts_per_tok"], hf["intermediate_size"]) == (4, 3, 10)
    assert ModelConfig.from_hf(hf) == config


def test_a_dense_model_s_config_says_nothing_of_experts():
    assert not [name for name in tiny_config().to_hf() if "expert" in name or name == "sliding_window"]


@pytest.mark.parametrize("ends", [(), (3,), (3, 4)])
@pytest.mark.parametrize("tied", [True, False])
def test_to_hf_and_back_is_the_same_configuration(ends, tied):
    config = tiny_config(
        eos_token_ids=ends, tie_embeddings=tied, rope_theta=5e5, norm_eps=1e-6, bos_token_id=1, head_dim=14
    )
    assert ModelConfig.from_hf(config.to_hf()) == config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_ff": 0}, r"d_ff is 0; it must be above 0"),
        ({"vocab_size": -1}, r"vocab_size is -1; it must be above 0"),
        ({"rope_theta": 0.0}, r"rope_theta is 0\.0; it must be above 0"),
        ({"norm_eps": float("nan")}, r"norm_eps is nan; it must be above 0"),
        ({"n_heads": 4, "n_kv_heads": 3}, r"n_heads is 4 and n_kv_heads 3; .* multiple of n_kv_heads"),
        ({"n_heads": 2, "n_kv_heads": 4}, r"n_heads is 2 and n_kv_heads 4; .* multiple of n_kv_heads"),
        ({"head_dim": 5}, r"head_dim is 5; .* must be even"),
        ({"n_experts": 4, "experts_per_token": 0}, r"experts_per_token is 0; it must be from 1 to n_experts, 4"),
        ({"n_experts": 4, "experts_per_token": 5}, r"experts_per_token is 5; it must be from 1 to n_experts, 4"),
        ({"experts_per_token": 2}, r"experts_per_token is 2; it must be 0 where n_experts is 0"),
        ({"n_experts": -1}, r"n_experts is -1; it must be 0 \(no mixture\) or more"),
    ],
)
def test_an_impossible_shape_is_refused_by_name(changes, message):
    with pytest.raises(ValueError, match=message):
        tiny_config(**changes)


def test_from_hf_names_every_missing_entry():
    with pytest.raises(ValueError, match=r"config\.json lacks hidden_size, intermediate_size"):
        ModelConfig.from_hf(hf(hidden_size=None, intermediate_size=None))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "gemma2"}, r"model_type = 'gemma2'; this engine reads 'llama', 'mistral', .* and 'olmoe' only"),
        ({"hidden_act": "gelu"}, r"hidden_act = 'gelu'; this engine reads 'silu' only"),
        ({"attention_bias": "yes"}, r"attention_bias = 'yes'; it must be true or false"),
        (
            {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}},
            r"'llama3' and lacks low_freq_factor, high_freq_fac",
        ),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, r"rope_type = 'yarn' and lacks factor"),
        ({"rope_scaling": {"type": "linear"}}, r"rope_type = 'linear' and lacks factor"),  # the key's name until 2024
        ({"rope_scaling": {"type": "su", "factor": 2.0}}, r"rope_type = 'su'; this engine reads default, linear"),
        ({"rope_scaling": {"factor": 2.0}}, r"rope_scaling\.factor without a rope_type that says what it means"),
        ({"partial_rotary_factor": 0.5}, r"partial_rotary_factor = 0\.5; this engine reads 1\.0 only"),
        ({"embedding_multiplier": 12.0}, r"embedding_multiplier = 12\.0; this engine does not know what that changes"),
        ({"logit_scale": 0.25}, r"logit_scale = 0\.25"),
        ({"rope_interleaved": True}, r"rope_interleaved = True"),
        ({"quantization_config": {"quant_method": "gptq"}}, r"quantization_config \('gptq'\): its weights are codes"),
        ({"num_hidden_layers": 1_000_000}, r"num_hidden_layers = 1000000; this engine reads models of at most 1000"),
    ],
)
def test_from_hf_refuses_what_the_engine_would_leave_out(changes, message):
    with pytest.raises(ValueError, match=message):
        ModelConfig.from_hf(hf(**changes))


@pytest.mark.parametrize("name", ["num_attention_heads", "num_key_value_heads", "head_dim"])
def test_from_hf_refuses_a_zero_rather_than_reading_it_as_absent(name):
    with pytest.raises(ValueError, match="0"):
        ModelConfig.from_hf(hf(**{name: 0}))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_size", "x"),
        ("hidden_size", None),
        ("num_attention_heads", None),
        ("rms_norm_eps", "a"),
        ("rope_parameters", [1]),
        ("hidden_size", 8.5),
    ],
)
def test_from_hf_refuses_a_value_of_the_wrong_type(key, value):
    with pytest.raises(ValueError, match=key):
        ModelConfig.from_hf({**ModelConfig(10, 8, 1, 2, 1, 4, 8).to_hf(), key: value})
