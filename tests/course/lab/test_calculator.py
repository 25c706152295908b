"""Tests `course/lab/calculator.py` without a browser: values are set, and the HTML that would be shown is read."""

import re
from html.parser import HTMLParser

import pytest

from course.lab.calculator import BATCHES, CONTEXTS, bar_html, calculator
from nanolm.budget import H100, LLAMA_3_8B, LLAMA_3_70B, PRESETS, Hardware, ModelShape, capacity

SIX_HEADS = ModelShape("six heads", 2, 60, 6, 6, 10, 100, 50)


class _Table(HTMLParser):
    """Takes the rows of a table, and checks on the way that every element that is opened is closed."""

    def __init__(self, html):
        super().__init__()
        self.open, self.cells = [], []
        self.feed(html)
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        if tag in ("th", "td"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] in ("th", "td"):
            self.cells[-1] += data

    @property
    def rows(self):
        return dict(zip(self.cells[::2], self.cells[1::2], strict=True))


def shown(calc):
    """The table that the calculator shows."""
    return _Table(calc.output.value).rows


def widths(html):
    return [float(width) for width in re.findall(r'<div style="width:([0-9.]+)%', html)]


def test_it_starts_with_the_figures_of_16_sequences_of_8192_tokens():
    rows = shown(calculator())
    # The figures themselves are derived in tests/budget/test_sizing.py.
    assert rows["weights"] == "16.06 GB: 8.03 billion parameters"
    assert (rows["left"], rows["largest batch"]) == ("38.76 GB", "52 sequences of 8,192 tokens")
    assert (rows["each user"], rows["all users"]) == ("104 tokens/s", "1,665 tokens/s")


@pytest.mark.parametrize(
    ("control", "value", "row", "figure"),
    [
        ("model", LLAMA_3_70B, "missing", "112.06 GB"),  # 141.107 + 16 · 2.684 + 8 - 80; 2.684 GB = 8,192 · 327,680 B
        ("attention", "MHA", "missing", "14.39 GB"),  # 17.671 + 68.719 + 8 - 80
        ("attention", "MQA", "caches", "2.15 GB: 16 × 8,192 tokens of 16,384 B (MQA)"),
        ("weight_bits", 8, "weights", "8.03 GB: 8.03 billion parameters"),
        ("kv_bits", 8, "caches", "8.59 GB: 16 × 8,192 tokens of 65,536 B (GQA)"),
        ("context", 1024, "caches", "2.15 GB: 16 × 1,024 tokens of 131,072 B (GQA)"),
        ("batch", 32, "caches", "34.36 GB: 32 × 8,192 tokens of 131,072 B (GQA)"),
        ("gpus", 2, "memory", "160.00 GB, 2 × H100"),
        ("headroom", 0.0, "kept free", "0 B"),
    ],
)
def test_every_control_changes_what_is_shown(control, value, row, figure):
    calc = calculator()
    before = calc.output.value
    getattr(calc, control).value = value
    assert calc.output.value != before
    assert shown(calc)[row] == figure


def test_another_gpu_changes_memory_and_speed():
    calc = calculator()
    calc.chip.label = "H200"
    # 15.009 + 17.180 GB at 4.8 TB/s: 6.71 ms.
    assert (shown(calc)["memory"], shown(calc)["time per token"]) == ("141.00 GB, H200", "6.71 ms")


def test_every_dropdown_shows_its_first_choice():
    calc = calculator()
    for control in (calc.model, calc.attention, calc.weight_bits, calc.kv_bits, calc.chip):
        assert control.index == 0 and control.label, f"{control.description} shows nothing"


@pytest.mark.parametrize("attention", ["the model's own", "MHA", "GQA", "MQA"])
@pytest.mark.parametrize("name", PRESETS)
def test_lists_work_at_their_ends(name, attention):
    calc = calculator()
    calc.model.label, calc.attention.value = name, attention
    for context in (CONTEXTS[0], CONTEXTS[-1]):
        for batch in (BATCHES[0], BATCHES[-1]):
            for gpus in (1, 16):
                calc.context.value, calc.batch.value, calc.gpus.value = context, batch, gpus
                assert calc.found is not None and shown(calc)["limited by"]
                assert sum(widths(calc.output.value)) == pytest.approx(100, abs=0.03)


def test_what_makes_no_sense_together_is_said_and_can_be_left_again():
    calc = calculator(shapes=[SIX_HEADS])
    calc.model.value, calc.attention.value = SIX_HEADS, "GQA"
    assert calc.found is None and repr(calc) == "capacity calculator"
    assert calc.output.value.startswith('<p role="alert">attention is &#x27;GQA&#x27; and n_heads 6')
    calc.attention.value = "MQA"
    assert calc.found is not None and "(MQA)" in shown(calc)["caches"]


def test_own_models_and_machines_can_be_offered():
    here = Hardware("a <laptop>", 16e9, 40e9, 1e12, 0.02)
    calc = calculator(shapes=[SIX_HEADS], chips=[here], context_tokens=128, batch_size=1)
    calc.model.value, calc.chip.value = SIX_HEADS, here
    assert shown(calc)["memory"] == "16.00 GB, a <laptop>", "names are escaped"


@pytest.mark.parametrize("start", [{"context_tokens": 8191}, {"batch_size": 0}])
def test_a_start_that_the_list_does_not_have_is_refused(start):
    with pytest.raises(ValueError, match=next(iter(start))):
        calculator(**start)


def test_the_bar_has_a_text_in_its_place():
    html = bar_html(capacity(LLAMA_3_8B, H100, 8192, 16))
    assert (
        'role="img" aria-label="Memory of 80.00 GB: weights 16.06 GB, caches 17.18 GB, kept free 8.00 GB, '
        'left 38.76 GB; everything fits."' in html
    )
    # 16.06, 17.18, 8 and 38.76 of 80 GB.
    assert widths(html) == [20.08, 21.47, 10.0, 48.45]


def test_the_bar_of_what_does_not_fit_shows_where_the_memory_ends():
    html = bar_html(capacity(LLAMA_3_70B, H100, 32_768, 4))
    # 80 of 192.06 GB.
    assert "left:41.65%" in html and "memory ends at 80.00 GB" in html and "112.06 GB are missing" in html


def test_text_takes_its_colour_from_the_page():
    html = calculator().output.value
    assert "currentColor" in html, "the frame is black in a light theme and white in a dark one"
    colours = re.findall(r'[;"]color:([^;"]+)', html)
    assert set(colours) == {"inherit"}, "a fixed text colour vanishes in one of the themes"


def test_a_page_without_widgets_gets_the_figures_in_words():
    assert "'all users': '1,665 tokens/s'" in repr(calculator())
