"""A GGUF file's model that keeps the blocks of its matrices as they are: no weight is rounded a second time."""

import math
from collections.abc import Collection, Iterable
from pathlib import Path

import torch
from torch import Tensor

from ..config import ModelConfig
from ..model.decoder import NanoLM
from ..quantization.packed import PackedEmbedding, PackedLinear
from ..text.tokenizer import Tokenizer
from .building import build_model
from .gguf import GGUF, open_gguf, rows_in_order
from .gguf_blocks import BLOCK_BYTES, GGUFFile, bits_per_weight_of
from .memory import machine_bytes

Parts = tuple[Tensor, Tensor, Tensor | None]


def load_packed_gguf(path: Path | str, dtype: torch.dtype = torch.float32) -> tuple[NanoLM, Tokenizer]:
    """Return (model, tokenizer) from a GGUF file, its Q8_0, Q4_0 and Q4_1 matrices as `PackedLinear`, on the CPU.

    A head tied to the embedding shares its blocks with it, and rows are decoded where they are looked up. What is in
    other formats (F16, K-quants), and joined matrices whose parts differ in kind, come as `load_gguf` makes them. In
    memory are the model so far and the matrix at hand: what stays packed is never decoded.

    Args:
        dtype: of the numbers that the model runs in.

    Raises:
        what `load_gguf` raises.
    """
    file = GGUFFile(path)
    with open_gguf(path) as source:
        config = source.config
        packed = {name: parts for name, parts in GGUF.names(config) if _stays_packed(file, parts)}
        _check_memory(file, config, packed, dtype)
        model = build_model(source.weights(without=packed), config, "cpu", dtype)
        for name, parts in packed.items():
            layer = PackedLinear(*_joined([_blocks_of(file, part, config.head_dim) for part in parts]))
            _put(model, name.removesuffix(".weight"), layer, dtype)
        return model, source.tokenizer


def _stays_packed(file: GGUFFile, parts: Iterable[str]) -> bool:
    kinds = {file.kinds[part] for part in parts}
    return len(kinds) == 1 and kinds <= set(BLOCK_BYTES)


def _check_memory(file: GGUFFile, config: ModelConfig, packed: Collection[str], dtype: torch.dtype) -> None:
    there, needed = machine_bytes(), 0
    for name, parts in GGUF.names(config):
        n_weights = sum(math.prod(shape) for shape in parts.values())
        kind = file.kinds[next(iter(parts))]
        needed += n_weights * bits_per_weight_of(kind) / 8 if name in packed else n_weights * dtype.itemsize
    if there is not None and needed > there:
        raise ValueError(
            f"{file.path} takes {needed / 1e9:,.1f} GB with its blocks as they are and this machine has "
            f"{there / 1e9:,.1f} GB"
        )


def _put(model: NanoLM, name: str, layer: PackedLinear, dtype: torch.dtype) -> None:
    if name != "embedding":
        model.set_submodule(name, layer)
        return
    model.set_submodule("embedding", PackedEmbedding(layer, dtype))
    if model.config.tie_embeddings:
        model.set_submodule("head", layer)


def split_blocks(data: Tensor, kind: str) -> Parts:
    """Return (codes, scales, minima) of rows of blocks: int8 (out, D) for Q8_0, else uint8 (out, D / 2) in halves.

    Scales and minima are float16, one for each block of 32; minima None where the kind has none.
    """
    blocks = data.unflatten(-1, (-1, BLOCK_BYTES[kind]))  # (out, blocks, bytes)
    halves = blocks[..., : 4 if kind == "Q4_1" else 2].contiguous().view(torch.float16)
    codes = blocks[..., 2 * halves.shape[-1] :].flatten(-2).contiguous()
    minima = halves[..., 1].contiguous() if kind == "Q4_1" else None
    return codes.view(torch.int8) if kind == "Q8_0" else codes, halves[..., 0].contiguous(), minima


def _blocks_of(file: GGUFFile, name: str, H: int) -> Parts:
    parts = split_blocks(rows_in_order(file, name, file.read_blocks(name), H), file.kinds[name])
    if not all(part is None or part.isfinite().all() for part in parts[1:]):
        raise ValueError(f"{file.path}: {name} has scales that are NaN or an infinity; it was damaged")
    return parts


def _joined(parts: list[Parts]) -> Parts:
    codes, scales = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
    minima = [part[2] for part in parts if part[2] is not None]
    return codes, scales, torch.cat(minima) if minima else None
