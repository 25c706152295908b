"""The command `nanolm serve`: a model behind an OpenAI-compatible endpoint.

The web server is an optional extra, and torch takes seconds to import: both are imported inside the command.
"""

from ipaddress import ip_address
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from .options import (
    BAD_REQUEST,
    MACHINE,
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
    from ..text.tokenizer import Tokenizer


NO_EXTRA = NO_PORT = 1  # exit codes
_NETWORK, _LIMITS = "Network", "Limits"

Model = Annotated[str, typer.Argument(help="The model to serve: a shipped one, a folder, a GGUF file, or smollm2.")]
Name = Annotated[str | None, typer.Option(help="What clients call it; that of its folder or file if left out.")]
Host = Annotated[
    str, typer.Option(help="Where to listen; other machines reach all but 127.0.0.1.", rich_help_panel=_NETWORK)
]
Port = Annotated[int, typer.Option(min=0, max=65_535, help="0 takes a free one.", rich_help_panel=_NETWORK)]
MaxRunning = Annotated[int, typer.Option(help="Requests served at a time.", rich_help_panel=_LIMITS)]
MaxWaiting = Annotated[
    int, typer.Option(min=0, help="Requests that may wait; others get 429.", rich_help_panel=_LIMITS)
]
MaxPrompt = Annotated[
    int | None, typer.Option(help="Tokens of a prompt; the context if left out.", rich_help_panel=_LIMITS)
]
MaxBody = Annotated[int, typer.Option(help="Bytes of a request's body.", rich_help_panel=_LIMITS)]
MaxSeconds = Annotated[float, typer.Option(help="For one request, its wait included.", rich_help_panel=_LIMITS)]
Grace = Annotated[float, typer.Option(help="For requests under way, once told to stop.", rich_help_panel=_LIMITS)]
CacheBytes = Annotated[int, typer.Option(help="Memory for keys and values.", rich_help_panel=MACHINE)]
CacheKind = Annotated[
    Literal["float", "int8", "float8"],
    typer.Option("--kv", "--cache", help="Numbers in that memory.", rich_help_panel=MACHINE),
]


def serve(
    model: Model = "target",
    name: Name = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    max_running: MaxRunning = 32,
    max_waiting: MaxWaiting = 64,
    max_prompt_tokens: MaxPrompt = None,
    max_body_bytes: MaxBody = 2**18,
    max_seconds: MaxSeconds = 120.0,
    grace_seconds: Grace = 10.0,
    draft: Draft = None,
    gamma: Gamma = 4,
    device: Device = "cpu",
    dtype: NumberType = "float32",
    weights: WeightKind = None,
    cache_bytes: CacheBytes = 2**28,
    cache: CacheKind = "float",
) -> None:
    """Serve MODEL over HTTP as OpenAI does: /v1/completions, /v1/chat/completions."""
    server, web_server = _modules()
    with one_line(BAD_REQUEST):
        limits = server.Limits(max_body_bytes, max_prompt_tokens, max_seconds, grace_seconds)
    with one_line(NO_PORT):
        listener = web_server.listen(host, port)
    with listener:
        loaded, tokenizer = load_model(model, device, dtype, weights)
        guesser = _guesser(draft, tokenizer, device, dtype)
        with one_line(BAD_REQUEST):
            from ..engine.engine import Engine
            from ..serving.async_engine import AsyncEngine

            memory = {"cache_bytes": cache_bytes, "cache_kind": cache}
            engine = Engine(loaded, max_running=max_running, draft=guesser, gamma=gamma, **memory)
            thread = AsyncEngine(engine, max_waiting, threads_of(loaded, rows=8))
        name = name or Path(model).resolve().name.removesuffix(".gguf")
        app = server.build_app(thread, tokenizer, name, limits)
        _say_where(name, host, listener.getsockname()[1])
        web_server.WebServer(app, thread, grace_seconds).run(sockets=[listener])


def _modules() -> tuple[ModuleType, ModuleType]:
    """Return the modules of the server, or say how to install what they need."""
    try:
        from ..serving import app as server
        from ..serving import uvicorn_server as web_server
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("nanolm"):
            raise
        how = "pip install -e '.[serve]' -c constraints.txt"
        typer.echo(
            f"nanolm: serve needs the package {error.name}, which is not installed; install it with {how}", err=True
        )
        raise typer.Exit(NO_EXTRA) from None
    return server, web_server


def _guesser(draft: str | None, tokenizer: "Tokenizer", device: str, dtype: str) -> "NanoLM | str | None":
    """Return the draft as the engine wants it."""
    return draft if draft in (None, PROMPT_LOOKUP) else load_draft_model(draft, tokenizer, device, dtype)


def _say_where(name: str, host: str, port: int) -> None:
    shown = f"[{host}]" if ":" in host else host
    typer.echo(f"nanolm: {name} is served at http://{shown}:{port}/v1 until Ctrl-C", err=True)
    if not _is_loopback(host):
        warning = f"{host} may be reached from other machines, and whoever reaches it is served without a password"
        typer.echo(f"nanolm: warning: {warning}", err=True)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
