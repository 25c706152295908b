"""What tests of the server share: a small server inside the test's own event loop, and a gate before every pass."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from starlette.applications import Starlette
from successor_model import byte_tokenizer, successor_model
from tiny_models import tiny_model

from nanolm.engine import Engine
from nanolm.model import NanoLM
from nanolm.serving import AsyncEngine, build_app
from nanolm.text import Tokenizer
from nanolm.web import Access, Limits

ALPHABET = "abcdefghijklmnop é€😀qrstuvwxyz"
PATIENCE_SECONDS = 120  # far beyond what anything takes on a busy machine: a test that waits in vain must end


def random_model(**changes: Any) -> NanoLM:
    """A random model that knows bytes, in float64: its text in a batch is the one it writes alone, to the last bit."""
    return tiny_model(**{"vocab_size": 257, "eos_token_ids": (0,), "max_positions": 128, **changes})


def assert_nothing_left(engine: Engine) -> None:
    """No request, and no block held but by the prefix cache."""
    assert not engine.has_work
    assert engine.scheduler.allocator.n_used == engine.scheduler.prefix.n_blocks


class Gate:
    """Stands before every pass of an engine; closed, it holds the engine's thread there."""

    def __init__(self, engine: Engine) -> None:
        self._open, self._arrived, step = threading.Event(), threading.Event(), engine.step

        def gated() -> Any:
            self._arrived.set()
            assert self._open.wait(PATIENCE_SECONDS), "the gate was never opened"
            return step()

        engine.step = gated

    def open(self) -> None:
        """Let all passes through, from now on."""
        self._open.set()

    async def reached(self) -> None:
        """Wait until the engine stands before a pass."""
        assert await asyncio.to_thread(self._arrived.wait, PATIENCE_SECONDS)


async def until(condition: Any) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(0.005)


@dataclass
class Served:
    """A server under test."""

    client: httpx.AsyncClient
    thread: AsyncEngine
    app: Starlette

    @property
    def engine(self) -> Engine:
        return self.thread.engine

    async def complete(self, prompt: Any, **fields: Any) -> httpx.Response:
        """The answer of /v1/completions; greedy unless said otherwise."""
        body = {"model": "tiny", "prompt": prompt, "temperature": 0, **fields}
        return await self.client.post("/v1/completions", json=body)

    async def chat(self, content: Any, **fields: Any) -> httpx.Response:
        """The answer of /v1/chat/completions to one message of the user."""
        messages = [{"role": "user", "content": content}]
        body = {"model": "tiny", "messages": messages, "temperature": 0, **fields}
        return await self.client.post("/v1/chat/completions", json=body)


@asynccontextmanager
async def serving(
    model: NanoLM | None = None,
    limits: Limits | None = None,
    max_waiting: int = 64,
    tokenizer: Tokenizer | None = None,
    access: Access | None = None,
    **engine_options: Any,
) -> AsyncIterator[Served]:
    """A server in this event loop, without a network; it leaves nothing behind."""
    engine = Engine(model or successor_model(ALPHABET), **{"n_blocks": 64, **engine_options})
    thread = AsyncEngine(engine, max_waiting)
    app = build_app(thread, tokenizer or byte_tokenizer(), "tiny", limits or Limits(grace_seconds=0), access)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        asyncio.timeout(3 * PATIENCE_SECONDS),
        httpx.AsyncClient(transport=transport, base_url="http://test") as client,
    ):
        yield Served(client, thread, app)
    assert thread.state == "closed"
    assert not any(each.name == "nanolm-engine" for each in threading.enumerate()), "the engine's thread lives on"


def events_of(response: httpx.Response) -> list[Any]:
    """What a stream held, piece by piece; its frame is checked."""
    assert response.status_code == 200
    assert response.headers["content-type"].split(";")[0] == "text/event-stream"
    assert response.text.endswith("data: [DONE]\n\n")
    events = response.text.split("\n\n")[:-2]
    assert all(event.startswith("data: ") and "\n" not in event for event in events)
    return [json.loads(event.removeprefix("data: ")) for event in events]


def text_of(events: list[Any], index: int = 0) -> str:
    """The text of one choice of a stream."""
    choices = [choice for event in events for choice in event["choices"] if choice["index"] == index]
    return "".join(choice["text"] if "text" in choice else choice["delta"].get("content", "") for choice in choices)


@dataclass
class AsgiClient:
    """A client at the ASGI interface itself, which can go away: `gone.set()`."""

    app: Starlette
    path: str
    body: dict[str, Any]
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    sent: list[dict[str, Any]] = field(default_factory=list)
    _asked: bool = False

    async def receive(self) -> dict[str, Any]:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": json.dumps(self.body).encode(), "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    async def ask(self) -> None:
        """Send the request and take the answer, to its end or until this client goes away."""
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": "POST",
            "path": self.path,
            "raw_path": self.path.encode(),
            "root_path": "",
            "scheme": "http",
            "query_string": b"",
            "headers": [],
            "client": ("test", 1),
            "server": ("test", 80),
        }
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self.app(scope, self.receive, self.send)
