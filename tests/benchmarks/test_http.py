"""Tests `benchmarks/http/`: does it run, and does the JSON hold what it should? Times are looked at by nobody."""

import json

from benchmarks.http.__main__ import main
from benchmarks.http.measures import GOALS


def test_a_quick_run_fills_its_table_and_its_file(tmp_path, capsys):
    main(quick=True, results=tmp_path)
    found = json.loads((tmp_path / "http.json").read_text(encoding="utf-8"))["seconds"]
    assert GOALS.keys() <= found.keys() and all(seconds > 0 for seconds in found.values() if seconds is not None)
    assert "http adds" in capsys.readouterr().out
