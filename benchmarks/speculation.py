"""Speculation against plain decoding of the same target, over γ and temperature, next to what the formula says.

`python -m benchmarks.speculation` first measures what a pass costs: of the draft, and of the target over 1 to γ + 1
positions. With those costs and the acceptance rate that was met, the formula predicts the speed-up, and the
wall-clock time judges it. Every method takes its turn on every prompt, round after round.
"""

import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.progress import track

import nanolm
from nanolm.sampling import Rng, SamplingParams
from nanolm.speculative import (
    ModelDraft,
    PromptLookupDraft,
    Session,
    SpecDecodeStats,
    baseline_generate,
    expected_tokens_per_round,
    speculative_generate,
    speculative_speedup,
)

from .tools import machine, report
from .tools.prompts import BY_KIND

TEMPERATURES = (0.0, 0.7, 1.0)
GAMMAS = (1, 2, 3, 4, 5, 6, 7, 8)
LOOKUP_GAMMAS = (2, 4)
PLAIN = "plain"
_CONTEXT = 150  # positions read before a pass is timed: the middle of a text of the benchmark


def pass_seconds(target: Any, draft: Any, gammas: tuple[int, ...], repetitions: int) -> dict[str, float]:
    """Return the median seconds of a draft pass and of target passes over 1 … γ + 1 positions, choosing included."""
    sampling, context = SamplingParams(), [1] * _CONTEXT
    seconds: dict[str, list[float]] = {}
    readers = {"target": Session(target, sampling), "draft": Session(draft, sampling)}
    for reader in readers.values():
        reader.feed(context)
    passes = [("draft", 1), *[("target", n) for n in sorted({1, *[gamma + 1 for gamma in gammas]})]]
    for round_number in range(repetitions + 1):
        for name, n in passes:
            start = time.perf_counter()
            readers[name].feed(context[:n], last=n)
            if round_number:
                seconds.setdefault(f"{name} {n}", []).append(time.perf_counter() - start)
            readers[name].truncate(_CONTEXT)
    return {name: statistics.median(times) for name, times in seconds.items()}


class Race:
    """Plain decoding and all kinds of speculation on the same prompts at one temperature.

    Attributes:
        seconds: by method and kind of prompt, one sum over the prompts a round.
        counts: by method, all rounds together.
    """

    def __init__(self, target: Any, draft: Any, temperature: float, gammas: tuple[int, ...], n_tokens: int) -> None:
        self.target, self.draft, self.n_tokens = target, draft, n_tokens
        self.sampling = SamplingParams(temperature, end_tokens=())
        self.methods: dict[str, tuple[Any, int]] = {PLAIN: (None, 0)}
        self.methods |= {f"model {gamma}": (draft, gamma) for gamma in gammas}
        self.methods |= {f"look-up {gamma}": (PromptLookupDraft, gamma) for gamma in LOOKUP_GAMMAS}
        self.seconds = {method: {kind: [] for kind in BY_KIND} for method in self.methods}
        self.counts = {method: SpecDecodeStats() for method in self.methods}

    def run(self, prompts: dict[str, list[list[int]]], repetitions: int) -> None:
        """Let every method write after every prompt, in turns, `repetitions` times."""
        for group in prompts.values():
            self._round(group[:1])  # the first time is slower, and does not count
        title, console = f"temperature {self.sampling.temperature:g}", Console(stderr=True)
        # No refreshing in the background: a second thread would be in the way of what is timed.
        for seed in track(range(repetitions), title, console=console, transient=True, auto_refresh=False):
            for kind, group in prompts.items():
                for method, (seconds, counts) in self._round(group, seed).items():
                    self.seconds[method][kind].append(seconds)
                    _add(self.counts[method], counts)

    def _round(self, prompts: list[list[int]], seed: int = 0) -> dict[str, tuple[float, SpecDecodeStats]]:
        """Return each method's seconds and counts over the prompts."""
        spent = dict.fromkeys(self.methods, 0.0)
        counts = {method: SpecDecodeStats() for method in self.methods}
        for i, prompt in enumerate(prompts):
            for method in self.methods:
                start = time.perf_counter()
                done = self._write(method, prompt, Rng(1000 * seed + i))
                spent[method] += time.perf_counter() - start
                _add(counts[method], done)
        return {method: (spent[method], counts[method]) for method in self.methods}

    def _write(self, method: str, prompt: list[int], rng: Rng) -> SpecDecodeStats:
        draft, gamma = self.methods[method]
        capacity = len(prompt) + self.n_tokens
        target = Session(self.target, self.sampling, capacity)
        if draft is None:
            return baseline_generate(target, prompt, self.n_tokens, rng)[1]
        if draft is PromptLookupDraft:
            guesser = PromptLookupDraft(self.target.config.vocab_size)
        else:
            guesser = ModelDraft(draft, self.sampling, capacity)
        return speculative_generate(target, guesser, prompt, self.n_tokens, gamma, rng)[1]

    def speedup(self, method: str, kinds: tuple[str, ...]) -> float:
        """Return the median, over rounds, of plain decoding's seconds over the method's, on prompts of these kinds."""
        rounds = zip(*(self.seconds[m][kind] for m in (PLAIN, method) for kind in kinds), strict=True)
        n = len(kinds)
        return statistics.median(sum(times[:n]) / sum(times[n:]) for times in rounds)


def _add(total: SpecDecodeStats, counts: SpecDecodeStats) -> None:
    for name, value in vars(counts).items():
        setattr(total, name, getattr(total, name) + value)


def rows_of_race(race: Race, temperature: float, passes: dict[str, float]) -> Iterator[dict[str, Any]]:
    """Yield the figures of each method but plain decoding."""
    for method, (draft, gamma) in race.methods.items():
        if draft is None:
            continue
        counts = race.counts[method]
        row = {
            "temperature": temperature,
            "draft": method.rsplit(" ", 1)[0],
            "gamma": gamma,
            "acceptance_rate": counts.acceptance_rate if counts.examined else None,
            "tokens_per_target_pass": counts.tokens_per_target_forward,
            "speedup": race.speedup(method, tuple(BY_KIND)),
            **{f"speedup_{kind}": race.speedup(method, (kind,)) for kind in BY_KIND},
        }
        # The formula takes every round as drafting γ tokens, which a look-up rarely finds.
        yield row | (predicted(counts.acceptance_rate, gamma, passes) if row["draft"] == "model" else {})


def predicted(alpha: float, gamma: int, passes: dict[str, float]) -> dict[str, float]:
    """Return the formula's speed-up: with verifying as cheap as one position, then as it costs here."""
    one, draft_cost = passes["target 1"], passes["draft 1"] / passes["target 1"]
    verify_cost = passes[f"target {gamma + 1}"] / one
    return {
        "formula": speculative_speedup(alpha, gamma, draft_cost),
        "formula_with_measured_verification": expected_tokens_per_round(alpha, gamma)
        / (verify_cost + gamma * draft_cost),
    }


def measure(target_name: str, draft_name: str, quick: bool) -> dict[str, Any]:
    """Return all figures as one dictionary of plain numbers."""
    about = machine.describe()
    (target, tokenizer), (draft, _) = nanolm.load(target_name), nanolm.load(draft_name)
    start = [] if target.config.bos_token_id is None else [target.config.bos_token_id]
    n_prompts, n_tokens, repetitions = (1, 12, 1) if quick else (None, 80, 3)
    temperatures, gammas = ((1.0,), (1, 4)) if quick else (TEMPERATURES, GAMMAS)
    prompts = {kind: [start + tokenizer.encode(text) for text in texts[:n_prompts]] for kind, texts in BY_KIND.items()}
    passes, rows, plain = pass_seconds(target, draft, gammas, 5 if quick else 100), [], {}
    for temperature in temperatures:
        race = Race(target, draft, temperature, gammas, n_tokens)
        race.run(prompts, repetitions)
        rows += rows_of_race(race, temperature, passes)
        rounds = zip(*race.seconds[PLAIN].values(), strict=True)
        written = n_tokens * sum(map(len, prompts.values()))
        plain[str(temperature)] = written / statistics.median(map(sum, rounds))
    return {
        "machine": about,
        "setting": {"target": target_name, "draft": draft_name, "new_tokens": n_tokens, "repetitions": repetitions}
        | {"prompts": {kind: len(group) for kind, group in prompts.items()}, "context": _CONTEXT},
        "pass_seconds": passes,
        "plain_tokens_per_second": plain,
        "rows": rows,
    }


def notes_of(figures: dict[str, Any]) -> list[str]:
    """Return what stands above the table."""
    passes, setting = figures["pass_seconds"], figures["setting"]
    one = passes["target 1"]
    verify = {name.split()[1]: seconds / one for name, seconds in passes.items() if name.startswith("target")}
    plain = ", ".join(f"{rate:,.0f} at temperature {t}" for t, rate in figures["plain_tokens_per_second"].items())
    n_prompts, n_rounds = sum(setting["prompts"].values()), setting["repetitions"]
    return [
        f"{machine.one_line(figures['machine'])}.",
        f"A target pass over one position takes {1e3 * one:.2f} ms with {setting['context']} cached, a draft pass "
        f"c = {passes['draft 1'] / one:.2f} of it, a target pass over "
        + ", ".join(f"{n} positions {cost:.2f}" for n, cost in verify.items() if n != "1")
        + f". Plain decoding, tokens/s: {plain}.",
        f"{n_prompts} prompts ({', '.join(setting['prompts'])}), {setting['new_tokens']} tokens each, medians of "
        f"{n_rounds} rounds in which all methods take turns. T is the temperature, α the acceptance rate, per "
        "pass the new tokens a target pass. The last two columns are the formula (1 + α + … + α^γ) / (v + γ·c): with "
        "v = 1, and with v as measured, the cost of a pass over γ + 1 positions.",
    ]


HEAD = ["T", "draft, γ", "α", "per pass", "speed-up", *BY_KIND, "v = 1", "v"]


def rows_of(figures: dict[str, Any]) -> list[list[str]]:
    """Return the table's cells."""

    def cell(value: float | None) -> str:
        return "–" if value is None else f"{value:.2f}"

    names = ["acceptance_rate", "tokens_per_target_pass", "speedup", *[f"speedup_{kind}" for kind in BY_KIND]]
    names += ["formula", "formula_with_measured_verification"]
    return [
        [f"{row['temperature']:g}", f"{row['draft']} {row['gamma']}", *[cell(row.get(name)) for name in names]]
        for row in figures["rows"]
    ]


def main(
    target: Annotated[str, typer.Option(help="A shipped model or a folder.")] = "target",
    draft: Annotated[str, typer.Option(help="A model with the target's vocabulary.")] = "draft",
    threads: Annotated[int, typer.Option(help="Threads; a step this small gains nothing from more.")] = 1,
    quick: Annotated[bool, typer.Option("--quick", help="A few seconds, to see that it runs.")] = False,
    card: Annotated[bool, typer.Option("--card", help="Write the table into the model card.")] = False,
    results: Annotated[Path, typer.Option(help="Folder of the JSON file.")] = report.RESULTS,
) -> None:
    """Measure speculation against plain decoding over γ and temperature."""
    torch.set_num_threads(threads)
    figures = measure(target, draft, quick)
    notes, rows = notes_of(figures), rows_of(figures)
    report.show("Speculation", notes, HEAD, rows)
    print(report.save("speculation", figures, results))
    if card:
        report.write_section("speculation", ["Made by `python -m benchmarks.speculation --card`.", *notes], HEAD, rows)


if __name__ == "__main__":
    typer.run(main)
