"""The same mathematics written slowly and another way: what the engine's fast paths are compared with.

Everything is float64, one position at a time, straight from the formulas. Nothing here comes from nanolm.
"""

import cmath
import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from course.grading.seeds import fresh


def close(actual: Tensor, expected: Tensor, tolerance: float = 1e-12) -> bool:
    """Same shape, and nowhere further apart than the tolerance.

    Something else than a tensor, or one of another dtype, fails by name: torch would only say that it cannot compare.
    """
    assert isinstance(actual, Tensor), f"a tensor is expected, and this is {type(actual).__name__}: {actual!r:.80}"
    if actual.shape != expected.shape:
        return False
    assert actual.dtype == expected.dtype, f"the result holds {actual.dtype}, and {expected.dtype} is expected"
    return torch.allclose(actual, expected, rtol=0, atol=tolerance)


def name_the_mistake(actual: Tensor, suspects: Mapping[str, Tensor], otherwise: str) -> str:
    """What the result would be under each common mistake: the first that matches names it."""
    for mistake, result in suspects.items():
        if close(actual, result, 1e-9):
            return mistake
    return otherwise


def random(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal float64 numbers from a seed of their own, new in each run that grades an answer."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(fresh(seed)), dtype=torch.float64)


def rotate(x: Tensor, positions: Sequence[int], theta: float = 10_000.0) -> Tensor:
    """Rotary positions by complex numbers: i and i + H/2 are one number a + bj, multiplied by e^(jφ)."""
    half = x.shape[-1] // 2
    pairs = torch.complex(x[..., :half], x[..., half:])
    factors = [[cmath.exp(1j * t * theta ** (-i / half)) for i in range(half)] for t in positions]
    turned = pairs * torch.tensor(factors, dtype=torch.complex128)
    return torch.cat([turned.real, turned.imag], dim=-1)


def attention(q: Tensor, k: Tensor, v: Tensor, sees: Callable[[int], Sequence[int]] | None = None) -> Tensor:
    """Softmax attention, query by query. Query t sees the positions sees(t), by default all up to its own S - T + t."""
    B, N, T, H = q.shape
    K, S = k.shape[1:3]
    result = torch.zeros_like(q)
    for b in range(B):
        for n in range(N):
            keys, values = k[b, n // (N // K)], v[b, n // (N // K)]
            for t in range(T):
                visible = list(sees(t) if sees else range(S - T + t + 1))
                weights = [math.exp((q[b, n, t] @ keys[s]).item() / math.sqrt(H)) for s in visible]
                result[b, n, t] = sum(w * values[s] for w, s in zip(weights, visible, strict=True)) / sum(weights)
    return result


def decoder_logits(tensors: Mapping[str, Tensor], config, tokens: Sequence[int]) -> Tensor:
    """The logits (T, V) of one sequence by a Llama or a Mixtral, from tensors under their Hugging Face names."""

    def norm(x: Tensor, weight: Tensor) -> Tensor:
        return x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + config.norm_eps) * weight

    def heads(x: Tensor, count: int) -> Tensor:
        return x.view(len(tokens), count, config.head_dim).transpose(0, 1)[None]

    x = tensors["model.embed_tokens.weight"][list(tokens)]
    for i in range(config.n_layers):
        w = {name.split(".", 3)[3]: tensor for name, tensor in tensors.items() if name.startswith(f"model.layers.{i}.")}
        h = norm(x, w["input_layernorm.weight"])
        q = rotate(heads(h @ w["self_attn.q_proj.weight"].T, config.n_heads), range(len(tokens)), config.rope_theta)
        k = rotate(heads(h @ w["self_attn.k_proj.weight"].T, config.n_kv_heads), range(len(tokens)), config.rope_theta)
        v = heads(h @ w["self_attn.v_proj.weight"].T, config.n_kv_heads)
        x = x + attention(q, k, v)[0].transpose(0, 1).flatten(1) @ w["self_attn.o_proj.weight"].T
        h = norm(x, w["post_attention_layernorm.weight"])
        if config.n_experts:
            x = x + torch.stack([_mixture(row, w, config.experts_per_token) for row in h])
        else:
            x = x + _swiglu(h, *(w[f"mlp.{part}_proj.weight"] for part in ("gate", "up", "down")))
    x = norm(x, tensors["model.norm.weight"])
    return x @ tensors.get("lm_head.weight", tensors["model.embed_tokens.weight"]).T


def _swiglu(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    gate = x @ gate.T
    return (gate * torch.sigmoid(gate) * (x @ up.T)) @ down.T


def _mixture(x: Tensor, w: Mapping[str, Tensor], k: int) -> Tensor:
    """One position: the k experts with the largest router logits, weighted by the softmax over these."""
    logits = (w["block_sparse_moe.gate.weight"] @ x).tolist()
    chosen = sorted(range(len(logits)), key=lambda expert: -logits[expert])[:k]
    total = sum(math.exp(logits[expert]) for expert in chosen)
    experts = {e: [w[f"block_sparse_moe.experts.{e}.{part}.weight"] for part in ("w1", "w3", "w2")] for e in chosen}
    return sum(math.exp(logits[expert]) / total * _swiglu(x, *experts[expert]) for expert in chosen)


def off_by(actual: Tensor, expected: Tensor) -> float:
    """Largest difference, relative to the largest number expected; NaN counts as infinite."""
    return ((actual - expected).abs().max() / expected.abs().max()).nan_to_num(float("inf")).item()
