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
    "a format of its own width": "{{ '%*d' % (9999999999, 1) }}",
    "a method's format": "{{ '{:1000000000}'.format(1) }}",
    "a method's format of a given width": "{{ '{:{w}}'.format(1, w=10 ** 9) }}",
    "a field": "{{ 'a'.ljust(10 ** 9) }}",
    "tabs": "{{ '\\t'.expandtabs(10 ** 9) }}",
    "a join": "{{ range(99999) | list | join('x' * 40000) }}",
    "a method's join": "{{ ('x' * 40000).join(range(99999) | map('string') | list) }}",
    "a replacement": "{% set a = 'a' * 4000 %}{{ a | replace('a', a) }}",
    "a method's replacement": "{% set a = 'a' * 4000 %}{{ a.replace('a', a) }}",
    "an indent": "{{ ('a\\n' * 100000) | indent(100000) }}",
    "doubling by ~": "{% set n = namespace(s='xx') %}{% for i in range(64) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
    "a sum of lists": "{{ [[1]] | sum(start=[]) }}",
}


DOUBLED = "{% set a = [1, 1] %}" + "{% set a = [a, a] %}" * 40
LONG = {
    "a text again and again": "{% set a = 'a' * 4000000 %}" + "{{ a }}" * 99,
    "and kept": "{% set a = 'a' * 4000000 %}{% set b %}" + "{{ a }}" * 99 + "{% endset %}",
    "the template's own text": "{% for i in range(99999) %}" + "a" * 9999 + "{% endfor %}",
    "lists of the same lists": DOUBLED + "{{ a }}",
    "and their JSON": DOUBLED + "{{ a | tojson }}",
    "and their text": DOUBLED + "{{ a | string | length }}",
}
LEFT_OUT = {
    "center": "{{ 'a' | center(10 ** 9) }}",
    "wordwrap": "{{ 'a' | wordwrap(1) }}",
    "slice": "{{ [1] | slice(10 ** 8) | list }}",
    "batch": "{{ [1] | batch(10 ** 9, 0) | list }}",
    "lipsum": "{{ lipsum(n=10 ** 7) }}",
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


@pytest.mark.parametrize("source", LONG.values(), ids=LONG)
def test_a_template_that_writes_without_end_is_ended(source):
    said = refused(source)
    assert "it writes too long a text" in said or "it runs for more than 1 seconds" in said or "would make " in said


@pytest.mark.parametrize("source", LEFT_OUT.values(), ids=LEFT_OUT)
def test_what_no_chat_needs_is_not_there(source):
    assert "No filter named" in refused(source) or "'lipsum' is undefined" in refused(source)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ '**%s**' % 'a' }}{{ '**{}**'.format('b') }}", "**a****b**"),
        ("{{ [1, 'a', none] | join('; ') }} {{ 'x\\ny' | indent(2) }}", "1; a; None x\n  y"),
        ("{{ [3, 4] | sum }}{{ 'aXb' | replace('X', '-') }}{{ 'a' ~ 1 ~ none }}", "7a-ba1None"),
        ("{{ [{'a': 'é'}] | tojson }}{{ {'b': 1} | tojson(indent=2) }}", '[{"a": "é"}]{\n  "b": 1\n}'),
        ("{{ [{'a': 'x'}, {'a': 'y'}] | map(attribute='a') | join(', ') }}", "x, y"),
        ("{{ ' a '.strip() | upper }}{{ 'a,b'.split(',') | last }}", "Ab"),
    ],
)
def test_what_chats_use_is_as_it_always_was(source, text):
    assert RenderedChat(source, {}).render([]) == text


def test_the_clock_changes_nothing_that_a_template_writes():
    source = (
        "{% for m in [1, 2] %}\n  {% if m > 1 %}\n{{ m }}{{ 'a' + 'b' * 2 }}\n  {% endif %}\n{% endfor %}{{ 7 % 4 }}"
    )
    assert RenderedChat(source, {}).render([]) == "2abb\n3"
