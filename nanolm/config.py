"""The numbers that fix a model's shape, and what else of a model decides how it computes."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from .budget.shapes import LatentAttention
from .hf_config.families import CONTEXT, MIXTRAL_EXPERTS, OTHERS, SIZES
from .hf_config.read import read_hf_config
from .rope_scaling import RopeScaling


@dataclass(frozen=True)
class ModelConfig:
    """The shape of a Llama-style decoder: RMSNorm, rotary positions, grouped-query attention, SwiGLU.

    With n_experts above 0 it is a Mixtral: each layer has so many feed-forward blocks of width d_ff, and a router that
    sends each token through experts_per_token of them. What other families have besides is off unless it is set:

    Attributes:
        rope_scaling: how positions are stretched to a longer context.
        windows: for each layer the positions that its queries see, None for all; empty: all layers see everything.
        qkv_bias, out_bias, mlp_bias: numbers added behind the products of attention and feed-forward.
        qk_norm: "head" norms each query and key by itself before it is rotated (Qwen3), "all" those of all heads as
            one vector (OLMoE).
        clip_qkv: queries, keys and values are held within ± this.
        normalize_shares: whether the shares of the chosen experts add up to 1; else they are what the softmax over all
            experts gives them.
        d_ff_shared, shared_gate: width of an expert that every token goes through, 0 for none, and whether a gate of
            its own says how much (Qwen2-MoE).
        expert_groups, groups_per_token: experts lie in so many groups, side by side, and a token chooses among those of
            so many of them, the ones with the best expert (DeepSeek-V2).
        routed_scale: what the sum over the chosen experts is multiplied by.
        latent: sizes of latent attention in place of attention with key/value heads (`nanolm.mla`).
        dense_layers, d_ff_dense: layers of a mixture that have one feed-forward block of that width instead.

    Raises:
        ValueError: a size below 1, heads that do not share out evenly, an odd head dimension, or experts_per_token that
            is not from 1 to n_experts (both are 0 where there are no experts); windows not one a layer.
    """

    vocab_size: int
    d_model: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    d_ff: int
    max_positions: int = 2048
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-5
    tie_embeddings: bool = True
    bos_token_id: int | None = None
    eos_token_ids: tuple[int, ...] = ()
    n_experts: int = 0
    experts_per_token: int = 0
    rope_scaling: RopeScaling | None = None
    windows: tuple[int | None, ...] = ()
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    qk_norm: Literal["", "head", "all"] = ""
    clip_qkv: float | None = None
    normalize_shares: bool = True
    d_ff_shared: int = 0
    shared_gate: bool = False
    dense_layers: tuple[int, ...] = ()
    d_ff_dense: int = 0
    routed_scale: float = 1.0
    expert_groups: int = 1
    groups_per_token: int = 1
    latent: LatentAttention | None = None

    def __post_init__(self) -> None:
        sizes = "vocab_size d_model n_layers n_heads n_kv_heads head_dim d_ff max_positions rope_theta norm_eps"
        for name in sizes.split():
            value = getattr(self, name)
            if not value > 0:
                raise ValueError(f"{name} is {value}; it must be above 0")
        if self.n_heads % self.n_kv_heads:
            raise ValueError(
                f"n_heads is {self.n_heads} and n_kv_heads {self.n_kv_heads}; "
                "query heads share key/value heads evenly, so n_heads must be a multiple of n_kv_heads"
            )
        if self.head_dim % 2:
            raise ValueError(f"head_dim is {self.head_dim}; rotary positions turn pairs of numbers, so it must be even")
        if self.n_experts < 0:
            raise ValueError(f"n_experts is {self.n_experts}; it must be 0 (no mixture) or more")
        if not min(1, self.n_experts) <= self.experts_per_token <= self.n_experts:
            allowed = f"from 1 to n_experts, {self.n_experts}" if self.n_experts else "0 where n_experts is 0"
            raise ValueError(f"experts_per_token is {self.experts_per_token}; it must be {allowed}")
        self._check_groups()
        if self.windows and len(self.windows) != self.n_layers:
            raise ValueError(f"windows has {len(self.windows)} entries; there must be one a layer, {self.n_layers}")

    def _check_groups(self) -> None:
        if self.expert_groups == 1:
            return
        if self.expert_groups < 1 or self.n_experts % self.expert_groups:
            raise ValueError(f"expert_groups is {self.expert_groups}; it must divide n_experts, {self.n_experts}")
        least = -(-self.experts_per_token * self.expert_groups // self.n_experts)
        if not least <= self.groups_per_token <= self.expert_groups:
            raise ValueError(
                f"groups_per_token is {self.groups_per_token}; it must be from {least}, so that a token finds "
                f"{self.experts_per_token} experts in them, to {self.expert_groups}"
            )

    @property
    def steady_positions(self) -> int:
        """The longest text in which a token's rotation does not depend on how long the text is."""
        scaling = self.rope_scaling
        return scaling.original if scaling is not None and scaling.follows_length else self.max_positions

    def with_layers(self, n_layers: int) -> "ModelConfig":
        """Return the configuration of so many layers, none of them special: for caches, which keep only a part."""
        return replace(self, n_layers=n_layers, windows=(), dense_layers=())

    @classmethod
    def from_hf(cls, hf: dict[str, Any]) -> "ModelConfig":
        """Return the configuration that a Hugging Face config.json describes; `hf_config.families` lists whose.

        Raises:
            ValueError: another architecture, a missing entry, or one that this engine does not understand.
        """
        fields = read_hf_config(hf)
        latent = fields.pop("latent", None)
        return cls(**fields, latent=LatentAttention(**latent) if latent else None)

    def to_hf(self) -> dict[str, Any]:
        """Return the same as a Hugging Face config.json, as a dictionary: a Mixtral's if there are experts.

        Raises:
            ValueError: the model has what neither a Llama nor a Mixtral has.
        """
        self._refuse_to_write()
        eos, has_experts = list(self.eos_token_ids), self.n_experts > 0
        names = {**SIZES, **CONTEXT, **OTHERS, **(MIXTRAL_EXPERTS if has_experts else {})}
        return {
            "architectures": ["MixtralForCausalLM" if has_experts else "LlamaForCausalLM"],
            "model_type": "mixtral" if has_experts else "llama",
            **{theirs: getattr(self, ours) for ours, theirs in names.items()},
            "eos_token_id": eos[0] if len(eos) == 1 else eos or None,
            "rope_parameters": {"rope_type": "default", "rope_theta": self.rope_theta},
            "rope_theta": self.rope_theta,
            "hidden_act": "silu",
            **({"sliding_window": None} if has_experts else {"attention_bias": False, "mlp_bias": False}),
        }

    def _refuse_to_write(self) -> None:
        plain = ModelConfig(1, 1, 1, 1, 1, 2, 1)
        names = "rope_scaling windows qkv_bias out_bias mlp_bias qk_norm clip_qkv normalize_shares d_ff_shared"
        for name in (*names.split(), "dense_layers", "routed_scale", "expert_groups", "latent"):
            if (value := getattr(self, name)) != getattr(plain, name):
                raise ValueError(f"{name} is {value!r}; a model is written as a Llama or a Mixtral, which have none")
