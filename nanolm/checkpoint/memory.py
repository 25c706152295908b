"""What a model takes in memory, told before it is loaded: the engine's own bytes, not those of its files."""

import os

import torch
from torch import nn

from ..config import ModelConfig
from ..model.expert_layers import StackedLinear, separate_experts
from ..quantization.linear import SCALE_DTYPE
from .building import check_weights, coded_layers, empty_model, group_size_of


def resident_bytes(config: ModelConfig, weights: str = "float32") -> int:
    """Return the bytes of a loaded model's weights, codes and scales; `model_bytes` of it is the same.

    Args:
        weights: as for `load`; with codes all that is no linear layer (embedding, head, norms) is float32.
    """
    dtype, bits = check_weights(weights, torch.float32)
    model = empty_model(config)
    n_floats = sum(weight.numel() for weight in model.parameters())
    if not bits:
        return n_floats * dtype.itemsize
    separate_experts(model)
    coded = coded_layers(model).values()
    n_floats -= sum(layer.weight.numel() for layer in coded)
    return n_floats * dtype.itemsize + sum(_code_bytes(layer, bits) for layer in coded)


def loading_bytes(config: ModelConfig, weights: str = "float32") -> int:
    """Return the most bytes that memory holds while a model is loaded, for its tensors: the model and one matrix.

    The matrix is there three times at most: as its parts in the file, joined, and in its new dtype.
    """
    model = empty_model(config)
    stacked = [module.weight.numel() for module in model.modules() if isinstance(module, StackedLinear)]
    return resident_bytes(config, weights) + 3 * 4 * max([*stacked, *(p.numel() for p in model.parameters())])


def check_memory(config: ModelConfig, weights: str, device: str) -> None:
    """Raise a ValueError if a model on the CPU takes more than this machine has; where nobody can tell, it is tried."""
    there, needed = machine_bytes(), resident_bytes(config, weights)
    if device == "cpu" and there is not None and needed > there:
        smaller = [f"{kind} {resident_bytes(config, kind) / 1e9:,.1f}" for kind in ("bfloat16", "int8", "int4")]
        raise ValueError(
            f"the model takes {needed / 1e9:,.1f} GB in {weights} and this machine has {there / 1e9:,.1f} GB; "
            f"weights of other kinds take {', '.join(smaller)} GB"
        )


def machine_bytes() -> int | None:
    """Return the bytes of this machine's memory, None where the system does not say (Windows)."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _code_bytes(layer: nn.Linear, bits: int) -> int:
    """Bytes of a layer's codes and scales; torch's 4-bit kernel, if used, keeps a zero point with each scale."""
    from ..quantization.cpu_kernels import int4_kernel_takes

    rows, width = layer.weight.shape
    group = group_size_of(width, bits) or width
    n_scales = rows * (width // group)
    repacked = bits == 4 and int4_kernel_takes(rows, width, group) and not _compiled_takes(width, group)
    pairs = 2 if repacked else 1
    return rows * width * bits // 8 + n_scales * SCALE_DTYPE.itemsize * pairs


def _compiled_takes(width: int, group: int) -> bool:
    """Whether the compiled product reads 4-bit codes of such rows as they are."""
    from ..kernels.products import product_if_compiled

    row, scales = torch.empty(1, width // 2, dtype=torch.uint8), torch.ones(1, width // group, dtype=SCALE_DTYPE)
    return product_if_compiled(torch.empty(0, width), row, scales) is not None
