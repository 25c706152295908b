"""Log-probabilities as OpenAI's two endpoints show them: one list an aspect, or one object a token."""

from collections.abc import Sequence
from typing import Any

from ..sampling.logprobs import TokenLogprob
from ..text.token_bytes import bytes_of
from ..text.tokenizer import Tokenizer


class LogprobFormat:
    """The log-probabilities of one answer, as it comes.

    Args:
        chat: whether it answers a conversation.
        hidden: tokens that are no part of the text: the one that ends it has no place in the list.
        offset: characters before the answer, as a completion counts them: those of a prompt that is echoed.
    """

    def __init__(self, tokenizer: Tokenizer, chat: bool, hidden: Sequence[int], offset: int = 0) -> None:
        self.tokenizer, self.chat, self.hidden, self._offset = tokenizer, chat, set(hidden), offset
        self._special = set(tokenizer.special_texts)  # no part of the text

    def of(self, records: Sequence[TokenLogprob]) -> dict[str, Any]:
        """Return what is shown of the next tokens."""
        seen = [record for record in records if record.token not in self.hidden]
        return {"content": [self._object(record) for record in seen]} if self.chat else self._lists(seen)

    def of_prompt(self, first: int, records: Sequence[TokenLogprob]) -> dict[str, Any]:
        """Return what is shown of a prompt that is echoed; its first token follows nothing, and has no probability.

        Args:
            records: of the tokens behind the first.
        """
        shown = self._lists([TokenLogprob(first, 0.0, []), *records])
        shown["token_logprobs"][0] = shown["top_logprobs"][0] = None
        return shown

    def joined(self, parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return what is shown of a whole answer, from what `of` gave for its parts."""
        empty = self.of([])
        return {name: [each for part in parts for each in part[name]] for name in empty}

    def _object(self, record: TokenLogprob) -> dict[str, Any]:
        top = [self._entry(token, logprob) for token, logprob in record.top]
        return {**self._entry(record.token, record.logprob), "top_logprobs": top}

    def _entry(self, token: int, logprob: float) -> dict[str, Any]:
        spelled = bytes_of(token, self.tokenizer)
        return {"token": spelled.decode(errors="replace"), "logprob": _finite(logprob), "bytes": list(spelled)}

    def _lists(self, records: Sequence[TokenLogprob]) -> dict[str, Any]:
        texts = [self._text(record.token) for record in records]
        offsets = []
        for text in texts:
            offsets.append(self._offset)
            self._offset += 0 if text in self._special else len(text)
        return {
            "tokens": texts,
            "token_logprobs": [_finite(record.logprob) for record in records],
            "top_logprobs": [{self._text(token): _finite(p) for token, p in record.top} for record in records],
            "text_offset": offsets,
        }

    def _text(self, token: int) -> str:
        """A token's text; of one that is no text the bytes, as OpenAI writes them, so that no two look alike."""
        spelled = bytes_of(token, self.tokenizer)
        try:
            return spelled.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in spelled)


def _finite(logprob: float) -> float:
    """A log-probability as JSON can hold it: -inf is what nobody will ever see come."""
    return max(logprob, -9999.0)
