"""The command `nanolm size`: does a model fit, how fast will it write, what limits it. Needs no torch."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..budget.hardware import A100, H100, H200, Hardware
from ..budget.shapes import PRESETS, ModelShape
from ..budget.sizing import Capacity, capacity, in_words
from .options import Json, print_json

BAD_REQUEST = 2  # exit code
PRESET_NAMES = {name.removesuffix("-like").lower().replace(" ", "-"): shape for name, shape in PRESETS.items()}
GPUS = {"h100": H100, "a100": A100, "h200": H200}
THIS = "this"  # this machine, measured

_BAR_WIDTH = 64
_MODEL, _LOAD, _MACHINE = "Model", "Load", "Machine"

Preset = Annotated[str | None, typer.Option(help=f"One of {', '.join(PRESET_NAMES)}.", rich_help_panel=_MODEL)]
Config = Annotated[Path | None, typer.Option(help="Instead: a Hugging Face config.json.", rich_help_panel=_MODEL)]
Attention = Annotated[
    str | None, typer.Option(help="As if it had mha, gqa or mqa; its own if left out.", rich_help_panel=_MODEL)
]
# Bits of a weight or of a number in the cache, scales included where a group or a head has one.
WEIGHT_BITS = {"float32": 32, "bfloat16": 16, "float16": 16, "int8": 8, "int4": 4.5}
Weights = Annotated[
    Literal["float32", "bfloat16", "float16", "int8", "int4"] | None,
    typer.Option(help="Instead of bits: how weights are kept, as the engine keeps them.", rich_help_panel=_MODEL),
]
KV = Annotated[
    Literal["float32", "bfloat16", "float16", "int8", "float8"] | None,
    typer.Option("--kv", help="Instead of bits: how the cache is kept.", rich_help_panel=_MODEL),
]
WeightBits = Annotated[float, typer.Option(help="Bits of a weight.", rich_help_panel=_MODEL)]
KVBits = Annotated[float, typer.Option(help="Bits of a number in the cache.", rich_help_panel=_MODEL)]
Context = Annotated[int, typer.Option(help="Tokens in each sequence's cache.", rich_help_panel=_LOAD)]
Batch = Annotated[int, typer.Option(help="Sequences at the same time.", rich_help_panel=_LOAD)]
Machine = Annotated[
    str, typer.Option("--hardware", help=f"{', '.join(GPUS)}, or {THIS}: measured here.", rich_help_panel=_MACHINE)
]
Gpus = Annotated[int, typer.Option(help="How many of them.", rich_help_panel=_MACHINE)]
Headroom = Annotated[float, typer.Option(help="Fraction of the memory kept free.", rich_help_panel=_MACHINE)]


def size(
    preset: Preset = None,
    config: Config = None,
    attention: Attention = None,
    weight_bits: WeightBits = 16,
    kv_bits: KVBits = 16,
    weights: Weights = None,
    kv: KV = None,
    context: Context = 8192,
    batch: Batch = 1,
    hardware: Machine = "h100",
    gpus: Gpus = 1,
    headroom: Headroom = 0.1,
    as_json: Json = False,
) -> None:
    """Say what a model needs: memory for weights and caches, the batch that fits, tokens a second, what limits it."""
    try:
        shape, chip = _shape(preset, config), _hardware(hardware)
        weight_bits = WEIGHT_BITS[weights] if weights else weight_bits
        kv_bits = _kv_bits(kv, shape) if kv else kv_bits
        found = capacity(shape, chip, context, batch, weight_bits, kv_bits, attention, gpus, headroom)
    except (ValueError, OSError) as error:
        Console(stderr=True, soft_wrap=True).print(f"nanolm: {error}", markup=False, highlight=False)
        raise typer.Exit(BAD_REQUEST) from None
    if as_json:
        return print_json(asdict(found))
    console = Console()
    plain = not console.encoding.startswith("utf")
    console.print(bar(found, plain), table(found, plain))


def table(found: Capacity, plain: bool = False) -> Table:
    """Return the figures as a table; `plain` uses ASCII alone."""
    rows = Table(show_header=False, box=None, pad_edge=False)
    for name, figure in {"model": found.shape.name, **in_words(found)}.items():
        if plain:
            figure = figure.replace("×", "x").replace("–", "-").encode("ascii", "replace").decode()
        rows.add_row(name, figure, style="bold" if name in ("missing", "limited by") else "")
    return rows


def bar(found: Capacity, plain: bool = False) -> Text:
    """Return memory as a bar with its legend: weights, caches, kept free, left; `plain` uses ASCII alone.

    If something is missing, the bar is as long as what is needed, and a stroke shows where the memory ends.
    """
    needed = found.weight_bytes + found.cache_bytes + found.headroom_bytes
    whole = max(needed, found.hardware.memory_bytes)
    kinds = zip(
        ("weights", "caches", "kept free", "left"),
        ("#=-." if plain else "█▓░·"),
        ("blue", "yellow", "bright_black", "bright_black"),
        (found.weight_bytes, found.cache_bytes, found.headroom_bytes, whole - needed),
        strict=True,
    )
    text, legend, drawn, total = Text(), Text(), 0, 0.0
    for name, mark, style, n_bytes in kinds:
        total += n_bytes
        end = round(_BAR_WIDTH * total / whole)  # of the running total, so that the parts add up to the whole
        text.append(mark * (end - drawn), style)
        legend.append(f"{mark} {name}  ", style)
        drawn = end
    if not found.fits:
        end = int(_BAR_WIDTH * found.hardware.memory_bytes / whole)
        text = text[:end] + Text("|", "bold red") + text[end:]
        legend.append("| end of the memory", "bold red")
    return text + "\n" + legend + "\n"


def _shape(preset: str | None, config: Path | None) -> ModelShape:
    if preset is not None and config is not None:
        raise ValueError("preset and config are both given; a model is one or the other")
    if config is not None:
        return ModelShape.from_config(config)
    name = next(iter(PRESET_NAMES)) if preset is None else preset.lower()
    if name not in PRESET_NAMES:
        raise ValueError(f"preset is {preset!r}; it must be one of {', '.join(PRESET_NAMES)}")
    return PRESET_NAMES[name]


def _kv_bits(kv: str, shape: ModelShape) -> float:
    """Bits of a number in the cache; in int8 the numbers of a head share a scale of 16 bits."""
    return 8 + 16 / shape.head_dim if kv == "int8" else 8 if kv == "float8" else WEIGHT_BITS[kv]


def _hardware(name: str) -> Hardware:
    if name.lower() == THIS:
        from ..machine.calibration import measure_hardware

        return measure_hardware()
    if name.lower() not in GPUS:
        raise ValueError(f"hardware is {name!r}; it must be one of {', '.join((*GPUS, THIS))}")
    return GPUS[name.lower()]
