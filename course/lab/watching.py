"""An engine to look at in a notebook: a recorded run, or a live one, by the widget of the extra `widget`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from nanolm._require import how_to_install
from nanolm.engine import Engine
from nanolm.text import Tokenizer
from nanolm.watching import Camera, Recording, module_text, recorded, words_of

NO_WIDGET = f"The run is not shown: anywidget is not installed; {how_to_install('widget')} brings it."


def show_run(recording: Recording) -> Any:
    """Return a widget that shows a recorded run; without anywidget print a line that says so, and return None."""
    widget = _widget(title=recording.title)
    if widget is not None:
        widget.run = recording.text()
    return widget


@dataclass
class Run:
    """An engine that is recorded."""

    engine: Engine
    recording: Recording


@contextmanager
def watched(engine: Engine, tokenizer: Tokenizer, title: str = "the engine") -> Iterator[Run]:
    """Record what the engine does inside the block, with its texts; then show the run below the cell.

    with watched(engine, tokenizer) as run:
        run.engine.generate(prompts, 20)
    """
    with recorded(engine, title, words_of(tokenizer)) as recording:
        yield Run(engine, recording)
    if (widget := show_run(recording)) is not None:
        from IPython.display import display

        display(widget)


@contextmanager
def live(engine: Engine, tokenizer: Tokenizer, title: str = "the engine") -> Iterator[None]:
    """Show the engine below the cell while it works inside the block, a frame a pass."""
    widget = _widget(title=title)
    if widget is None:
        yield
        return
    from IPython.display import display

    display(widget)
    camera = Camera(engine, widget.send, words_of(tokenizer), every_pass=True)
    camera.turn_on()
    try:
        yield
    finally:
        camera.turn_off()


def _widget(**values: Any) -> Any:
    """A widget with traits `run`, a recorded run's JSON, and `title`; None, and a line, without anywidget."""
    try:
        import anywidget  # pyright: ignore[reportMissingImports]  an optional extra
        import traitlets
    except ModuleNotFoundError:
        print(NO_WIDGET)
        return None

    class RunWidget(anywidget.AnyWidget):
        _esm = module_text()
        run = traitlets.Unicode("").tag(sync=True)
        title = traitlets.Unicode("").tag(sync=True)

    return RunWidget(**values)
