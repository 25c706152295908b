"""The endpoints: what each address answers.

A request passes four gates, each with its own error: its body (413, 400), its model (404), its length (400), its place
in the queue (429, 503). After the last one it has a RequestGroup, and whatever happens its place is given back.
"""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from .._require import shown
from ..grammar.constraint import Grammar
from ..openai_api.chat import ChatBody
from ..openai_api.completion import CompletionBody
from ..openai_api.reading import parse
from ..openai_api.refusal import Refusal
from ..openai_api.request import Prompt, RequestBody
from ..openai_api.response import AnswerFormat, model_card, model_list
from ..text.chat import chat_template
from ..text.tokenizer import Tokenizer
from ..text.tool_calls import ToolCallFormat
from ..web.disconnect import EventStream, read_body, unless_gone
from ..web.limits import Limits
from .answers import Answers
from .async_engine import AsyncEngine
from .events import events_of
from .grammars import Grammars
from .metrics import CONTENT_TYPE
from .prompt_pool import PromptPool
from .request_group import Busy, NotServing, RequestGroup
from .request_log import RequestRecord

# Characters that are cut in a fraction of a millisecond.
_SHORT = 1024


class Api:
    """The endpoints."""

    def __init__(self, thread: AsyncEngine, tokenizer: Tokenizer, name: str, limits: Limits) -> None:
        self.thread, self.tokenizer, self.name, self.limits = thread, tokenizer, name, limits
        self.config, self.created = thread.engine.model.config, int(time.time())
        self.pool, self.grammars = PromptPool(thread.max_open), Grammars(tokenizer)
        template, ends = chat_template(tokenizer), self.config.eos_token_ids
        with suppress(ValueError):  # what a first prompt would have to wait for, a second where the vocabulary is large
            template.prompt([("user", "?")], tokenizer)
        # What ends an answer, by what is asked for: tokens, and strings.
        self.ends: dict[type[RequestBody], tuple[tuple[int, ...], tuple[str, ...]]] = {
            CompletionBody: (ends, ()),
            ChatBody: ((*ends, *template.end_tokens(tokenizer)), template.stops),
        }

    async def health(self, request: Request) -> Response:
        """Whether the server lives: 200, or 503 once it must be started anew."""
        return JSONResponse({"status": self.thread.state}, 503 if self.thread.state == "broken" else 200)

    async def ready(self, request: Request) -> Response:
        """Whether requests are taken: 200 or 503."""
        return JSONResponse({"status": self.thread.state}, 200 if self.thread.state == "serving" else 503)

    async def metrics(self, request: Request) -> Response:
        """The server's numbers as Prometheus text."""
        return PlainTextResponse(self.thread.metrics.text(), media_type=CONTENT_TYPE)

    async def models(self, request: Request) -> Response:
        """The one model, in a list."""
        return JSONResponse(model_list(self.name, self.created))

    async def model(self, request: Request) -> Response:
        """The one model, by its name."""
        self._check_model(request.path_params["name"])
        return JSONResponse(model_card(self.name, self.created))

    async def complete(self, request: Request) -> Response:
        """Continue texts."""
        return await self._answer(request, CompletionBody)

    async def chat(self, request: Request) -> Response:
        """Answer a conversation."""
        return await self._answer(request, ChatBody)

    async def _answer(self, request: Request, kind: type[RequestBody]) -> Response:
        record = RequestRecord(request.url.path, request.client.host if request.client else None)
        with record.failures():
            deadline = asyncio.get_running_loop().time() + self.limits.max_seconds
            asked = await self._asked(request, kind)
            answers = record.answers = await self._answers(asked, deadline)
            group = await self._submit(asked, answers)
            form = AnswerFormat(self.name, kind is ChatBody, asked.include_usage)
            record.note(id=form.id, stream=bool(asked.stream))
            if asked.stream:
                end = partial(self._end_stream, group, record)
                return EventStream(events_of(answers, group, deadline, form, record), end, deadline)
            try:
                choices = await unless_gone(request.receive, answers.collect(group, deadline))
            finally:
                self.thread.abort(group)
        record.write(200)
        return JSONResponse(form.whole(choices, answers.usage))

    def _end_stream(self, group: RequestGroup, record: RequestRecord) -> None:
        self.thread.abort(group)
        record.write(*record.fields.pop("outcome", (499, "client_gone")))

    async def _asked(self, request: Request, kind: type[RequestBody]) -> RequestBody:
        """Return what is asked, of the model that there is."""
        if self.thread.state != "serving":  # whoever comes now need not send a body first
            raise _not_serving(f"the server is {self.thread.state}")
        body = await read_body(request, self.limits.max_body_bytes, self.limits.receive_seconds)
        asked = parse(kind, body)
        self._check_model(asked.model)
        return asked

    def _check_model(self, name: str) -> None:
        if name != self.name:
            why = f"no model {shown(name)} is served; there is {self.name!r}"
            raise Refusal(404, why, "model", "model_not_found")

    async def _answers(self, asked: RequestBody, deadline: float) -> Answers:
        """Return the answers that are to be given, with nothing in them yet."""
        self._check_length(asked)
        try:
            async with asyncio.timeout_at(deadline):
                work, is_short = partial(self._read, asked), asked.is_plain and self._characters(asked) <= _SHORT
                prompts, grammar, calls = await self.pool.run(work, is_short)
        except Busy as error:
            raise _busy(error) from None
        except TimeoutError:
            raise Refusal(
                503, "the time for one request is over; its prompt was still to be read", code="timeout"
            ) from None
        for prompt in prompts:
            self._check_tokens(prompt, asked)
        end_tokens, stops = self.ends[type(asked)]
        return Answers(asked, self.tokenizer, end_tokens, [*asked.stops, *stops], prompts, grammar, calls)

    def _read(self, asked: RequestBody) -> tuple[list[Prompt], Grammar | None, ToolCallFormat | None]:
        """Return the prompts, what the answers must look like, and how calls do; in the pool's thread."""
        return asked.prompts(self.config, self.tokenizer), self.grammars.of(asked), self.grammars.calls_of(asked)

    @property
    def _most_tokens(self) -> int:
        return min(self.config.max_positions - 1, self.limits.max_prompt_tokens or self.config.max_positions)

    def _check_length(self, asked: RequestBody) -> None:
        """Refuse a text that has too many tokens however it is cut, before anybody cuts it."""
        most = self._most_tokens * self.tokenizer.longest_token
        longest = max(map(len, asked.texts()), default=0)
        if longest > most:
            why = (
                f"the prompt has {longest} characters, and so more than the {self._most_tokens} tokens that are allowed"
            )
            raise Refusal(400, why, asked.text_param, "context_length_exceeded")

    def _characters(self, asked: RequestBody) -> int:
        return sum(map(len, asked.texts()))

    def _check_tokens(self, prompt: Prompt, asked: RequestBody) -> None:
        n, context = len(prompt.ids), self.config.max_positions
        if n > self._most_tokens:
            why = f"the prompt has {n} tokens; at most {self._most_tokens} are allowed, and the context is {context}"
            raise Refusal(400, why, asked.text_param, "context_length_exceeded")

    async def _submit(self, asked: RequestBody, answers: Answers) -> RequestGroup:
        try:
            return await self.thread.submit(self._requests(asked, answers))
        except ValueError as error:
            raise _refused_by_engine(str(error), asked) from None
        except Busy as error:
            raise _busy(error) from None
        except NotServing as error:
            raise _not_serving(str(error)) from None

    def _requests(self, asked: RequestBody, answers: Answers) -> Sequence[dict[str, Any]]:
        """Return the arguments of `Engine.add_request`, one mapping an answer."""
        scheduler = self.thread.engine.scheduler
        positions = min(self.config.max_positions, scheduler.allocator.n_blocks * scheduler.block_size + 1)
        sampling = asked.sampling(self.ends[type(asked)][0])
        prompts = [prompt.ids for prompt in answers.prompts for _ in range(answers.n_choices)]
        return [
            {
                "prompt": prompt,
                "max_new_tokens": asked.most_new_tokens(max(1, positions - len(prompt))),
                "sampling": sampling,
                "seed": seed,
                "stop": stop,
                "grammar": answers.grammar,
                "score_prompt": answers.scores_prompts,
            }
            for prompt, seed, stop in zip(prompts, asked.seeds(len(prompts)), answers.stop_conditions(), strict=True)
        ]


def _refused_by_engine(why: str, asked: RequestBody) -> Refusal:
    """What the engine refuses, in the client's words: its arguments have other names."""
    limit = "max_completion_tokens" if getattr(asked, "max_completion_tokens", None) else "max_tokens"
    code = "context_length_exceeded" if "max_new_tokens" in why else None
    why = why.replace("max_new_tokens", limit).replace("min_new_tokens", "min_tokens")
    param = why.partition(" ")[0]
    return Refusal(400, why, param if param in type(asked).model_fields else asked.text_param, code)


def _busy(error: Busy) -> Refusal:
    return Refusal(429, f"{error}; try again later", code="queue_full", Retry_After="1")


def _not_serving(why: str) -> Refusal:
    return Refusal(503, why, code="not_serving", Retry_After="10")
