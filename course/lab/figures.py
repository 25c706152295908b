"""Figures in notebooks: one look, for light and dark themes and narrow pages, each with a text in its place.

A plot is shown as an image with alternative text, for readers who cannot see it and for pages where it does not load.
"""

import base64
import html
import io
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.patheffects import withStroke

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

# After Okabe and Ito, told apart also with colour-blind eyes, and in grey by their lightness; the light ones of theirs
# are darkened until each has a contrast of 3 to 1 with white, which a thin line needs.
BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#B87A00", "#009E73", "#B3123F", "#8A8A8A"
LINES = (BLUE, ORANGE, GREEN, RED, "#CC79A7", "#555555")

_STYLE: "dict[RcKeyType, Any]" = {
    "figure.facecolor": "white",  # a white card: black text on it reads in either theme
    "figure.dpi": 110,
    "font.size": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E4E4E4",
    "axes.axisbelow": True,
    "svg.fonttype": "path",
    "svg.hashsalt": "nanolm",  # equal figures are equal bytes
}


_NARROWEST = 0.72  # of a figure's own width: smaller, and its text could not be read; a narrower page scrolls it


def figure(width: float = 6.4, height: float = 3.6, columns: int = 1, **options) -> tuple[Figure, Any]:
    """Return (figure, axes) in the course's look; with several columns, axes is an array. Sizes in inches."""
    with plt.rc_context(_STYLE):
        return plt.subplots(1, columns, figsize=(width, height), layout="constrained", **options)


def show(fig: Figure, alt: str) -> None:
    """Show the figure as an image as wide as the page allows; `alt` says in words what is to be seen.

    Raises:
        ValueError: no alternative text.
    """
    if not alt.strip():
        raise ValueError("alt is empty; say in a sentence what the figure shows")
    from IPython.display import display

    display({"text/html": image_html(fig, alt), "text/plain": alt}, raw=True)
    plt.close(fig)


def image_html(fig: Figure, alt: str) -> str:
    """Return the figure as an <img> element, an SVG inside it."""
    for ax in fig.axes:
        _finish(ax)
    for legend in fig.legends:
        legend.set_frame_on(False)
    for ax in fig.axes:
        _make_room(ax)
    for ax in fig.axes:
        _set_labels_off(ax)
    buffer = io.BytesIO()
    with plt.rc_context(_STYLE):
        fig.savefig(buffer, format="svg", metadata={"Date": None})
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    width = round(fig.get_figwidth() * _STYLE["figure.dpi"])
    return (
        '<div style="overflow-x:auto">'
        f'<img alt="{html.escape(alt, quote=True)}" src="data:image/svg+xml;base64,{data}" style="width:{width}px;'
        f"max-width:100%;min-width:{round(_NARROWEST * width)}px;height:auto;background:white;border-radius:6px"
        '"></div>'
    )


def _finish(ax) -> None:
    """The title to the left, no frame around the legend: matplotlib reads such settings when text is made."""
    title = ax.get_title()
    if title:
        ax.set_title("")
        ax.set_title(title, loc="left")
    if ax.get_legend() is not None:
        ax.get_legend().set_frame_on(False)


_HEADROOM, _MOST_STEPS = 0.06, 10  # of the height of an axis, a step


def _make_room(ax) -> None:
    """Move a legend that lies on what is drawn, or raise the upper limit of the axis until there is room for it.

    Where curves of a measurement run is not known before, so no place that a lesson gives is free on every machine.
    """
    limits, scale = ax.get_ylim(), ax.yaxis.get_transform()
    for _ in range(_MOST_STEPS):
        if not legend_covers(ax):
            return
        ax.get_legend().set_loc("best")
        if not legend_covers(ax):
            return
        low, high = scale.transform(ax.get_ylim())
        ax.set_ylim(ax.get_ylim()[0], scale.inverted().transform([high + _HEADROOM * (high - low)])[0])
    ax.set_ylim(limits)


def legend_covers(ax) -> bool:
    """Whether the legend of an axis lies on a line, a point, a bar or a label of it."""
    if ax.get_legend() is None:
        return False
    ax.figure.draw_without_rendering()
    box = ax.get_legend().get_window_extent()
    points = [line.get_transform().transform(line.get_xydata()) for line in ax.lines]
    points += [each.get_offset_transform().transform(each.get_offsets()) for each in ax.collections]
    others = [*ax.texts, *(patch for patch in ax.patches if patch.get_data_transform() == ax.transData)]
    return (
        _is_crossed(ax, box)
        or any(box.contains(x, y) for each in points for x, y in each)
        or any(box.overlaps(other.get_window_extent()) for other in others if other.get_visible())
    )


def _is_crossed(ax, box) -> bool:
    """Whether a line of an axis runs through a box of the picture."""
    drawn = [line for line in ax.lines if line.get_linestyle() != "None"]
    paths = (line.get_transform().transform_path(line.get_path()) for line in drawn)
    return any(path.intersects_bbox(box, filled=False) for path in paths)


def _set_labels_off(ax) -> None:
    """Give a label through which a line or an arrow runs a white edge, on which it can be read."""
    arrows = [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]
    arrows += [label.arrow_patch for label in ax.texts if getattr(label, "arrow_patch", None)]
    labels = [label for label in ax.texts if label.get_text() and label.get_bbox_patch() is None]
    if not labels or not (ax.lines or arrows):
        return
    ax.figure.draw_without_rendering()
    for label in labels:
        box = label.get_window_extent() if not getattr(label, "arrow_patch", None) else None
        if box and (_is_crossed(ax, box) or any(box.overlaps(arrow.get_window_extent()) for arrow in arrows)):
            label.set_path_effects([withStroke(linewidth=3, foreground="white")])


def draw_rounds(rounds: Sequence, decode, title: str = "") -> Figure:
    """Draw rounds of speculation, one a line: kept drafted tokens, the rejected one, what came instead, the bonus.

    Args:
        rounds: `nanolm.speculative.Round` objects (drafted, tokens).
        decode: token id to text.
    """
    longest = max(max(len(done.drafted), len(done.tokens)) for done in rounds)
    fig, ax = figure(max(6.4, 1.15 * longest + 1), 0.72 * len(rounds) + 0.9)
    for line, done in enumerate(rounds):
        for column, (label, colour, struck) in enumerate(_boxes(done, decode)):
            box = {"boxstyle": "round,pad=0.32", "facecolor": colour + "30", "edgecolor": colour}
            text = ax.text(column, -line, label, ha="center", va="center", family="monospace", fontsize=9, bbox=box)
            if struck:
                text.set_color("#555555")
                ax.plot([column - 0.38, column + 0.38], [-line, -line], color=RED, linewidth=1, alpha=0.7, zorder=5)
    ax.set(xlim=(-0.7, longest + 0.9), ylim=(-len(rounds) + 0.45, 0.55), title=title)
    ax.set_yticks([-line for line in range(len(rounds))], [f"round {line + 1}" for line in range(len(rounds))])
    ax.set_xticks([])
    ax.grid(False)
    for spine in ax.spines.values():
        spine.set_visible(False)
    kinds = [("kept token", BLUE), ("rejected token", RED), ("drawn from the residual", ORANGE), ("bonus token", GREEN)]
    handles = [Rectangle((0, 0), 1, 1, facecolor=colour + "30", edgecolor=colour) for _, colour in kinds]
    fig.legend(handles, [name for name, _ in kinds], loc="outside lower left", ncols=4, fontsize=8.5)
    return fig


def draw_timeline(run, title: str = "", n_steps: int | None = None) -> Figure:
    """Draw which request each slot of a batch worked on, slots below one another, steps from left to right.

    An empty slot is hatched in grey. Requests carry their numbers where there is room for them, and the same request
    has the same colour in every drawing.

    Args:
        run: a `nanolm.engine.ServingRun`.
        n_steps: how far the axis reaches, to draw several runs to one scale; None: to the run's end.
    """
    width = max(1, n_steps or run.n_steps)
    fig, ax = figure(6.4, min(0.34 * run.n_slots, 5.2) + 1.2)
    for slot in range(run.n_slots):
        for request, start, length in _stretches([row[slot] for row in run.timeline]):
            if request is None:
                look = {"facecolor": "none", "edgecolor": "#C8C8C8", "hatch": "////", "linewidth": 0}
            else:
                colour = LINES[request % len(LINES)]
                look = {"facecolor": colour + "30", "edgecolor": colour, "linewidth": 0.9}
            ax.barh(slot, length, left=start, height=0.8, **look)
            if request is not None and run.n_slots <= 16 and 40 * length >= width:
                ax.text(start + length / 2, slot, str(request), ha="center", va="center", fontsize=9)
    ax.set(xlim=(0, width), ylim=(run.n_slots - 0.4, -0.6), xlabel="step", title=title)
    if run.n_slots <= 16:
        ax.set_yticks(range(run.n_slots), [f"slot {slot}" for slot in range(run.n_slots)])
    else:
        ax.set_ylabel("slot")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.grid(False)
    return fig


def _stretches(slot: Sequence[int | None]) -> Iterator[tuple[int | None, int, int]]:
    """(request or None, first step, number of steps) of each stretch in which a slot holds the same."""
    start = 0
    for request, group in groupby(slot):
        length = len(list(group))
        yield request, start, length
        start += length


def _boxes(done, decode) -> list[tuple[str, str, bool]]:
    """(text, colour, struck out) of each box of a round, from left to right."""

    def text(token: int) -> str:
        return decode([token]).replace("\n", "↵").replace(" ", "·") or "?"

    kept = len(done.tokens) - 1
    boxes = [(text(token), BLUE, False) for token in done.tokens[:kept]]
    if kept < len(done.drafted):
        boxes += [(text(done.drafted[kept]), RED, True), (text(done.tokens[-1]), ORANGE, False)]
        return boxes
    return [*boxes, (text(done.tokens[-1]), GREEN, False)]
