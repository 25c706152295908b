"""What a Hugging Face config.json of a family we run says, under our names; what we do not understand is refused.

A model that runs with a part silently left out is worse than one that does not load. So every entry is one of three:
read here, known to change no logit, or refused by its name, unless its value is the neutral one (null, false, 0, "").
"""

from collections.abc import Mapping
from typing import Any

from .deepseek import read_deepseek
from .entries import flag, number, read_counts, read_sizes, token_id, token_ids
from .families import CONTEXT, FAMILIES, MOST_EXPERTS, MOST_LAYERS, READ, SIZES, WITHOUT_EFFECT
from .rope import read_rope


def read_hf_config(hf: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a ModelConfig that a config.json describes.

    Raises:
        ValueError: another architecture; an entry that is missing, of the wrong type or not understood.
    """
    kind = hf.get("model_type", "llama")
    if not isinstance(kind, str) or kind not in FAMILIES:
        names = [repr(name) for name in FAMILIES]
        allowed = f"{', '.join(names[:-1])} and {names[-1]}"
        raise ValueError(f"config.json has model_type = {kind!r}; this engine reads {allowed} only")
    family = FAMILIES[kind]
    hf = {**family.missing, **hf}
    refuse_unknown(hf, family.read, family.experts)
    is_latent = kind == "deepseek_v2"
    if is_latent:  # what is called head_dim there is the part that is rotated
        hf = {**hf, "head_dim": hf.get("qk_nope_head_dim"), "num_key_value_heads": None}
        rotated = read_counts(hf, {"n": "qk_rope_head_dim", "H": "qk_nope_head_dim"})["n"]
    sizes = read_sizes(hf, {**CONTEXT, **family.experts})
    for ours, most in (("n_layers", MOST_LAYERS), ("n_experts", MOST_EXPERTS)):
        if sizes.get(ours, 0) > most:
            theirs = {**SIZES, **family.experts}[ours]
            raise ValueError(f"config.json has {theirs} = {sizes[ours]}; this engine reads models of at most {most}")
    fields: dict[str, Any] = {
        **sizes,
        **family.always,
        **read_rope(hf, family.theta, sizes["max_positions"], rotated if is_latent else sizes["head_dim"]),
        "norm_eps": number(hf, "rms_norm_eps", family.eps),
        "tie_embeddings": flag(hf, "tie_word_embeddings"),
        "bos_token_id": token_id(hf, "bos_token_id"),
        "eos_token_ids": token_ids(hf, "eos_token_id"),
        "windows": _windows(kind, hf, sizes),
    }
    scaling = fields.get("rope_scaling")
    if scaling is not None and scaling.kind == "dynamic":  # its file names the context before it was stretched
        fields["max_positions"] = int(scaling.original * scaling.get("factor"))
    if is_latent:
        return fields | read_deepseek(hf, sizes)
    if "attention_bias" in family.read:
        fields |= {"qkv_bias": flag(hf, "attention_bias"), "out_bias": flag(hf, "attention_bias")}
    if "qkv_bias" in family.read:
        fields["qkv_bias"] = flag(hf, "qkv_bias")
    if "mlp_bias" in family.read:
        fields["mlp_bias"] = flag(hf, "mlp_bias")
    if hf.get("clip_qkv") is not None:
        fields["clip_qkv"] = number(hf, "clip_qkv", 0.0)
    if "norm_topk_prob" in family.read:
        fields["normalize_shares"] = flag(hf, "norm_topk_prob")
    return fields | (_qwen_experts(hf, sizes) if kind == "qwen2_moe" else {})


def refuse_unknown(hf: dict[str, Any], read: tuple[str, ...], experts: Mapping[str, str]) -> None:
    """Raise a ValueError that names an entry which is not understood and has more than a neutral value."""
    if hf.get("hidden_act", "silu") != "silu":
        raise ValueError(f"config.json has hidden_act = {hf['hidden_act']!r}; this engine reads 'silu' only")
    if hf.get("quantization_config"):
        method = hf["quantization_config"]
        method = method.get("quant_method") if isinstance(method, dict) else method
        raise ValueError(
            f"config.json has a quantization_config ({method!r}): its weights are codes, which this engine does not "
            "read; take the model's unquantized folder or a GGUF file"
        )
    for name, value in hf.items():
        known = name in READ or name in read or name in experts.values() or name in WITHOUT_EFFECT
        # 0 == False, and an empty list or text says nothing either.
        if not known and not name.startswith("_") and value:
            shown = repr(value) if len(repr(value)) <= 60 else repr(value)[:57] + "..."
            allowed = "this engine does not know what that changes, and reads false, 0 or null only"
            raise ValueError(f"config.json has {name} = {shown}; {allowed}")


def _windows(kind: str, hf: dict[str, Any], sizes: dict[str, int]) -> tuple[int | None, ...]:
    """For each layer the positions that its queries see, None for all; empty if all layers see the whole context."""
    if kind in ("llama", "olmoe", "deepseek_v2"):
        return ()
    n_layers, uses = sizes["n_layers"], kind in ("mistral", "mixtral") or flag(hf, "use_sliding_window")
    types = hf.get("layer_types")
    if types is None and kind == "qwen2_moe":
        limit = _whole(hf, "max_window_layers")
        types = ["sliding_attention" if i % 2 == 0 and i < limit else "full_attention" for i in range(n_layers)]
    elif types is None:
        first = _whole(hf, "max_window_layers") if kind.startswith("qwen") else 0
        types = ["sliding_attention" if i >= first else "full_attention" for i in range(n_layers)]
    known = ("sliding_attention", "full_attention")
    if not isinstance(types, list) or len(types) != n_layers or any(each not in known for each in types):
        raise ValueError(
            f"config.json has layer_types = {str(types)[:60]}; it must be {n_layers} of {', '.join(known)}"
        )
    if not uses or "sliding_attention" not in types or hf.get("sliding_window") is None:
        return ()
    window = _whole(hf, "sliding_window", 1)
    if window >= sizes["max_positions"]:
        return ()
    return tuple(window if each == "sliding_attention" else None for each in types)


def _qwen_experts(hf: dict[str, Any], sizes: dict[str, int]) -> dict[str, Any]:
    """The sizes of Qwen2-MoE: experts, a shared one, and layers that have neither."""
    widths = {"d_ff": "moe_intermediate_size", "d_ff_shared": "shared_expert_intermediate_size"}
    step = 1 if hf.get("decoder_sparse_step") is None else _whole(hf, "decoder_sparse_step", 1)
    only = hf.get("mlp_only_layers") or []
    if not isinstance(only, list) or not all(type(i) is int and 0 <= i < sizes["n_layers"] for i in only):
        raise ValueError(f"config.json has mlp_only_layers = {only!r}; it must be a list of layers, from 0")
    dense = tuple(i for i in range(sizes["n_layers"]) if i in only or (i + 1) % step)
    return {**read_counts(hf, widths), "d_ff_dense": sizes["d_ff"] if dense else 0, "dense_layers": dense}


def _whole(hf: dict[str, Any], name: str, least: int = 0) -> int:
    return read_counts(hf, {"n": name}, least)["n"]
