"""`python -m benchmarks.peers`: NanoLM, llama.cpp and transformers side by side, in 32, 16, 8 and 4 bits.

Files in all precisions are made of one GGUF file's floats (`files`). Each engine runs in a process of its own; in a
round each has one turn at a work, and a figure is the median over the rounds. Beside a rate of decoding stands its
share of what reading the weights alone would allow, measured in the same rounds.
"""

import statistics
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console

from course.paths import ROOT
from nanolm._files import user_cache_folder
from nanolm.checkpoint import find_model, opened

from ..tools import machine, report
from ..tools.worker import Worker
from .files import FOLDER, KINDS, write_files
from .picture import draw
from .worker import BATCH, ENGINES, PREFILL, RATES, REQUESTS

PACKAGES = {"llama.cpp": ("llama_cpp", "llama-cpp-python"), "transformers": ("transformers", "transformers")}


def started(engine: str, precision: str, path: Path, threads: int, n_vocab: int, quick: bool) -> Worker:
    """Return an engine's process; its first line says that the model is loaded."""
    numbers = [str(threads), str(n_vocab), "quick" if quick else "whole"]
    command = [sys.executable, "-m", "benchmarks.peers.worker", engine, precision, str(path), *numbers]
    return Worker(f"{engine}, {precision}", command, ROOT)


def installed_engines() -> tuple[list[str], dict[str, str]]:
    """Return the engines that can be measured here, and the package to install for each of the others."""
    lacking = {engine: name for engine, (module, name) in PACKAGES.items() if find_spec(module) is None}
    return [engine for engine in ENGINES if engine not in lacking], lacking


def runs(engine: str, precision: str) -> bool:
    """Whether an engine has a precision: transformers computes in floats."""
    return engine != "transformers" or not precision.endswith("bits")


def compare(
    precision: str, paths: dict[str, Path], engines: list[str], threads: int, n_vocab: int, rounds: int, quick: bool
) -> list[dict[str, Any]]:
    """Return a row for each engine that has this precision. One whose process ends has "failed" in its row."""
    workers, rows, n_bytes = {}, {}, paths[precision].stat().st_size
    torch.set_num_threads(threads)
    try:
        for engine in filter(lambda engine: runs(engine, precision), engines):
            path = paths[FOLDER if engine == "transformers" else precision]
            workers[engine] = started(engine, precision, path, threads, n_vocab, quick)
            rows[engine] = {"engine": engine, "precision": precision, "threads": threads, "bytes": n_bytes}
            _ask(workers, rows[engine], engine, None)
        reads, rates = [], {(engine, work): [] for engine in rows for work in RATES}
        for turn in range(rounds + 1):  # the first one warms up
            for work in RATES[: None if turn else -1]:  # serving needs no warming up
                for engine in list(workers):
                    rate = _ask(workers, rows[engine], engine, work)
                    if turn and rate is not None:
                        rates[engine, work].append(rate)
            reads.append(machine.read_bandwidth(n_bytes) / n_bytes)
        for engine in list(workers):
            for work in ("text", "memory"):
                rows[engine][work] = _ask(workers, rows[engine], engine, work)
        for (engine, work), measured in rates.items():
            rows[engine][work] = statistics.median(measured) if measured else None
        for row in rows.values():
            row["reads_per_second"] = statistics.median(reads)
    finally:
        for worker in workers.values():
            worker.stop()
    return list(rows.values())


def _ask(workers: dict[str, Worker], row: dict[str, Any], engine: str, work: str | None) -> Any:
    """An answer, or None and a note in the row: an engine that fails at one precision ends no other's measurement."""
    if engine not in workers:
        return None
    try:
        return workers[engine].answer() if work is None else workers[engine].ask(work)
    except (ValueError, OSError) as error:
        workers.pop(engine).stop()
        row["failed"] = f"{work or 'loading'}: {error}"
        return None


def cells_of(rows: list[dict[str, Any]]) -> list[list[str]]:
    """Return the table's cells; ×: NanoLM's rate of decoding over this engine's."""
    ours = {(row["precision"], row["threads"]): row for row in rows if row["engine"] == "NanoLM"}
    table = []
    for row in rows:
        first = ours[row["precision"], row["threads"]]
        if row.get("decode") is None:
            table.append([_name(row), *["failed"] * (len(RATES) + 4)])
            continue
        times = first["decode"] / row["decode"] if first.get("decode") else float("nan")
        rates = [f"{row[work]:,.1f}" if row[work] is not None else "failed" for work in RATES]
        memory = f"{row['memory'] / 1e6:,.0f}" if row.get("memory") else "-"
        same = "yes" if row.get("text") == first.get("text") else "no"
        share = f"{row['decode'] / row['reads_per_second']:.2f}"
        table.append([_name(row), rates[0], share, f"{times:.2f}", *rates[1:], memory, same])
    return table


def _name(row: dict[str, Any]) -> str:
    return f"{row['precision']}, {row['threads']} thread{'s' if row['threads'] > 1 else ''}, {row['engine']}"


HEAD = ["", "decode", "of a read", "×", *RATES[1:], "MB, peak", "same text"]
PICTURE = "book/_static/peers.svg"


def notes_of(figures: dict[str, Any]) -> list[str]:
    """Return what stands above the table."""
    setting = figures["setting"]
    return [
        f"{machine.one_line(figures['machine'])}. {setting['model']}; {', '.join(setting['versions'])}.",
        f"Tokens a second: one text, {BATCH} texts, a prompt of {PREFILL}, new tokens of {REQUESTS} mixed requests. Of "
        "a read: the share of what reading the file's bytes over and over would allow. ×: NanoLM's decode over this "
        f"engine's. Same text: as NanoLM's, greedy. Medians of rounds in turns: {setting['rounds']}.",
        *[f"{name} is not measured: pip install {package}" for name, package in setting["lacking"].items()],
    ]


def write_docs(figures: dict[str, Any], folder: Path = ROOT) -> None:
    """Put the table, with the picture above it, into benchmarks/README.md, and the picture into book/_static."""
    rows = figures["rows"]
    draw(rows, folder / PICTURE)
    said = "; ".join(f"{_name(row)} {row['decode']:.0f}" for row in rows if row.get("decode"))
    picture = f"![Tokens a second, one text: {said}.](../{PICTURE})"
    report.write_section(
        "peers", [*notes_of(figures), picture], HEAD, cells_of(rows), folder / "benchmarks" / "README.md"
    )


def main(
    model: Annotated[str, typer.Option(help="A GGUF file, or smollm2.")] = "smollm2",
    files: Annotated[Path | None, typer.Option(help="Where the files of all precisions are kept.")] = None,
    threads: Annotated[list[int] | None, typer.Option(help="Threads; may be repeated. 1 and 2 if left out.")] = None,
    precision: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(KINDS)}; all if left out.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Turns of each.")] = 3,
    plot: Annotated[Path | None, typer.Option(help="Draw the rates of decoding: a .svg or .png.")] = None,
    docs: Annotated[bool, typer.Option("--docs", help="Put table and picture into benchmarks/README.md.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="One short round, to see that it runs.")] = False,
    results: Annotated[Path, typer.Option(help="Folder of the JSON file.")] = report.RESULTS,
) -> None:
    """Race NanoLM against llama.cpp and transformers."""
    about, say = machine.describe(threads=False), Console(stderr=True).print
    engines, lacking = installed_engines()
    source = find_model(model)
    paths = write_files(source, files or user_cache_folder() / "peers", lambda name: say(f"writing {name}"))
    with opened(source) as opened_source:
        n_vocab = opened_source.config.vocab_size
    rows, rounds = [], 1 if quick else rounds
    for n in threads or (1, 2):
        for name in precision or KINDS:
            say(f"{name}, threads: {n} …")
            rows += compare(name, paths, engines, n, n_vocab, rounds, quick)
    versions = [f"{name} {_version(name)}" for name in engines if name in PACKAGES]
    setting = {"model": source.name, "rounds": rounds, "versions": versions, "lacking": lacking}
    figures = {"machine": about, "setting": setting, "rows": rows}
    report.show("Side by side", notes_of(figures), HEAD, cells_of(rows))
    for row in rows:
        if "failed" in row:
            print(f"{_name(row)} failed at {row['failed']}")
    if plot is not None:
        draw(rows, plot)
    if docs:
        write_docs(figures)
    print(report.save("peers", figures, results))


def _version(engine: str) -> str:
    from importlib.metadata import version

    return version(PACKAGES[engine][1])


if __name__ == "__main__":
    typer.run(main)
