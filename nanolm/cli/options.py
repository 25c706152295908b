"""What the commands share: models by their names, errors as one line with an exit code, --version and --json."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from .output import is_output_lost

if TYPE_CHECKING:
    from ..machine.threads import Threads
    from ..model.decoder import NanoLM
    from ..speculative.drafts import PromptLookupDraft
    from ..text.tokenizer import Tokenizer


PROMPT_LOOKUP = "prompt-lookup"
BAD_MODEL, BAD_REQUEST = 1, 2  # exit codes

SPECULATION, MACHINE = "Speculation", "Machine"  # panels of the help
Draft = Annotated[
    str | None,
    typer.Option(help=f"What drafts: a model, or {PROMPT_LOOKUP}.", rich_help_panel=SPECULATION),
]
Gamma = Annotated[int, typer.Option(help="Tokens drafted a round, with --draft.", rich_help_panel=SPECULATION)]
Device = Annotated[str, typer.Option(help="cpu, cuda or mps.", rich_help_panel=MACHINE)]
NumberType = Annotated[
    Literal["float32", "bfloat16", "float16"], typer.Option(help="Dtype to run in.", rich_help_panel=MACHINE)
]

Json = Annotated[bool, typer.Option("--json", help="Print the figures as JSON instead of a table.")]
WeightKind = Annotated[
    Literal["float32", "bfloat16", "float16", "int8", "int4"] | None,
    typer.Option("--weights", help="How weights are kept; as --dtype if left out.", rich_help_panel=MACHINE),
]


def version() -> str:
    """Return the version that is installed, or that there is none."""
    try:
        return metadata.version("nanolm-course")
    except metadata.PackageNotFoundError:
        return "of no known version: nanolm-course is not installed, this runs from its folder"


def version_option(command: str) -> Any:
    """Return the option --version, which prints a command's version and ends it."""

    def show(asked: bool) -> None:
        if asked:
            typer.echo(f"{command} {version()}")
            raise typer.Exit

    return typer.Option("--version", callback=show, is_eager=True, help="Print the version and exit.")


def print_json(figures: Any) -> None:
    """Print figures as JSON in ASCII, which any terminal and any pipe can take."""
    typer.echo(json.dumps(figures, indent=1))


@contextmanager
def one_line(exit_code: int) -> Iterator[None]:
    """Turn an error that the engine explains into one line on stderr and the exit code."""
    try:
        yield
    except (ValueError, OSError, ModuleNotFoundError) as error:
        if isinstance(error, OSError) and error.filename is None and is_output_lost(error):
            raise  # it is the output of the command that is lost, not a file
        line = " ".join(str(error).split())
        Console(stderr=True, soft_wrap=True).print(f"nanolm: {line}", markup=False, highlight=False)
        raise typer.Exit(exit_code) from None


def load_model(name: str, device: str, dtype: str, weights: str | None = None) -> "tuple[NanoLM, Tokenizer]":
    """Return (model, tokenizer) of a shipped model or a folder; what is wrong ends the command with one line.

    Args:
        weights: as for `load`.
    """
    import torch

    from ..machine.device import require_device

    with one_line(BAD_REQUEST):
        require_device(device)
    with one_line(BAD_MODEL):
        from ..checkpoint.loading import load

        return load(name, device, getattr(torch, dtype), weights)


def threads_of(model: "NanoLM", rows: int = 1) -> "Threads | None":
    """Return what chooses the threads of a model's passes over so many rows; None where a GPU computes them."""
    from ..machine.threads import Threads, decode_pass

    return Threads(decode_pass(model, rows)) if model.device.type == "cpu" else None


def load_draft(name: str, tokenizer: "Tokenizer", device: str, dtype: str) -> "NanoLM | PromptLookupDraft":
    """Return the draft, a model or PROMPT_LOOKUP; what is wrong ends the command with one line."""
    from ..speculative.drafts import PromptLookupDraft

    if name == PROMPT_LOOKUP:
        return PromptLookupDraft(tokenizer.vocab_size)
    return load_draft_model(name, tokenizer, device, dtype)


def load_draft_model(name: str, tokenizer: "Tokenizer", device: str, dtype: str) -> "NanoLM":
    """Return the model that drafts; what is wrong ends the command with one line."""
    draft, its_tokenizer = load_model(name, device, dtype)
    with one_line(BAD_REQUEST):
        if its_tokenizer.inner.get_vocab() != tokenizer.inner.get_vocab():
            raise ValueError(f"draft {name!r} has another vocabulary than the model; both must number the same tokens")
    return draft
