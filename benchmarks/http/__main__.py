"""`python -m benchmarks.http`."""

from pathlib import Path
from typing import Annotated

import typer

from ..tools import machine, report
from .measures import GOALS, under_bodies, under_silence, what_http_adds


def main(
    model: Annotated[str, typer.Option(help="The model to serve.")] = "target",
    quick: Annotated[bool, typer.Option(help="A few requests, only to see that it runs.")] = False,
    results: Annotated[Path, typer.Option(help="Where the JSON goes.")] = report.RESULTS,
) -> None:
    """Ask a server as its clients do, and print how long it takes."""
    n = 5 if quick else 200
    figures = {**what_http_adds(model, n), **under_bodies(model, n), **under_silence(model, n)}
    rows = [
        [name.replace("_", " "), f"{1e3 * seconds:.2f} ms", f"{1e3 * GOALS[name]:.0f} ms" if name in GOALS else ""]
        for name, seconds in figures.items()
    ]
    about = machine.describe()
    report.show("The endpoint", [machine.one_line(about)], ["median seconds, unless said otherwise", "", "goal"], rows)
    report.save("http", {"machine": about, "model": model, "seconds": figures}, results)


if __name__ == "__main__":
    typer.run(main)
