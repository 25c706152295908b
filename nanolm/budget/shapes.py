"""The shape of a model one wants to size: from it follow its parameters and the numbers that it caches.

`ModelConfig` describes what this engine can run. A `ModelShape` may also have experts or latent attention: sizing
a model needs none of its code.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._require import require_count
from ..hf_config.entries import read_counts, read_sizes
from .experts import ParameterCounts, parameter_counts


@dataclass(frozen=True)
class Experts:
    """A mixture of experts in place of the feed-forward block, except in the first `n_dense_layers` layers."""

    n_experts: int
    n_experts_per_token: int
    d_ff: int
    n_shared_experts: int = 0
    n_dense_layers: int = 0

    def __post_init__(self) -> None:
        require_count(1, n_experts=self.n_experts, n_experts_per_token=self.n_experts_per_token, d_ff=self.d_ff)
        require_count(0, n_shared_experts=self.n_shared_experts, n_dense_layers=self.n_dense_layers)
        if self.n_experts_per_token > self.n_experts:
            chosen = self.n_experts_per_token
            raise ValueError(f"n_experts_per_token is {chosen}; it must be at most n_experts, {self.n_experts}")


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2, section 2.1).

    All heads of a token share one latent vector, from which their keys and values are made, and one rotary key.
    Those two are all that is cached.

    Attributes:
        kv_latent_dim: length of the shared latent vector.
        rotary_dim: length of the shared rotary key.
        value_dim: length of one head's value (its key has head_dim + rotary_dim).
        q_latent_dim: length of the queries' own latent vector; 0 if queries are made directly.
    """

    kv_latent_dim: int
    rotary_dim: int
    value_dim: int
    q_latent_dim: int = 0

    def __post_init__(self) -> None:
        require_count(1, kv_latent_dim=self.kv_latent_dim, rotary_dim=self.rotary_dim, value_dim=self.value_dim)
        require_count(0, q_latent_dim=self.q_latent_dim)


@dataclass(frozen=True)
class ModelShape:
    """A decoder of matrices: attention (q, k, v, o) and a gated feed-forward (gate, up, down) in each of L layers.

    Raises:
        ValueError: a size that is not a whole number above 0, or n_heads that is no multiple of n_kv_heads.
    """

    name: str
    n_layers: int
    d_model: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    d_ff: int
    vocab_size: int
    tie_embeddings: bool = False
    experts: Experts | None = None
    latent: LatentAttention | None = None

    def __post_init__(self) -> None:
        sizes = "n_layers d_model n_heads n_kv_heads head_dim d_ff vocab_size"
        require_count(1, **{size: getattr(self, size) for size in sizes.split()})
        if self.n_heads % self.n_kv_heads:
            raise ValueError(f"n_heads is {self.n_heads}; it must be a multiple of n_kv_heads, {self.n_kv_heads}")
        if self.experts and self.experts.n_dense_layers > self.n_layers:
            n_dense = self.experts.n_dense_layers
            raise ValueError(f"n_dense_layers is {n_dense}; it must be at most n_layers, {self.n_layers}")

    @property
    def n_params(self) -> int:
        """Every parameter: what memory must hold. Biases, which are few, are left out."""
        embeddings = self.vocab_size * self.d_model * (1 if self.tie_embeddings else 2)
        norms = (2 * self.n_layers + 1) * self.d_model
        attention = self.n_layers * self._attention_params()
        return attention + self._feedforward_counts().total + norms + embeddings

    @property
    def n_multiplied_params(self) -> int:
        """Parameters multiplied for each position: the chosen experts only, and no embedding, which is looked up.

        The output head is multiplied, tied to the embedding or not.
        """
        attention = self.n_layers * self._attention_params()
        return attention + self._feedforward_counts().active + self.vocab_size * self.d_model

    def _attention_params(self) -> int:
        """Parameters of one layer's q, k, v and o."""
        D, N, H = self.d_model, self.n_heads, self.head_dim
        if self.latent is None:
            return 2 * D * N * H + 2 * D * self.n_kv_heads * H
        latent = self.latent
        q_width = N * (H + latent.rotary_dim)
        q = (D + q_width) * latent.q_latent_dim if latent.q_latent_dim else D * q_width
        kv = D * (latent.kv_latent_dim + latent.rotary_dim) + latent.kv_latent_dim * N * (H + latent.value_dim)
        return q + kv + N * latent.value_dim * D

    def _feedforward_counts(self) -> ParameterCounts:
        """Parameters of all layers' feed-forward blocks: of all experts, and of those that one token goes through."""
        D, experts = self.d_model, self.experts
        if experts is None:
            dense = self.n_layers * 3 * D * self.d_ff
            return ParameterCounts(dense, dense)
        n_sparse, expert = self.n_layers - experts.n_dense_layers, 3 * D * experts.d_ff
        always = D * experts.n_experts + experts.n_shared_experts * expert  # the router, and what all tokens share
        shared = experts.n_dense_layers * 3 * D * self.d_ff + n_sparse * always
        return parameter_counts(shared, n_sparse * expert, experts.n_experts, experts.n_experts_per_token)

    @classmethod
    def from_config(cls, path: str | Path) -> "ModelShape":
        """Return the shape that a Hugging Face config.json describes; `path` is the file or the folder that holds it.

        num_key_value_heads falls back to num_attention_heads, head_dim to hidden_size / num_attention_heads, and
        tie_word_embeddings to false. Experts are read under the names of DeepSeek, Mixtral and Qwen, latent attention
        under those of DeepSeek. Every layer is taken to attend to the whole context.

        Raises:
            ValueError: no file, no JSON object, an entry missing or of no use, or heads that do not divide hidden_size.
        """
        path = Path(path)
        path = path / "config.json" if path.is_dir() else path
        config = _read_config(path)
        try:
            latent, experts = _latent_attention(config), _experts(config)
            if latent:
                config |= read_counts(config, {"head_dim": "qk_nope_head_dim"})
            sizes = read_sizes(config)
        except ValueError as error:
            raise ValueError(f"{error} (in {path})") from error
        return cls(
            **sizes,
            name=path.parent.name or path.stem,
            tie_embeddings=bool(config.get("tie_word_embeddings")),
            experts=experts,
            latent=latent,
        )


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"path is {str(path)!r}; it must be a config.json or a folder that holds one") from error
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}; it must be a Hugging Face config.json") from error
    if not isinstance(config, dict):
        raise ValueError(f"{path} holds a {type(config).__name__}; it must be one JSON object, a Hugging Face config")
    return config


def _experts(config: dict[str, Any]) -> Experts | None:
    key = next((key for key in ("n_routed_experts", "num_local_experts", "num_experts") if config.get(key)), None)
    if key is None:
        return None
    width = "intermediate_size" if config.get("moe_intermediate_size") is None else "moe_intermediate_size"
    return Experts(
        **read_counts(config, {"n_experts": key, "n_experts_per_token": "num_experts_per_tok", "d_ff": width}),
        n_shared_experts=config.get("n_shared_experts") or 0,
        n_dense_layers=config.get("first_k_dense_replace") or 0,
    )


def _latent_attention(config: dict[str, Any]) -> LatentAttention | None:
    if not config.get("kv_lora_rank"):
        return None
    names = {"kv_latent_dim": "kv_lora_rank", "rotary_dim": "qk_rope_head_dim", "value_dim": "v_head_dim"}
    return LatentAttention(**read_counts(config, names), q_latent_dim=config.get("q_lora_rank") or 0)


LLAMA_3_8B = ModelShape("Llama-3-8B-like", 32, 4096, 32, 8, 128, 14_336, 128_256)
LLAMA_3_70B = ModelShape("70B", 80, 8192, 64, 8, 128, 28_672, 128_256)
# 40 layers of width 5,120 with 8 KV heads; the feed-forward width is chosen so that the whole has 13·10⁹ parameters.
MODEL_13B = ModelShape("13B", 40, 5120, 40, 8, 128, 16_512, 32_000)
# As many KV heads as query heads: a seventh of the 8B's parameters, and the same cache a token.
SMALL_MHA = ModelShape("small MHA", 16, 2048, 16, 16, 128, 8192, 50_304, tie_embeddings=True)
DEEPSEEK_V3 = ModelShape(
    "DeepSeek-V3-like",
    61,
    7168,
    128,
    128,
    128,
    18_432,
    129_280,
    experts=Experts(n_experts=256, n_experts_per_token=8, d_ff=2048, n_shared_experts=1, n_dense_layers=3),
    latent=LatentAttention(kv_latent_dim=512, rotary_dim=64, value_dim=128, q_latent_dim=1536),
)
PRESETS = {shape.name: shape for shape in (LLAMA_3_8B, MODEL_13B, LLAMA_3_70B, SMALL_MHA, DEEPSEEK_V3)}
