"""The answers to one request of a client: their texts put together while the engine's outputs come in."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from ..engine.request import Output
from ..grammar.constraint import GAVE_UP, Grammar
from ..openai_api.chat import ChatBody
from ..openai_api.logprobs import LogprobFormat
from ..openai_api.refusal import Refusal
from ..openai_api.request import Prompt, RequestBody
from ..openai_api.response import Choice, Usage
from ..sampling.logprobs import TokenLogprob
from ..text.detokenizer import IncrementalDetokenizer
from ..text.tokenizer import Tokenizer
from ..text.tool_calls import ToolCallFormat
from .call_reader import CallReader
from .request_group import RequestGroup

Stop = Callable[[list[int]], bool] | None
Scored = tuple[int, list[TokenLogprob]] | None


@dataclass
class Answer:
    """One answer.

    Attributes:
        stream: makes text of its tokens.
        opening: what stands before it: the prompt, where that is echoed.
        logprobs: of its tokens, where somebody asked.
        watcher: as `stream`, in the engine's thread, where stop strings are to be found: so the request ends with the
            very token that completes one, and no pass is spent on what nobody will see.
        calls: reads the calls of tools that it may be; None where nothing may be called.
        has_called: whether a call has begun.
        reason: why it ended, None while it goes on.
        metrics: its times, once it has ended.
    """

    stream: IncrementalDetokenizer
    opening: str = ""
    logprobs: LogprobFormat | None = None
    watcher: IncrementalDetokenizer | None = None
    calls: CallReader | None = None
    has_called: bool = False
    reason: str | None = None
    metrics: Any = None
    parts: list[Choice] = field(default_factory=list)

    def take(self, output: Output, scored: Scored = None) -> Choice:
        """Return what an output adds.

        Args:
            scored: the prompt's first token and the others' log-probabilities, for the first output of an echo.
        """
        text, self.opening = self.opening + self.stream.push(output.tokens), ""
        parts = []
        if self.logprobs and scored is not None:
            parts.append(self.logprobs.of_prompt(*scored))
        if self.logprobs and output.logprobs:
            parts.append(self.logprobs.of(output.logprobs))
        shown = self.logprobs.joined(parts) if self.logprobs and parts else None
        if output.finish_reason is not None:
            self.metrics = output.metrics
            return self._end(text, output.finish_reason, shown)
        text, calls = self.calls.push(text) if self.calls else (text, [])
        return self._part(Choice(text, None, shown, calls))

    def cut(self) -> Choice:
        """End it where it is, as a limit of tokens would."""
        return self._end(self.opening, "length", None)

    def _end(self, text: str, reason: str, logprobs: dict[str, Any] | None) -> Choice:
        self.opening, text = "", text + self.stream.rest()
        text, calls = self.calls.end(text) if self.calls else (text, [])
        part = self._part(Choice(text, None, logprobs, calls))
        part.reason = self.reason = "tool_calls" if self.has_called and reason == "stop" else reason
        return part

    def _part(self, choice: Choice) -> Choice:
        self.has_called = self.has_called or bool(choice.calls)
        return choice


class Answers:
    """As many answers as were asked for: to each prompt n, one prompt after the other.

    Args:
        end_tokens: ids that end an answer and are no part of it.
        stops: strings that do, those that were asked for among them.
        grammar: what they must look like; None: anything.
        calls: how calls of tools look, where they may be called.
    """

    def __init__(
        self,
        asked: RequestBody,
        tokenizer: Tokenizer,
        end_tokens: Sequence[int],
        stops: Sequence[str],
        prompts: Sequence[Prompt],
        grammar: Grammar | None = None,
        calls: ToolCallFormat | None = None,
    ) -> None:
        self.prompts, self.n_choices, self.grammar = prompts, asked.n_choices, grammar
        self._writes_nothing = asked.writes_nothing
        self.scores_prompts = asked.echoes and asked.n_logprobs is not None
        self._prompt_logprobs: dict[int, list[TokenLogprob]] = {}
        chat = isinstance(asked, ChatBody)
        self.answers: list[Answer] = []
        spelled = tokenizer.special_in(calls.spelled) if calls else None
        for prompt in prompts:
            new = partial(IncrementalDetokenizer, tokenizer, end_tokens, stops, chat, prompt.ids, spelled)
            opening = _text_of(prompt, tokenizer) if asked.echoes else ""
            for _ in range(asked.n_choices):
                wanted = asked.n_logprobs is not None
                # Who scores a prompt counts on one entry for each token that was run or written, the last one too.
                hidden = () if self.scores_prompts else end_tokens
                logprobs = LogprobFormat(tokenizer, chat, hidden) if wanted else None
                reader = CallReader(calls) if calls else None
                self.answers.append(Answer(new(), opening, logprobs, new() if stops else None, reader))

    @property
    def are_complete(self) -> bool:
        """Whether every answer has ended."""
        return all(answer.reason is not None for answer in self.answers)

    @property
    def usage(self) -> Usage:
        """The tokens so far."""
        first = self.answers[:: self.n_choices]
        return Usage(
            sum(len(prompt.ids) for prompt in self.prompts),
            sum(answer.stream.n_tokens for answer in self.answers),
            sum(answer.metrics.n_prefix_tokens for answer in first if answer.metrics is not None),
        )

    def stop_conditions(self) -> Iterator[Stop]:
        """Yield for each answer what tells the engine that it is over; None without stop strings."""
        for answer in self.answers:
            yield None if answer.watcher is None else answer.watcher.stops_at

    async def next(self, group: RequestGroup, deadline: float | None = None) -> tuple[int, Choice]:
        """Wait for the next output; return which answer it belongs to, and what it adds, which may be nothing.

        Once the deadline is over, what there is is the answer, with the reason "length".

        Raises:
            Refusal: the deadline, a time of the loop's clock, has passed, and nothing has been written; or the engine
                has given the request up.
        """
        try:
            index, output = await group.next(deadline)
        except TimeoutError:
            return self._cut()
        _check(output)
        if self._writes_nothing:
            output = replace(output, tokens=[], logprobs=None, finish_reason="length")
        return index, self.answers[index].take(output, self._scored(index, output))

    def _scored(self, index: int, output: Output) -> Scored:
        """Return what is known of an answer's prompt, with its first output; the first answer to it brings that."""
        answer, prompt = self.answers[index], index // self.n_choices
        if output.prompt_logprobs is not None:
            self._prompt_logprobs[prompt] = output.prompt_logprobs
        if not self.scores_prompts or answer.stream.n_tokens or prompt not in self._prompt_logprobs:
            return None
        return self.prompts[prompt].ids[0], self._prompt_logprobs[prompt]

    async def collect(self, group: RequestGroup, deadline: float | None = None) -> list[Choice]:
        """Return the whole answers, once all have ended; raise what `next` raises."""
        while not self.are_complete:
            index, choice = await self.next(group, deadline)
            self.answers[index].parts.append(choice)
        return [_joined(answer) for answer in self.answers]

    def _cut(self) -> tuple[int, Choice]:
        if not self.usage.n_new:
            why = "the time for one request is over; it was ended after 0 tokens"
            raise Refusal(503, why, code="timeout", x_should_retry="false")
        index = next(i for i, answer in enumerate(self.answers) if answer.reason is None)
        return index, self.answers[index].cut()


def _joined(answer: Answer) -> Choice:
    logprobs = None
    if answer.logprobs:
        logprobs = answer.logprobs.joined([part.logprobs for part in answer.parts if part.logprobs])
    calls = [call for part in answer.parts for call in part.calls]
    return Choice("".join(part.text for part in answer.parts), answer.reason, logprobs, calls)


def _text_of(prompt: Prompt, tokenizer: Tokenizer) -> str:
    return tokenizer.decode(prompt.ids) if prompt.text is None else prompt.text


def _check(output: Output) -> None:
    if output.finish_reason == "error" and (output.error or "").startswith(GAVE_UP):
        raise Refusal(400, output.error or "", "response_format", "grammar_too_complex")
    if output.finish_reason == "error":
        raise Refusal(500, output.error or "the engine gave the request up", code="engine_error")
    if output.finish_reason == "abort":
        raise Refusal(503, output.error or "the request was called off", code="aborted", Retry_After="10")
