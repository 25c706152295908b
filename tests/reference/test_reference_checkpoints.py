"""Checkpoints written by one library and read by the other: weights, configuration, tokenizer."""

import json

import pytest
import torch
from tiny_checkpoints import END, tiny_tokenizer, write_checkpoint

import nanolm
from nanolm.checkpoint import save
from nanolm.text import after_start

TEXTS = [
    "To be, or not to be",
    "A ride of 7 km costs 21 dollars.",
    " two  spaces\n\ttab",
    "Größe, 漢字, 🙂",
    END + "x" + END,
    "",
]
HEADS = {"MHA": (4, 4), "GQA": (4, 2), "MQA": (4, 1)}


def llama(transformers, folder, **changes):
    """A random Llama of transformers', saved with the tiny tokenizer by transformers itself."""
    sizes = dict(
        vocab_size=290, hidden_size=24, intermediate_size=40, num_hidden_layers=2, max_position_embeddings=128,
        bos_token_id=0, eos_token_id=0, pad_token_id=None,
    )  # fmt: skip
    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{**sizes, **changes})).eval()
    for weight in model.parameters():  # their initial weights are so small that every token looks alike
        weight.data.normal_(1.0 if weight.ndim == 1 else 0.0, 0.3)
    model.save_pretrained(folder)
    inner = tiny_tokenizer().inner
    transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=END).save_pretrained(folder)
    return model


def assert_same_logits(folder, theirs):
    ours, _ = nanolm.load(folder)
    tokens = torch.randint(290, (2, 50))
    with torch.inference_mode():
        expected = theirs(tokens).logits
        assert expected.std() > 0.1, "logits this small would hide an error"
        assert (ours(tokens) - expected).abs().max() < 1e-4


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("tied", [True, False])
def test_nanolm_opens_a_llama_that_transformers_saved(transformers, tmp_path, heads, tied):
    N, K = HEADS[heads]
    theirs = llama(transformers, tmp_path, num_attention_heads=N, num_key_value_heads=K, tie_word_embeddings=tied)
    assert_same_logits(tmp_path, theirs)


def test_nanolm_reads_a_head_dimension_base_and_epsilon_of_their_own(transformers, tmp_path):
    rope = {"rope_type": "default", "rope_theta": 333.0}
    theirs = llama(
        transformers, tmp_path, num_attention_heads=4, num_key_value_heads=2, head_dim=10, rms_norm_eps=0.1,
        rope_parameters=rope,
    )  # fmt: skip
    assert_same_logits(tmp_path, theirs)


def test_nanolm_reads_a_half_precision_file_as_transformers_does(transformers, tmp_path):
    saved = llama(transformers, tmp_path, num_attention_heads=4, num_key_value_heads=2)
    saved.to(torch.bfloat16).save_pretrained(tmp_path)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    assert_same_logits(tmp_path, theirs.eval())


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("heads", HEADS)
def test_transformers_opens_what_nanolm_saves(transformers, tmp_path, heads, tied):
    N, K = HEADS[heads]
    write_checkpoint(tmp_path, n_heads=N, n_kv_heads=K, tie_embeddings=tied, rope_theta=777.0, norm_eps=1e-3)
    theirs, report = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), f"transformers complains: {report}"
    assert isinstance(theirs, transformers.LlamaForCausalLM)
    assert_same_logits(tmp_path, theirs.eval())


MIXTURE = dict(n_experts=4, experts_per_token=3, d_ff=12)


def test_nanolm_opens_a_mixtral_that_transformers_saved(transformers, tmp_path):
    config = transformers.MixtralConfig(
        vocab_size=290, hidden_size=24, intermediate_size=40, num_hidden_layers=2, max_position_embeddings=128,
        num_attention_heads=4, num_key_value_heads=2, num_local_experts=6, num_experts_per_tok=2,
        bos_token_id=0, eos_token_id=0, pad_token_id=None,
    )  # fmt: skip
    torch.manual_seed(1)
    theirs = transformers.MixtralForCausalLM(config).eval()
    for weight in theirs.parameters():
        weight.data.normal_(1.0 if weight.ndim == 1 else 0.0, 0.3)
    theirs.save_pretrained(tmp_path)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tiny_tokenizer().inner, eos_token=END).save_pretrained(
        tmp_path
    )
    assert_same_logits(tmp_path, theirs)


@pytest.mark.parametrize("tied", [True, False])
def test_transformers_opens_a_mixture_that_nanolm_saves(transformers, tmp_path, tied):
    write_checkpoint(tmp_path, tie_embeddings=tied, rope_theta=777.0, norm_eps=1e-3, **MIXTURE)
    theirs, report = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), f"transformers complains: {report}"
    assert isinstance(theirs, transformers.MixtralForCausalLM)
    assert_same_logits(tmp_path, theirs.eval())


@pytest.mark.parametrize("changes", [{}, MIXTURE], ids=["dense", "mixture"])
def test_a_checkpoint_that_went_through_transformers_comes_back_bit_for_bit(transformers, tmp_path, changes):
    ours, _ = nanolm.load(write_checkpoint(tmp_path / "ours", **changes))
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "ours")
    theirs.save_pretrained(tmp_path / "theirs")
    transformers.AutoTokenizer.from_pretrained(tmp_path / "ours").save_pretrained(tmp_path / "theirs")
    back, tokenizer = nanolm.load(tmp_path / "theirs")
    assert back.config == ours.config
    assert all(torch.equal(a, b) for a, b in zip(back.parameters(), ours.parameters(), strict=True))
    assert tokenizer.inner.get_vocab() == tiny_tokenizer().inner.get_vocab()


def test_float16_files_open_in_the_type_that_config_json_names(transformers, tmp_path):
    model, tokenizer = nanolm.load(write_checkpoint(tmp_path / "a"))
    save(model, tokenizer, tmp_path / "b", torch.float16)
    assert json.loads((tmp_path / "b/config.json").read_text(encoding="utf-8"))["dtype"] == "float16"
    assert transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "b").dtype == torch.float16


def test_both_tokenizers_give_the_same_ids_and_the_same_text(pair, transformers):
    theirs = transformers.AutoTokenizer.from_pretrained(pair.folder)
    assert theirs.eos_token_id == pair.tokenizer.eos_id
    for text in TEXTS:
        ids = pair.tokenizer.encode(text)
        assert theirs(text).input_ids == after_start(ids, pair.ours.config), "the start token comes before a text"
        assert theirs.decode(ids) == pair.tokenizer.decode(ids) == text
        without = pair.tokenizer.decode(ids, skip_special_tokens=True)
        assert theirs.decode(ids, skip_special_tokens=True) == without


def test_text_that_breaks_off_inside_a_character_is_decoded_alike(pair, transformers):
    theirs = transformers.AutoTokenizer.from_pretrained(pair.folder)
    half = pair.tokenizer.encode("漢")[:-1]
    assert half, "the character should be spelled in several tokens"
    assert theirs.decode(half) == pair.tokenizer.decode(half)


def test_the_context_and_end_token_of_a_checkpoint_reach_transformers(pair):
    assert pair.theirs.config.max_position_embeddings == pair.ours.config.max_positions
    assert (pair.theirs.config.eos_token_id,) == pair.ours.config.eos_token_ids
