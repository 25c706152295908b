"""The bytes of each token: a token may hold half a character, and then it has no text of its own.

A byte-level vocabulary spells each byte as a character of its own (GPT-2's table); one of SentencePiece marks the space
before a word, and spells bytes that are no character as <0xE2>.

Source: `bytes_to_unicode` of GPT-2's encoder.py; the byte fallback of SentencePiece.
"""

import re
from functools import cache

from .tokenizer import Tokenizer

_SPACE = "\u2581"  # SentencePiece's mark for it
_REPLACEMENT = "\ufffd"
_FALLBACK = re.compile(r"<0x([0-9A-Fa-f]{2})>")


def bytes_of(token: int, tokenizer: Tokenizer) -> bytes:
    """Return the bytes that a token puts into a text; none for an id that is no token.

    Joined over the tokens of a text they are its UTF-8, but for the space that SentencePiece drops at its beginning.
    """
    spelled = tokenizer.inner.id_to_token(token)
    if spelled is None:
        return b""
    if spelled in tokenizer.added_set:
        return spelled.encode()
    if found := _FALLBACK.fullmatch(spelled):
        return bytes([int(found[1], 16)])
    text = tokenizer.decode([token])
    table = _byte_level()
    if _REPLACEMENT not in text and (not spelled.startswith(_SPACE) or text.startswith(" ")):
        return text.encode()
    if spelled.startswith(_SPACE):
        return spelled.replace(_SPACE, " ").encode()
    return bytes(table[letter] for letter in spelled) if all(letter in table for letter in spelled) else text.encode()


@cache
def _byte_level() -> dict[str, int]:
    """GPT-2's table: a printable byte is its own character, the others are those from 256 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {**{chr(byte): byte for byte in printable}, **{chr(256 + i): byte for i, byte in enumerate(others)}}
