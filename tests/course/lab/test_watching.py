"""Tests `course/lab/watching.py`: a run is shown where the widget is, and is one line where it is not."""

import json
import sys
import types

import pytest
import traitlets
from successor_model import byte_tokenizer
from tiny_models import tiny_model

from course.lab.watching import NO_WIDGET, live, show_run, watched
from nanolm.engine import Engine
from nanolm.sampling import SamplingParams

ENDLESS = SamplingParams(temperature=0.0, end_tokens=())
PROMPTS, N_NEW = [[1, 2, 3], [4, 5]], 4


def engine():
    return Engine(tiny_model(), n_blocks=16, block_size=4)


@pytest.fixture
def no_widget(monkeypatch):
    monkeypatch.setitem(sys.modules, "anywidget", None)


@pytest.fixture
def shown(monkeypatch):
    """What notebooks would show, by a stand-in for anywidget."""
    displayed = []

    class AnyWidget(traitlets.HasTraits):
        def __init__(self, **values):
            super().__init__(**values)
            self.sent = []

        def send(self, message):
            self.sent.append(message)

    monkeypatch.setitem(sys.modules, "anywidget", types.SimpleNamespace(AnyWidget=AnyWidget))
    monkeypatch.setattr("IPython.display.display", displayed.append)
    return displayed


def test_without_the_widget_a_recorded_run_is_one_line_and_the_cell_goes_on(no_widget, capsys):
    with watched(engine(), byte_tokenizer()) as run:
        texts = run.engine.generate(PROMPTS, N_NEW, ENDLESS)
    assert [len(text) for text in texts] == [N_NEW, N_NEW]
    assert capsys.readouterr().out.splitlines() == [NO_WIDGET] and show_run(run.recording) is None


def test_without_the_widget_a_live_engine_is_one_line_and_the_cell_goes_on(no_widget, capsys):
    served = engine()
    with live(served, byte_tokenizer()):
        assert [len(text) for text in served.generate(PROMPTS, N_NEW, ENDLESS)] == [N_NEW, N_NEW]
    assert capsys.readouterr().out.splitlines() == [NO_WIDGET]


def test_a_recorded_run_is_shown_with_its_passes_once_the_block_has_ended(shown):
    with watched(engine(), byte_tokenizer(), "two texts") as run:
        run.engine.generate(PROMPTS, N_NEW, ENDLESS)
        assert shown == []
    (widget,) = shown
    assert widget.title == "two texts" and len(json.loads(widget.run)["frames"]) >= N_NEW


def test_a_live_engine_sends_a_frame_a_pass_and_none_after_the_block(shown):
    served = engine()
    with live(served, byte_tokenizer()):
        served.generate(PROMPTS, N_NEW, ENDLESS)
    (widget,) = shown
    n_frames = len(widget.sent)
    assert n_frames >= N_NEW
    served.generate(PROMPTS, N_NEW, ENDLESS)
    assert len(widget.sent) == n_frames and served.observer is None
