"""Codes of less than a byte, laid close together: two 4-bit codes a byte, eight 3-bit codes in three.

Codes have a sign and bit patterns have none, so a code is stored as code + 2^(bits-1), a number from 0 up. The bytes of
a row are one stream of bits: the first code takes the lowest bits of the first byte, the next code the bits above.
"""

import torch
from jaxtyping import Int8, UInt8
from torch import Tensor

from .absmax import largest_code

from course import NotYetWritten


def pack_nibbles(codes: Int8[Tensor, "... D"]) -> UInt8[Tensor, "... bytes"]:
    """Return 4-bit codes two a byte, (…, D / 2).

    Each code is stored as code + 8, which is 0 … 15 and fits into half a byte (a nibble). Codes 0, 2, 4, … of a row
    stand in the low four bits of its bytes, codes 1, 3, 5, … in the high four: byte i holds codes 2i and 2i + 1.

    Raises:
        ValueError: D is odd, or a code is outside -8 … 7.
    """
    raise NotYetWritten(
        "exercise 5.9 pack_nibbles is not written yet: read "
        "notebooks/week05_quantization/week05_quantization.ipynb, write it in exercises/quantization/packing.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/quantization/test_packing.py --exercise "
        "pack_nibbles"
    )


def unpack_nibbles(packed: UInt8[Tensor, "... bytes"]) -> Int8[Tensor, "... D"]:
    """Return the 4-bit codes that pack_nibbles has put into the bytes, D = 2 · bytes, as int8 from -8 to 7."""
    raise NotYetWritten(
        "exercise 5.10 unpack_nibbles is not written yet: read "
        "notebooks/week05_quantization/week05_quantization.ipynb, write it in exercises/quantization/packing.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/quantization/test_packing.py --exercise "
        "unpack_nibbles"
    )


def pack_bits(codes: Int8[Tensor, "... D"], bits: int) -> UInt8[Tensor, "... bytes"]:
    """Return codes of `bits` bits without a gap, (…, D · bits / 8); for 4 bits the same bytes as pack_nibbles.

    Raises:
        ValueError: bits outside 2 … 8, a code that does not fit, or rows that do not fill whole bytes.
    """
    check_codes(codes, bits)
    if bits == 4:
        return pack_nibbles(codes)
    patterns = (codes.short() + 2 ** (bits - 1)).to(torch.uint8).unsqueeze(-1)
    stream = (patterns >> _places(bits, codes)) & 1  # (…, D, bits), one bit each
    return (stream.flatten(-2).unflatten(-1, (-1, 8)) << _places(8, codes)).sum(-1, dtype=torch.uint8)


def unpack_bits(packed: UInt8[Tensor, "... bytes"], bits: int) -> Int8[Tensor, "... D"]:
    """Return the codes that pack_bits has put into the bytes, D = 8 · bytes / bits.

    Raises:
        ValueError: bits outside 2 … 8, or bytes that are no whole number of codes.
    """
    largest_code(bits)
    if packed.shape[-1] * 8 % bits:
        raise ValueError(f"rows of {packed.shape[-1]} bytes do not hold a whole number of {bits}-bit codes")
    if bits == 4:
        return unpack_nibbles(packed)
    stream = (packed.unsqueeze(-1) >> _places(8, packed)) & 1
    patterns = (stream.flatten(-2).unflatten(-1, (-1, bits)) << _places(bits, packed)).sum(-1, dtype=torch.uint8)
    return (patterns.short() - 2 ** (bits - 1)).to(torch.int8)


def _places(n: int, like: Tensor) -> Tensor:
    return torch.arange(n, dtype=torch.uint8, device=like.device)


def check_codes(codes: Int8[Tensor, "... D"], bits: int) -> None:
    """Raise a ValueError if a code does not fit into the bits, or a row of codes does not fill whole bytes."""
    q = largest_code(bits)
    if codes.shape[-1] * bits % 8:
        raise ValueError(f"rows of {codes.shape[-1]} codes of {bits} bits do not fill whole bytes; pad the row")
    if codes.numel() and not (-q - 1 <= codes.min() and codes.max() <= q):
        raise ValueError(f"codes run from {codes.min()} to {codes.max()}; {bits} bits hold {-q - 1} to {q}")
