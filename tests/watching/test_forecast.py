"""Tests `watching/forecast.py`: what the next pass should take."""

import pytest

from nanolm.watching import Forecast


def test_before_any_pass_nothing_is_foretold():
    assert Forecast().seconds(5) is None


def test_passes_on_a_line_foretell_the_line():
    forecast = Forecast()
    for n in (1, 2, 8, 32, 3):
        forecast.add(n, 0.004 + 0.001 * n)
    assert forecast.seconds(100) == pytest.approx(0.104)


def test_passes_of_one_size_foretell_their_mean_for_any_size():
    forecast = Forecast()
    for _ in range(3):
        forecast.add(4, 0.02)
    assert forecast.seconds(4) == pytest.approx(0.02) == forecast.seconds(400)


def test_the_newest_passes_count_most():
    forecast = Forecast()
    for seconds in [1.0] * 100 + [2.0] * 100:
        forecast.add(1, seconds)
    assert forecast.seconds(1) == pytest.approx(2.0, abs=0.1)


def test_more_tokens_are_never_foretold_faster():
    forecast = Forecast()
    forecast.add(1, 1.0)
    forecast.add(10, 0.5)
    assert forecast.seconds(100) >= forecast.seconds(1)


def test_after_a_slow_beginning_no_pass_is_foretold_to_take_nothing():
    forecast = Forecast()
    forecast.add(20, 0.063)  # prompts, and a processor that has just begun
    for _ in range(30):
        forecast.add(5, 0.0013)
        assert forecast.seconds(4) >= 0.001


@pytest.mark.parametrize("memory", [0, 1, -1, float("nan")])
def test_a_weight_that_is_none_is_refused(memory):
    with pytest.raises(ValueError, match="memory is"):
        Forecast(memory)
