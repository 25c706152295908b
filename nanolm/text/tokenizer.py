"""Text to token ids and back: the `tokenizers` library, with the few calls the course needs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import tokenizers

_CONTEXT = 6  # tokens of a prompt that are decoded with what follows it
_LONG = 1 << 12  # characters
_MOST_HELD = 16  # tokens that wait to become a character: what is none by then never will be


class Tokenizer:
    """A tokenizer.json, as every Hugging Face checkpoint has one.

    Attributes:
        inner: the library's object, for anything not offered here.
        vocab_size: number of token ids.
        eos_id: id of the end-of-text token, None if the vocabulary has none.
        chat: the model's own chat template in Jinja, as its files have it; None without one.
        special: what a template may call special tokens, such as "bos_token", and their texts.
    """

    def __init__(
        self,
        inner: tokenizers.Tokenizer,
        eos_token: str = "<|endoftext|>",
        chat: str | None = None,
        special: Mapping[str, str] | None = None,
    ) -> None:
        self.inner, self.chat, self.special = inner, chat, dict(special or {})
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
            inner = tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
            inner.encode("a")  # parts of it may be read well and not fit each other
            return cls(inner)
        except BaseException as error:  # the library raises bare Exceptions, and where it breaks off what is none
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise ValueError(f"{path} is not a tokenizer.json: {error}") from error

    def encode(self, text: str, special_tokens: bool = True) -> list[int]:
        """Return the token ids of the text, without start or end token.

        Args:
            special_tokens: whether a special token spelled out is read as one. Text from strangers is read without, or
                they could write the end of their own message and the beginning of another's.
        """
        tokenizer = self.inner if special_tokens else self._text_only
        if len(text) > _LONG:  # `encode` of a long text would stop every other thread until it is done
            return tokenizer.encode_batch([text], add_special_tokens=False)[0].ids
        return tokenizer.encode(text, add_special_tokens=False).ids

    @cached_property
    def _text_only(self) -> tokenizers.Tokenizer:
        """The tokenizer without an eye for special tokens; a copy, since the other may be in use by another thread."""
        copy = tokenizers.Tokenizer.from_str(self.inner.to_str())
        copy.encode_special_tokens = True
        return copy

    def decode(self, ids: Iterable[int], skip_special_tokens: bool = False) -> str:
        """Return the text of the token ids; bytes that are no UTF-8 come back as the replacement character."""
        return self.inner.decode(list(ids), skip_special_tokens=skip_special_tokens)

    @cached_property
    def special_texts(self) -> list[str]:
        """How the special tokens are spelled."""
        return [token.content for token in self.inner.get_added_tokens_decoder().values() if token.special]

    def special_in(self, text: str) -> dict[int, str]:
        """Return the special tokens that a text spells, by their ids."""
        tokens = self.inner.get_added_tokens_decoder().items()
        return {i: token.content for i, token in tokens if token.special and token.content in text}

    @cached_property
    def longest_token(self) -> int:
        """The characters of the longest token: a text has at least its length over this many tokens."""
        return max(map(len, self.inner.get_vocab()), default=1)

    @cached_property
    def added_texts(self) -> list[str]:
        """How the tokens are spelled that were added to the vocabulary, special or not: no text is cut across them."""
        return [token.content for token in self.inner.get_added_tokens_decoder().values()]

    @cached_property
    def added_set(self) -> frozenset[str]:
        """`added_texts`, to look one up."""
        return frozenset(self.added_texts)

    def start_tokens(self) -> list[int]:
        """Return the tokens that the tokenizer itself puts before a text: its start token, or none."""
        with_special, without = (self.inner.encode("a", add_special_tokens=each).ids for each in (True, False))
        return with_special[: with_special.index(without[0])] if without and without[0] in with_special else []

    def decode_stream(self, ids: Iterable[int], after: Sequence[int] = ()) -> Iterator[str]:
        """Yield text as soon as it is complete: a character whose bytes span two tokens waits for the second.

        One whose last bytes never come is left out.

        Args:
            after: the tokens before these, as for `decoder`.
        """
        step = self.decoder(after)
        yield from filter(None, map(step, ids))

    def decoder(self, after: Sequence[int] = ()) -> Callable[[int], str]:
        """Return a function that is handed one text's tokens, one a call, and returns the text that each completes.

        The push side of `decode_stream`, for tokens that come from elsewhere. Special tokens are no text.

        Args:
            after: the tokens before these, the prompt. They are not returned; but a tokenizer that marks the beginning
                of a text (SentencePiece) drops the space of a word that stands there.
        """
        # Not DecodeStream: it fails where a byte that is no character of its own changes what comes before it.
        held = [token for token in list(after)[-_CONTEXT:] if 0 <= token < self.vocab_size]
        shown, n_shown = self.decode(held, skip_special_tokens=True), len(held)

        def step(token: int) -> str:
            nonlocal held, shown, n_shown
            held.append(token)
            text = self.decode(held, skip_special_tokens=True)
            is_incomplete = text.endswith("\ufffd") and len(held) - n_shown < _MOST_HELD
            if is_incomplete or len(text) <= len(shown):
                return ""
            new, held = text[len(shown) :], held[n_shown:]
            shown, n_shown = self.decode(held, skip_special_tokens=True), len(held)
            return new

        return step

    def save(self, path: Path | str) -> None:
        """Write the tokenizer.json."""
        Path(path).write_text(self.inner.to_str(pretty=True), encoding="utf-8")
