"""An OpenAI-compatible HTTP endpoint over the engine: routes, limits, and what becomes of a client that goes away.

A request passes four gates, each with its own error: its body (413, 400), its model (404), its length (400), its place
in the queue (429, 503). After the last one it has a RequestGroup, and whatever happens its place is given back.

It is for one machine and trusted clients: no passwords, no encryption, one model.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from .._require import require_count, require_not_negative, require_positive
from ..text.chat import chat_template
from ..text.tokenizer import Tokenizer
from . import openai_request
from .async_engine import AsyncEngine
from .choices import Choices
from .disconnect import EventStream, unless_gone
from .openai_request import ChatBody, CompletionBody, Refusal, parse
from .openai_response import DONE, AnswerFormat, event, model_list, usage
from .request_group import Busy, NotServing, RequestGroup


@dataclass(frozen=True)
class Limits:
    """What one request may take.

    Attributes:
        max_body_bytes: of the request.
        max_prompt_tokens: None leaves it at the model's context.
        max_seconds: from its first byte to its last token.
        grace_seconds: for requests under way when the server is told to stop.

    Raises:
        ValueError: a number that is none, or too small.
    """

    max_body_bytes: int = 2**18
    max_prompt_tokens: int | None = None
    max_seconds: float = 120.0
    grace_seconds: float = 10.0

    def __post_init__(self) -> None:
        require_count(1, max_body_bytes=self.max_body_bytes)
        if self.max_prompt_tokens is not None:
            require_count(1, max_prompt_tokens=self.max_prompt_tokens)
        require_positive(max_seconds=self.max_seconds)
        require_not_negative(grace_seconds=self.grace_seconds)


def build_app(thread: AsyncEngine, tokenizer: Tokenizer, name: str, limits: Limits | None = None) -> Starlette:
    """Return the ASGI application that serves one model under a name; it starts and closes the thread."""
    limits = limits or Limits()
    api = Api(thread, tokenizer, name, limits)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        thread.start()
        try:
            yield
        finally:
            await thread.close(limits.grace_seconds)

    return Starlette(
        routes=[
            Route("/health", api.health),
            Route("/metrics", api.metrics),
            Route("/v1/models", api.models),
            Route("/v1/completions", api.complete, methods=["POST"]),
            Route("/v1/chat/completions", api.chat, methods=["POST"]),
        ],
        # Starlette's type has every handler take any Exception, though it hands each its own kind.
        exception_handlers={  # pyright: ignore[reportArgumentType]
            Refusal: _refused,
            HTTPException: _no_route,
            ClientDisconnect: _gone,
            Exception: _failed,
        },
        lifespan=lifespan,
    )


class Api:
    """The endpoints."""

    def __init__(self, thread: AsyncEngine, tokenizer: Tokenizer, name: str, limits: Limits) -> None:
        self.thread, self.tokenizer, self.name, self.limits = thread, tokenizer, name, limits
        self.config, self.created = thread.engine.model.config, int(time.time())
        template, ends = chat_template(tokenizer), self.config.eos_token_ids
        # What ends an answer, by what is asked for: tokens, and strings.
        self.ends: dict[type[openai_request.Request], tuple[tuple[int, ...], tuple[str, ...]]] = {
            CompletionBody: (ends, ()),
            ChatBody: ((*ends, *template.end_tokens(tokenizer)), template.stops),
        }

    async def health(self, request: Request) -> Response:
        """Whether requests are taken: 200 or 503."""
        state = self.thread.state
        return JSONResponse({"status": state}, 200 if state == "serving" else 503)

    async def metrics(self, request: Request) -> Response:
        """The engine's numbers as Prometheus text."""
        text = self.thread.counters.text(self.thread.gauges())
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    async def models(self, request: Request) -> Response:
        """The one model."""
        return JSONResponse(model_list(self.name, self.created))

    async def complete(self, request: Request) -> Response:
        """Continue a text."""
        return await self._answer(request, CompletionBody)

    async def chat(self, request: Request) -> Response:
        """Answer a conversation."""
        return await self._answer(request, ChatBody)

    async def _answer(self, request: Request, kind: type[openai_request.Body]) -> Response:
        deadline = asyncio.get_running_loop().time() + self.limits.max_seconds
        asked = parse(kind, await self._body(request, deadline))
        if asked.model != self.name:
            why = f"no model {asked.model[:100]!r} is served; there is {self.name!r}"
            raise Refusal(404, why, "model", "model_not_found")
        prompt = await self._prompt(asked)
        end_tokens, stops = self.ends[kind]
        answers = Choices(asked, self.tokenizer, end_tokens, [*asked.stops, *stops], prompt)
        group = await self._submit(asked, prompt, answers)
        form = AnswerFormat(self.name, kind is ChatBody, asked.include_usage)
        if asked.stream:
            events = _events(answers, group, deadline, form, len(prompt))
            return EventStream(events, partial(self.thread.abort, group), deadline)
        try:
            texts = await unless_gone(request.receive, answers.collect(group, deadline))
        finally:
            self.thread.abort(group)
        return JSONResponse(form.whole(texts, answers.reasons, usage(len(prompt), answers.n_tokens)))

    async def _body(self, request: Request, deadline: float) -> bytes:
        """Return the body, no more than is allowed of it being read."""
        body, most = bytearray(), self.limits.max_body_bytes
        too_large = Refusal(413, f"the body has more than {most} bytes, which is the most", code="body_too_large")
        said = request.headers.get("content-length", "")
        if said.isdecimal() and int(said) > most:
            raise too_large
        try:
            async with asyncio.timeout_at(deadline):
                async for chunk in request.stream():
                    body += chunk
                    if len(body) > most:
                        raise too_large
        except TimeoutError:
            raise Refusal(408, f"the body did not come within {self.limits.max_seconds:g} seconds") from None
        return bytes(body)

    async def _prompt(self, asked: openai_request.Request) -> list[int]:
        """Return the prompt's tokens, if it is short enough."""
        # In a thread: a text as long as a body may be takes half a second.
        prompt = await asyncio.to_thread(asked.prompt_ids, self.config, self.tokenizer)
        context = self.config.max_positions
        most = min(context - 1, self.limits.max_prompt_tokens or context)
        if len(prompt) > most:
            why = f"the prompt has {len(prompt)} tokens; at most {most} are allowed, and the context is {context}"
            raise Refusal(400, why, asked.text_param, "context_length_exceeded")
        return prompt

    async def _submit(self, asked: openai_request.Request, prompt: list[int], answers: Choices) -> RequestGroup:
        engine = self.thread.engine
        positions = engine.scheduler.allocator.n_blocks * engine.scheduler.block_size
        room = max(1, min(self.config.max_positions, positions + 1) - len(prompt))
        sampling = replace(asked.sampling(), end_tokens=self.ends[type(asked)][0])
        common = {"prompt": prompt, "max_new_tokens": asked.max_new_tokens(room), "sampling": sampling}
        requests = [
            {**common, "seed": seed, "stop": stop}
            for seed, stop in zip(asked.seeds(), answers.stop_conditions(), strict=True)
        ]
        try:
            return await self.thread.submit(requests)
        except ValueError as error:
            code = "context_length_exceeded" if "max_new_tokens" in str(error) else None
            raise Refusal(400, str(error), asked.text_param, code) from None
        except Busy as error:
            raise Refusal(429, f"{error}; try again later", code="queue_full", Retry_After="1") from None
        except NotServing as error:
            raise Refusal(503, str(error), code="not_serving", Retry_After="10") from None


async def _events(
    answers: Choices, group: RequestGroup, deadline: float, form: AnswerFormat, n_prompt_tokens: int
) -> AsyncGenerator[str, None]:
    """Yield the answers as server-sent events; what goes wrong on the way is the last of them."""
    try:
        for index in range(len(answers.reasons) if form.chat else 0):
            yield event(form.opening(index))
        while not answers.are_complete:
            index, text = await answers.next(group, deadline)
            if text:
                yield event(form.piece(index, text))
            if (reason := answers.reasons[index]) is not None:
                yield event(form.ending(index, reason))
    except Refusal as error:
        yield event(error.body())
        return
    if form.counted:
        yield event(form.closing(usage(n_prompt_tokens, answers.n_tokens)))
    yield DONE


async def _refused(request: Request, error: Refusal) -> Response:
    return JSONResponse(error.body(), error.status, error.headers)


async def _no_route(request: Request, error: HTTPException) -> Response:
    """There is no such address, or not for this method."""
    refusal = Refusal(error.status_code, f"{request.method} {request.url.path}: {error.detail}", code="no_such_route")
    return JSONResponse(refusal.body(), error.status_code, error.headers)


async def _gone(request: Request, error: ClientDisconnect) -> Response:
    return Response(status_code=499)  # nobody reads it


async def _failed(request: Request, error: Exception) -> Response:
    """A mistake of the server's own; the traceback goes to the log."""
    return JSONResponse(Refusal(500, "the server failed; its log says more", code="internal_error").body(), 500)
