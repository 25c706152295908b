"""Where figures go: a table on the terminal, a JSON file, and a section of the model card."""

import json
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parents[1]
RESULTS = HERE / "results"
CARD = HERE.parent / "nanolm" / "shipped" / "README.md"


def show(title: str, notes: list[str], head: list[str], rows: list[list[str]]) -> None:
    """Print the notes, each a line, and one table: the first column to the left, numbers to the right."""
    console = Console(highlight=False, soft_wrap=True)
    for note in notes:
        console.print(note, markup=False)
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(head):
        table.add_column(name, justify="right" if i else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    # A file or a pipe has no width: a table there is as wide as it has to be.
    (console if console.is_terminal else Console(width=1000)).print(table)


def save(name: str, figures: dict[str, Any], folder: Path = RESULTS) -> Path:
    """Write the figures as `name`.json and return the path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def write_section(name: str, notes: list[str], head: list[str], rows: list[list[str]], card: Path = CARD) -> None:
    """Put notes and table between <!-- name --> and <!-- /name --> of the card; everything else stays as it is.

    Raises:
        ValueError: the card lacks the markers.
    """
    from training.card import replace_section, table  # loads matplotlib: only for those who write a card

    text = "\n\n".join([*notes, table(head, rows)])
    card.write_text(replace_section(card.read_text(encoding="utf-8"), name, text), encoding="utf-8")
