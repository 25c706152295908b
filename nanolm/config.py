"""The numbers that fix a model's shape, and their names in a Hugging Face config.json."""

from dataclasses import dataclass
from typing import Any

# Ours on the left, Hugging Face's on the right: one table serves reading and writing.
_HF_NAMES = {
    "vocab_size": "vocab_size",
    "d_model": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "d_ff": "intermediate_size",
    "max_positions": "max_position_embeddings",
    "norm_eps": "rms_norm_eps",
    "tie_embeddings": "tie_word_embeddings",
    "bos_token_id": "bos_token_id",
}
# What a Mixtral has besides.
_EXPERT_NAMES = {"n_experts": "num_local_experts", "experts_per_token": "num_experts_per_tok"}
# What a config.json means that leaves these out.
_LEFT_OUT = {
    "llama": {"rms_norm_eps": 1e-6, "rope_theta": 10_000.0},
    "mixtral": {"rms_norm_eps": 1e-5, "rope_theta": 1_000_000.0},
}


@dataclass(frozen=True)
class ModelConfig:
    """The shape of a Llama-style decoder: RMSNorm, rotary positions, grouped-query attention, SwiGLU.

    With n_experts above 0 it is a Mixtral: each layer has so many feed-forward blocks of width d_ff, and a router that
    sends each token through experts_per_token of them.

    Raises:
        ValueError: a size below 1, heads that do not share out evenly, an odd head dimension, or experts_per_token that
            is not from 1 to n_experts (both are 0 where there are no experts).
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

    @classmethod
    def from_hf(cls, hf: dict[str, Any]) -> "ModelConfig":
        """Return the configuration that a Hugging Face config.json of a Llama or a Mixtral describes.

        Raises:
            ValueError: another architecture, a missing entry, or a feature this engine does not have.
        """
        _refuse_wrong_types(hf)
        _refuse_what_we_lack(hf)
        kind = hf.get("model_type", "llama")
        names = _names(has_experts=kind == "mixtral")
        known = {**_LEFT_OUT[kind], **_rope(hf)}
        if known.get("num_key_value_heads") is None:
            known["num_key_value_heads"] = known.get("num_attention_heads")
        known.setdefault("tie_word_embeddings", False)
        known = {"head_dim": None, "bos_token_id": None, **known}  # these two may be absent, or null
        missing = [
            name for name in names.values() if known.get(name) is None and name not in ("head_dim", "bos_token_id")
        ]
        if missing:
            raise ValueError(f"config.json lacks {', '.join(missing)}")
        if known.get("head_dim") is None:  # max: zero heads get their message from the check of the sizes
            known["head_dim"] = known["hidden_size"] // max(1, known["num_attention_heads"])
        eos = known.get("eos_token_id")
        eos_ids = () if eos is None else tuple(eos) if isinstance(eos, list) else (eos,)
        return cls(
            **{ours: known[theirs] for ours, theirs in names.items()},
            rope_theta=float(known["rope_theta"]),
            eos_token_ids=eos_ids,
        )

    def to_hf(self) -> dict[str, Any]:
        """Return the same as a Hugging Face config.json, as a dictionary: a Mixtral's if there are experts."""
        eos, has_experts = list(self.eos_token_ids), self.n_experts > 0
        return {
            "architectures": ["MixtralForCausalLM" if has_experts else "LlamaForCausalLM"],
            "model_type": "mixtral" if has_experts else "llama",
            **{theirs: getattr(self, ours) for ours, theirs in _names(has_experts).items()},
            "eos_token_id": eos[0] if len(eos) == 1 else eos or None,
            "rope_parameters": {"rope_type": "default", "rope_theta": self.rope_theta},
            "rope_theta": self.rope_theta,
            "hidden_act": "silu",
            **({"sliding_window": None} if has_experts else {"attention_bias": False, "mlp_bias": False}),
        }


def _names(has_experts: bool) -> dict[str, str]:
    return {**_HF_NAMES, **_EXPERT_NAMES} if has_experts else _HF_NAMES


def _refuse_wrong_types(hf: dict[str, Any]) -> None:
    for ours, theirs in _names(has_experts=True).items():
        value, number = hf.get(theirs), (int, float) if ours == "norm_eps" else int
        if value is not None and not isinstance(value, number):  # a bool is an int, which suits tie_embeddings
            raise ValueError(
                f"config.json has {theirs} = {value!r}; it must be a {'' if ours == 'norm_eps' else 'whole '}number"
            )
    for name in ("rope_parameters", "rope_scaling"):
        if not isinstance(hf.get(name) or {}, dict):
            raise ValueError(f"config.json has {name} = {hf[name]!r}; it must be an object or null")


def _rope(hf: dict[str, Any]) -> dict[str, Any]:
    """Older files keep rope_theta at the top and scaling in rope_scaling; newer ones have rope_parameters."""
    return {**hf, **(hf.get("rope_scaling") or {}), **(hf.get("rope_parameters") or {})}


def _refuse_what_we_lack(hf: dict[str, Any]) -> None:
    """A model that runs with a part silently left out is worse than one that does not load."""
    allowed = {
        "model_type": (hf.get("model_type", "llama"), tuple(_LEFT_OUT)),
        "rope_type": (_rope(hf).get("rope_type", _rope(hf).get("type", "default")), ("default", None)),
        "hidden_act": (hf.get("hidden_act", "silu"), ("silu",)),
        "attention_bias": (hf.get("attention_bias", False), (False, None)),
        "mlp_bias": (hf.get("mlp_bias", False), (False, None)),
    }
    if hf.get("model_type") == "mixtral":  # a Llama has no window, whatever its file says
        allowed["sliding_window"] = (hf.get("sliding_window"), (None,))
    for name, (value, fine) in allowed.items():
        if value not in fine:
            readable = " and ".join(repr(known) for known in fine if known is not None or len(fine) == 1)
            raise ValueError(f"config.json has {name} = {value!r}; this engine reads {readable} only")
