"""`nanolm/checkpoint/gguf_packed.py` on small files: blocks kept as they are, and the same logits."""

import pytest
import torch
from by_hand import close, random
from gguf_twins import write_twin
from torch import nn

from nanolm.checkpoint import load_gguf, load_packed_gguf
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
