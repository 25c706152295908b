"""The command `nanolm serve`: a model behind an OpenAI-compatible endpoint.

The web server is an optional extra, and torch takes seconds to import: both are imported inside the command.
"""

from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from .._require import how_to_install
from . import serve_options as of
from .options import (
    BAD_REQUEST,
    PROMPT_LOOKUP,
    Device,
    Draft,
    Gamma,
    NumberType,
    WeightKind,
    load_draft_model,
    load_model,
    one_line,
    threads_of,
)

if TYPE_CHECKING:
    from ..model.decoder import NanoLM
    from ..serving.async_engine import AsyncEngine
    from ..text.tokenizer import Tokenizer
    from ..watching.feed import Feed

NO_EXTRA = NO_PORT = NO_RECORD = 1  # exit codes


def serve(
    model: of.Model = "target",
    name: of.Name = None,
    log_requests: of.LogRequests = False,
    watch: of.Watch = False,
    record: of.Record = None,
    host: of.Host = "127.0.0.1",
    port: of.Port = 8000,
    api_key: of.ApiKey = None,
    cors: of.Cors = None,
    allowed_host: of.AllowedHost = None,
    max_running: of.MaxRunning = 32,
    max_waiting: of.MaxWaiting = 64,
    max_prompt_tokens: of.MaxPrompt = None,
    max_body_bytes: of.MaxBody = 2**18,
    max_seconds: of.MaxSeconds = 120.0,
    grace_seconds: of.Grace = 10.0,
    max_connections: of.MaxConnections = 512,
    receive_seconds: of.ReceiveSeconds = 20.0,
    max_tokens_per_step: of.MaxTokens = 512,
    block_size: of.BlockSize = 16,
    cache_bytes: of.CacheBytes = 2**28,
    cache: of.CacheKind = "float",
    prefix_cache: of.PrefixCache = True,
    host_blocks: of.HostBlocks = 0,
    reserve: of.Reserve = 0.25,
    max_overtakes: of.MaxOvertakes = 4,
    draft: Draft = None,
    gamma: Gamma = 4,
    adaptive: of.Adaptive = True,
    device: Device = "cpu",
    dtype: NumberType = "float32",
    weights: WeightKind = None,
) -> None:
    """Serve MODEL over HTTP as OpenAI does: /v1/completions, /v1/chat/completions."""
    _check_extra()
    from ..web.access import Access, hosts_of
    from ..web.limits import Limits
    from ..web.uvicorn_server import WebServer, listen

    with one_line(BAD_REQUEST):
        limits = Limits(max_body_bytes, max_prompt_tokens, max_seconds, grace_seconds, max_connections, receive_seconds)
        access = Access(hosts_of(host, tuple(allowed_host or ())), tuple(cors or ()), api_key)
    with one_line(NO_PORT):
        listener = listen(host, port)
    with listener:
        loaded, tokenizer = load_model(model, device, dtype, weights)
        thread = _engine(
            loaded,
            max_waiting,
            max_running=max_running,
            max_tokens_per_step=max_tokens_per_step,
            block_size=block_size,
            cache_bytes=cache_bytes,
            cache_kind=cache,
            prefix_cache=prefix_cache,
            host_blocks=host_blocks,
            reserve=reserve,
            max_overtakes=max_overtakes,
            draft=_guesser(draft, tokenizer, device, dtype),
            gamma=gamma,
            adaptive=adaptive,
        )
        name = name or Path(model).resolve().name.removesuffix(".gguf")
        from ..serving.app import build_app
        from ..serving.request_log import log_requests as begin_to_log

        feed = _feed(thread, tokenizer, name, watch, record)
        app = build_app(thread, tokenizer, name, limits, access, feed)
        if log_requests:
            begin_to_log()
        say_where = partial(_say_where, name, host, listener.getsockname()[1], api_key is not None)
        try:
            WebServer(app, lambda: thread.drain(grace_seconds), limits, say_where).run(sockets=[listener])
        finally:
            if record is not None and feed.recording is not None:
                with one_line(NO_RECORD):
                    feed.recording.save(record)


def _check_extra() -> None:
    """Say how to install what the server needs, if it is not there."""
    try:
        from ..serving import app  # noqa: F401
        from ..web import uvicorn_server  # noqa: F401
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("nanolm"):
            raise
        why = f"serve needs the package {error.name}, which is not installed"
        typer.echo(f"nanolm: {why}; install it with {how_to_install('serve')}", err=True)
        raise typer.Exit(NO_EXTRA) from None


def _engine(model: "NanoLM", max_waiting: int, **options: Any) -> "AsyncEngine":
    with one_line(BAD_REQUEST):
        from ..engine.engine import Engine
        from ..serving.async_engine import AsyncEngine

        return AsyncEngine(Engine(model, **options), max_waiting, threads_of(model, rows=8))


def _feed(thread: "AsyncEngine", tokenizer: "Tokenizer", name: str, watch: bool, record: Path | None) -> "Feed":
    """Return what watchers see; a file that cannot be written ends the command before anything is served."""
    from ..watching.camera import words_of
    from ..watching.feed import Feed
    from ..watching.recording import Recording

    recording = None if record is None else Recording(f"{name}, served")
    if record is not None and recording is not None:
        with one_line(NO_RECORD):
            recording.save(record)
    return Feed(thread.engine, thread.call, words_of(tokenizer) if watch else None, recording)


def _guesser(draft: str | None, tokenizer: "Tokenizer", device: str, dtype: str) -> "NanoLM | str | None":
    """Return the draft as the engine wants it."""
    return draft if draft in (None, PROMPT_LOOKUP) else load_draft_model(draft, tokenizer, device, dtype)


def _say_where(name: str, host: str, port: int, has_key: bool) -> None:
    from ..web.access import is_loopback

    shown = f"[{host}]" if ":" in host else host
    lines = [f"{name} is served at http://{shown}:{port}/v1 until Ctrl-C, and to be watched at /"]
    if not is_loopback(host):
        who = "without encryption" if has_key else "without a password; --api-key asks for one"
        lines.append(f"warning: {host} may be reached from other machines, and whoever reaches it is served {who}")
    for line in lines:
        with suppress(OSError):  # a log on a full disk stops no server
            typer.echo(f"nanolm: {line}", err=True)
