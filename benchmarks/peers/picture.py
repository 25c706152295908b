"""The rates of decoding as bars: a panel a number of threads, a group a precision, a bar an engine."""

from pathlib import Path
from typing import Any

COLOURS = {"NanoLM": "#0072b2", "llama.cpp": "#d55e00", "transformers": "#009e73"}


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Write the picture; above each group a line stands where reading the weights alone would end."""
    from matplotlib.figure import Figure

    threads = sorted({row["threads"] for row in rows})
    precisions = list(dict.fromkeys(row["precision"] for row in rows))
    figure = Figure(figsize=(4.2 * len(threads), 3.8), layout="constrained")
    for axes, n in zip(figure.subplots(1, len(threads), sharey=True, squeeze=False)[0], threads, strict=True):
        for place, precision in enumerate(precisions):
            group = [row for row in rows if (row["threads"], row["precision"]) == (n, precision)]
            for i, row in enumerate(group):
                x = place + 0.27 * (i - (len(group) - 1) / 2)
                label = row["engine"] if not place else None
                axes.bar(x, row.get("decode") or 0, 0.25, color=COLOURS[row["engine"]], label=label)
            axes.hlines(group[0]["reads_per_second"], place - 0.42, place + 0.42, color="#777777", linewidth=2)
        axes.set_xticks(range(len(precisions)), precisions)
        axes.set_title(f"{n} thread{'s' if n > 1 else ''}", loc="left", fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    first = figure.axes[0]
    first.set_ylabel("tokens a second, one text")
    first.plot([], [], color="#777777", linewidth=2, label="reading the weights alone")
    first.legend(frameon=False, fontsize=8, loc="upper left")
    figure.savefig(path)
