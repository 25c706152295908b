"""Tests `benchmarks/http/watching.py`: does it run, what is in its JSON, and is what a camera computes counted?

Times of a run are looked at by nobody.
"""

import json

import pytest

from benchmarks.http.watching import WATCHERS, Turn, costs, main


def test_a_quick_run_has_a_turn_for_each_number_of_watchers_and_what_they_cost(tmp_path, capsys):
    main(quick=True, results=tmp_path)
    found = json.loads((tmp_path / "watching.json").read_text(encoding="utf-8"))
    assert found["turns"].keys() == {str(n) for n in WATCHERS}
    assert found["cost"].keys() == {str(n) for n in WATCHERS if n}
    assert "watchers" in capsys.readouterr().out
    for n, turns in found["turns"].items():
        (turn,) = turns
        assert turn["tokens_per_second"] > 0 and turn["engine"] > turn["camera"]
        assert (turn["camera"] > 0) == (n != "0"), "where nobody watches there is nothing to count"


def test_the_processor_s_seconds_are_those_of_the_camera_and_what_the_loop_does_beyond_its_own():
    found = costs({0: [Turn(100, 8, 0, 2)], 1: [Turn(90, 8.3, 0.1, 2.1)], 10: [Turn(50, 9, 0.5, 3)]})
    assert found[1].of_rate == [pytest.approx(0.1)] and found[10].of_rate == [pytest.approx(0.5)]
    assert found[1].of_processor == [pytest.approx(0.02)] and found[10].of_processor == [pytest.approx(0.15)]
