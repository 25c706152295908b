"""Tests `text/bounded_jinja.py`: a chat template that would run for ever, or fill the memory, ends with a sentence."""

import time

import pytest

from nanolm.text import RenderedChat

MANY = "{% for a in range(99999) %}"
END = "{% endfor %}"
ENDLESS = {
    "loops in loops": MANY + MANY + END + END,
    "loops that say nothing": MANY + MANY + "{% if false %}x{% endif %}" + END + END,
    "a loop that passes over all": "{% if true %}"
    + MANY
    + "{% for b in range(99999) if 0 %}"
    + END
    + END
    + "{% endif %}",
    "macros that call each other": "{% macro f(n) %}{{ f(n - 1) if n }}{{ f(n - 1) if n }}{% endmacro %}{{ f(60) }}",
    "a macro in a loop": "{% macro f() %}" + MANY + END + "{% endmacro %}" + MANY + "{{ f() }}" + END,
}
HUGE = {
    "a product": "{{ 'x' * 10 ** 10 }}",
    "a product of a list": "{{ [1] * 10 ** 9 }}",
    "a power": "{{ 9 ** 99999999 }}",
    "doubling": "{% set n = namespace(s='xxxxxxxx') %}{% for i in range(64) %}{% set n.s = n.s + n.s %}{% endfor %}",
    "a format": "{{ '%9999999999d' % 1 }}",
}


def refused(source):
    began = time.process_time()
    with pytest.raises(ValueError, match="the model's chat template does not take this conversation: ") as error:
        RenderedChat(source, {}).render([])
    assert time.process_time() - began < 30, "the limit is a second"
    return str(error.value)


@pytest.mark.parametrize("source", ENDLESS.values(), ids=ENDLESS)
def test_a_template_that_runs_for_ever_is_ended(source):
    assert "it runs for more than 1 seconds" in refused(source)


@pytest.mark.parametrize("source", HUGE.values(), ids=HUGE)
def test_a_template_that_would_fill_the_memory_is_ended_before_it_does(source):
    assert "would make " in refused(source)


def test_the_clock_changes_nothing_that_a_template_writes():
    source = (
        "{% for m in [1, 2] %}\n  {% if m > 1 %}\n{{ m }}{{ 'a' + 'b' * 2 }}\n  {% endif %}\n{% endfor %}{{ 7 % 4 }}"
    )
    assert RenderedChat(source, {}).render([]) == "2abb\n3"
