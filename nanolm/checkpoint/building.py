"""A model from its tensors, one after the other: in memory are the model so far and the tensor at hand."""

from collections.abc import Iterable
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from ..config import ModelConfig
from ..mla.model import LatentLM
from ..model.decoder import NanoLM
from ..model.expert_layers import SeparateLinear, StackedLinear
from ..model.quantize import linear_layers, quantized_layer
from ..quantization.compiled_linear import with_compiled_linear

Weights = Literal["float32", "bfloat16", "float16", "int8", "int4"]
_BITS = {"int8": 8, "int4": 4}
GROUP_SIZE = 32  # weights that share a scale in 4 bits; in 8 bits a row does


def check_weights(weights: str | None, dtype: torch.dtype) -> tuple[torch.dtype, int]:
    """Return the dtype to compute in, and the bits of the linear layers' codes, 0 for none.

    Args:
        weights: one of `Weights`; None is `dtype`. With codes the model computes in `dtype`.

    Raises:
        ValueError: another word.
    """
    if weights is None:
        return dtype, 0
    if weights not in get_args(Weights):
        raise ValueError(f"weights is {weights!r}; it must be one of {', '.join(get_args(Weights))}")
    return (dtype, _BITS[weights]) if weights in _BITS else (getattr(torch, weights), 0)


def build_model(
    state: Iterable[tuple[str, Tensor]],
    config: ModelConfig,
    device: torch.device | str,
    dtype: torch.dtype,
    bits: int = 0,
) -> NanoLM:
    """Return the model of these weights, ready for inference.

    Args:
        state: the engine's names and tensors, as `WeightLayout.joined` yields them.
        bits: of the codes of linear layers, 8 or 4, made as each is read; 0 keeps floats. Embedding, norms, routers and
            head stay floats, as in `quantize_model`.
    """
    model = empty_model(config)
    coded = coded_layers(model) if bits else {}
    for name, tensor in state:
        module, _, leaf = name.rpartition(".")
        weight = tensor.to(device, dtype)
        if module in coded:
            model.set_submodule(module, _coded(weight, bits))
        elif bits and isinstance(model.get_submodule(module), StackedLinear):
            model.set_submodule(module, SeparateLinear(_coded(one, bits) for one in weight))
        else:
            setattr(model.get_submodule(module), leaf, nn.Parameter(weight, requires_grad=False))
        del tensor, weight  # before the next one is read
    if config.tie_embeddings:
        model.head.weight = model.embedding.weight
    return with_compiled_linear(model).eval().requires_grad_(False)


def empty_model(config: ModelConfig) -> NanoLM:
    """Return a model without memory and random numbers: every weight is to come from a file."""
    with torch.device("meta"):
        return NanoLM(config) if config.latent is None else LatentLM(config, config.latent)


def coded_layers(model: NanoLM) -> dict[str, nn.Linear]:
    """Return the layers that are kept as codes, where codes are asked for, by name.

    Not the way from a latent vector to keys and values: absorbed attention takes its numbers apart.
    """
    return {name: layer for name, layer in linear_layers(model).items() if not name.endswith("attention.up")}


def group_size_of(width: int, bits: int) -> int | None:
    """Return how many weights share a scale in rows of so many: 32 in 4 bits, where that divides them; else a row."""
    return GROUP_SIZE if bits == 4 and width % GROUP_SIZE == 0 else None


def _coded(weight: Tensor, bits: int) -> nn.Module:
    layer = nn.Linear(*weight.T.shape, bias=False, device="meta")
    layer.weight = nn.Parameter(weight, requires_grad=False)
    return quantized_layer(layer, bits, group_size_of(weight.shape[1], bits))
