"""Grades `pricing`: what requests cost. Figures are literals, derived by hand."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusal import assert_refuses

from nanolm.budget import pricing

law = settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
every_second = range(100)


@pytest.mark.exercise("request_dollars")
def test_request_dollars_price_input_and_output_apart(impl):
    # 1,000 · 2 / 10⁶ + 500 · 10 / 10⁶ = 0.002 + 0.005.
    got = impl.request_dollars(1000, 500)
    assert got != pytest.approx(0.011), "input and output prices swapped"
    assert got != pytest.approx(7000), "prices are per million tokens"
    assert got == pytest.approx(0.007)
    # 100 prompts of 10,500 tokens at 3 dollars: 3.15.
    assert 100 * impl.request_dollars(10_500, 0, input_dollars_per_million=3) == pytest.approx(3.15)
    assert impl.request_dollars(0, 0) == 0


@pytest.mark.exercise("prompt_cache_cost")
def test_prompt_cache_cost_of_100_requests_is_written_once_and_read_99_times(impl):
    # 10,000 shared + 500 fresh at 3 dollars. Write: 10,000 · 3.75 / 10⁶ + 500 · 3 / 10⁶ = 0.0375 + 0.0015 = 0.039.
    # Read: 10,000 · 0.30 / 10⁶ + 0.0015 = 0.0045. In all 0.039 + 99 · 0.0045 = 0.4845, against 3.15: 84.6 % less.
    first = impl.prompt_cache_cost([0], 10_000, 500, 3.0)
    assert first != pytest.approx(0.0315), "the first request writes the cache, at 1.25 of the price"
    assert first != pytest.approx(0.039375), "the fresh tokens are not cached: they cost the plain price"
    assert first == pytest.approx(0.0390)
    assert impl.prompt_cache_cost([0, 1], 10_000, 500, 3.0) - first == pytest.approx(0.0045)
    total = impl.prompt_cache_cost(every_second, 10_000, 500, 3.0)
    assert total != pytest.approx(3.9), "every request writes: those within the time to live read"
    assert total == pytest.approx(0.4845)
    assert 1 - total / 3.15 == pytest.approx(0.85, abs=0.005)


@pytest.mark.exercise("prompt_cache_cost")
def test_prompt_cache_cost_of_a_read_is_a_tenth_or_a_twentieth(impl):
    # In tokens (a million dollars a million): 10,000 / 10 + 100 = 1,100 where 10,100 were due, 9.2 times fewer.
    def read(**factors):
        both, first = (impl.prompt_cache_cost(range(n), 10_000, 100, 1e6, **factors) for n in (2, 1))
        return both - first

    assert read() == pytest.approx(1100)
    assert 10_100 / read() == pytest.approx(9.18, abs=0.005)
    assert read(read_factor=0.05) == pytest.approx(600)


@pytest.mark.exercise("prompt_cache_cost")
def test_prompt_cache_cost_renews_the_time_to_live_at_each_use(impl):
    # 200 s apart: each read starts the 300 s anew. In tokens: 1,250 + 3 · 100.
    got = impl.prompt_cache_cost([0, 200, 400, 600], 1000, 0, 1e6)
    assert got != pytest.approx(2700), "time to live counted from the write: every use renews it"
    assert got == pytest.approx(1550)
    # Exactly 300 s later the entry is still there; a moment after, it is gone.
    assert impl.prompt_cache_cost([0, 300], 1000, 0, 1e6) == pytest.approx(1350)
    assert impl.prompt_cache_cost([0, 300.1], 1000, 0, 1e6) == pytest.approx(2500)


@pytest.mark.exercise("prompt_cache_cost")
def test_prompt_cache_cost_of_rare_use_pays_for_writing_and_never_reads(impl):
    # Ten minutes apart with five to live: 3 · 1,250 tokens, more than the 3,000 without a cache.
    got = impl.prompt_cache_cost([0, 600, 1200], 1000, 0, 1e6)
    assert got != pytest.approx(1450), "time to live ignored"
    assert got == pytest.approx(3750)
    assert impl.prompt_cache_cost([0, 600, 1200], 1000, 0, 1e6, time_to_live_seconds=600) == pytest.approx(1450)


@pytest.mark.exercise("prompt_cache_cost")
def test_prompt_cache_cost_caches_whole_multiples_of_the_granularity_only(impl):
    # 10,000 = 4 · 2,048 + 1,808: 8,192 · 1.25 + 1,808 + 500 = 12,548 tokens, then 819.2 + 2,308 = 3,127.2.
    first = impl.prompt_cache_cost([0], 10_000, 500, 1e6, granularity_tokens=2048)
    assert first != pytest.approx(13_000), "granularity ignored: 1,808 of the 10,000 tokens do not fill a unit"
    assert first != pytest.approx(10_740), "the part below a unit vanished: it costs the plain price"
    assert first == pytest.approx(12_548)
    assert impl.prompt_cache_cost([0, 1], 10_000, 500, 1e6, granularity_tokens=2048) == pytest.approx(15_675.2)
    # Shorter than one unit: nothing is cached, nothing is surcharged.
    assert impl.prompt_cache_cost([0, 1], 2047, 0, 1e6, granularity_tokens=2048) == pytest.approx(4094)


@pytest.mark.exercise("prompt_cache_cost")
def test_prompt_cache_cost_of_no_request_is_nothing(impl):
    assert impl.prompt_cache_cost([], 10_000, 500, 3.0) == 0


@pytest.mark.exercise("prompt_cache_cost")
@law
@given(n_requests=st.integers(0, 30), shared=st.integers(0, 20_000), fresh=st.integers(0, 2000))
def test_prompt_cache_cost_equals_the_plain_price_when_both_factors_are_1(impl, n_requests, shared, fresh):
    got = impl.prompt_cache_cost(range(n_requests), shared, fresh, 3.0, write_factor=1, read_factor=1)
    assert got == pytest.approx(n_requests * (shared + fresh) * 3e-6)


BAD_INPUT = [
    ("request_dollars", (-1, 0), "n_input_tokens"),
    ("request_dollars", (1, 0, -2.0), "input_dollars_per_million"),
    ("prompt_cache_cost", ([0], -1, 0, 3.0), "n_shared_tokens"),
    ("prompt_cache_cost", ([0], 1, 0, 3.0, 1.25, -0.1), "read_factor"),
    ("prompt_cache_cost", ([0], 1, 0, 3.0, 1.25, 0.1, 300, 0), "granularity_tokens"),
    ("prompt_cache_cost", ([5, 1], 1, 0, 3.0), "arrivals_seconds"),
    ("prompt_cache_cost", ([float("nan")], 1, 0, 3.0), "arrivals_seconds"),
]


@pytest.mark.parametrize(
    ("function", "arguments", "blamed"),
    [pytest.param(*c, marks=pytest.mark.exercise(c[0]), id=f"{c[0]}-{c[2]}") for c in BAD_INPUT],
)
def test_bad_input_is_refused(impl, function, arguments, blamed):
    assert_refuses(blamed, getattr(impl, function), *arguments)


@pytest.mark.parametrize(("function", "arguments", "blamed"), BAD_INPUT)
def test_the_engine_says_of_bad_input_what_is_allowed(function, arguments, blamed):
    with pytest.raises(ValueError, match=rf"{re.escape(blamed)}\S* is .* must be "):
        getattr(pricing, function)(*arguments)
