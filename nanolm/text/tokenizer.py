"""Text to token ids and back: the `tokenizers` library, with the few calls the course needs."""

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path

import tokenizers
from tokenizers.decoders import DecodeStream


class Tokenizer:
    """A tokenizer.json, as every Hugging Face checkpoint has one.

    Attributes:
        inner: the library's object, for anything not offered here.
        vocab_size: number of token ids.
        eos_id: id of the end-of-text token, None if the vocabulary has none.
    """

    def __init__(self, inner: tokenizers.Tokenizer, eos_token: str = "<|endoftext|>") -> None:
        self.inner = inner
        self.vocab_size = inner.get_vocab_size()
        self.eos_id = inner.token_to_id(eos_token)

    @classmethod
    def from_file(cls, path: Path | str) -> "Tokenizer":
        """Return the tokenizer in a tokenizer.json.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the file is not a tokenizer.
        """
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"no tokenizer at {path}")
        try:
            return cls(tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8")))
        except Exception as error:  # the library raises bare Exceptions
            raise ValueError(f"{path} is not a tokenizer.json: {error}") from error

    def encode(self, text: str, special_tokens: bool = True) -> list[int]:
        """Return the token ids of the text, without start or end token.

        Args:
            special_tokens: whether a special token spelled out is read as one. Text from strangers is read without, or
                they could write the end of their own message and the beginning of another's.
        """
        return (self.inner if special_tokens else self._text_only).encode(text, add_special_tokens=False).ids

    @cached_property
    def _text_only(self) -> tokenizers.Tokenizer:
        """The tokenizer without an eye for special tokens; a copy, since the other may be in use by another thread."""
        copy = tokenizers.Tokenizer.from_str(self.inner.to_str())
        copy.encode_special_tokens = True
        return copy

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = False) -> str:
        """Return the text of the token ids; bytes that are no UTF-8 come back as the replacement character."""
        return self.inner.decode(list(ids), skip_special_tokens=skip_special_tokens)

    def decode_stream(self, ids: Iterable[int]) -> Iterator[str]:
        """Yield text as soon as it is complete: a character whose bytes span two tokens waits for the second.

        One whose last bytes never come is left out.
        """
        step = self.decoder()
        yield from filter(None, map(step, ids))

    def decoder(self) -> Callable[[int], str]:
        """Return a function that is handed one text's tokens, one a call, and returns the text that each completes.

        The push side of `decode_stream`, for tokens that come from elsewhere. Special tokens are no text.
        """
        stream = DecodeStream(skip_special_tokens=True)
        return lambda token: stream.step(self.inner, token) or ""

    def save(self, path: Path | str) -> None:
        """Write the tokenizer.json."""
        Path(path).write_text(self.inner.to_str(pretty=True), encoding="utf-8")
