"""Prompt look-up on a real chat model, by what is asked for: to copy, to change code, to write freely.

`python -m benchmarks.lookup` lets the engine answer each prompt with drafts looked up in the text and without, greedy,
one request at a time, in turns. Look-up should gain where the answer repeats the prompt, and cost nothing where it does
not: then the engine switches it off.
"""

import statistics
import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

import nanolm
from nanolm.engine import Engine
from nanolm.model import NanoLM
from nanolm.sampling import SamplingParams
from nanolm.text import chat_prompt

from .tools import machine, report
from .tools.turns import by_rounds

_TEXT = (
    "The kettle had been whistling for some time before anyone in the house got up to look after it. Outside the snow "
    "lay on the fence posts like loaves of bread, and a fox had left a single line of prints across the garden."
)
_CODE = (
    "def total(prices, discount):\n    result = 0\n    for price in prices:\n        if price > 100:\n"
    "            price = price - discount\n        result = result + price\n    return result\n"
)
PROMPTS = {
    "copying": f"Repeat this text exactly, word for word, three times:\n\n{_TEXT}",
    "code": f"Rename `prices` to `amounts` in this function and show the whole function again:\n\n{_CODE}",
    "free text": "Write a short story about a lighthouse keeper who finds a letter in a bottle.",
}
WAYS = {"plain": None, "look-up": "prompt-lookup"}


def answer(model: NanoLM, prompt: list[int], draft: str | None, n_tokens: int) -> dict[str, Any]:
    """Return the seconds from the first token to the last, the text, tokens drafted and the share of them kept."""
    engine = Engine(model, max_running=1, prefix_cache=False, draft=draft)
    engine.add_request(prompt, n_tokens, SamplingParams(temperature=0.0, end_tokens=()))
    text: list[int] = []
    start = time.perf_counter()
    while engine.has_work:
        is_first = not text
        text += [token for output in engine.step() for token in output.tokens]
        if is_first:
            start = time.perf_counter()
    return {
        "seconds": time.perf_counter() - start,
        "text": text,
        "drafted": sum(record.n_drafted_tokens for record in engine.records),
        "acceptance_rate": engine.metrics.acceptance_rate,
    }


def measure(model_name: str, rounds: int, n_tokens: int) -> dict[str, Any]:
    """Return all figures as one dictionary of plain numbers."""
    about, (model, tokenizer) = machine.describe(), nanolm.load(model_name)
    rows = []
    for kind, question in PROMPTS.items():
        prompt = chat_prompt([("user", question)], tokenizer, model.config)
        runs = by_rounds(
            {name: partial(answer, model, prompt, draft, n_tokens) for name, draft in WAYS.items()}, rounds
        )
        ratios = [
            plain["seconds"] / looked["seconds"] for plain, looked in zip(runs["plain"], runs["look-up"], strict=True)
        ]
        last = runs["look-up"][-1]
        rows.append(
            {
                "kind": kind,
                "tokens_per_second": {
                    name: (n_tokens - 1) / statistics.median(run["seconds"] for run in of) for name, of in runs.items()
                },
                "ratio": statistics.median(ratios),
                "ratios": ratios,
                "drafted": last["drafted"],
                "acceptance_rate": last["acceptance_rate"] if last["drafted"] else None,
                "same_text": last["text"] == runs["plain"][-1]["text"],
            }
        )
    return {"machine": about, "setting": {"model": model_name, "rounds": rounds, "new_tokens": n_tokens}, "rows": rows}


def main(
    model: Annotated[str, typer.Option(help="A chat model: smollm2, a folder or a GGUF file.")] = "smollm2",
    threads: Annotated[int, typer.Option(help="Threads.")] = 1,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="A few seconds, to see that it runs.")] = False,
    results: Annotated[Path, typer.Option(help="Folder of the JSON file.")] = report.RESULTS,
) -> None:
    """Measure prompt look-up by kind of prompt."""
    torch.set_num_threads(threads)
    figures = measure(model, 1 if quick else rounds, 12 if quick else 160)
    setting = figures["setting"]
    notes = [
        f"{machine.one_line(figures['machine'])}.",
        f"{setting['model']}, one request at a time, {setting['new_tokens']} tokens, greedy; tokens a second after the "
        f"first. ×: look-up over plain, the median of {setting['rounds']} rounds in turns, and their range.",
    ]
    head = ["asked for", "plain", "look-up", "×", "range", "drafted", "accepted", "same text"]
    cells = [
        [
            row["kind"],
            *(f"{row['tokens_per_second'][name]:.1f}" for name in WAYS),
            f"{row['ratio']:.2f}",
            f"{min(row['ratios']):.2f} to {max(row['ratios']):.2f}",
            str(row["drafted"]),
            "-" if row["acceptance_rate"] is None else f"{row['acceptance_rate']:.2f}",
            "yes" if row["same_text"] else "no",
        ]
        for row in figures["rows"]
    ]
    report.show("Prompt look-up", notes, head, cells)
    print(report.save("lookup", figures, results))


if __name__ == "__main__":
    typer.run(main)
