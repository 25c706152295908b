"""The numbers that fix a model's shape, and their names in a Hugging Face config.json."""

from dataclasses import dataclass
from typing import Any

# Ours on the left, Hugging Face's on the right: one table serves reading and writing.
_SIZES = {
    "vocab_size": "vocab_size",
    "d_model": "hidden_size",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "n_kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "d_ff": "intermediate_size",
}
_MAY_LACK = ("n_kv_heads", "head_dim")
_CONTEXT = {"max_positions": "max_position_embeddings"}
# What a Mixtral has besides.
_EXPERTS = {"n_experts": "num_local_experts", "experts_per_token": "num_experts_per_tok"}
_OTHERS = {"norm_eps": "rms_norm_eps", "tie_embeddings": "tie_word_embeddings", "bos_token_id": "bos_token_id"}
# What a config.json means that leaves these out.
_LEFT_OUT = {
    "llama": {"rms_norm_eps": 1e-6, "rope_theta": 10_000.0},
    "mixtral": {"rms_norm_eps": 1e-5, "rope_theta": 1_000_000.0},
}


def read_sizes(hf: dict[str, Any], also: dict[str, str] | None = None) -> dict[str, int]:
    """Return the sizes of a decoder in a Hugging Face config.json under our names, whatever the architecture.

    num_key_value_heads falls back to num_attention_heads, and head_dim to hidden_size / num_attention_heads.

    Args:
        also: further entries to read, our names and the file's.

    Raises:
        ValueError: an entry is missing or no whole number above 0, or there is no head_dim and heads do not divide
            hidden_size.
    """
    names = {**_SIZES, **(also or {})}
    given = {name: theirs for name, theirs in names.items() if name not in _MAY_LACK or hf.get(theirs) is not None}
    sizes = read_counts(hf, given)
    sizes.setdefault("n_kv_heads", sizes["n_heads"])
    if "head_dim" not in sizes:
        width, n_heads = sizes["d_model"], sizes["n_heads"]
        if width % n_heads:
            raise ValueError(f"config.json lacks head_dim, and hidden_size {width} is no multiple of {n_heads} heads")
        sizes["head_dim"] = width // n_heads
    return sizes


def read_counts(hf: dict[str, Any], names: dict[str, str]) -> dict[str, int]:
    """Return entries of a config.json by our names, given as our names and the file's.

    Raises:
        ValueError: an entry is missing, or no whole number above 0.
    """
    missing = [theirs for theirs in names.values() if hf.get(theirs) is None]
    if missing:
        raise ValueError(f"config.json lacks {', '.join(missing)}")
    for theirs in names.values():
        value = hf[theirs]
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"config.json has {theirs} = {value!r}; it must be a whole number above 0")
    return {ours: hf[theirs] for ours, theirs in names.items()}


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
        given = {name: value for name, value in _rope(hf).items() if value is not None}
        known: dict[str, Any] = _LEFT_OUT[kind] | given
        eos = known.get("eos_token_id")
        return cls(
            **read_sizes(hf, {**_CONTEXT, **(_EXPERTS if kind == "mixtral" else {})}),
            rope_theta=float(known["rope_theta"]),
            norm_eps=known["rms_norm_eps"],
            tie_embeddings=bool(hf.get("tie_word_embeddings")),
            bos_token_id=hf.get("bos_token_id"),
            eos_token_ids=() if eos is None else tuple(eos) if isinstance(eos, list) else (eos,),
        )

    def to_hf(self) -> dict[str, Any]:
        """Return the same as a Hugging Face config.json, as a dictionary: a Mixtral's if there are experts."""
        eos, has_experts = list(self.eos_token_ids), self.n_experts > 0
        names = {**_SIZES, **_CONTEXT, **_OTHERS, **(_EXPERTS if has_experts else {})}
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


def _refuse_wrong_types(hf: dict[str, Any]) -> None:
    for name, kind, allowed in (
        ("rms_norm_eps", (int, float), "a number"),
        ("rope_theta", (int, float), "a number"),
        ("tie_word_embeddings", int, "true or false"),
        ("bos_token_id", int, "a whole number"),
    ):
        if hf.get(name) is not None and not isinstance(hf[name], kind):
            raise ValueError(f"config.json has {name} = {hf[name]!r}; it must be {allowed}")
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
