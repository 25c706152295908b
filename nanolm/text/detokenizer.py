"""Between text and tokens, one request at a time: the prompt's tokens, and the answer's text while it comes.

Stop strings are searched in the text, not among the tokens: the same words can be cut into tokens in many ways.
"""

from collections.abc import Mapping, Sequence

from ..config import ModelConfig
from .tokenizer import Tokenizer


def after_start(ids: Sequence[int], config: ModelConfig) -> list[int]:
    """Return a text's tokens behind the start token, where the model has one: so began all it was trained on."""
    start = config.bos_token_id
    return [*([] if start is None else [start]), *ids]


class IncrementalDetokenizer:
    """One answer's text, as far as it can be shown.

    Two things wait before they are shown: bytes until they make a character, and an end that may be the beginning of a
    stop string. What is shown does not depend on where tokens begin: of two stop strings the one that is complete
    first ends the text, and if one character completes both, the longer.

    Args:
        end_tokens: ids that are no part of the text.
        stops: strings that end the text and are never shown, none of them empty.
        skip_space: leave out spaces at the very beginning.
        after: the prompt's tokens, as for `Tokenizer.decoder`: the space between it and the answer is the answer's.
        spelled: special tokens that are part of the text all the same, and how.

    Attributes:
        n_tokens: tokens given so far, none after the one that completed a stop string.
        stopped: whether a stop string has come.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        end_tokens: Sequence[int] = (),
        stops: Sequence[str] = (),
        skip_space: bool = False,
        after: Sequence[int] = (),
        spelled: Mapping[int, str] | None = None,
    ) -> None:
        self._spelled = spelled or {}
        self._decode, self._end_tokens, self._stops = tokenizer.decoder(after), end_tokens, stops
        self._held, self._skip_space = "", skip_space
        self.n_tokens, self.stopped = 0, False

    def push(self, tokens: Sequence[int]) -> str:
        """Take the next tokens; return the text that can be shown now."""
        shown = ""
        for token in tokens:
            if self.stopped:
                break
            self.n_tokens += 1
            if token not in self._end_tokens:
                self._held += self._spelled[token] if token in self._spelled else self._decode(token)
                shown += self._release()
        return self._without_space(shown)

    def rest(self) -> str:
        """Return what was held back, once it is known that nothing follows; bytes of no character are left out."""
        rest, self._held = self._held, ""
        return self._without_space(rest)

    def stops_at(self, tokens: Sequence[int]) -> bool:
        """Whether the answer is over with these tokens: a stop condition for `Engine.add_request`.

        Args:
            tokens: all of the answer so far; those that earlier calls have seen are skipped.
        """
        self.push(tokens[self.n_tokens :])
        return self.stopped

    def _release(self) -> str:
        """Take from the held text what no stop string can begin in any more."""
        ends = [(at + len(stop), at) for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if ends:
            self.stopped = True
            shown, self._held = self._held[: min(ends)[1]], ""
            return shown
        n_kept = max((overlap(self._held, stop) for stop in self._stops), default=0)
        cut = len(self._held) - n_kept
        shown, self._held = self._held[:cut], self._held[cut:]
        return shown

    def _without_space(self, text: str) -> str:
        if self._skip_space:
            text = text.lstrip(" ")
            self._skip_space = not text
        return text


def overlap(text: str, stop: str) -> int:
    """Return how many characters at the end of text are the beginning of the stop string, but not all of it."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
