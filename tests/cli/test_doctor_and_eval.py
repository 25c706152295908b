"""`nanolm doctor` says what was read and what was inferred; `nanolm eval` what fewer bits lose."""

import json
import math

import pytest
import torch
from gguf_twins import write_twin
from tiny_checkpoints import write_checkpoint
from typer.testing import CliRunner

import nanolm
from nanolm.cli import app
from nanolm.cli.evaluate import on_problems, text_nats


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})


def rows(output):
    """The cells of a table's lines by their first."""
    lines = [[cell.strip() for cell in line.strip("│").split("│")] for line in output.splitlines() if "│" in line]
    return {first: rest for first, *rest in lines}


# --- doctor ------------------------------------------------------------------------------------------------------


def test_doctor_says_what_was_read_and_what_the_files_leave_to_their_reader(tmp_path):
    write_checkpoint(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    config |= {"rope_scaling": {"type": "linear", "factor": 4.0}, "rms_norm_eps": None}
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    result = run("doctor", tmp_path, "--no-compare")
    assert result.exit_code == 0, result.output
    said = rows(result.stdout)
    assert said["family"] == ["llama"] and said["positions"] == ["linear, from 1,024"]
    assert said["rms_norm_eps"] == ["1e-06; config.json leaves it out"]
    assert said["texts begin with"] == ["'<|endoftext|>', which the tokenizer puts there"]
    assert said["a conversation is laid out as"] == ["PlainText; the files have no template"]
    assert said["float32"][0].startswith("48,240 bytes, up to")


def test_doctor_says_that_a_start_token_of_config_json_does_not_count(tmp_path):
    write_checkpoint(tmp_path)
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer | {"post_processor": None}), encoding="utf-8")
    said = rows(run("doctor", tmp_path, "--no-compare").stdout)
    assert said["texts begin with"] == ["nothing; config.json names token 0, which the tokenizer does not put there"]


def test_doctor_says_why_a_file_is_not_compared(tmp_path, monkeypatch):
    monkeypatch.setattr("nanolm.cli.doctor.find_spec", lambda name: None)
    result = run("doctor", write_twin(tmp_path / "x.gguf").path)
    assert result.exit_code == 0
    assert "Not compared with transformers: transformers, accelerate is not installed." in result.stdout
    assert rows(result.stdout)["chat template"][0].endswith("characters of Jinja")


def test_doctor_refuses_what_load_refuses_in_one_line(tmp_path):
    (write_checkpoint(tmp_path) / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    result = run("doctor", tmp_path)
    assert result.exit_code == 1 and "a pickle" in result.stderr and len(result.stderr.splitlines()) == 1


# --- eval --------------------------------------------------------------------------------------------------------


def test_a_text_s_nats_are_those_of_its_tokens_behind_the_start_token():
    model, tokenizer = nanolm.load("draft")
    ids = [model.config.bos_token_id, *tokenizer.encode("The king is not to be seen.")]
    logits = model(torch.tensor([ids]))[0].double().log_softmax(-1)
    expected = -sum(logits[i, token].item() for i, token in enumerate(ids[1:]))
    nats, n_tokens = text_nats(model, tokenizer, "The king is not to be seen.")
    assert n_tokens == len(ids) - 1 and math.isclose(nats, expected, rel_tol=1e-6)


def test_a_problem_is_solved_if_greedy_decoding_writes_its_answer():
    model, tokenizer = nanolm.load("target")
    for prompt, answer in (("7 + 8:", " 7 + 8 = 15."), ("71 + 55:", " 1 + 5 = 6, 7 + 5 = 12, so 126.")):
        ids = tokenizer.encode(answer)
        written = model.generate([model.config.bos_token_id, *tokenizer.encode(prompt)], len(ids))
        solved, nats = on_problems(model, tokenizer, [{"prompt": prompt, "answer": answer}])
        assert solved == (written == ids) and nats > 0


def test_eval_shows_a_line_for_each_kind_of_weights():
    result = run("eval", "draft", "--problems", 8)
    lines = [line.split() for line in result.stdout.splitlines() if line.split()[:1] and "of 8" in line]
    assert [line[0] for line in lines] == ["float32", "bfloat16", "int8", "int4"]
    megabytes, perplexities = ([float(line[i]) for line in lines] for i in (1, 2))
    assert megabytes == sorted(megabytes, reverse=True) and all(p > 1 for p in perplexities)


@pytest.mark.parametrize("weights", ["int2", "q4"])
def test_eval_refuses_another_kind_of_weights(weights):
    result = run("eval", "draft", "--weights", weights)
    assert result.exit_code == 2 and f"weights is '{weights}'; it must be one of float32" in result.stderr


# --- --weights and --kv ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["bfloat16", "int8", "int4"])
def test_generate_writes_what_a_model_of_these_weights_writes(weights):
    result = run("generate", "ROMEO", "--weights", weights, "--kv", "int8", "-n", 12, "--temperature", 0)
    model, tokenizer = nanolm.load("target", weights=weights)
    prompt = [model.config.bos_token_id, *tokenizer.encode("ROMEO")]
    expected = tokenizer.decode(model.generate(prompt, 12, cache_kind="int8"), skip_special_tokens=True)
    assert result.stdout == expected + "\n"


def test_info_shows_one_kind_of_weights_and_cache():
    result = run("info", "target", "--weights", "int8", "--kv", "int8")
    table = rows(result.stdout)
    # 2·L·K·(H + 2) = 2·12·2·34 bytes a token; 2,048 tokens of it.
    assert table["int8"][2:] == ["1,632", "3,342,336"] and "int4" not in table


def test_size_takes_the_engine_s_words_for_bits():
    by_word, by_bits = (
        run("size", "--weights", "int4", "--kv", "float8"),
        run("size", "--weight-bits", 4.5, "--kv-bits", 8),
    )
    assert by_word.exit_code == 0 and by_word.stdout == by_bits.stdout
