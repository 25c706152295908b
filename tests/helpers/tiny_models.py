"""Models small enough to run a hundred times in a test, with weights large enough that mistakes show."""

import torch

from course.grading.seeds import fresh
from nanolm.budget import LatentAttention
from nanolm.config import ModelConfig
from nanolm.mla import LatentLM
from nanolm.model import NanoLM


def tiny_config(**changes) -> ModelConfig:
    """No two sizes are equal, so that a mixed-up dimension fails; N·H is not D, and G is 2."""
    sizes = dict(vocab_size=11, d_model=20, n_layers=3, n_heads=4, n_kv_heads=2, head_dim=6, d_ff=10, max_positions=64)
    return ModelConfig(**{**sizes, **changes})


def tiny_model(seed: int = 0, **changes) -> NanoLM:
    """A model of tiny_config in float64, where 1e-12 means something, with random norm weights too."""
    return _with_random_weights(NanoLM(tiny_config(**changes)), seed)


def tiny_latent_model(seed: int = 0, **changes) -> LatentLM:
    """As tiny_model, with latent attention."""
    latent = LatentAttention(kv_latent_dim=8, rotary_dim=4, value_dim=5)
    return _with_random_weights(LatentLM(tiny_config(**changes), latent), seed)


def _with_random_weights(model: NanoLM, seed: int) -> NanoLM:
    model.double().eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(fresh(seed))
    for weight in model.parameters():
        weight.normal_(mean=1.0 if weight.ndim == 1 else 0.0, std=0.4, generator=generator)
    return model


def tokens_of(*shape: int, seed: int = 0, vocab_size: int = 11) -> torch.Tensor:
    """Random token ids."""
    return torch.randint(vocab_size, shape, generator=torch.Generator().manual_seed(fresh(seed)))
