"""The picture at the front: tokens a second as predicted and as measured, drawn from the table of the benchmarks."""

import base64
import re
from pathlib import Path

from ..errors import CourseError
from ..lab.figures import BLUE, GREY, figure, image_html
from ..paths import ROOT, read

PICTURE = "book/_static/predicted.svg"
TABLE = re.compile(r"(?ms)^### Predicted and measured\n.*?^\|---.*?\n(.*?)\n(?:\n|\Z)")


def alternative_text(root: Path = ROOT) -> str:
    """Return what the picture shows, in words."""
    parts = [f"{name}, {written:g} predicted, {found:g} measured" for name, written, found in _rows(root)]
    return f"Tokens a second on one H200, predicted from the chip's measured rates, and measured: {'; '.join(parts)}."


def picture(root: Path = ROOT) -> bytes:
    """Return the picture as an SVG file, the same bytes for the same table."""
    rows = _rows(root)
    fig, ax = figure(6.4, 2.6)
    height = 0.36
    for line, (_, predicted, measured) in enumerate(rows):
        for offset, value, colour, label in ((-0.5, predicted, GREY, "predicted"), (0.5, measured, BLUE, "measured")):
            place = line + offset * height
            ax.barh(place, value, height * 0.92, color=colour, label=label if line == 0 else None)
            ax.text(value, place, f" {value:,.0f}", va="center", fontsize=9)
    ax.set(ylim=(len(rows) - 0.5, -0.5), xlim=(0, 1.12 * max(max(row[1:]) for row in rows)))
    ax.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    ax.set(xlabel="tokens a second, one sequence, on one H200")
    ax.grid(visible=False, axis="y")
    ax.legend(loc="lower right")
    found = re.search(r"base64,([A-Za-z0-9+/=]+)", image_html(fig, alternative_text(root)))
    return base64.b64decode(found[1]) if found else b""


def _rows(root: Path) -> list[tuple[str, float, float]]:
    """Each model's name with its megabytes, and tokens a second as predicted and as measured."""
    found = TABLE.search(read(root / "benchmarks" / "README.md"))
    if found is None:
        raise CourseError("benchmarks/README.md has no table under '### Predicted and measured'")
    cells = [[cell.strip() for cell in line.strip("| ").split("|")] for line in found[1].splitlines()]
    return [(f"{row[0]}: {_number(row[1]):,.0f} MB", _number(row[3]), _number(row[4])) for row in cells]


def _number(cell: str) -> float:
    return float(cell.replace(",", ""))


if __name__ == "__main__":
    (ROOT / PICTURE).write_bytes(picture())
