"""`nanolm doctor` beside transformers: that it agrees is said, and that it does not."""

from tiny_checkpoints import write_checkpoint
from typer.testing import CliRunner

import nanolm
from nanolm.cli import app


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})


def test_doctor_agrees_with_transformers(transformers, tmp_path):
    result = run("doctor", write_checkpoint(tmp_path))
    assert result.exit_code == 0 and "transformers agrees: logits differ by" in result.stdout
    assert "it writes the same greedy text, 16 tokens." in result.stdout


def test_doctor_ends_with_3_where_transformers_computes_something_else(transformers, tmp_path, monkeypatch):
    real = nanolm.NanoLM.forward
    monkeypatch.setattr(nanolm.NanoLM, "forward", lambda self, *a, **b: real(self, *a, **b) * 1.01)
    result = run("doctor", write_checkpoint(tmp_path))
    assert result.exit_code == 3 and "transformers DISAGREES: logits differ by" in result.stdout
