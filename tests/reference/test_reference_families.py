"""Each family as transformers writes it, in shards: float32 logits within 1e-4, and the same greedy text."""

import pytest
import torch
from tiny_checkpoints import END, tiny_tokenizer

import nanolm
from nanolm.engine import Engine
from nanolm.sampling import SamplingParams

SIZES = dict(
    vocab_size=290, hidden_size=24, intermediate_size=40, num_hidden_layers=3, max_position_embeddings=128,
    num_attention_heads=4, num_key_value_heads=2, bos_token_id=None, eos_token_id=None, pad_token_id=None,
)  # fmt: skip
EXPERTS = dict(num_experts=4, num_experts_per_tok=2)
QWEN = dict(EXPERTS, moe_intermediate_size=12, shared_expert_intermediate_size=14)
TIED = dict(tie_word_embeddings=True)


def rope(kind, **values):
    return dict(rope_parameters={"rope_type": kind, "rope_theta": 10_000.0, **values})


DEEPSEEK = dict(
    kv_lora_rank=12, qk_nope_head_dim=6, qk_rope_head_dim=8, v_head_dim=5, n_routed_experts=4, num_experts_per_tok=2,
    n_shared_experts=2, moe_intermediate_size=12, first_k_dense_replace=1, routed_scaling_factor=1.5,
    num_key_value_heads=4,
)  # fmt: skip
SHORT = dict(original_max_position_embeddings=32)
FAMILIES = {
    "Llama": ("Llama", {}),
    "Llama, tied": ("Llama", TIED),
    "Llama with biases": ("Llama", dict(attention_bias=True, mlp_bias=True)),
    "Llama 3.1": ("Llama", rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, **SHORT)),
    "linear": ("Llama", rope("linear", factor=4.0)),
    "dynamic": ("Llama", dict(rope("dynamic", factor=4.0), max_position_embeddings=32)),
    "yarn": ("Llama", rope("yarn", factor=4.0, **SHORT)),
    "yarn, all of it": (
        "Llama",
        rope("yarn", factor=4.0, beta_fast=16, beta_slow=2, mscale=0.7, mscale_all_dim=1.2, truncate=False, **SHORT),
    ),
    "longrope": ("Llama", rope("longrope", short_factor=[1.0, 1.5, 2.0], long_factor=[2.0, 3.0, 5.0], **SHORT)),
    "proportional": ("Llama", rope("proportional", partial_rotary_factor=0.7)),
    "Mistral": ("Mistral", {}),
    "Mistral, a window": ("Mistral", dict(sliding_window=9)),
    "Mixtral": ("Mixtral", dict(num_local_experts=4, num_experts_per_tok=2)),
    "Mixtral, a window": ("Mixtral", dict(num_local_experts=4, num_experts_per_tok=2, sliding_window=7)),
    "Qwen2": ("Qwen2", TIED),
    "Qwen2, a window in the upper layers": (
        "Qwen2",
        dict(use_sliding_window=True, sliding_window=8, max_window_layers=1),
    ),
    "Qwen3": ("Qwen3", dict(head_dim=10)),
    "Qwen3 with biases": ("Qwen3", dict(head_dim=10, attention_bias=True)),
    "Qwen2-MoE, a dense layer": ("Qwen2Moe", dict(QWEN, mlp_only_layers=[1])),
    "Qwen2-MoE, every other layer": ("Qwen2Moe", dict(QWEN, decoder_sparse_step=2, norm_topk_prob=True)),
    "DeepSeek-V2": ("DeepseekV2", dict(DEEPSEEK, q_lora_rank=None)),
    "DeepSeek-V2, groups of experts": (
        "DeepseekV2",
        dict(
            DEEPSEEK,
            n_routed_experts=12,
            num_experts_per_tok=3,
            topk_method="group_limited_greedy",
            n_group=4,
            topk_group=2,
            q_lora_rank=None,
        ),
    ),
    "DeepSeek-V2, yarn": (
        "DeepseekV2",
        dict(DEEPSEEK, q_lora_rank=10, **rope("yarn", factor=4.0, mscale=0.7, mscale_all_dim=0.9, **SHORT)),
    ),
    "OLMoE": ("Olmoe", EXPERTS),
    "OLMoE, clipped and normalized": ("Olmoe", dict(EXPERTS, clip_qkv=0.7, norm_topk_prob=True)),
}
# Where angles follow the length of a text, or layers see a window, a shorter past computes something else.
FAR = [name for name in FAMILIES if "window" in name or name in ("Llama", "yarn", "longrope", "OLMoE")]


def written(transformers, folder, name, dtype=torch.float32):
    """A random model of a family, saved in several files by transformers itself."""
    family, changes = FAMILIES[name]
    torch.manual_seed(1)
    config = getattr(transformers, f"{family}Config")(**{**SIZES, **changes})
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    for weight in model.parameters():  # their initial weights are so small that every token looks alike
        weight.data.normal_(1.0 if weight.ndim == 1 else 0.0, 0.3)
    model.to(dtype).save_pretrained(folder, max_shard_size="20KB")
    assert len(list(folder.glob("*.safetensors"))) > 2, "one file is no test of many"
    transformers.PreTrainedTokenizerFast(tokenizer_object=tiny_tokenizer().inner, eos_token=END).save_pretrained(folder)
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_s_logits_and_greedy_text_are_those_of_transformers(transformers, tmp_path, name):
    theirs = written(transformers, tmp_path, name)
    ours, _ = nanolm.load(tmp_path)
    tokens = torch.randint(290, (2, 50), generator=torch.Generator().manual_seed(3))
    with torch.inference_mode():
        expected = theirs(tokens).logits
        assert expected.std() > 0.5, "logits this small would hide an error"
        assert (ours(tokens) - expected).abs().max() < 1e-4
    mask = torch.ones(1, 20, dtype=torch.long)  # without one, every token 0 would be taken for padding
    how = dict(attention_mask=mask, max_new_tokens=40, do_sample=False, pad_token_id=0)
    text = theirs.generate(tokens[:1, :20], **how)[0, 20:].tolist()
    assert ours.generate(tokens[0, :20].tolist(), 40) == text


@pytest.mark.parametrize("name", ["Llama", "Qwen2", "OLMoE"])
def test_a_family_in_bfloat16_is_read_to_the_last_bit(transformers, tmp_path, name):
    theirs = written(transformers, tmp_path, name, torch.bfloat16)
    ours, _ = nanolm.load(tmp_path)
    tokens = torch.randint(290, (1, 50), generator=torch.Generator().manual_seed(3))
    with torch.inference_mode():
        assert (ours(tokens) - theirs(tokens).logits).abs().max() < 1e-4


@pytest.mark.parametrize("name", FAR)
def test_rows_of_unequal_length_and_the_engine_write_what_each_text_gets_alone(transformers, tmp_path, name):
    written(transformers, tmp_path, name)
    model, greedy = nanolm.load(tmp_path)[0], SamplingParams(temperature=0.0)
    n_new = 8 if name == "longrope" else 40  # longer texts turn by other angles, and the engine refuses them
    prompts = [torch.randint(290, (n,), generator=torch.Generator().manual_seed(n)).tolist() for n in (3, 14, 22)]
    alone = [model.generate(prompt, n_new) for prompt in prompts]
    assert model.generate(prompts, n_new) == alone
    assert Engine(model, block_size=4, max_tokens_per_step=9).generate(prompts, n_new, greedy) == alone
    assert Engine(model, block_size=4, plain=True).generate(prompts, n_new, greedy) == alone


def test_the_engine_refuses_a_text_whose_angles_would_follow_its_neighbours(transformers, tmp_path):
    written(transformers, tmp_path, "dynamic")
    model, _ = nanolm.load(tmp_path)
    assert model.config.max_positions == 128, "four times what the file says"
    with pytest.raises(ValueError, match=r"make 40 positions; beyond 32 .* \(dynamic\)"):
        Engine(model).add_request([1] * 20, 20)
