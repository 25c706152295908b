"""Tests `nanolm/cli/`: what it prints, on which stream, with which exit code."""

import os
import re
import subprocess
import sys
from importlib import metadata
from typing import get_args

import pytest
from tiny_checkpoints import tiny_tokenizer, write_checkpoint
from typer.testing import CliRunner

import nanolm
from nanolm.cache import CacheKind
from nanolm.cli import app
from nanolm.cli.generate import CacheNumbers, Writer


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A target, a draft that shares its vocabulary, and one that does not."""
    folder = tmp_path_factory.mktemp("models")
    write_checkpoint(folder / "target", seed=1)
    write_checkpoint(folder / "draft", seed=1, n_layers=1)
    write_checkpoint(folder / "stranger", vocab_size=280)
    return folder


def run(*arguments):
    """The result of `nanolm` with these arguments; its exit code, stdout and stderr are what counts."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def generate(models, *options, prompt="To be"):
    return run("generate", prompt, "--model", models / "target", "--max-new-tokens", 30, *options)


def greedy_text(models, prompt="To be", n_tokens=30):
    model, tokenizer = nanolm.load(models / "target")
    ids = [model.config.bos_token_id, *tokenizer.encode(prompt)]
    return "".join(tokenizer.decode_stream(model.generate(ids, n_tokens)))


# --- generate ----------------------------------------------------------------------------------------------------


def test_generate_prints_the_continuation_alone_to_stdout(models):
    result = generate(models, "--temperature", 0)
    assert result.exit_code == 0
    assert result.stdout == greedy_text(models) + "\n"
    assert result.stderr == ""


@pytest.mark.parametrize("gamma", [0, 1, 4])
@pytest.mark.parametrize("draft", ["draft", "target", "prompt-lookup"])
def test_generate_with_a_draft_prints_the_target_s_own_greedy_text(models, draft, gamma):
    name = draft if draft == "prompt-lookup" else models / draft
    result = generate(models, "--temperature", 0, "--draft", name, "--gamma", gamma)
    assert result.stdout == greedy_text(models) + "\n"


@pytest.mark.parametrize("kind", ["int8", "float8"])
def test_generate_with_a_kind_of_cache_prints_the_text_of_that_cache(models, kind):
    model, tokenizer = nanolm.load(models / "target")
    ids = [model.config.bos_token_id, *tokenizer.encode("To be")]
    expected = "".join(tokenizer.decode_stream(model.generate(ids, 30, cache_kind=kind)))
    assert expected != greedy_text(models), "the texts are the same, so this test shows nothing"
    assert generate(models, "--temperature", 0, "--cache-kind", kind).stdout == expected + "\n"


def test_generate_offers_the_kinds_of_cache_that_the_engine_has():
    offered = get_args(get_args(CacheNumbers)[0])
    assert offered == get_args(CacheKind)


def test_generate_with_a_seed_is_repeatable_and_with_another_is_not(models):
    first, again, other = (generate(models, "--temperature", 1, "--seed", seed).stdout for seed in (1, 1, 2))
    assert first == again != other


def test_top_k_1_is_greedy_at_any_temperature(models):
    assert generate(models, "--temperature", 2, "--top-k", 1).stdout == greedy_text(models) + "\n"


def test_a_tiny_top_p_is_greedy_at_any_temperature(models):
    assert generate(models, "--temperature", 2, "--top-p", 1e-6).stdout == greedy_text(models) + "\n"


def test_generate_runs_in_another_number_type(models):
    assert generate(models, "--dtype", "bfloat16").exit_code == 0


def test_the_text_stops_before_an_end_token_in_the_middle_of_a_round(capsys):
    tokenizer = tiny_tokenizer()
    writer = Writer(tokenizer, end_tokens=(0,))
    writer.write(tokenizer.encode("to be"))
    assert capsys.readouterr().out == "to be", "the text is printed while it is made, not at the end"
    writer.write([*tokenizer.encode(" or"), 0, *tokenizer.encode(" not")])
    assert capsys.readouterr().out == " or"
    assert writer.n_tokens == len(tokenizer.encode("to be")) + len(tokenizer.encode(" or")) + 1


def test_a_character_of_several_tokens_is_printed_whole(capsys):
    tokenizer = tiny_tokenizer()
    writer = Writer(tokenizer, end_tokens=())
    for token in tokenizer.encode("漢字"):
        writer.write([token])
        assert "\ufffd" not in capsys.readouterr().out


def test_stats_tell_speed_and_one_token_a_pass(models):
    result = generate(models, "--temperature", 0, "--stats")
    assert result.stdout == greedy_text(models) + "\n", "stats must not mix with the text"
    rows = stats_of(result)
    assert rows["tokens"] == "30" and rows["tokens a pass"] == "1.00"
    assert float(rows["speed after it"].split()[0].replace(",", "")) > 0
    assert float(rows["time to first token"].split()[0]) > 0
    assert "acceptance rate" not in rows


def test_stats_of_a_draft_equal_to_the_target_accept_everything(models):
    rows = stats_of(
        generate(models, "--temperature", 1, "--draft", models / "target", "--gamma", 4, "--stats", "--seed", 1)
    )
    assert rows["tokens a pass"] == "5.00"
    assert rows["acceptance rate"] == "1.00 (24 of 24)"


def test_stats_of_no_token_are_not_a_division_by_zero(models):
    result = generate(models, "--max-new-tokens", 0, "--stats")
    assert result.exit_code == 0 and result.stdout == "\n"
    rows = stats_of(result)
    assert re.match(r"\d+ threads? \(a pass takes ", rows.pop("threads"))
    assert rows == {"tokens": "0"}


def stats_of(result):
    """The rows of the table on stderr."""
    pairs = (line.strip().split("  ", maxsplit=1) for line in result.stderr.splitlines())
    return {name: value.strip() for name, value in pairs}


# --- info --------------------------------------------------------------------------------------------------------


def test_info_counts_parameters_bytes_and_cache(models):
    result = run("info", models / "target")
    assert result.exit_code == 0
    # V·D = 290·20; 3 layers of (4 + 2·2)·6·20 (qkv) + 4·6·20 (out) + 3·20·10 (feed-forward) + 2·20 (norms); the last
    # norm: 5,800 + 3·2,080 + 20 = 12,060.
    assert "12,060" in result.stdout
    # float32: 4 bytes each; the cache 2·L·K·H = 2·3·2·6 = 72 numbers a token, 288 bytes; 1,024 tokens of it 294,912.
    row = next(line for line in result.stdout.splitlines() if "float32" in line)
    # While loading: the largest matrix, the embedding's 290·20 numbers, three times beside the model.
    cells = [cell.strip() for cell in row.strip("│").split("│")]
    assert cells == ["float32", "48,240", f"{48_240 + 3 * 4 * 290 * 20:,}", "288", "294,912"]
    assert f"{(models / 'target/model.safetensors').stat().st_size:,} bytes, F32" in result.stdout
    assert "V = 290" in result.stdout and "1,024 tokens" in result.stdout


def test_info_says_who_computes_products_with_codes(models, monkeypatch):
    monkeypatch.setattr("nanolm.kernels.products._switch", "torch")
    assert "torch ('torch' is chosen" in " ".join(run("info", models / "target").stdout.split())


@pytest.mark.parametrize("name", ["target", "draft", "mixture"])
def test_info_shows_the_shipped_models(name):
    assert run("info", name).exit_code == 0


def test_info_shows_the_experts_of_a_mixture_and_of_no_other(tmp_path):
    write_checkpoint(tmp_path / "mixture", n_experts=6, experts_per_token=2)
    assert "E = 6, k = 2 a token" in run("info", tmp_path / "mixture").stdout
    assert "E = " not in run("info", write_checkpoint(tmp_path / "dense")).stdout


def test_generate_uses_the_shipped_target_unless_told_otherwise():
    result = run("generate", "7 + 8 =", "--max-new-tokens", 3, "--temperature", 0)
    assert result.exit_code == 0 and result.stdout.strip()


# --- refusals ----------------------------------------------------------------------------------------------------


def assert_one_line(result, exit_code, *said):
    assert result.exit_code == exit_code
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1, f"more than one line:\n{result.stderr}"
    for words in said:
        assert words in result.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--temperature", "-1"], "temperature is -1"),
        (["--temperature", "nan"], "temperature is nan"),
        (["--top-k", "0"], "top_k is 0"),
        (["--top-p", "1.5"], "top_p is 1.5"),
        (["--gamma", "-1"], "gamma is -1"),
        (["--max-new-tokens", "-1"], "max_new_tokens is -1"),
        (["--max-new-tokens", "5000"], "at most 1024, the model's context"),
        (["--device", "abacus"], "device is 'abacus'; this machine has cpu"),
        (["--device", "cpu:x"], "device"),
        (["--seed", str(2**70)], "seed"),
        (["--cache-kind", "int8", "--draft", "prompt-lookup"], "kv is 'int8'; with a draft it must be 'float'"),
    ],
)
def test_a_bad_option_is_one_line_and_exit_code_2(models, options, said):
    assert_one_line(generate(models, *options), 2, said)


@pytest.mark.parametrize(("prompt", "said"), [("", "prompt is empty"), ("a\udcff", "prompt is not valid UTF-8")])
def test_a_bad_prompt_is_one_line_and_exit_code_2(models, prompt, said):
    assert_one_line(generate(models, prompt=prompt), 2, said)


def test_a_prompt_longer_than_the_context_is_one_line_and_exit_code_2(models):
    assert_one_line(generate(models, prompt="word " * 2000), 2, "1024")


def test_a_draft_with_another_vocabulary_is_one_line_and_exit_code_2(models):
    assert_one_line(generate(models, "--draft", models / "stranger"), 2, "another vocabulary", "stranger")


@pytest.mark.parametrize("command", [["info"], ["generate", "To be", "--model"], ["generate", "To be", "--draft"]])
def test_an_unknown_model_is_one_line_and_exit_code_1(models, command):
    known = ["--model", models / "target"] if command[-1] == "--draft" else []
    assert_one_line(run(*command, "no-such-model", *known), 1, "no-such-model", "neither a folder")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("config.json", "not json"),
        ("config.json", "[]"),
        ("config.json", "{}"),
        ("model.safetensors", "not a tensor"),
        ("tokenizer.json", "{}"),
        ("model.safetensors", None),
        ("tokenizer.json", None),
    ],
)
@pytest.mark.parametrize("command", ["info", "generate"])
def test_a_damaged_checkpoint_is_one_line_and_exit_code_1(tmp_path, command, file, content):
    path = write_checkpoint(tmp_path) / file
    path.unlink() if content is None else path.write_text(content, encoding="utf-8")
    result = run("info", tmp_path) if command == "info" else run("generate", "To be", "--model", tmp_path)
    assert_one_line(result, 1, file if content is None else "")


# --- start-up ----------------------------------------------------------------------------------------------------


def test_help_answers_without_importing_torch():
    code = (
        "import sys, nanolm.cli.generate\n"
        "try: nanolm.cli.app(['generate', '--help'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    )
    environment = {**os.environ, "COLUMNS": "100", "PYTHONUTF8": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    for option in ("--model", "--draft", "--gamma", "--temperature", "--top-k", "--top-p", "--seed", "--stats"):
        assert option in done.stdout


# --- the command itself ------------------------------------------------------------------------------------------


def test_python_m_nanolm_is_the_command_and_says_its_version():
    command = [sys.executable, "-m", "nanolm", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    assert (done.returncode, done.stdout) == (0, f"nanolm {metadata.version('nanolm-course')}\n")


def test_where_nothing_is_installed_the_version_says_so(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    result = run("--version")
    assert result.exit_code == 0
    assert result.stdout.startswith("nanolm of no known version: nanolm-course is not installed")
