"""The options of `nanolm serve`, by what they are about."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from .options import SPECULATION

NETWORK, ACCESS, LIMITS, CACHE = "Network", "Access", "Limits", "Batching and cache"

Model = Annotated[str, typer.Argument(help="The model to serve: a shipped one, a folder, a GGUF file, or smollm2.")]
Name = Annotated[str | None, typer.Option(help="What clients call it; that of its folder or file if left out.")]
LogRequests = Annotated[
    bool, typer.Option("--log-requests", help="Write a line of JSON for each request, without its texts, to stdout.")
]
Watch = Annotated[
    bool,
    typer.Option("--watch", help="Show everybody's texts to whoever opens /, and let them stop or slow the engine."),
]
Record = Annotated[
    Path | None,
    typer.Option(dir_okay=False, help="Write the run to this JSON file in the end; texts only with --watch."),
]

Host = Annotated[
    str, typer.Option(help="Where to listen; other machines reach all but 127.0.0.1.", rich_help_panel=NETWORK)
]
Port = Annotated[int, typer.Option(min=0, max=65_535, help="0 takes a free one.", rich_help_panel=NETWORK)]

ApiKey = Annotated[
    str | None,
    typer.Option(
        envvar="NANOLM_API_KEY",
        show_envvar=True,
        help="What clients must send as a bearer token. In the environment other users do not see it.",
        rich_help_panel=ACCESS,
    ),
]
Cors = Annotated[
    list[str] | None,
    typer.Option(
        help="A web page's origin that may ask, as https://example.org; may be repeated.", rich_help_panel=ACCESS
    ),
]
AllowedHost = Annotated[
    list[str] | None,
    typer.Option(help="A further name that clients may call this server by; may be repeated.", rich_help_panel=ACCESS),
]

MaxRunning = Annotated[int, typer.Option(help="Requests served at a time.", rich_help_panel=LIMITS)]
MaxWaiting = Annotated[int, typer.Option(min=0, help="Requests that may wait; others get 429.", rich_help_panel=LIMITS)]
MaxPrompt = Annotated[
    int | None, typer.Option(help="Tokens of a prompt; the context if left out.", rich_help_panel=LIMITS)
]
MaxBody = Annotated[int, typer.Option(help="Bytes of a request's body.", rich_help_panel=LIMITS)]
MaxSeconds = Annotated[float, typer.Option(help="For one request, its wait included.", rich_help_panel=LIMITS)]
Grace = Annotated[float, typer.Option(help="For requests under way, once told to stop.", rich_help_panel=LIMITS)]
MaxConnections = Annotated[int, typer.Option(help="Connections at a time.", rich_help_panel=LIMITS)]
ReceiveSeconds = Annotated[
    float, typer.Option(help="For the headers of a request, and again for its body.", rich_help_panel=LIMITS)
]

MaxTokens = Annotated[
    int,
    typer.Option("--max-tokens-per-step", help="Tokens a pass; longer prompts run in chunks.", rich_help_panel=CACHE),
]
BlockSize = Annotated[int, typer.Option(help="Positions a block of the cache.", rich_help_panel=CACHE)]
CacheBytes = Annotated[int, typer.Option(help="Memory for keys and values.", rich_help_panel=CACHE)]
CacheKind = Annotated[
    Literal["float", "int8", "float8"],
    typer.Option("--kv", "--cache", help="Numbers in that memory.", rich_help_panel=CACHE),
]
PrefixCache = Annotated[bool, typer.Option(help="Compute equal beginnings of prompts once.", rich_help_panel=CACHE)]
HostBlocks = Annotated[
    int, typer.Option(min=0, help="Blocks of CPU memory for what the prefix cache evicts.", rich_help_panel=CACHE)
]
Reserve = Annotated[
    float, typer.Option(help="Share of blocks kept free for the answers of those who run.", rich_help_panel=CACHE)
]
MaxOvertakes = Annotated[
    int, typer.Option(min=0, help="Short requests that may go before one that waits.", rich_help_panel=CACHE)
]
Adaptive = Annotated[bool, typer.Option(help="Draft only while that pays, with --draft.", rich_help_panel=SPECULATION)]
