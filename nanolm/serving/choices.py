"""The answers to one request of a client: their texts put together while the engine's outputs come in."""

from collections.abc import Callable, Sequence
from functools import partial

from ..engine.request import Output
from ..text.detokenizer import IncrementalDetokenizer
from ..text.tokenizer import Tokenizer
from .openai_request import ChatBody, Refusal, Request
from .request_group import RequestGroup


class Choices:
    """As many answers as were asked for, all to the same prompt.

    Args:
        end_tokens: ids that end an answer and are no part of it.
        stops: strings that do, those that were asked for among them.
        prompt: the tokens that all of them follow.

    Attributes:
        reasons: why each has ended, "stop" or "length"; None while it goes on.
    """

    def __init__(
        self,
        asked: Request,
        tokenizer: Tokenizer,
        end_tokens: Sequence[int],
        stops: Sequence[str],
        prompt: Sequence[int] = (),
    ) -> None:
        new = partial(IncrementalDetokenizer, tokenizer, end_tokens, stops, isinstance(asked, ChatBody), prompt)
        self._streams = [new() for _ in range(asked.n_choices)]
        # The engine's thread searches for the stop strings too, with streams of its own: so a request ends with the
        # very token that completes one, and no pass is spent on what nobody will see.
        self._watchers = [new() for _ in self._streams] if stops else []
        self.reasons: list[str | None] = [None] * len(self._streams)

    @property
    def n_tokens(self) -> int:
        """Tokens written so far, in all answers together."""
        return sum(stream.n_tokens for stream in self._streams)

    @property
    def are_complete(self) -> bool:
        """Whether every answer has ended."""
        return None not in self.reasons

    def stop_conditions(self) -> list[Callable[[list[int]], bool] | None]:
        """Return for each answer what tells the engine that it is over; None without stop strings."""
        return [watcher.stops_at for watcher in self._watchers] or [None] * len(self._streams)

    async def next(self, group: RequestGroup, deadline: float | None = None) -> tuple[int, str]:
        """Wait for the next output; return which answer it belongs to, and the text that it adds, which may be empty.

        Raises:
            Refusal: the deadline, a time of the loop's clock, has passed; or the engine has given the request up.
        """
        try:
            index, output = await group.next(deadline)
        except TimeoutError:
            why = f"the time for one request is over; it was ended after {self.n_tokens} tokens"
            raise Refusal(503, why, code="timeout", x_should_retry="false") from None
        _check(output)
        text = self._streams[index].push(output.tokens)
        if output.finish_reason is not None:
            self.reasons[index] = output.finish_reason
            text += self._streams[index].rest()
        return index, text

    async def collect(self, group: RequestGroup, deadline: float | None = None) -> list[str]:
        """Return the whole texts, once all have ended; raise what `next` raises."""
        texts = [""] * len(self._streams)
        while not self.are_complete:
            index, text = await self.next(group, deadline)
            texts[index] += text
        return texts


def _check(output: Output) -> None:
    if output.finish_reason == "error":
        raise Refusal(500, output.error or "the engine gave the request up", code="engine_error")
    if output.finish_reason == "abort":
        raise Refusal(503, output.error or "the request was called off", code="aborted", Retry_After="10")
