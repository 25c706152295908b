"""Tests `benchmarks/http/watching.py`: does it run, and what is in its JSON? Times are looked at by nobody."""

import json

from benchmarks.http.watching import WATCHERS, main


def test_a_quick_run_has_a_rate_for_each_number_of_watchers_and_what_they_cost(tmp_path, capsys):
    main(quick=True, results=tmp_path)
    found = json.loads((tmp_path / "watching.json").read_text(encoding="utf-8"))
    numbers = {str(n) for n in WATCHERS}
    assert found["tokens_per_second"].keys() == found["cost"].keys() == numbers
    assert all(len(rates) == 1 and rates[0] > 0 for rates in found["tokens_per_second"].values())
    assert "watchers" in capsys.readouterr().out
