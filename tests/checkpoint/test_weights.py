"""`load(weights=…)`: how weights are kept, made while a file is read, and what that takes, told before it is loaded."""

from dataclasses import replace

import pytest
import torch
from gguf_twins import write_twin
from tiny_checkpoints import write_checkpoint
from tiny_models import tokens_of

import nanolm
from nanolm.checkpoint import building, check_memory, loading_bytes, memory, resident_bytes
from nanolm.model import model_bytes, quantize_model
from nanolm.quantization import Int4Linear, QuantizedLinear

TOKENS = tokens_of(2, 7, vocab_size=290)
DENSE = dict(d_model=32, d_ff=64, n_heads=4, n_kv_heads=2, head_dim=8)
SIZES = {
    "dense": DENSE,
    "untied": dict(DENSE, tie_embeddings=False),
    "rows of no whole groups": dict(d_model=20, d_ff=10),
    "mixture": dict(DENSE, d_ff=32, n_experts=4, experts_per_token=2),
}
by_size = pytest.mark.parametrize("size", SIZES)


@by_size
@pytest.mark.parametrize("weights", ["float32", "bfloat16", "float16", "int8", "int4"])
def test_what_a_model_takes_is_told_before_it_is_loaded(tmp_path, size, weights):
    model, _ = nanolm.load(write_checkpoint(tmp_path, **SIZES[size]), weights=weights)
    assert resident_bytes(model.config, weights) == model_bytes(model)
    assert loading_bytes(model.config, weights) > model_bytes(model)


@by_size
@pytest.mark.parametrize(("weights", "bits"), [("int8", 8), ("int4", 4)])
def test_codes_made_while_loading_are_those_of_a_model_quantized_afterwards(tmp_path, size, weights, bits):
    folder = write_checkpoint(tmp_path, **SIZES[size])
    model, _ = nanolm.load(folder, weights=weights)
    whole = nanolm.load(folder)[0]
    grouped = bits == 4 and size != "rows of no whole groups"
    expected = quantize_model(whole, bits, building.GROUP_SIZE if grouped else None)
    kinds = {type(module) for module in model.modules()}
    assert kinds & {QuantizedLinear, Int4Linear}
    with torch.inference_mode():
        assert torch.equal(model(TOKENS), expected(TOKENS))


@pytest.mark.parametrize("weights", ["int8", "int4"])
def test_no_more_than_one_matrix_of_floats_is_in_memory_at_a_time(tmp_path, weights, monkeypatch):
    folder = write_checkpoint(tmp_path, **SIZES["dense"])
    alive, real = [], building._coded

    def watched(weight, bits):
        alive.append(sum(p.numel() for m in model_of[0].modules() for p in m.parameters(False) if not p.is_meta))
        return real(weight, bits)

    model_of, make = [], building.NanoLM
    monkeypatch.setattr(building, "NanoLM", lambda config: model_of.append(make(config)) or model_of[0])
    monkeypatch.setattr(building, "_coded", watched)
    nanolm.load(folder, weights=weights)
    embedding_and_norms = 290 * 32 + (3 * 2 + 1) * 32
    assert alive and max(alive) <= embedding_and_norms, "a linear layer was kept in floats while others were read"


def test_a_gguf_file_is_kept_in_any_kind_of_weights(tmp_path):
    path = write_twin(tmp_path / "x.gguf").path
    exact = nanolm.load(path)[0]
    for weights, most in (("bfloat16", 0.05), ("int8", 0.05), ("int4", 0.8)):
        model, _ = nanolm.load(path, weights=weights)
        with torch.inference_mode():
            off = (model(TOKENS[:, :5]).float() - exact(TOKENS[:, :5])).std() / exact(TOKENS[:, :5]).std()
        assert 0 < off < most and resident_bytes(model.config, weights) == model_bytes(model)


def test_another_kind_of_weights_is_refused_by_name(tmp_path):
    with pytest.raises(ValueError, match="weights is 'int2'; it must be one of float32, bfloat16, float16, int8, int4"):
        nanolm.load("draft", weights="int2")


def test_a_model_larger_than_this_machine_is_refused_with_what_other_kinds_take(monkeypatch):
    config = replace(nanolm.load("draft")[0].config, n_layers=30)
    monkeypatch.setattr(memory, "machine_bytes", lambda: 2_000_000)
    with pytest.raises(ValueError, match=r"takes 0\.0 GB in float32 and this machine has 0\.0 GB; .* bfloat16 .* int4"):
        check_memory(config, "float32", "cpu")
    check_memory(config, "float32", "cuda")
    monkeypatch.setattr(memory, "machine_bytes", lambda: None)
    check_memory(config, "float32", "cpu")
