"""`--json`: what a command prints as a table is printed as JSON, and nothing else stands on the output."""

import json

import pytest
from typer.testing import CliRunner

from course.cli import app as course
from course.leaderboard.board import Entry, figures
from nanolm.budget import H100, LLAMA_3_8B, capacity
from nanolm.cli import app as nanolm


def printed(app, *arguments, code=0):
    """The value that a command prints as JSON."""
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def test_size_prints_the_numbers_of_capacity():
    found = printed(nanolm, "size", "--preset", "llama-3-8b", "--batch", 16)
    expected = capacity(LLAMA_3_8B, H100, 8192, 16)
    assert (found["weight_bytes"], found["fits"]) == (expected.weight_bytes, True)
    assert found["tpot_seconds"] == pytest.approx(expected.tpot_seconds)
    assert found["shape"]["n_layers"] == 32 and found["hardware"]["name"] == "H100"


def test_info_prints_the_shape_and_whole_numbers_of_bytes():
    found = printed(nanolm, "info", "target", "--weights", "int8")
    assert found["model"] == "target" and found["layers"].startswith("L = ")
    sizes = found["bytes_in_memory"]["int8"]
    assert set(sizes) == {"weights", "while_loading", "cache_of_a_token", "cache_of_a_context"}
    assert all(isinstance(n, int) and n > 0 for n in sizes.values())


def test_eval_prints_a_row_for_each_kind_of_weights():
    found = printed(nanolm, "eval", "draft", "--problems", 2, "--weights", "float32", "--weights", "int8")
    assert found["problems"] == 2 and list(found["weights"]) == ["float32", "int8"]
    assert found["weights"]["int8"]["bytes"] < found["weights"]["float32"]["bytes"]
    assert found["weights"]["float32"]["perplexity"] > 1


def test_doctor_of_a_model_prints_what_was_read_and_inferred():
    found = printed(nanolm, "doctor", "draft", "--no-compare")
    assert set(found) == {"model", "read", "inferred", "memory", "transformers"}
    assert found["transformers"] is None


def test_doctor_of_the_course_prints_each_finding():
    result = CliRunner().invoke(course, ["doctor", "--json"])
    found = {each["about"]: each for each in json.loads(result.stdout)}
    assert found["Python"]["is_fine"] is True and {"found", "advice"} <= found["torch"].keys()


def test_status_prints_every_exercise_of_the_week():
    found = printed(course, "status", "--week", 10, "--impl", "nanolm")
    assert [row["number"] for row in found] == [f"10.{n}" for n in range(1, 7)]
    first = found[0]
    assert (first["name"], first["state"], first["points_won"], first["points"]) == ("decode_step_time", "passes", 4, 4)


def test_a_leaderboard_s_figures_say_who_has_no_place_and_why():
    (row,) = figures([Entry("amber", None, None, "no part of its own did any work")])
    assert row["rank"] is None and row["remark"] == "no part of its own did any work"
    assert json.loads(json.dumps(row)) == row
