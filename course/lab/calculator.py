"""The capacity calculator: lists in front of `nanolm.budget.sizing`. `nanolm size` is the same without a notebook."""

import html
from collections.abc import Iterable
from typing import Any

import ipywidgets as widgets

from nanolm.budget import (
    A100,
    ATTENTION_KINDS,
    H100,
    H200,
    PRESETS,
    Capacity,
    Hardware,
    ModelShape,
    capacity,
    in_words,
    size_in_words,
)

from .figures import BLUE, GREEN, GREY, ORANGE, RED

CONTEXTS = [2**exponent for exponent in range(7, 21)]  # 128 to 1,048,576 tokens
BATCHES = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024]
WEIGHT_BITS = {"16 bits": 16, "8 bits": 8, "4 bits, a scale for each 128": 4.125}
KV_BITS = {"16 bits": 16, "8 bits": 8, "4 bits": 4}
OWN = "the model's own"  # attention
HEADROOMS = {"nothing": 0.0, "10 %": 0.1, "20 %": 0.2, "30 %": 0.3}


def calculator(
    shapes: Iterable[ModelShape] = (), chips: Iterable[Hardware] = (), context_tokens: int = 8192, batch_size: int = 16
) -> "Calculator":
    """Return the calculator; as the last line of a cell it is shown, and counts anew whenever another value is chosen.

    Args:
        shapes: models to offer besides the presets, such as `ModelShape.from_config(path)`.
        chips: hardware to offer besides H100, A100 and H200, such as `measure_hardware()`.
        context_tokens, batch_size: what is chosen at first.

    Raises:
        ValueError: a context or batch that its list does not have.
    """
    for name, value, allowed in (("context_tokens", context_tokens, CONTEXTS), ("batch_size", batch_size, BATCHES)):
        if value not in allowed:
            raise ValueError(f"{name} is {value!r}; the list has {', '.join(map(str, allowed))}")
    return Calculator([*PRESETS.values(), *shapes], [H100, A100, H200, *chips], context_tokens, batch_size)


class Calculator(widgets.VBox):
    """Choices and what follows from them.

    Attributes:
        model, attention, weight_bits, kv_bits, context, batch, chip, gpus, headroom: the controls; each has a `value`.
        found: the `Capacity` of their present values; None if they make no sense together.
        output: the HTML shown.
    """

    def __init__(self, shapes: list[ModelShape], chips: list[Hardware], context_tokens: int, batch_size: int) -> None:
        self.found: Capacity | None = None
        self.model = _dropdown("model", {shape.name: shape for shape in shapes})
        self.attention = _dropdown("attention", {kind: kind for kind in (OWN, *ATTENTION_KINDS)})
        self.weight_bits, self.kv_bits = _dropdown("weights", WEIGHT_BITS), _dropdown("cache", KV_BITS)
        self.context = _dropdown("tokens each", {f"{n:,}": n for n in CONTEXTS}, context_tokens)
        self.batch = _dropdown("sequences", {f"{n:,}": n for n in BATCHES}, batch_size)
        self.chip = _dropdown("GPU model", {chip.name: chip for chip in chips})
        self.gpus = _dropdown("GPUs", {str(n): n for n in range(1, 17)})
        self.headroom = _dropdown("kept free", HEADROOMS, 0.1)
        self.output = widgets.HTML()
        columns = [
            [self.model, self.attention, self.weight_bits, self.kv_bits, self.chip],
            [self.context, self.batch, self.gpus, self.headroom],
        ]
        for control in (control for column in columns for control in column):
            control.observe(self._update, names="value")
        # Side by side where there is room for it, below each other on a narrow page.
        controls = widgets.HBox([widgets.VBox(column) for column in columns], layout={"flex_flow": "row wrap"})
        super().__init__([controls, self.output])
        self._update()

    def _update(self, _change: dict | None = None) -> None:
        try:
            self.found = capacity(
                _value(self.model),
                _value(self.chip),
                _value(self.context),
                _value(self.batch),
                _value(self.weight_bits),
                _value(self.kv_bits),
                None if _value(self.attention) == OWN else _value(self.attention),
                _value(self.gpus),
                _value(self.headroom),
            )
        except ValueError as error:
            self.found, self.output.value = None, f'<p role="alert">{html.escape(str(error))}</p>'
            return
        self.output.value = bar_html(self.found) + table_html(self.found)

    def __repr__(self) -> str:  # what a page without widgets shows
        return "capacity calculator" if self.found is None else f"capacity calculator: {in_words(self.found)}"


def bar_html(found: Capacity) -> str:
    """Return memory as a bar with its legend: weights, caches, kept free, left; and in words for whoever sees no bar.

    If something is missing, the bar is as long as what is needed, and a line shows where the memory ends.
    """
    memory = found.hardware.memory_bytes
    needed = found.weight_bytes + found.cache_bytes + found.headroom_bytes
    whole = max(needed, memory)
    parts = [
        ("weights", BLUE, found.weight_bytes),
        ("caches", ORANGE, found.cache_bytes),
        ("kept free", GREY, found.headroom_bytes),
        ("left", GREEN, whole - needed),
    ]
    parts = [part for part in parts if part[2] > 0]
    fits = "everything fits" if found.fits else f"{size_in_words(-found.free_bytes)} are missing"
    alt = ", ".join(f"{name} {size_in_words(n_bytes)}" for name, _, n_bytes in parts)
    alt = f"Memory of {size_in_words(memory)}: {alt}; {fits}."
    pieces = "".join(f'<div style="width:{100 * n / whole:.2f}%;background:{colour}"></div>' for _, colour, n in parts)
    legend = " ".join(_key(f"{name} {size_in_words(n)}", colour) for name, colour, n in parts)
    if not found.fits:
        pieces += f'<div style="{_STROKE};left:{100 * memory / whole:.2f}%"></div>'
        legend += f" {_key(f'memory ends at {size_in_words(memory)}', RED)}"
    return (
        f'<div role="img" aria-label="{html.escape(alt, quote=True)}" style="{_BAR}">{pieces}</div>'
        f'<div style="display:flex;flex-wrap:wrap;gap:0 1.2em">{legend}</div>'
    )


def table_html(found: Capacity) -> str:
    """Return the figures as a table, in the colours of the page."""
    strong = ("missing", "limited by")
    rows = "".join(
        f'<tr style="font-weight:{"bold" if name in strong else "normal"}">'
        f'<th scope="row" style="{_NAME}">{html.escape(name)}</th>'
        f'<td style="text-align:left">{html.escape(figure)}</td></tr>'
        for name, figure in in_words(found).items()
    )
    return f'<table style="margin-top:0.6em;line-height:1.5;color:inherit;font-size:inherit">{rows}</table>'


# currentColor is black in a light theme and white in a dark one.
_BAR = (
    "position:relative;display:flex;height:26px;max-width:640px;margin:0.6em 0 0.3em;"
    "border:1px solid currentColor;border-radius:4px;overflow:hidden"
)
_NAME = "text-align:left;padding-right:1em;font-weight:inherit;white-space:nowrap"
_STROKE = f"position:absolute;top:0;bottom:0;width:3px;background:{RED};outline:1px solid white"


def _key(text: str, colour: str) -> str:
    square = f'<span style="display:inline-block;width:0.8em;height:0.8em;margin-right:0.35em;background:{colour}">'
    return f"<span>{square}</span>{html.escape(text)}</span>"


def _dropdown(description: str, options: dict, value: Any = None) -> widgets.Dropdown:
    # A list says its name and its value to whoever listens; a slider of such values says only the number of its step.
    first = next(iter(options.values())) if value is None else value
    return widgets.Dropdown(description=description, options=list(options.items()), value=first)


def _value(control: widgets.Dropdown) -> Any:
    """What is chosen; to the widgets' own types it may be nothing, too."""
    return control.value
