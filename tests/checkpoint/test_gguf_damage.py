"""GGUF files with flipped bits, wrong lengths and missing ends: each is read, or refused in one sentence, at once."""

import random
import tracemalloc

import pytest
from damage import assert_read_or_refused
from gguf_twins import write_twin

from nanolm.checkpoint import load_gguf, load_packed_gguf

HEADER = 6208  # bytes before the weights of a twin; most damage is done there
LENGTHS = [10**5, 10**6, 2**31, 2**32, 2**40, 2**62, 2**63 - 1]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return write_twin(tmp_path_factory.mktemp("whole") / "whole.gguf").path.read_bytes()


def damaged(whole, number):
    """A file's bytes, damaged in a way that the number decides."""
    chance, content = random.Random(number), bytearray(whole)
    at = chance.randrange(HEADER if chance.random() < 0.9 else len(whole))
    match chance.choice(["bits", "byte", "run", "length", "length", "cut", "insert"]):
        case "bits":
            for place in [at, *(chance.randrange(HEADER) for _ in range(chance.choice([0, 0, 2])))]:
                content[place] ^= 1 << chance.randrange(8)
        case "byte":
            content[at] = chance.choice([0, 1, 127, 128, 255])
        case "run":
            content[at : at + 8] = bytes([chance.choice([0, 127, 255])] * 8)
        case "length":
            at = chance.choice([8, 16, at])
            content[at : at + 8] = chance.choice(LENGTHS).to_bytes(8, "little")
        case "cut":
            del content[at:]
        case "insert":
            content[at:at] = chance.randbytes(chance.choice([1, 8]))
    return bytes(content)


def try_each(whole, numbers, path):
    for number in numbers:
        path.write_bytes(damaged(whole, number))
        assert_read_or_refused([load_gguf, load_packed_gguf][number % 2], path, path.name, f"damage {number}")


@pytest.mark.parametrize("twenties", range(5))
def test_a_hundred_damaged_files(whole, tmp_path, twenties):
    try_each(whole, range(20 * twenties, 20 * twenties + 20), tmp_path / "damaged.gguf")


@pytest.mark.slow
@pytest.mark.parametrize("hundreds", range(1, 31))
def test_three_thousand_damaged_files(whole, tmp_path, hundreds):
    try_each(whole, range(100 * hundreds, 100 * hundreds + 100), tmp_path / "damaged.gguf")


def test_a_hundred_damages_are_of_all_kinds(whole):
    files = [damaged(whole, number) for number in range(100)]
    assert len(set(files)) > 80 and whole not in files
    assert {(len(file) > len(whole)) - (len(file) < len(whole)) for file in files} == {-1, 0, 1}


@pytest.mark.parametrize("length", [300_000, 2**40])
@pytest.mark.parametrize("kind", [0, 7, 8, 9], ids=["bytes", "truth values", "texts", "arrays"])
def test_an_array_longer_than_the_file_is_refused_before_it_is_read(whole, tmp_path, kind, length):
    # The library's own reader takes what is behind the end for empty bytes, and makes a list of them: a kilobyte each.
    at = whole.index(b"tokenizer.ggml.token_type") + len(b"tokenizer.ggml.token_type") + 4
    path = tmp_path / "long.gguf"
    path.write_bytes(whole[:at] + kind.to_bytes(4, "little") + length.to_bytes(8, "little") + whole[at + 12 :])
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"long\.gguf is not a GGUF file, or is cut short: "):
            load_gguf(path)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 50 * len(whole), f"{most:,} bytes for a file of {len(whole):,}"
