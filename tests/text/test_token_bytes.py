"""Tests `text/token_bytes.py`: the bytes of a text's tokens, joined, are the text, however a vocabulary spells them."""

import pytest
from chat_folders import KINDS
from successor_model import byte_tokenizer, chatml_tokenizer

from nanolm.checkpoint import SHIPPED
from nanolm.text import Tokenizer, bytes_of

TEXTS = ["To be, or not", " two  spaces", "é€😀", "tab\tand\nline", "Hello world", "<0x41>", "Ġ is no space", "\u2581"]
TOKENIZERS = {
    "bytes": byte_tokenizer(),
    "bytes with markers": chatml_tokenizer(),
    "shipped": Tokenizer.from_file(SHIPPED / "target" / "tokenizer.json"),
    **{kind: Tokenizer(make()) for kind, make in KINDS.items()},
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS)
def test_joined_they_are_the_text(tokenizer, text):
    joined = b"".join(bytes_of(token, tokenizer) for token in tokenizer.encode(text))
    # SentencePiece puts a space before a text, and takes U+2581 for one.
    readings = {text.encode(), b" " + text.encode(), b" " + text.replace("\u2581", " ").encode()}
    assert joined in readings


def test_a_marker_is_its_text_and_a_number_beyond_the_vocabulary_nothing():
    tokenizer = chatml_tokenizer()
    marker = tokenizer.inner.token_to_id("<|im_end|>")
    assert bytes_of(marker, tokenizer) == b"<|im_end|>" and bytes_of(10**6, tokenizer) == b""
