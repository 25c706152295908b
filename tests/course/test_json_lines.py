"""Tests `course/text/json_lines.py`: what is kept is found again, whatever broke off in between."""

import pytest

from course.text.json_lines import CannotKeep, append, entries


def test_what_is_kept_is_found_in_order(tmp_path):
    for i in range(3):
        append(tmp_path / "new" / "file.jsonl", {"number": i, "word": "naïve\n"})
    assert list(entries(tmp_path / "new" / "file.jsonl")) == [{"number": i, "word": "naïve\n"} for i in range(3)]


def test_no_file_holds_nothing(tmp_path):
    assert list(entries(tmp_path / "none")) == []


@pytest.mark.parametrize("cut", range(1, 14))
def test_a_line_that_was_cut_is_passed_over_and_hurts_no_other(tmp_path, cut):
    path = tmp_path / "file.jsonl"
    append(path, {"number": 1})
    append(path, {"number": 2})
    path.write_bytes(path.read_bytes()[:-cut])
    append(path, {"number": 3})
    found = [entry["number"] for entry in entries(path)]
    assert found in ([1, 2, 3], [1, 3]) and (cut == 1) == (2 in found)  # without its line break it is whole


def test_half_a_character_is_written_as_a_question_mark(tmp_path):
    append(tmp_path / "file.jsonl", {"word": "a\ud800b"})
    assert [entry["word"] for entry in entries(tmp_path / "file.jsonl")] == ["a?b"]


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(CannotKeep, match=r"in it cannot be written: .*; what was kept so far is safe"):
        append(tmp_path / "file" / "in it", {})
