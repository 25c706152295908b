"""The families of models that we run, and what their config.json files may say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# Ours on the left, Hugging Face's on the right: one table serves reading and writing.
SIZES = {
    "vocab_size": "vocab_size",
    "d_model": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "d_ff": "intermediate_size",
}
MAY_LACK = ("n_kv_heads", "head_dim")
CONTEXT = {"max_positions": "max_position_embeddings"}
MIXTRAL_EXPERTS = {"n_experts": "num_local_experts", "experts_per_token": "num_experts_per_tok"}
_EXPERTS = {"n_experts": "num_experts", "experts_per_token": "num_experts_per_tok"}
DEEPSEEK_EXPERTS = {"n_experts": "n_routed_experts", "experts_per_token": "num_experts_per_tok"}
LATENT = {"kv_latent_dim": "kv_lora_rank", "rotary_dim": "qk_rope_head_dim", "value_dim": "v_head_dim"}
DEEPSEEK_READ = (
    *LATENT.values(),
    *("q_lora_rank", "qk_nope_head_dim", "qk_head_dim", "attention_bias", "mlp_bias"),
    *("moe_intermediate_size", "n_shared_experts", "first_k_dense_replace", "moe_layer_freq", "routed_scaling_factor"),
    *("norm_topk_prob", "scoring_func", "topk_method", "topk_group", "n_group", "aux_loss_alpha", "seq_aux", "ep_size"),
)
OTHERS = {"norm_eps": "rms_norm_eps", "tie_embeddings": "tie_word_embeddings", "bos_token_id": "bos_token_id"}
MOST_LAYERS, MOST_EXPERTS = 1000, 4096  # more are a mistake, or a file made to keep us busy


@dataclass(frozen=True)
class Family:
    """Models of one model_type: what their config.json means.

    Attributes:
        eps, theta: what a file means that leaves rms_norm_eps or rope_theta out.
        experts: where a mixture keeps its sizes.
        read: further entries that this engine reads.
        always: fields of a ModelConfig that are the same for all of the family.
        missing: what other entries mean that a file leaves out.
    """

    eps: float = 1e-6
    theta: float = 10_000.0
    experts: Mapping[str, str] = field(default_factory=dict)
    read: tuple[str, ...] = ()
    always: Mapping[str, Any] = field(default_factory=dict)
    missing: Mapping[str, Any] = field(default_factory=dict)


_QWEN_WINDOWS = ("use_sliding_window", "sliding_window", "max_window_layers", "layer_types")
_QWEN_MISSING = {"num_key_value_heads": 32, "sliding_window": 4096, "max_window_layers": 28}
FAMILIES = {
    # A Llama has no window, whatever its file says: transformers' has none either.
    "llama": Family(read=("attention_bias", "mlp_bias", "sliding_window")),
    "mistral": Family(read=("sliding_window",), missing={"num_key_value_heads": 8, "sliding_window": 4096}),
    "mixtral": Family(1e-5, 1_000_000.0, MIXTRAL_EXPERTS, read=("sliding_window",), missing={"num_key_value_heads": 8}),
    "qwen2": Family(read=_QWEN_WINDOWS, always={"qkv_bias": True}, missing=_QWEN_MISSING),
    "qwen3": Family(
        read=("attention_bias", *_QWEN_WINDOWS),
        always={"qk_norm": "head"},
        missing={**_QWEN_MISSING, "head_dim": 128},
    ),
    "qwen2_moe": Family(
        experts=_EXPERTS,
        read=(
            *("qkv_bias", "norm_topk_prob", "moe_intermediate_size", "shared_expert_intermediate_size"),
            *("mlp_only_layers", "decoder_sparse_step", *_QWEN_WINDOWS),
        ),
        always={"shared_gate": True},
        missing={**_QWEN_MISSING, "num_key_value_heads": 16, "qkv_bias": True},
    ),
    "deepseek_v2": Family(experts=DEEPSEEK_EXPERTS, read=DEEPSEEK_READ),
    "olmoe": Family(
        1e-5, experts=_EXPERTS, read=("attention_bias", "norm_topk_prob", "clip_qkv"), always={"qk_norm": "all"}
    ),
}
READ = {
    *SIZES.values(), *CONTEXT.values(), *OTHERS.values(), "model_type", "eos_token_id", "hidden_act", "rope_theta",
    "rope_scaling", "rope_parameters", "partial_rotary_factor", "original_max_position_embeddings",
}  # fmt: skip
# Entries that change no logit of inference: training, tasks of other heads, how to draw tokens, who wrote the file.
WITHOUT_EFFECT = set(
    """architectures dtype torch_dtype transformers_version auto_map use_cache initializer_range pretraining_tp
    attention_dropout hidden_dropout resid_pdrop embd_pdrop attn_pdrop output_router_logits router_aux_loss_coef
    router_jitter_noise pad_token_id sep_token_id cls_token_id unk_token_id decoder_start_token_id name_or_path
    model_name license is_llama_config gradient_checkpointing output_attentions output_hidden_states
    return_dict torchscript use_return_dict tf_legacy_loss id2label label2id num_labels problem_type finetuning_task
    task_specific_params tokenizer_class prefix chunk_size_feed_forward is_decoder max_length min_length do_sample
    early_stopping num_beams num_beam_groups diversity_penalty temperature top_k top_p typical_p repetition_penalty
    length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size num_return_sequences output_scores
    return_dict_in_generate begin_suppress_tokens suppress_tokens bad_words_ids forced_bos_token_id
    forced_eos_token_id remove_invalid_values exponential_decay_length_penalty max_sequence_length model_max_length
    unsloth_version unsloth_fixed unsloth_processed use_flash_attention use_flash_attn attn_implementation
    keep_exact_rope seq_length transformers.js_config pruned_heads""".split()  # noqa: SIM905  a list of a hundred lines
)
