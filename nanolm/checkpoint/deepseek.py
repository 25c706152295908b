"""DeepSeek-V2's tensors in a Hugging Face folder: their names, the order of rotated rows, and the scale of queries."""

import math
from collections.abc import Callable

from torch import Tensor

from ..config import ModelConfig
from .gguf import half_split_rows
from .weight_layout import WeightLayout

DEEPSEEK = WeightLayout(
    top={"embedding": ["model.embed_tokens"], "norm": ["model.norm"], "head": ["lm_head"]},
    layer={
        "attention_norm": ["input_layernorm"],
        "attention.q": ["self_attn.q_proj"],
        "attention.q.0": ["self_attn.q_a_proj"],
        "attention.q.1": ["self_attn.q_a_layernorm"],
        "attention.q.2": ["self_attn.q_b_proj"],
        "attention.down": ["self_attn.kv_a_proj_with_mqa"],
        "attention.norm": ["self_attn.kv_a_layernorm"],
        "attention.up": ["self_attn.kv_b_proj"],
        "attention.out": ["self_attn.o_proj"],
        "feedforward_norm": ["post_attention_layernorm"],
        "feedforward.gate_up": ["mlp.gate_proj", "mlp.up_proj"],
        "feedforward.down": ["mlp.down_proj"],
    },
    prefix="model.layers.{}.",
    ignored=("rotary_emb.inv_freq",),
    mixture={
        "feedforward.router": ["mlp.gate"],
        "feedforward.gate_up": ["mlp.experts.{}.gate_proj", "mlp.experts.{}.up_proj"],
        "feedforward.down": ["mlp.experts.{}.down_proj"],
        "feedforward.shared.gate_up": ["mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj"],
        "feedforward.shared.down": ["mlp.shared_experts.down_proj"],
    },
)


def in_our_order(read: Callable[[str], Tensor], config: ModelConfig) -> Callable[[str], Tensor]:
    """Return a reader of the same tensors as the engine's layer wants them.

    DeepSeek turns numbers 2i and 2i + 1 of a rotary part as a pair, the engine i and i + R/2. And where positions are
    stretched by yarn with `mscale_all_dim`, it multiplies the scores by a constant: here the queries bring that along.
    """
    latent = config.latent
    assert latent is not None  # the layout is for such models alone
    R, scale = latent.rotary_dim, _score_scale(config)

    def in_order(name: str) -> Tensor:
        tensor = read(name)
        if name.endswith(("q_proj.weight", "q_b_proj.weight")):
            heads = tensor.unflatten(0, (config.n_heads, -1)).clone()  # (N, H + R, in)
            for head in heads:
                head[-R:] = half_split_rows(head[-R:], R)
            return heads.flatten(0, 1) * scale
        if name.endswith("kv_a_proj_with_mqa.weight"):
            tensor = tensor.clone()
            tensor[-R:] = half_split_rows(tensor[-R:], R)
        return tensor

    return in_order


def _score_scale(config: ModelConfig) -> float:
    scaling = config.rope_scaling
    factor, mscale = (scaling.get("factor", 1.0), scaling.get("mscale_all_dim", 0)) if scaling else (1.0, 0)
    return (0.1 * mscale * math.log(factor) + 1.0) ** 2 if mscale and factor > 1 else 1.0
