"""What is timed to measure a machine: products over sets of matrices of every kind, and whole models of every kind.

The loads are the engine's own, layers as it runs them, so that what is measured is what a decode step does.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import ModelConfig
from ..model.decoder import NanoLM
from ..model.quantize import quantize_model
from ..quantization.compiled_linear import CompiledLinear, with_compiled_linear
from ..quantization.packed import PackedLinear

_MIB = 2**20
_BLOCK = 32  # 4-bit codes that share a scale
NUMBERS = "numbers"  # of the plan's dtype
_PACKED = {"bfloat16": torch.bfloat16, "int8": torch.int8, "int4": torch.uint8}
ALMOST_NOTHING = ModelConfig(32, 32, n_layers=4, n_heads=2, n_kv_heads=1, head_dim=16, d_ff=32)
_IN_CACHE = ModelConfig(512, 160, n_layers=8, n_heads=4, n_kv_heads=2, head_dim=40, d_ff=448)  # 10 MB in float32
_OUT_OF_CACHE = ModelConfig(512, 1024, n_layers=2, n_heads=16, n_kv_heads=4, head_dim=64, d_ff=2816)  # 92 MB


@dataclass(frozen=True)
class Plan:
    """What to time on a kind of device: sizes in bytes, a prefill-like product (T, D) × (D, F), whole models."""

    dtype: torch.dtype
    working_sets: tuple[int, ...]
    row_lengths: tuple[int, ...]
    matrix_bytes: int  # of numbers; of a packed kind a matrix has as many weights
    product: tuple[int, int, int]
    models: tuple[ModelConfig, ...]
    packed_sets: tuple[int, ...] = ()
    packed_row_lengths: tuple[int, ...] = ()


CPU_PLAN = Plan(
    torch.float32,
    working_sets=(4 * _MIB, 16 * _MIB, 64 * _MIB, 128 * _MIB),
    row_lengths=(128, 512, 1024, 4096),
    matrix_bytes=32 * _MIB,  # few large ones: what a call costs besides is counted with the operations
    product=(256, 1024, 4096),
    models=(ALMOST_NOTHING, _IN_CACHE, _OUT_OF_CACHE),
    packed_sets=(4 * _MIB, 64 * _MIB),
    packed_row_lengths=(512, 2048),
)
# A GPU has caches of up to 50 MB, and a small matrix is over before the next operation has been asked for. Asking costs
# the same whatever is read meanwhile, so one model is enough.
GPU_PLAN = Plan(
    torch.float16,
    working_sets=(256 * _MIB, 1024 * _MIB, 4096 * _MIB),
    row_lengths=(1024, 4096, 16_384),
    matrix_bytes=64 * _MIB,
    product=(2048, 8192, 8192),
    models=(ALMOST_NOTHING,),
)


def models_of(plan: Plan, device: torch.device) -> list[tuple[str, NanoLM]]:
    """Return the plan's models in every kind that it measures."""
    models = [(NUMBERS, _random_model(config, plan.dtype, device)) for config in plan.models]
    for config in plan.models if plan.packed_sets else ():
        models.append(("bfloat16", _random_model(config, torch.bfloat16, device)))
        for bits, group in ((8, None), (4, _BLOCK)):
            model = _random_model(config, plan.dtype, device)
            models.append((f"int{bits}", quantize_model(model, bits, group, head=True)))
    return models


def sets_of(plan: Plan, device: torch.device, most: float) -> dict[tuple[str, int, int], Callable[[], None]]:
    """Return products by kind, bytes of all matrices together and row length, over at most so many bytes of memory."""
    sizes = [size for size in plan.working_sets if size <= most] or [plan.working_sets[0]]
    pool = torch.full((sizes[-1] // plan.dtype.itemsize,), 0.01, dtype=plan.dtype, device=device)
    packed = [size for size in plan.packed_sets if size <= sizes[-1]]
    kinds = [(NUMBERS, size, row) for size in sizes for row in plan.row_lengths]
    kinds += [(kind, size, row) for kind in _PACKED for size in packed for row in plan.packed_row_lengths]
    return {
        (kind, size, row): _reads(_layers(pool, kind, size, row, plan), row, pool.view(_PACKED.get(kind, plan.dtype)))
        for kind, size, row in kinds
    }


def _layers(pool: Tensor, kind: str, size: int, row: int, plan: Plan) -> list[nn.Module]:
    """The first `size` bytes of the pool as the weights of layers, as many to a layer whatever their kind."""
    kept = _PACKED.get(kind, plan.dtype)
    row_bytes = row // 2 if kind == "int4" else row * kept.itemsize
    n_rows = plan.matrix_bytes // (row * plan.dtype.itemsize)
    return [
        _layer(matrix.view(kept), row) for matrix in pool.view(torch.uint8)[:size].view(-1, row_bytes).split(n_rows)
    ]


def _layer(matrix: Tensor, row: int) -> nn.Module:
    """What the engine multiplies by such a matrix with: numbers, or codes, of 4 bits with a scale for 32."""
    if not matrix.dtype.is_floating_point:
        groups = row // _BLOCK if matrix.dtype is torch.uint8 else 1
        return PackedLinear(matrix, torch.full((len(matrix), groups), 0.01, dtype=torch.bfloat16))
    linear = nn.Linear(row, len(matrix), bias=False, device="meta")
    linear.weight = nn.Parameter(matrix, requires_grad=False)
    return CompiledLinear.over(linear)


def _reads(layers: list[nn.Module], row: int, like: Tensor) -> Callable[[], None]:
    dtype = like.dtype if like.is_floating_point() else torch.float32
    x = torch.full((1, 1, row), 0.01, dtype=dtype, device=like.device)

    def read() -> None:
        for layer in layers:
            layer(x)

    return read


def product_of(plan: Plan, device: torch.device) -> Callable[[], Tensor]:
    T, D, F_ = plan.product
    x, weight = (torch.full(shape, 0.01, dtype=plan.dtype, device=device) for shape in ((T, D), (F_, D)))
    return lambda: F.linear(x, weight)


def _random_model(config: ModelConfig, dtype: torch.dtype, device: torch.device) -> NanoLM:
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers go on as if nothing had been drawn
        return with_compiled_linear(NanoLM(config).eval().to(device, dtype))  # as `load` gives them
