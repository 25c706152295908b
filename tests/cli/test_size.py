"""Tests `nanolm/cli/size.py`: what `nanolm size` prints, on which stream, with which exit code."""

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from nanolm.budget import H100, LLAMA_3_8B, LLAMA_3_70B, Hardware, capacity
from nanolm.cli import app
from nanolm.cli.size import PRESET_NAMES, bar


def size(*arguments):
    """The result of `nanolm size` with these arguments."""
    return CliRunner().invoke(app, ["size", *map(str, arguments)])


def rows(result):
    """The table as a dictionary."""
    assert result.exit_code == 0, result.output
    names = ("caches", "missing", "left", "largest batch", "longest context", "each user", "all users", "limited by")
    lines = [line.strip() for line in result.stdout.splitlines()]
    return {name: line[len(name) :].strip() for line in lines for name in names if line.startswith(name + "  ")}


def test_size_of_a_preset_prints_the_figures_of_capacity():
    found = rows(size("--preset", "llama-3-8b", "--context", 8192, "--batch", 16))
    # The figures themselves are derived in test_sizing.py.
    assert found["left"] == "38.76 GB"
    assert found["largest batch"] == "52 sequences of 8,192 tokens"
    assert found["each user"] == "104 tokens/s" and found["all users"] == "1,665 tokens/s"
    assert found["limited by"].startswith("bandwidth")


def test_size_without_options_is_an_answer():
    assert rows(size())["largest batch"] == "52 sequences of 8,192 tokens"


def test_size_of_what_does_not_fit_says_what_is_missing_and_that_is_no_failure():
    found = rows(size("--preset", "70b", "--context", 32_768, "--batch", 4))
    assert found["missing"] == "112.06 GB"
    assert found["limited by"].startswith("memory")


def test_size_takes_bits_gpus_headroom_and_attention():
    found = rows(size("--weight-bits", 8, "--kv-bits", 8, "--headroom", 0))
    assert found["largest batch"] == "134 sequences of 8,192 tokens"
    assert "MHA" in rows(size("--attention", "mha"))["caches"]
    assert "missing" not in rows(size("--preset", "70b", "--context", 32_768, "--batch", 4, "--gpus", 3))


@pytest.mark.parametrize("as_folder", [False, True])
def test_size_reads_a_config_without_head_dim_and_kv_heads(tmp_path, as_folder):
    entries = {"hidden_size": 4096, "intermediate_size": 14_336, "num_attention_heads": 32, "num_hidden_layers": 32}
    (tmp_path / "config.json").write_text(json.dumps(entries | {"vocab_size": 128_256}))
    found = rows(size("--config", tmp_path if as_folder else tmp_path / "config.json"))
    # As many KV heads as query heads, of 4,096 / 32 = 128 numbers: 2 · 32 · 32 · 128 · 2 B a token.
    assert "524,288 B (MHA)" in found["caches"]


def test_size_of_every_preset_works():
    for name in PRESET_NAMES:
        assert size("--preset", name.upper(), "--gpus", 16).exit_code == 0


def test_size_on_this_machine_uses_what_was_measured(monkeypatch):
    here = Hardware("Laptop", 16e9, 40e9, 1e12, 0.02)
    monkeypatch.setattr("nanolm.machine.calibration.measure_hardware", lambda: here)
    # 15.009 GB and 1.074 GB at 40 GB/s: 402 ms.
    assert "Laptop" in size("--hardware", "this", "--headroom", 0).stdout
    found = rows(size("--hardware", "this", "--weight-bits", 8, "--headroom", 0))
    # 7.505 + 1.074 = 8.578 GB / 40 GB/s = 214 ms, 4.7 tokens/s.
    assert found["each user"] == "5 tokens/s"


@pytest.mark.parametrize(
    ("arguments", "blamed"),
    [
        (["--context", "0"], "context_tokens is 0"),
        (["--batch", "-1"], "batch_size is -1"),
        (["--gpus", "0"], "n_gpus is 0"),
        (["--weight-bits", "0"], "weight_bits is 0"),
        (["--headroom", "1"], "headroom is 1"),
        (["--attention", "flash"], "attention is 'flash'"),
        (["--preset", "gpt-5"], "preset is 'gpt-5'"),
        (["--hardware", "abacus"], "hardware is 'abacus'"),
        (["--config", "/nowhere/config.json"], "path is "),
        (["--config", "x", "--preset", "70b"], "preset and config"),
    ],
)
def test_size_refuses_bad_requests_with_one_line_on_stderr(arguments, blamed):
    result = size(*arguments)
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.startswith(f"nanolm: {blamed}") and result.stderr.count("\n") == 1


def test_bar_shares_its_length_as_the_memory_is_shared():
    # 64 marks for 80 GB: 16.06 GB end at 12.8, with 17.18 GB at 26.6, with 8 GB at 33.0.
    line, legend, _ = bar(capacity(LLAMA_3_8B, H100, 8192, 16), plain=True).plain.split("\n")
    assert line == "#" * 13 + "=" * 14 + "-" * 6 + "." * 31
    assert legend.split() == ["#", "weights", "=", "caches", "-", "kept", "free", ".", "left"]


def test_bar_of_what_does_not_fit_shows_where_the_memory_ends():
    # 192.06 GB are needed; 80 of them are 41.7 %: behind mark 26 of 64.
    line, legend, _ = bar(capacity(LLAMA_3_70B, H100, 32_768, 4), plain=True).plain.split("\n")
    assert line.index("|") == 26 and len(line) == 65 and "." not in line
    assert legend.endswith("| end of the memory")


def test_size_prints_ascii_where_nothing_else_can_be_shown_and_needs_no_torch():
    script = (
        "import sys; from nanolm.cli.generate import app\n"
        "try: app(['size', '--gpus', '2', '--batch', '4000'])\n"
        "except SystemExit as end: sys.exit(end.code or ('torch' in sys.modules))"
    )
    environment = {"PYTHONIOENCODING": "ascii", "PATH": "", "PYTHONUTF8": "0"}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii() and "2 x H100" in done.stdout
