"""Quantized weights as llama.cpp stores them in GGUF files: blocks of 32 weights with their scale in front.

A block is a few bytes that stand for 32 neighbours of a row. What differs from `packing`: the scale lies beside its
codes, so that both arrive in one read; nibbles are laid out in halves, the low ones weights 0 … 15 and the high ones
16 … 31; and Q4_1 has a smallest value too, so that the 16 codes cover a range that need not lie around zero.

The library `gguf` reads the file's directory. These three kinds of blocks are decoded here; all others that the library
knows, such as the K-quants, whose blocks of 256 hold scales that are codes themselves, it decodes.
Source: the format's description, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, and ggml-common.h there.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

BLOCK = 32
PLAIN_KINDS = ("F32", "F16")  # numbers, no blocks
# Bytes of a block: float16 scale (and smallest value), then the codes.
BLOCK_BYTES = {"Q4_0": 2 + 16, "Q4_1": 2 + 2 + 16, "Q8_0": 2 + 32}


def decode_blocks(data: UInt8[Tensor, "rows bytes"], kind: str) -> Float[Tensor, "rows D"]:
    """Return the weights that rows of blocks stand for, in float32; D is 32 for each block of a row.

    Q8_0: scale, 32 signed bytes; weight = code · scale. Q4_0: scale, 16 bytes of nibbles; weight = (code - 8) · scale.
    Q4_1: scale, smallest, 16 bytes of nibbles; weight = code · scale + smallest. Scales are float16, low byte first.

    Raises:
        ValueError: another kind, or rows that are no whole number of its blocks.
    """
    if kind not in BLOCK_BYTES:
        raise ValueError(f"kind is {kind!r}; blocks of {', '.join(BLOCK_BYTES)} can be read")
    if data.shape[-1] % BLOCK_BYTES[kind]:
        raise ValueError(
            f"rows of {data.shape[-1]} bytes are no whole number of {kind} blocks, {BLOCK_BYTES[kind]} each"
        )
    blocks = data.unflatten(-1, (-1, BLOCK_BYTES[kind]))  # (rows, blocks, bytes)
    scale, rest = _float16(blocks), blocks[..., 2:]
    if kind == "Q8_0":
        return (rest.contiguous().view(torch.int8) * scale).flatten(-2)
    smallest, rest = (_float16(rest), rest[..., 2:]) if kind == "Q4_1" else (-8 * scale, rest)
    codes = torch.cat([rest & 15, rest >> 4], dim=-1)
    return (codes * scale + smallest).flatten(-2)


def _float16(blocks: Tensor) -> Tensor:
    return blocks[..., :2].contiguous().view(torch.float16).float()


def bits_per_weight_of(kind: str) -> float:
    """Return the bits that a weight costs in blocks of this kind, scale included: 4.5, 5 or 8.5."""
    return 8 * BLOCK_BYTES[kind] / BLOCK


class _WithinTheFile:
    """What the library's GGUFReader lacks: it takes what is behind the end of a file for empty.

    So a flipped bit that makes an array 2⁴⁰ bytes long would be read for ever, into a list of a kilobyte a byte. Here
    that is refused, and an array of numbers comes in one part, not in one a number, which also is twice as fast.
    """

    data: Any
    byte_order: Any
    gguf_scalar_to_np: Any

    def _get(self, offset: int, dtype: Any, count: int = 1, override_order: Any = None) -> Any:
        count, of = int(count), np.dtype(dtype)
        left = len(self.data) - offset
        if count * of.itemsize > left:
            raise ValueError(f"{count * of.itemsize} bytes are due at byte {offset}, and {max(0, left)} are left")
        return np.frombuffer(self.data, of.newbyteorder(override_order or self.byte_order), count, offset)

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> tuple[int, list[Any], list[int], list[Any]]:
        from gguf import GGUFValueType

        if raw_type == GGUFValueType.ARRAY:
            kind, length = self._get(orig_offs, np.uint32), self._get(orig_offs + 4, np.uint64)
            types = [GGUFValueType.ARRAY, GGUFValueType(int(kind[0]))]
            if types[1] in self.gguf_scalar_to_np:
                values = self._get(orig_offs + 12, self.gguf_scalar_to_np[types[1]], length[0])
                return 12 + values.nbytes, [kind, length, values], [2], types
        return super()._get_field_parts(orig_offs, raw_type)  # pyright: ignore[reportAttributeAccessIssue]


class GGUFFile:
    """A GGUF file, its metadata and its tensors read one at a time.

    Attributes:
        path: where it lies.
        kinds: the block format of each tensor by name, "Q4_1" or "F32" and so on.
        shapes: the shape of each, decoded.

    Raises:
        ModuleNotFoundError: the library `gguf` is not installed.
        FileNotFoundError: there is no such file.
        ValueError: it is no GGUF file, or is cut short.
    """

    def __init__(self, path: Path | str) -> None:
        try:
            from gguf import GGUFReader
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "package gguf is not installed, and it finds the tensors in a GGUF file: `pip install gguf`"
            ) from None
        self.path = Path(path)
        if not self.path.is_file():
            raise FileNotFoundError(f"no GGUF file at {path}")
        try:
            self._reader: Any = type("BoundedReader", (_WithinTheFile, GGUFReader), {})(self.path)
        except Exception as error:  # whatever its bytes led the library to do
            raise ValueError(f"{path} is not a GGUF file, or is cut short: {error}") from error
        self._tensors = {tensor.name: tensor for tensor in self._reader.tensors}
        self.kinds = {name: tensor.tensor_type.name for name, tensor in self._tensors.items()}
        # GGUF counts the other way round: the numbers that lie side by side come first.
        self.shapes = {name: tuple(int(n) for n in reversed(t.shape)) for name, t in self._tensors.items()}

    def entry(self, key: str) -> Any:
        """Return an entry of the metadata as a number, string, bool or list; None where the file has none.

        Raises:
            ValueError: its bytes are no value of the type that they claim.
        """
        field = self._reader.get_field(key)
        try:
            return None if field is None else field.contents()
        except Exception as error:  # whatever its bytes led the library to do
            raise ValueError(f"{self.path} has an entry {key} that cannot be read: {error}") from error

    @property
    def keys(self) -> list[str]:
        """The names of the entries."""
        return list(self._reader.fields)

    def read(self, name: str) -> Float[Tensor, "..."]:
        """Return a tensor's weights in float32.

        Raises:
            KeyError: no tensor of that name.
            ValueError: its block format is none of those that `decode_blocks` knows, F32, F16, nor one that the library
                decodes.
        """
        if name not in self._tensors:
            raise KeyError(f"{name!r} is not in the file; it holds {', '.join(list(self._tensors)[:3])} and more")
        kind, stored = self.kinds[name], self._tensors[name]
        if kind in PLAIN_KINDS:
            return torch.from_numpy(np.array(stored.data)).float()
        if kind in BLOCK_BYTES:
            return decode_blocks(torch.from_numpy(np.array(stored.data)), kind)
        from gguf.quants import dequantize

        try:
            return torch.from_numpy(np.ascontiguousarray(dequantize(stored.data, stored.tensor_type))).float()
        except (NotImplementedError, ValueError) as error:
            raise ValueError(
                f"{self.path}: {name} is stored as {kind}, which the library gguf cannot decode"
            ) from error

    def read_blocks(self, name: str) -> UInt8[Tensor, "rows bytes"]:
        """Return a tensor of blocks as its bytes lie in the file.

        Raises:
            KeyError: no tensor of that name.
        """
        return torch.from_numpy(np.array(self._tensors[name].data))
