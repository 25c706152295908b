"""A GGUF file's model that keeps the blocks of its matrices as they are: no weight is rounded a second time."""

from pathlib import Path

import torch
from torch import Tensor

from ..model.decoder import NanoLM
from ..quantization.packed import PackedEmbedding, PackedLinear
from ..text.tokenizer import Tokenizer
from .gguf import GGUF, load_gguf, rows_in_order
from .gguf_blocks import BLOCK_BYTES, GGUFFile

Parts = tuple[Tensor, Tensor, Tensor | None]


def load_packed_gguf(path: Path | str, dtype: torch.dtype = torch.float32) -> tuple[NanoLM, Tokenizer]:
    """Return (model, tokenizer) from a GGUF file, its Q8_0, Q4_0 and Q4_1 matrices as `PackedLinear`, on the CPU.

    A head tied to the embedding shares its blocks with it, and rows are decoded where they are looked up. Matrices in
    F32 or F16, those with a bias, and joined ones whose parts differ in kind, come as `load_gguf` makes them.

    Args:
        dtype: of the numbers that the model runs in.

    Raises:
        what `load_gguf` raises.
    """
    model, tokenizer = load_gguf(path, dtype=dtype)
    file = GGUFFile(path)
    for name, parts in GGUF.names(model.config):
        layer_name = name.removesuffix(".weight")
        kinds = {file.kinds[part] for part in parts}
        if len(kinds) > 1 or not kinds <= set(BLOCK_BYTES):
            continue
        if getattr(model.get_submodule(layer_name), "bias", None) is not None:
            continue
        layer = PackedLinear(*_joined([_blocks_of(file, part, model.config.head_dim) for part in parts]))
        if layer_name != "embedding":
            model.set_submodule(layer_name, layer)
            continue
        model.set_submodule("embedding", PackedEmbedding(layer, dtype))
        if model.config.tie_embeddings:
            model.set_submodule("head", layer)
    return model, tokenizer


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
    return split_blocks(rows_in_order(file, name, file.read_blocks(name), H), file.kinds[name])


def _joined(parts: list[Parts]) -> Parts:
    codes, scales = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
    minima = [part[2] for part in parts if part[2] is not None]
    return codes, scales, torch.cat(minima) if minima else None
