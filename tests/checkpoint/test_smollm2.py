"""The real chat model, SmolLM2-135M-Instruct, on this engine: a few facts that no random weights can show.

What takes transformers as its oracle is in tests/reference.
"""

import pytest
from gguf_twins import real_smollm2

import nanolm
from nanolm.text import chat_prompt


@pytest.fixture(scope="module")
def smollm2():
    real_smollm2()  # skips without the package
    return nanolm.load("smollm2")


def test_the_real_model_answers_a_question(smollm2):
    model, tokenizer = smollm2
    # A wrong order of rows or of pairs still gives English; the capital it gets wrong, or never ends.
    answer = model.generate(chat_prompt([("user", "What is the capital of France?")], tokenizer), 20)
    assert tokenizer.decode(answer) == "The capital of France is Paris.<|im_end|>"


def test_the_real_model_has_the_sizes_of_its_card(smollm2):
    model, tokenizer = smollm2
    config = model.config
    assert (config.n_layers, config.d_model, config.n_heads, config.n_kv_heads) == (30, 576, 9, 3)
    assert (config.head_dim, config.d_ff, config.vocab_size, config.max_positions) == (64, 1536, 49_152, 8192)
    assert (config.rope_theta, config.bos_token_id, config.eos_token_ids) == (100_000.0, None, (2,))
    # V·D + L·((2N + 2K)·H·D + 3·D·F + 2·D) + D with one matrix for embedding and head:
    # 28,311,552 + 30·(884,736 + 2,654,208 + 1,152) + 576.
    assert sum(weight.numel() for weight in model.parameters()) == 134_515_008
    assert tokenizer.vocab_size == 49_152


def test_the_real_tokenizer_lets_digits_stand_alone(smollm2):
    _, tokenizer = smollm2
    pieces = [tokenizer.inner.id_to_token(i) for i in tokenizer.encode("x  12\n\n2024")]
    assert pieces == ["x", "ĠĠ", "1", "2", "ĊĊ", "2", "0", "2", "4"]
