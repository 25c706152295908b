"""Folders that cannot be run as they are: each is refused in one sentence that names what is wrong, and at once."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_checkpoints import write_checkpoint

import nanolm
from nanolm.checkpoint import WeightLayout
from nanolm.cli.options import one_line

Q = "model.layers.0.self_attn.q_proj.weight"
SHARD = "model-00001-of-00002.safetensors"


def edit(name, change):
    """A step that rewrites one JSON file of a folder."""

    def step(folder):
        content = json.loads((folder / name).read_text(encoding="utf-8"))
        change(content)
        (folder / name).write_text(json.dumps(content), encoding="utf-8")

    return step


def says(**entries):
    return edit("config.json", lambda content: content.update(entries))


def tensors(change):
    """A step that rewrites the weights."""

    def step(folder):
        held = load_file(folder / "model.safetensors")
        change(held)
        held = {name: tensor.clone().contiguous() for name, tensor in held.items()}
        save_file(held, folder / "model.safetensors")

    return step


def split(folder):
    """Two files and their index."""
    held = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = [SHARD, SHARD.replace("00001", "00002", 1)]
    where = {name: names[i % 2] for i, name in enumerate(sorted(held))}
    for file in names:
        save_file({name: held[name] for name, its in where.items() if its == file}, folder / file)
    index = {"metadata": {}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")


def then(*steps):
    return lambda folder: [step(folder) for step in steps]


def mapped(change):
    return then(split, edit("model.safetensors.index.json", lambda content: change(content["weight_map"])))


def renamed(old, new):
    return lambda folder: (folder / old).rename(folder / new)


def text(name, content):
    return lambda folder: (folder / name).write_text(content, encoding="utf-8")


def cut(name, keep):
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:keep])


def flip(name, at):
    def step(folder):
        content = bytearray((folder / name).read_bytes())
        content[at] ^= 0x41
        (folder / name).write_bytes(content)

    return step


def twice(folder):
    """The first tensor of one part in the other too, with other numbers."""
    names = [SHARD, SHARD.replace("00001", "00002", 1)]
    held = [load_file(folder / name) for name in names]
    there = 0 if Q in held[0] else 1
    held[1 - there][Q] = held[there][Q] + 1
    save_file(held[1 - there], folder / names[1 - there])


LONG = {"rope_type": "longrope", "long_factor": [1.0] * 3, "short_factor": [1.0] * 3}
SPLIT = {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated", "invert": False}
LATENT = dict(
    model_type="deepseek_v2", kv_lora_rank=4, qk_rope_head_dim=4, qk_nope_head_dim=4, v_head_dim=4, n_routed_experts=4,
    num_experts_per_tok=2, moe_intermediate_size=4, rms_norm_eps=1e-6,
)  # fmt: skip
UNTIED = tensors(lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"] + 1}))
BAD = {
    "a pickle": (renamed("model.safetensors", "pytorch_model.bin"), "pytorch_model.bin, a pickle"),
    "a checkpoint of torch": (renamed("model.safetensors", "model.pth"), "model.pth, a pickle"),
    "no weights": (renamed("model.safetensors", "weights.safetensors"), "has no model.safetensors, nor a"),
    "a part that is missing": (then(split, lambda f: (f / SHARD).unlink()), f"has no {SHARD}, which"),
    "a part that is cut short": (then(split, cut(SHARD, -9)), f"{SHARD} is not a safetensors file, or is cut"),
    "an index that is no JSON": (then(split, text("model.safetensors.index.json", "{")), "index.json is not JSON"),
    "an index without a map": (then(split, text("model.safetensors.index.json", "{}")), "has no weight_map"),
    "a part elsewhere": (
        mapped(lambda m: m.update({Q: "../x.safetensors"})),
        r"is in '\.\./x.safetensors'; it must be",
    ),
    "a part that is a number": (mapped(lambda m: m.update({Q: 7})), "is in 7; it must be the name of a file"),
    "a tensor in another part": (mapped(lambda m: m.update({Q: SHARD.replace("1", "2", 1)})), "which it does not"),
    "a tensor in no part": (mapped(lambda m: m.pop(Q)), f"holds {Q}, which .*index.json does not name"),
    "a tensor in two parts": (then(split, twice), f"holds {Q}, which .*index.json has elsewhere; they must agree"),
    "weights that are NaN": (tensors(lambda t: t.update({Q: t[Q] * float("nan")})), f"{Q} holds NaN or an infinity"),
    "weights that are infinite": (
        tensors(lambda t: t.update({"model.norm.weight": t["model.norm.weight"] / 0})),
        "model.norm.weight holds NaN or an infinity",
    ),
    "weights without rows": (
        tensors(lambda t: t.update({Q: t[Q][:0]})),
        r"q_proj.weight has shape \(0, 20\); the conf",
    ),
    "a norm that is one number": (
        tensors(lambda t: t.update({"model.norm.weight": t["model.norm.weight"][0]})),
        r"model.norm.weight has shape \(\); the configuration",
    ),
    "complex weights": (tensors(lambda t: t.update({Q: t[Q].to(torch.complex64)})), "is stored as C64; F64, F32"),
    "an eps beyond all floats": (says(rms_norm_eps=10**400), "rms_norm_eps = 1000*…; it must be a number above 0"),
    "a factor beyond all floats": (says(rope_scaling={"type": "linear", "factor": 10**400}), "factor = 1000*; it must"),
    "a first context without end": (
        says(rope_scaling={**LONG, "original_max_position_embeddings": float("inf")}),
        "original_max_position_embeddings = inf; it must be above 0",
    ),
    "a template that is no UTF-8": (
        lambda f: (f / "chat_template.jinja").write_bytes(b"\xff\xfe"),
        "chat_template.jinja is not UTF-8",
    ),
    "a config in UTF-16": (
        lambda f: (f / "config.json").write_bytes((f / "config.json").read_text(encoding="utf-8").encode("utf-16")),
        "config.json is not JSON: 'utf-8' codec",
    ),
    "a merge of no tokens": (
        edit("tokenizer.json", lambda t: t["model"]["merges"].append(["qq", "zz"])),
        "is not a tokenizer.json: Token `qq` out of vocabulary",
    ),
    "a token's number below 0": (
        edit("tokenizer.json", lambda t: t["added_tokens"][0].update(id=-5)),
        "is not a tokenizer.json: invalid value: integer `-5`",
    ),
    "a pattern that is none": (
        edit("tokenizer.json", lambda t: t.update(pre_tokenizer=SPLIT)),
        "is not a tokenizer.json: .*parenthesis",
    ),
    "a window below 0": (says(model_type="mistral", sliding_window=-5), "sliding_window = -5; it must be a whole"),
    "more experts for a token than there are": (
        says(model_type="mixtral", num_local_experts=2, num_experts_per_tok=5),
        "experts_per_token is 5; it must be from 1 to n_experts, 2",
    ),
    "a flipped length": (flip("model.safetensors", 3), "is not a safetensors file, or is cut short"),
    "a flipped header": (flip("model.safetensors", 9), "is not a safetensors file, or is cut short"),
    "codes for weights": (tensors(lambda t: t.update({Q: t[Q].to(torch.int8)})), "is stored as I8; F64, F32"),
    "8-bit floats": (tensors(lambda t: t.update({Q: t[Q].to(torch.float8_e4m3fn)})), "is stored as F8_E4M3"),
    "a head beside a tie": (UNTIED, "tie_word_embeddings = true, and lm_head.weight differs"),
    "biases nobody speaks of": (
        tensors(lambda t: t.update({Q[:-6] + "bias": t[Q][:, 0]})),
        "unknown tensor .*q_proj.bias",
    ),
    "biases that are missing": (says(attention_bias=True), r"lacks tensors .*bias.* and more"),
    "a million layers": (says(num_hidden_layers=10**6), "num_hidden_layers = 1000000; .* at most 1000"),
    "a billion experts": (
        says(model_type="mixtral", num_local_experts=10**9, num_experts_per_tok=2),
        "num_local_experts = 1000000000; .* at most 4096",
    ),
    "a width of 10¹²": (says(hidden_size=10**12), "the configuration makes it"),
    "a negative size": (says(num_attention_heads=-4), "num_attention_heads = -4; it must be a whole number above 0"),
    "a size in words": (says(intermediate_size="40"), "intermediate_size = '40'; it must be a whole number"),
    "a size that is true": (says(vocab_size=True), "vocab_size = True; it must be a whole number"),
    "another family": (says(model_type="gpt2"), "model_type = 'gpt2'; this engine reads"),
    "a family in a list": (says(model_type=["llama"]), r"model_type = \['llama'\]; this engine reads"),
    "scaled logits": (says(logits_scaling=8.0), "logits_scaling = 8.0; this engine does not know what that changes"),
    "soft caps": (says(attn_logit_softcapping=50.0), "attn_logit_softcapping = 50.0"),
    "quantized weights": (says(quantization_config={"quant_method": "awq"}), r"quantization_config \('awq'\)"),
    "a scaling without its numbers": (says(rope_scaling={"rope_type": "llama3"}), "'llama3' and lacks factor, low"),
    "a factor of 0": (says(rope_scaling={"type": "linear", "factor": 0}), "factor = 0; it must be a number above 0"),
    "a factor that is NaN": (says(rope_scaling={"type": "linear", "factor": float("nan")}), "factor = nan"),
    "experts in groups that do not share them out": (
        says(**LATENT, topk_method="group_limited_greedy", n_group=3, topk_group=1),
        "expert_groups is 3; it must divide n_experts, 4",
    ),
    "groups too few for a token's experts": (
        says(**LATENT, topk_method="group_limited_greedy", n_group=4, topk_group=1),
        "groups_per_token is 1; it must be from 2",
    ),
    "a choice of experts that is not known": (
        says(**LATENT, topk_method="noaux_tc"),
        "topk_method = 'noaux_tc'; this engine reads 'greedy' and 'group_limited_greedy' only",
    ),
    "an unknown scaling": (says(rope_scaling={"type": "mrope", "factor": 2}), "rope_type = 'mrope'; this engine reads"),
    "a scaling that is a number": (says(rope_scaling=4), "rope_scaling = 4; it must be an object or null"),
    "factors of a wrong length": (
        says(rope_scaling={"type": "longrope", "long_factor": [1.0], "short_factor": [1.0]}),
        "long_factor = .*; it must be a list of 3 numbers above 0",
    ),
    "an end token beyond": (says(eos_token_id=290), "end token 290 is outside the vocabulary, 0 to 289"),
    "an end token in words": (says(eos_token_id="</s>"), "eos_token_id = '</s>'; it must be a whole number"),
    "end tokens of the wrong kind": (
        text("generation_config.json", '{"eos_token_id": [2.5]}'),
        "generation_config.json has eos_token_id = 2.5",
    ),
    "a start token in words": (says(bos_token_id="<s>"), "bos_token_id = '<s>'; it must be a whole number"),
    "an infinite base": (text("config.json", '{"rope_theta": NaN, "model_type": "llama"'), "config.json is not JSON"),
    "brackets without end": (text("config.json", "[" * 100_000), "config.json is not JSON"),
    "no tokenizer": (lambda f: (f / "tokenizer.json").unlink(), "no tokenizer at"),
    "a tokenizer of SentencePiece": (
        renamed("tokenizer.json", "tokenizer.model"),
        "no tokenizer.json but a tokenizer.model",
    ),
    "a tokenizer cut short": (cut("tokenizer.json", -99), "is not a tokenizer.json"),
    "a tokenizer that is a list": (text("tokenizer_config.json", "[]"), "tokenizer_config.json holds a list"),
    "a template that is a number": (
        text("tokenizer_config.json", '{"chat_template": 7}'),
        "a chat_template that is neither",
    ),
    "a start token of two": (
        text("tokenizer_config.json", '{"bos_token": [1, 2]}'),
        r"bos_token = \[1, 2\]; it must be",
    ),
    "an end token that the tokenizer does not have": (
        text("tokenizer_config.json", '{"eos_token": "<|over|>"}'),
        r"tokenizer_config.json has eos_token = '<\|over\|>', which is no token of tokenizer.json",
    ),
    "an end token of half a character": (
        text("tokenizer_config.json", '{"eos_token": "\\ud800"}'),
        r"tokenizer_config.json has eos_token = '\\ud800'; it must be a text of whole characters",
    ),
    "a start token that the tokenizer does not have": (
        text("tokenizer_config.json", '{"bos_token": {"content": "<|go|>"}, "add_bos_token": true}'),
        r"tokenizer_config.json has bos_token = '<\|go\|>', which is no token of tokenizer.json",
    ),
    "a start of perhaps": (
        text("tokenizer_config.json", '{"add_bos_token": "maybe"}'),
        "add_bos_token = 'maybe'; it must",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_folder_that_cannot_be_run_is_refused_in_one_sentence(tmp_path, capsys, case):
    step, said = BAD[case]
    step(write_checkpoint(tmp_path))
    with pytest.raises((ValueError, FileNotFoundError), match=said) as refused:
        nanolm.load(tmp_path)
    assert len(str(refused.value)) < 500, "a sentence, no listing"
    with pytest.raises(Exception), one_line(1):  # noqa: B017  typer's Exit
        nanolm.load(tmp_path)
    assert capsys.readouterr().err.count("\n") == 1


def test_a_config_with_very_many_layers_costs_no_more_than_its_file_has_tensors(tmp_path, monkeypatch):
    says(num_hidden_layers=1000)(write_checkpoint(tmp_path))
    looked_at, real = [], WeightLayout._layer
    monkeypatch.setattr(WeightLayout, "_layer", lambda self, config, i: looked_at.append(i) or real(self, config, i))
    with pytest.raises(ValueError, match=r"lacks tensors model\.layers\.3"):
        nanolm.load(tmp_path)
    assert len(looked_at) == 4, "three layers are in the file, and the fourth is missing: that is enough"


# --- what is read all the same -----------------------------------------------------------------------------------


def test_parts_are_read_as_one_file_is(tmp_path):
    whole, _ = nanolm.load(write_checkpoint(tmp_path))
    split(tmp_path)
    parted, _ = nanolm.load(tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(whole.parameters(), parted.parameters(), strict=True))


def test_buffers_that_follow_from_the_configuration_are_left_out(tmp_path):
    write_checkpoint(tmp_path)
    tensors(lambda t: t.update({"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(3)}))(tmp_path)
    assert nanolm.load(tmp_path)[0].config.n_layers == 3


@pytest.mark.parametrize("name", ["attention_dropout", "embedding_multiplier", "use_mup", "layer_types"])
@pytest.mark.parametrize("neutral", [None, False, 0, 0.0, [], ""])
def test_a_neutral_value_of_an_unknown_entry_asks_for_nothing(tmp_path, name, neutral):
    says(**{name: neutral})(write_checkpoint(tmp_path))
    assert nanolm.load(tmp_path)[0].config.n_layers == 3


def test_end_tokens_come_from_both_files(tmp_path):
    text("generation_config.json", '{"eos_token_id": [5, 0]}')(write_checkpoint(tmp_path))
    assert nanolm.load(tmp_path)[0].config.eos_token_ids == (0, 5)


def test_of_rope_scaling_and_rope_parameters_the_first_counts_as_with_transformers(tmp_path):
    says(
        rope_scaling={"type": "linear", "factor": 4.0}, rope_parameters={"rope_type": "linear", "factor": 2.0}
    )(write_checkpoint(tmp_path))  # fmt: skip
    scaling = nanolm.load(tmp_path)[0].config.rope_scaling
    assert scaling is not None and scaling.get("factor") == 4.0
