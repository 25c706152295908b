"""Train one of the shipped models: `python -m training.train target`, then `python -m training.train draft`.

Interrupt it at will: the same command goes on from the last saved state, to the same weights.
"""

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from nanolm import checkpoint
from nanolm.machine import require_device
from nanolm.model import NanoLM
from nanolm.text import Tokenizer

from .loop import Run, fast_bfloat16
from .measure import accuracy_by_kind, bits_per_byte
from .plots import plot_curve
from .recipe import Recipe, recipe_named
from .state import save_json, write_atomically
from .texts.corpus import play_documents
from .texts.data import join_documents, load_batches
from .texts.problems import held_out_problems
from .texts.tokenizer import shared_tokenizer

HERE = Path(__file__).parent
SHIPPED = HERE.parent / "nanolm" / "shipped"
_EVALUATION_LENGTH, _EVALUATION_WINDOWS = 256, 160
_SECONDS_BETWEEN_LINES = 30

app = typer.Typer(add_completion=False)


class Evaluator:
    """Measures a model in the course of its training, on a part of the held-out plays and on held-out problems."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.plays = join_documents(tokenizer, play_documents(held_out=True))
        self.problems = held_out_problems(per_kind=100)

    def __call__(self, model: NanoLM) -> dict[str, Any]:
        """Bits per byte and accuracy by kind."""
        bits = bits_per_byte(model, self.plays, self.tokenizer, _EVALUATION_LENGTH, _EVALUATION_WINDOWS)
        return {"bits_per_byte": bits, "accuracy": accuracy_by_kind(model, self.tokenizer, self.problems)}


class Reporter:
    """Shows a run: a moving bar on a terminal, elsewhere a line every half minute and after each evaluation."""

    def __init__(self, run: Run, console: Console) -> None:
        self.console, self.steps_before, self.started = console, run.step, time.monotonic()
        self.last_line, self.lines = 0.0, len(run.evaluations)
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
        self.progress = Progress(*columns, console=console, disable=not console.is_terminal)
        self.task = self.progress.add_task("", total=run.recipe.steps, completed=run.step)

    def __call__(self, run: Run) -> None:
        """Report the step just done."""
        now = time.monotonic()
        steps_a_second = (run.step - self.steps_before) / max(now - self.started, 1e-9)
        loss = sum(run.losses[-20:]) / len(run.losses[-20:])
        line = f"step {run.step}/{run.recipe.steps}  loss {loss:.3f}"
        line += f"  {steps_a_second * run.recipe.tokens_per_step:,.0f} tokens/s"
        self.progress.update(self.task, completed=run.step, description=line)
        if not self.console.is_terminal and now - self.last_line > _SECONDS_BETWEEN_LINES:
            left = (run.recipe.steps - run.step) / steps_a_second / 60
            self.console.print(f"{line}  {left:.1f} min left", highlight=False)
            self.last_line = now
        if len(run.evaluations) > self.lines:
            self.lines = len(run.evaluations)
            self.console.print(_evaluation_line(run.evaluations[-1]), highlight=False)


def _evaluation_line(point: dict[str, Any]) -> str:
    kinds = "  ".join(f"{kind} {share:.0%}" for kind, share in point["accuracy"].items())
    return f"step {point['step']}: {point['bits_per_byte']:.3f} bits per byte; solved: {kinds}"


def _prepare(
    recipe: Recipe, folder: Path, teacher: Path | None, start: Path | None, bfloat16: bool, device: str
) -> tuple[Run, Any]:
    """The run, resumed if there is something to resume, and its tokenizer."""
    tokenizer = shared_tokenizer(HERE / "runs" / "tokenizer.json", SHIPPED / "target" / "tokenizer.json")
    torch.manual_seed(recipe.seed)
    model = NanoLM(recipe.model)
    if start:
        begun = _load_matching(start, "start", tokenizer)
        if begun.config != recipe.model:
            raise ValueError(f"start: {start} has another shape than the recipe; only its own shape can go on")
        model.load_state_dict(begun.state_dict())
    teacher_model = _load_matching(teacher, "teacher", tokenizer).to(device) if teacher else None
    run = Run(recipe, model.to(device), load_batches(recipe, tokenizer), folder / "state.pt", teacher_model, bfloat16)
    run.resume()
    return run, tokenizer


def _load_matching(folder: Path, argument: str, tokenizer: Any) -> NanoLM:
    """The checkpoint in the folder; refused when it does not speak the same token ids."""
    model, its_tokenizer = checkpoint.load(folder)
    if its_tokenizer.inner.get_vocab() != tokenizer.get_vocab():
        raise ValueError(f"{argument}: {folder} has another vocabulary than the run; it must be trained with the same")
    return model


def _publish(name: str, run: Run, tokenizer: Any, out: Path) -> None:
    curve = {
        "name": name,
        "recipe": run.identity(),
        "tokens": run.step * run.recipe.tokens_per_step,
        "seconds": round(run.seconds, 1),
        "device": torch.cuda.get_device_name() if run.model.device.type == "cuda" else run.model.device.type,
        "threads": torch.get_num_threads(),
        "evaluations": run.evaluations,
        "losses": [round(loss, 4) for loss in run.losses],
    }
    save_json(HERE / "curves" / f"{name}.json", curve)
    write_atomically(HERE / "curves" / f"{name}.png", lambda temporary: plot_curve(curve, temporary))
    checkpoint.save(run.model, Tokenizer(tokenizer), out, dtype=torch.float16)


@app.command()
def main(
    name: Annotated[str, typer.Argument(help="target, draft or mixture")],
    teacher: Annotated[Path | None, typer.Option(help="checkpoint whose distributions the model is to imitate")] = None,
    start: Annotated[Path | None, typer.Option(help="checkpoint of the same shape whose weights to begin with")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="train for other than the recipe's number of steps")] = None,
    run: Annotated[
        str | None, typer.Option(help="name of the run's folder under training/runs (default: NAME)")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="where the checkpoint goes (default: nanolm/shipped/NAME)")] = None,
    threads: Annotated[int, typer.Option(min=1)] = 2,
    device: Annotated[str, typer.Option(help="cpu, cuda or mps")] = "cpu",
    bfloat16: Annotated[bool | None, typer.Option(help="default: when the CPU multiplies it in hardware")] = None,
) -> None:
    """Train NAME, going on where an earlier run stopped; write its curve to training/curves, its checkpoint to OUT."""
    torch.set_num_threads(threads)
    console = Console()
    try:
        require_device(device)
        use_bfloat16 = fast_bfloat16() if bfloat16 is None else bfloat16
        recipe = recipe_named(name)
        recipe = replace(recipe, steps=steps or recipe.steps)
        training, tokenizer = _prepare(recipe, HERE / "runs" / (run or name), teacher, start, use_bfloat16, device)
    except (ValueError, FileNotFoundError, ModuleNotFoundError) as error:
        console.print(str(error), style="red", markup=False, highlight=False)
        sys.exit(2)
    _go(name, training, tokenizer, console, out or SHIPPED / name)


def _go(name: str, run: Run, tokenizer: Any, console: Console, out: Path) -> None:
    console.print(f"{name}: {'goes on' if run.step else 'starts'} at step {run.step} of {run.recipe.steps}")
    reporter = Reporter(run, console)
    try:
        with reporter.progress:
            run.train(Evaluator(tokenizer), reporter)
    except KeyboardInterrupt:
        console.print("interrupted; the same command goes on from the last saved state")
        sys.exit(130)
    _publish(name, run, tokenizer, out)
    console.print(f"{name}: {run.seconds / 60:.1f} minutes of training; checkpoint in {out.name}")


if __name__ == "__main__":
    app()
