"""`checkpoint/huggingface.py`: what is saved comes back, and a file that does not fit says which part of it and why."""

import json

import pytest
import tokenizers
import torch
from by_hand import close, decoder_logits
from safetensors.torch import load_file, save_file
from tiny_checkpoints import tiny_tokenizer
from tiny_models import tiny_config, tiny_model, tokens_of

import nanolm
from nanolm.checkpoint import SHIPPED, from_hf_tensors, load, save, to_hf_tensors
from nanolm.model import quantize_model
from nanolm.quantization import Float8Linear, QuantizedLinear
from nanolm.rope_scaling import RopeScaling

TOKENS = tokens_of(2, 7, vocab_size=290)
MIXTURE = dict(n_experts=4, experts_per_token=2)


def saved(folder, dtype=torch.float64, **changes):
    """A tiny model with a tokenizer, written to the folder; returns the model."""
    model = tiny_model(vocab_size=290, **changes)
    save(model, tiny_tokenizer(), folder, dtype)
    return model


def change_tensors(folder, change):
    """Rewrite model.safetensors after change(tensors) has edited it."""
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file({name: tensor.clone().contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")


def change_config(folder, **changes):
    config = json.loads((folder / "config.json").read_text())
    for name, value in changes.items():
        if value is None:
            del config[name]
        else:
            config[name] = value
    (folder / "config.json").write_text(json.dumps(config))


# --- round trip --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tied", [True, False])
def test_a_saved_model_comes_back_with_the_same_scores(tmp_path, tied):
    model = saved(tmp_path / "new" / "folder", tie_embeddings=tied)
    again, tokenizer = load(tmp_path / "new" / "folder", dtype=torch.float64)
    assert again.config == model.config
    assert close(again(TOKENS), model(TOKENS)), "the weights changed on the way: which rows went where?"
    assert (again.head.weight is again.embedding.weight) is tied
    assert tokenizer.encode("To be") == tiny_tokenizer().encode("To be")


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    ("exchange", "said"),
    [
        (lambda model: quantize_model(model, 8), r"layers\.0\.attention\.out of .* QuantizedLinear"),
        (
            lambda model: model.set_submodule("head", QuantizedLinear.from_linear(model.head, 8)),
            "head of .* QuantizedLinear",
        ),
        (
            lambda model: model.set_submodule(
                "layers.2.feedforward.down", Float8Linear(model.layers[2].feedforward.down)
            ),
            r"layers\.2\.feedforward\.down of .* Float8Linear",
        ),
    ],
    ids=["all layers", "the head", "one layer of 8-bit floats"],
)
def test_a_quantized_model_is_not_saved_and_the_error_says_what_to_do(tmp_path, tied, exchange, said):
    model = tiny_model(vocab_size=290, tie_embeddings=tied)
    exchange(model)
    with pytest.raises(ValueError, match=f"{said} .* save a model before it is quantized"):
        save(model, tiny_tokenizer(), tmp_path / "model")
    assert not (tmp_path / "model").exists(), "a refused save leaves nothing behind"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"qkv_bias": True}, "qkv_bias is True"),
        ({"qk_norm": "head"}, "qk_norm is 'head'"),
        ({"windows": (4, None, 4)}, r"windows is \(4, None, 4\)"),
        ({"rope_scaling": RopeScaling("linear", 8, (("factor", 2.0),))}, "rope_scaling is RopeScaling"),
    ],
)
def test_a_model_of_another_family_is_not_saved_as_a_llama(tmp_path, changes, said):
    with pytest.raises(ValueError, match=f"{said}.*; a model is written as a Llama or a Mixtral, which have none"):
        save(tiny_model(vocab_size=290, **changes), tiny_tokenizer(), tmp_path / "model")
    assert not (tmp_path / "model" / "config.json").exists()


@pytest.mark.parametrize("tied", [True, False])
def test_the_file_holds_llama_s_tensors_under_their_own_names(tmp_path, tied):
    model = saved(tmp_path, tie_embeddings=tied)
    tensors = load_file(tmp_path / "model.safetensors")
    # N·H = 24, K·H = 12, D = 20, F = 10: queries, keys and values are matrices of their own in the file.
    shapes = {name.removeprefix("model.layers.2."): tuple(t.shape) for name, t in tensors.items() if ".2." in name}
    assert shapes == {
        "input_layernorm.weight": (20,),
        "self_attn.q_proj.weight": (24, 20),
        "self_attn.k_proj.weight": (12, 20),
        "self_attn.v_proj.weight": (12, 20),
        "self_attn.o_proj.weight": (20, 24),
        "post_attention_layernorm.weight": (20,),
        "mlp.gate_proj.weight": (10, 20),
        "mlp.up_proj.weight": (10, 20),
        "mlp.down_proj.weight": (20, 10),
    }
    assert len(tensors) == 3 * 9 + 2 + (not tied), (
        "three layers, embedding, last norm, and a head only where it is untied"
    )
    row = decoder_logits(tensors, model.config, TOKENS[0].tolist())  # reads the file by its names
    assert close(row, model(TOKENS)[0], 1e-10), "the tensors are there, but not under the right names"


def test_a_mixture_s_file_holds_mixtral_s_tensors_under_their_own_names(tmp_path):
    model = saved(tmp_path, **MIXTURE)
    tensors = load_file(tmp_path / "model.safetensors")
    shapes = {
        name.removeprefix("model.layers.2.block_sparse_moe."): tuple(t.shape)
        for name, t in tensors.items()
        if ".2.block" in name
    }
    # D = 20, F = 10, E = 4: a router's row and three matrices for each expert.
    parts = {"w1": (10, 20), "w2": (20, 10), "w3": (10, 20)}
    expected = {f"experts.{e}.{part}.weight": shape for e in range(4) for part, shape in parts.items()}
    assert shapes == {"gate.weight": (4, 20), **expected}
    assert len(tensors) == 3 * (6 + 1 + 12) + 2, "no mlp besides the experts"
    row = decoder_logits(tensors, model.config, TOKENS[0].tolist())
    assert close(row, model(TOKENS)[0], 1e-10), "the experts are there, but not under the right names"


def test_a_saved_mixture_comes_back_with_the_same_scores(tmp_path):
    model = saved(tmp_path, **MIXTURE)
    again, _ = load(tmp_path, dtype=torch.float64)
    assert again.config == model.config and again.config.n_experts == 4
    assert close(again(TOKENS), model(TOKENS)), "the weights changed on the way: which expert's went where?"


def test_a_mixture_with_an_expert_missing_is_refused_by_name(tmp_path):
    saved(tmp_path, **MIXTURE)
    change_tensors(tmp_path, lambda t: t.pop("model.layers.1.block_sparse_moe.experts.3.w2.weight"))
    with pytest.raises(ValueError, match=r"lacks tensor model\.layers\.1\.block_sparse_moe\.experts\.3\.w2\.weight"):
        load(tmp_path)


def test_a_mixture_with_more_experts_than_its_config_says_is_refused(tmp_path):
    saved(tmp_path, **MIXTURE)
    change_config(tmp_path, num_local_experts=3)
    with pytest.raises(ValueError, match=r"unknown tensors model\.layers\.0\.block_sparse_moe\.experts\.3\.w1"):
        load(tmp_path)


@pytest.mark.parametrize("changes", [{}, MIXTURE])
def test_to_and_from_the_tensors_of_a_file_is_the_same_state(tmp_path, changes):
    model = tiny_model(tie_embeddings=False, **changes)
    state = from_hf_tensors(to_hf_tensors(model), model.config)
    assert state.keys() == model.state_dict().keys()
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())


def test_load_gives_a_model_ready_for_inference(tmp_path):
    saved(tmp_path)
    model, _ = load(tmp_path)
    assert not model.training and not any(weight.requires_grad for weight in model.parameters())
    assert model.dtype == torch.float32, "float32 is the default, whatever the file holds"
    assert not any(weight.is_meta for weight in model.parameters())


def test_save_writes_float16_unless_said_otherwise(tmp_path):
    save(tiny_model(vocab_size=290), tiny_tokenizer(), tmp_path)
    assert {tensor.dtype for tensor in load_file(tmp_path / "model.safetensors").values()} == {torch.float16}
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "float16"
    half, _ = load(tmp_path)
    # float16 keeps 11 bits: each weight is off by up to 0.05 %, and logits are a few units large.
    assert close(half(TOKENS).double(), tiny_model(vocab_size=290)(TOKENS), 0.2)


def test_the_tokenizer_s_end_token_is_in_the_files(tmp_path):
    saved(tmp_path)
    assert json.loads((tmp_path / "tokenizer_config.json").read_text())["eos_token"] == "<|endoftext|>"


def test_load_and_save_are_at_the_top_of_the_package(tmp_path):
    nanolm.save(tiny_model(vocab_size=290), tiny_tokenizer(), tmp_path)
    model, tokenizer = nanolm.load(str(tmp_path))
    assert type(model) is nanolm.NanoLM and type(tokenizer) is nanolm.Tokenizer


# --- files by other writers --------------------------------------------------------------------------------------


def test_a_tied_file_that_stores_the_matrix_twice_is_read(tmp_path):
    model = saved(tmp_path)
    change_tensors(tmp_path, lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"].clone()}))
    assert close(load(tmp_path, dtype=torch.float64)[0](TOKENS), model(TOKENS))


def test_a_config_without_head_dim_shares_the_width_among_the_heads(tmp_path):
    model = saved(tmp_path, d_model=24)  # 24 / 4 heads = 6
    change_config(tmp_path, head_dim=None)
    assert close(load(tmp_path, dtype=torch.float64)[0](TOKENS), model(TOKENS))


def test_a_config_without_key_value_heads_has_one_for_each_query_head(tmp_path):
    model = saved(tmp_path, n_kv_heads=4)
    change_config(tmp_path, num_key_value_heads=None)
    assert close(load(tmp_path, dtype=torch.float64)[0](TOKENS), model(TOKENS))


# --- files that do not fit ---------------------------------------------------------------------------------------

Q = "model.layers.1.self_attn.q_proj.weight"


def rename(old, new):
    return lambda tensors: tensors.update({new: tensors.pop(old)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop(Q), rf"lacks tensor {Q}"),
        (
            lambda t: [t.pop(name) for name in list(t) if ".2." in name],
            r"lacks tensors model\.layers\.2\.input.* and more",
        ),
        (lambda t: t.pop("model.embed_tokens.weight"), r"lacks tensor model\.embed_tokens\.weight"),
        (
            lambda t: t.update({"model.layers.3.mlp.up_proj.weight": t[Q]}),
            r"unknown tensor model\.layers\.3\.mlp\.up_proj",
        ),
        (lambda t: t.update({f"{Q}.bias": t[Q]}), r"unknown tensor .*q_proj\.weight\.bias"),
        (lambda t: t.update({Q: t[Q][:-6]}), rf"{Q} has shape \(18, 20\); the configuration makes it \(24, 20\)"),
        (lambda t: t.update({Q: t[Q].T}), rf"{Q} has shape \(20, 24\); the configuration makes it \(24, 20\)"),
        (lambda t: t.update({Q: t[Q].flatten()}), rf"{Q} has shape \(480,\); the configuration makes it \(24, 20\)"),
    ],
    ids=[
        "one missing",
        "a layer missing",
        "no embedding",
        "a layer too many",
        "a bias",
        "a head short",
        "transposed",
        "flat",
    ],
)
def test_a_tensor_that_does_not_fit_is_named_with_its_shape(tmp_path, change, message):
    saved(tmp_path)
    change_tensors(tmp_path, change)
    with pytest.raises(ValueError, match=message) as error:
        load(tmp_path)
    assert str(tmp_path) in str(error.value), "the message says which file"


def test_an_untied_config_without_a_head_is_refused(tmp_path):
    saved(tmp_path)
    change_config(tmp_path, tie_word_embeddings=False)
    with pytest.raises(ValueError, match=r"lacks tensor lm_head\.weight"):
        load(tmp_path)


@pytest.mark.parametrize("keep", [0, 5, 100, -1, -1000])
def test_a_file_that_is_cut_off_is_named(tmp_path, keep):
    saved(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"model\.safetensors is not a safetensors file, or is cut short"):
        load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"hello", b"\xff\xfe\x00"])
def test_a_config_that_is_not_json_is_named(tmp_path, content):
    saved(tmp_path)
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"config\.json is not JSON"):
        load(tmp_path)


@pytest.mark.parametrize("content", ["[]", '"llama"', "3", "null"])
def test_a_config_that_is_json_of_another_kind_is_named(tmp_path, content):
    saved(tmp_path)
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ValueError, match=r"config\.json"):
        load(tmp_path)


def test_an_entry_missing_from_the_config_is_named(tmp_path):
    saved(tmp_path)
    change_config(tmp_path, hidden_size=None)
    with pytest.raises(ValueError, match=r"config\.json lacks hidden_size"):
        load(tmp_path)


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named(tmp_path, file):
    saved(tmp_path)
    (tmp_path / file).unlink()
    with pytest.raises(FileNotFoundError, match=file.split(".")[0]):
        load(tmp_path)


def test_an_unknown_name_is_refused_with_the_shipped_ones(monkeypatch, tmp_path):
    for name in ("draft", "target"):
        saved(tmp_path / name)
    monkeypatch.setattr("nanolm.checkpoint.loading.SHIPPED", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no model 'targett': .* one of \['draft', 'target'\]"):
        load("targett")
    assert load("target")[0].config == tiny_config(vocab_size=290)


def test_a_folder_without_a_config_is_no_model(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"neither a folder with a config\.json nor one of"):
        load(tmp_path)


def test_shipped_models_are_inside_the_package():
    assert SHIPPED.parent.name == "nanolm"


def test_save_names_the_configuration_s_own_end_token(tmp_path):
    model, tokenizer = nanolm.load("draft")
    renamed = nanolm.Tokenizer(
        tokenizers.Tokenizer.from_str(tokenizer.inner.to_str().replace(r"<|endoftext|>", "</s>"))
    )
    nanolm.save(model, renamed, tmp_path)
    written = json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert (written["bos_token"], written["eos_token"]) == ("</s>", "</s>")
