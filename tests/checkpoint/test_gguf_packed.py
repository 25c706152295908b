"""`nanolm/checkpoint/gguf_packed.py` on small files: blocks kept as they are, and the same logits."""

import pytest
import torch
from by_hand import close, random
from gguf_twins import write_twin
from torch import nn

from nanolm.checkpoint import GGUFFile, gguf_packed, load_gguf, load_packed_gguf
from nanolm.kernels import set_products
from nanolm.model import model_bytes
from nanolm.quantization import PackedEmbedding, PackedLinear

TOKENS = torch.tensor([[5, 1, 200, 33, 264, 7, 7, 90]])
BITS = {"Q4_0": 4.5, "Q4_1": 5, "Q8_0": 8.5}


@pytest.mark.parametrize("who", ["auto", "torch"])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", BITS)
@torch.inference_mode()
def test_a_packed_model_gives_the_logits_of_the_decoded_one(tmp_path, kind, tied, who):
    path, _ = write_twin(tmp_path / "x.gguf", kind, tied)
    before = set_products(who)
    (packed, _), expected = load_packed_gguf(path), load_gguf(path, dtype=torch.float64)[0](TOKENS)
    assert close(packed(TOKENS).double(), expected, 1e-4 * expected.abs().max().item())
    assert packed.generate([5, 1, 200], 6) == load_gguf(path)[0].generate([5, 1, 200], 6)
    set_products(before)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", BITS)
def test_no_matrix_is_kept_as_floats(tmp_path, kind, tied):
    path, _ = write_twin(tmp_path / "x.gguf", kind, tied)
    model, floats = load_packed_gguf(path)[0], load_gguf(path)[0]
    assert isinstance(model.head, PackedLinear) and isinstance(model.embedding, PackedEmbedding)
    assert (model.embedding.table is model.head) is tied
    assert not any(isinstance(module, nn.Linear | nn.Embedding) for module in model.modules())
    n_norms = sum(weight.numel() for weight in floats.parameters() if weight.ndim == 1)
    n_ends = 265 * 64 * (1 if tied else 2)  # embedding and head, which a twin has in Q8_0
    n_inner = sum(weight.numel() for weight in floats.parameters()) - n_norms - n_ends
    assert model_bytes(model) == n_inner * BITS[kind] / 8 + n_ends * 8.5 / 8 + 4 * n_norms


@pytest.mark.parametrize("kind", ["F32", "F16"])
def test_matrices_in_floats_come_as_they_are(tmp_path, kind):
    path, _ = write_twin(tmp_path / "x.gguf", kind)
    model = load_packed_gguf(path)[0]
    assert not any(isinstance(module, PackedLinear) for module in model.layers.modules())


@pytest.mark.parametrize("has_bias", [False, True], ids=["no bias", "biases"])
@torch.inference_mode()
def test_a_family_whose_files_turn_no_rows_and_have_biases_gives_the_logits_of_the_decoded_one(tmp_path, has_bias):
    widths = {"attn_q": 96, "attn_k": 32, "attn_v": 32}
    names = [(i, name, width) for i in range(2) for name, width in widths.items()]
    biases = {f"blk.{i}.{name}.bias": random(width, seed=i).float() for i, name, width in names}
    extra = biases if has_bias else {}
    path, _ = write_twin(tmp_path / "x.gguf", "Q8_0", architecture="qwen2" if has_bias else "qwen3", extra=extra)
    packed, expected = load_packed_gguf(path)[0], load_gguf(path, dtype=torch.float64)[0](TOKENS)
    assert close(packed(TOKENS).double(), expected, 1e-4 * expected.abs().max().item())
    assert isinstance(packed.layers[0].feedforward.down, PackedLinear)


MIXTURES = {
    "values in finer blocks than queries and keys": ({"*attn_v*": "Q8_0"}, {"attention.qkv"}),
    "a matrix in floats": ({"blk.1.ffn_down*": "F16"}, {"1.feedforward.down"}),
    "a head in other blocks than the embedding": ({"output.weight": "Q4_0"}, set()),
    "a head in floats": ({"output.weight": "BF16"}, {"head"}),
    "an embedding in floats": ({"token_embd*": "F16"}, {"embedding"}),
}


@pytest.mark.parametrize(("kinds", "in_floats"), MIXTURES.values(), ids=MIXTURES)
@torch.inference_mode()
def test_of_a_file_with_several_formats_each_matrix_is_kept_as_it_can_be(tmp_path, kinds, in_floats):
    path, _ = write_twin(tmp_path / "x.gguf", "Q4_1", tied=False, kinds=kinds)
    packed, expected = load_packed_gguf(path)[0], load_gguf(path, dtype=torch.float64)[0](TOKENS)
    assert close(packed(TOKENS).double(), expected, 1e-4 * expected.abs().max().item())
    floats = [name for name, module in packed.named_modules() if isinstance(module, nn.Linear | nn.Embedding)]
    assert all(any(part in name for part in in_floats) for name in floats) and bool(floats) == bool(in_floats), floats


def test_what_stays_packed_is_never_decoded_so_that_a_file_needs_no_room_for_its_floats(tmp_path, monkeypatch):
    path, _ = write_twin(tmp_path / "x.gguf", "Q4_1", kinds={"blk.0.ffn_down*": "F16"})
    read, real = [], GGUFFile.read
    monkeypatch.setattr(GGUFFile, "read", lambda self, name: read.append(name) or real(self, name))
    load_packed_gguf(path)
    assert [name for name in read if "norm" not in name] == ["blk.0.ffn_down.weight"]


def test_a_file_larger_than_this_machine_is_refused_before_a_tensor_is_read(tmp_path, monkeypatch):
    path, _ = write_twin(tmp_path / "x.gguf", "Q4_1")
    monkeypatch.setattr(gguf_packed, "machine_bytes", lambda: 1000)
    monkeypatch.setattr(GGUFFile, "read_blocks", None)
    with pytest.raises(ValueError, match=r"x\.gguf takes 0\.0 GB with its blocks as they are and this machine has"):
        load_packed_gguf(path)
