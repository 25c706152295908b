"""The trace that comes with NanoLM is what its generator makes, of prompts as the tokenizer gives them."""

from nanolm.text import Tokenizer
from nanolm.workload import RECORDED, load_trace, save_trace
from training.trace import make_trace


def test_the_generator_makes_the_shipped_file_byte_for_byte(tmp_path):
    save_trace(make_trace(), tmp_path / "trace.jsonl")
    made = (tmp_path / "trace.jsonl").read_bytes()
    assert made == RECORDED.read_bytes(), "`python -m training.trace` writes it anew"


def test_each_prompt_is_its_own_text_tokenized():
    tokenizer = Tokenizer.from_file(RECORDED.parent / "target" / "tokenizer.json")
    for arrival in load_trace():
        text = tokenizer.decode(arrival.prompt)
        assert tuple(tokenizer.encode(text)) == arrival.prompt, text
        assert "\ufffd" not in text
