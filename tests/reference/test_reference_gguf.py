"""GGUF files against transformers, which reads them by code of its own: weights, tokens, and the prompt of a chat."""

import pytest
import torch
from gguf_twins import real_smollm2, write_twin

import nanolm
from nanolm.text import chat_prompt

# transformers cuts digits off by the same rule as words, not as the file says (`smollm`: each stands alone). The tokens
# are the same unless a digit follows two spaces or line breaks; that case is in test_gguf.py.
TEXTS = [
    "To be, or not to be",
    "A ride of 7 km costs 21 dollars; in 2024 it was 3.50.",
    " two  spaces\n\ttab\r\n\n  end  ",
    "def f(x):\n    return [x**2 for x in range(10)]  # squares\n",
    "Größe, 漢字, 🙂👩‍👩‍👧 e\u0301 \u202e مرحبا",
    "it's we'll I'VE",
    "<|im_start|>user\nHi<|im_end|>\n<|endoftext|>",
    "",
]
CHATS = [
    [("user", "Hi")],
    [("system", "Be brief."), ("user", "Who are you?"), ("assistant", " A model.\n"), ("user", "  Sure?\n\nReally 1?")],
]


def open_with(transformers, path):
    """The model with the weights that transformers decodes; its `from_pretrained` would need accelerate for that."""
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    config = transformers.AutoConfig.from_pretrained(path.parent, gguf_file=path.name)
    model = transformers.LlamaForCausalLM(config).eval()
    tensors = load_gguf_checkpoint(path, return_tensors=True, model_to_load=model)["tensors"]
    report = model.load_state_dict(tensors, strict=False)
    assert set(report.missing_keys) <= {"lm_head.weight"} and not report.unexpected_keys  # the head is tied
    return model


def test_a_small_file_gives_transformers_logits(transformers, tmp_path):
    path, _ = write_twin(tmp_path / "twin.gguf", n_heads=4)
    ours, theirs = nanolm.load(path)[0], open_with(transformers, path)
    tokens = torch.randint(265, (2, 50))
    with torch.inference_mode():
        expected = theirs(tokens).logits
        assert expected.std() > 1, "logits this small would hide an error"
        assert (ours(tokens) - expected).abs().max() < 1e-3


@pytest.mark.slow
def test_the_real_model_writes_what_transformers_writes(transformers):
    path = real_smollm2()
    (ours, tokenizer), theirs = nanolm.load(path), open_with(transformers, path)
    prompt = chat_prompt([("user", "Why is the sky blue?")], tokenizer)
    with torch.inference_mode():
        actual, expected = ours(torch.tensor([prompt])), theirs(torch.tensor([prompt])).logits
        text = theirs.generate(torch.tensor([prompt]), max_new_tokens=20, do_sample=False)[0, len(prompt) :].tolist()
    assert (actual - expected).abs().max() < 1e-3
    assert ours.generate(prompt, 20) == text


@pytest.mark.slow
def test_the_real_tokenizer_and_chat_are_those_of_transformers(transformers):
    path = real_smollm2()
    theirs = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    _, ours = nanolm.load(path)
    for text in TEXTS:
        assert ours.encode(text) == theirs(text, add_special_tokens=False)["input_ids"], text
        assert ours.decode(ours.encode(text)) == text
    for chat in CHATS:
        messages = [{"role": role, "content": content} for role, content in chat]
        expected = theirs.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        assert chat_prompt(chat, ours) == list(expected)
