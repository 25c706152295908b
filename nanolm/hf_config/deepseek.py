"""What a DeepSeek-V2's config.json says besides: latent attention, and a mixture with experts that all tokens share."""

from typing import Any

from .entries import flag, number, read_counts
from .families import LATENT


def read_deepseek(hf: dict[str, Any], sizes: dict[str, int]) -> dict[str, Any]:
    """Return the fields of a ModelConfig that these entries make; `latent` as a dictionary of its own.

    Args:
        sizes: as `read_sizes` returns them.

    Raises:
        ValueError: an entry that is missing, of the wrong type, or asks for what the engine does not do.
    """
    _refuse(hf)
    n_layers, of_experts = sizes["n_layers"], read_counts(hf, {"d_ff": "moe_intermediate_size"})
    n_dense = read_counts(hf, {"n": "first_k_dense_replace"}, 0)["n"] if hf.get("first_k_dense_replace") else 0
    n_shared = read_counts(hf, {"n": "n_shared_experts"})["n"] if hf.get("n_shared_experts") else 0
    q_latent = read_counts(hf, {"n": "q_lora_rank"})["n"] if hf.get("q_lora_rank") is not None else 0
    return {
        **of_experts,
        "n_kv_heads": sizes["n_heads"],
        "latent": {**read_counts(hf, LATENT), "q_latent_dim": q_latent},
        "d_ff_shared": n_shared * of_experts["d_ff"],
        "dense_layers": tuple(range(min(n_dense, n_layers))),
        "d_ff_dense": sizes["d_ff"] if n_dense else 0,
        "normalize_shares": False,
        **_groups(hf),
        "routed_scale": float(number(hf, "routed_scaling_factor", 1.0)),
    }


def _groups(hf: dict[str, Any]) -> dict[str, int]:
    """The groups of experts among which a token chooses, where it does not choose among all."""
    method = hf.get("topk_method", "greedy")
    if method not in (None, "greedy", "group_limited_greedy"):
        allowed = "'greedy' and 'group_limited_greedy'"
        raise ValueError(f"config.json has topk_method = {method!r}; this engine reads {allowed} only")
    if method != "group_limited_greedy":
        return {}
    return read_counts(hf, {"expert_groups": "n_group", "groups_per_token": "topk_group"})


def _refuse(hf: dict[str, Any]) -> None:
    if number(hf, "rms_norm_eps", 1e-6) != 1e-6:
        raise ValueError(f"config.json has rms_norm_eps = {hf['rms_norm_eps']!r}; latent vectors are normed with 1e-06")
    for name in ("norm_topk_prob", "attention_bias", "mlp_bias"):
        if flag(hf, name):
            raise ValueError(f"config.json has {name} = true; of a DeepSeek-V2 this engine reads false only")
    fine = {"scoring_func": "softmax", "moe_layer_freq": 1}
    for name, only in fine.items():
        if hf.get(name) not in (None, only):
            raise ValueError(f"config.json has {name} = {hf[name]!r}; this engine reads {only!r} only")
