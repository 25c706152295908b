"""Grades `nanolm/quantization/packing.py`: bytes as literals, and a string of binary digits as the oracle."""

import pytest
import torch
from refusal import assert_refuses

from course.grading.seeds import fresh
from nanolm.quantization import packing


def int8(*numbers):
    return torch.tensor(numbers, dtype=torch.int8)


def all_codes(bits, rows=3, seed=0):
    """Every code of so many bits in every row, shuffled."""
    codes = torch.arange(-(2 ** (bits - 1)), 2 ** (bits - 1), dtype=torch.int8).repeat(8)
    generator = torch.Generator().manual_seed(fresh(seed))
    return torch.stack([codes[torch.randperm(len(codes), generator=generator)] for _ in range(rows)])


def bytes_by_hand(row, bits):
    """The row as one long string of binary digits, each code and each byte with its lowest digit first."""
    digits = "".join(f"{code + 2 ** (bits - 1):0{bits}b}"[::-1] for code in row)
    return [int(digits[start : start + 8][::-1], 2) for start in range(0, len(digits), 8)]


# --- pack_nibbles ------------------------------------------------------------------------------------------------


@pytest.mark.exercise("pack_nibbles")
def test_pack_nibbles_puts_two_codes_into_a_byte(impl):
    # Stored as 11, 1 | 8, 13: the first of each pair in the low four bits, 11 + 16 · 1 = 27 and 8 + 16 · 13 = 216.
    packed = impl.pack_nibbles(int8(3, -7, 0, 5))
    assert isinstance(packed, torch.Tensor), f"a tensor of bytes comes back, not a {type(packed).__name__}"
    assert packed.numel() != 4, "four bytes for four codes: two 4-bit codes share a byte"
    mistakes = {
        "nibble order swapped: the first code of a pair belongs into the *low* four bits": [11 * 16 + 1, 8 * 16 + 13],
        "no offset: store code + 8, so that -7 becomes 1 (as bits of a signed byte it is 9)": [3 + 16 * 9, 16 * 5],
        "offset 7 in place of 8: the pattern 0 belongs to -8": [10 + 16 * 0, 7 + 16 * 12],
        "the two halves of the row are paired: a pair are neighbours, 2i and 2i + 1": [
            11 + 16 * 8,
            1 + 16 * 13,
        ],
        "only one of the two codes is in the byte: the other goes into its other half": [11, 8],
    }
    for mistake, result in mistakes.items():
        assert packed.tolist() != result, mistake
    assert packed.tolist() == [27, 216], f"{packed.tolist()}, not [27, 216]"
    assert packed.dtype == torch.uint8, f"bytes are uint8, not {packed.dtype}"


@pytest.mark.exercise("pack_nibbles")
def test_pack_nibbles_of_every_pair_of_codes(impl):
    pairs = torch.cartesian_prod(*[torch.arange(-8, 8, dtype=torch.int8)] * 2)  # (256, 2)
    packed = impl.pack_nibbles(pairs)
    assert packed.shape == (256, 1), f"shape {tuple(packed.shape)}: rows stay, their length is halved"
    for pair, byte in zip(pairs.tolist(), packed[:, 0].tolist(), strict=True):
        assert [byte] == bytes_by_hand(pair, 4), f"{pair}: got {byte}, expected {bytes_by_hand(pair, 4)[0]}"


@pytest.mark.exercise("pack_nibbles")
def test_pack_nibbles_refuses_an_odd_row_and_codes_that_do_not_fit(impl):
    assert_refuses("codes", impl.pack_nibbles, int8(1, 2, 3))
    assert_refuses("codes", impl.pack_nibbles, int8(1, 8))
    assert_refuses("codes", impl.pack_nibbles, int8(-9, 1))


# --- unpack_nibbles ----------------------------------------------------------------------------------------------


@pytest.mark.exercise("unpack_nibbles")
def test_unpack_nibbles_gives_the_codes_back_in_order(impl):
    codes = impl.unpack_nibbles(torch.tensor([27, 216], dtype=torch.uint8))
    assert isinstance(codes, torch.Tensor), f"a tensor of codes comes back, not a {type(codes).__name__}"
    mistakes = {
        "in uint8, 1 - 8 wraps around to 249: change the type before you subtract": [3, 249, 0, 253 - 248],
        "read as a number with a sign: 11 stands for 11 - 8, and not for 11 - 16": [-5, 1, -8, -3],
        "the high code is still in the low one: `& 15` keeps four bits": [19, -7, -48, 5],
        "7 subtracted: the offset is 8": [4, -6, 1, 6],
        "the high halves were not brought down: `>> 4`": [3, 8, 0, -56],
        "nibble order swapped: the low four bits are the first code": [-7, 3, 5, 0],
        "the offset stays in: subtract 8": [11, 1, 8, 13],
        "all low halves, then all high halves: put each pair side by side": [3, 0, -7, 5],
    }
    for mistake, result in mistakes.items():
        assert codes.tolist() != result, mistake
    assert codes.tolist() == [3, -7, 0, 5], f"{codes.tolist()}, not [3, -7, 0, 5]"
    assert codes.dtype == torch.int8, f"codes are int8, not {codes.dtype} (in uint8, 1 - 8 wraps around to 249)"


@pytest.mark.exercise("unpack_nibbles")
def test_unpack_nibbles_of_every_byte(impl):
    codes = impl.unpack_nibbles(torch.arange(256, dtype=torch.uint8).view(16, 16))
    assert codes.shape == (16, 32), f"shape {tuple(codes.shape)}: rows stay, their length is doubled"
    expected = [[byte % 16 - 8, byte // 16 - 8] for byte in range(256)]
    for byte, (pair, there) in enumerate(zip(codes.reshape(256, 2).tolist(), expected, strict=True)):
        assert pair == there, f"byte {byte} holds the codes {there}, not {pair}"


@pytest.mark.exercise("unpack_nibbles")
def test_unpack_nibbles_undoes_pack_nibbles(impl):
    codes = all_codes(4).view(3, 2, 64)
    back = impl.unpack_nibbles(packing.pack_nibbles(codes))
    assert back.shape == codes.shape, f"codes of shape {tuple(codes.shape)} come back as {tuple(back.shape)}"
    assert torch.equal(back, codes), "codes packed and unpacked are not what they were"


# --- any number of bits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 7, 8])
def test_packed_bits_are_the_codes_as_one_stream_of_digits(bits):
    codes = all_codes(bits)
    packed = packing.pack_bits(codes, bits)
    assert packed.dtype == torch.uint8 and packed.shape == (3, codes.shape[1] * bits // 8)
    assert packed.tolist() == [bytes_by_hand(row, bits) for row in codes.tolist()]
    assert torch.equal(packing.unpack_bits(packed, bits), codes)


def test_eight_codes_of_three_bits_take_three_bytes():
    # Stored as 7, 0, 1, 2, 3, 4, 5, 6; as digits, lowest first: 111 000 10|0 010 110 0|01 101 011.
    packed = packing.pack_bits(int8(3, -4, -3, -2, -1, 0, 1, 2), 3)
    assert packed.tolist() == [0b01000111, 0b00110100, 0b11010110]


@pytest.mark.parametrize(("n", "bits"), [(3, 4), (2, 2), (4, 3), (7, 5)])
def test_rows_that_do_not_fill_whole_bytes_are_refused(n, bits):
    with pytest.raises(ValueError, match="whole bytes"):
        packing.pack_bits(torch.zeros(2, n, dtype=torch.int8), bits)


def test_codes_that_do_not_fit_are_refused():
    for codes, bits in ((int8(0, 0, 0, 2), 2), (int8(-5, 0, 0, 0, 0, 0, 0, 0), 3)):
        with pytest.raises(ValueError, match="codes run from"):
            packing.pack_bits(codes, bits)
    with pytest.raises(ValueError, match="bits"):
        packing.pack_bits(int8(0, 0), 9)


def test_bytes_that_are_no_whole_number_of_codes_are_refused():
    with pytest.raises(ValueError, match="whole number of 3-bit codes"):
        packing.unpack_bits(torch.zeros(2, 2, dtype=torch.uint8), 3)
