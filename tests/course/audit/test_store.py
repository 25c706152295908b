"""The kept results of an audit: what one has found the next one finds again."""

from course.audit.run import RIGHT, Result
from course.audit.store import keep, load


def test_a_result_that_was_kept_is_found_again_and_half_a_line_is_passed_over(tmp_path):
    result = Result("4.1", RIGHT, "a case", 17, True, False, False, False, 1.0, "", 0.5)
    keep("name", result, tmp_path / "audit.jsonl")
    with (tmp_path / "audit.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"key": "cut')
    assert load(tmp_path / "audit.jsonl") == {"name": result}
