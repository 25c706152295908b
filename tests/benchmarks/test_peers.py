"""Tests `benchmarks.peers`: its files stand for the same weights, its rows say what was measured and what failed."""

import json

import pytest
import torch
import typer
from gguf_twins import real_smollm2, write_twin
from typer.testing import CliRunner

from benchmarks.peers import __main__ as peers
from benchmarks.peers.files import FOLDER, KINDS, write_files
from benchmarks.peers.worker import RATES, mixed
from nanolm import load
from nanolm.checkpoint import GGUFFile, load_gguf


@pytest.fixture(scope="module")
def twin(tmp_path_factory):
    """A random model's GGUF file, its matrices in Q4_1."""
    return write_twin(tmp_path_factory.mktemp("peers") / "tiny.gguf", n_heads=4).path


@pytest.fixture(scope="module")
def paths(twin):
    """Its files in all precisions."""
    return write_files(twin, twin.parent / "files")


def weights_of(path):
    return load_gguf(path)[0].state_dict()


def test_the_float32_file_holds_the_floats_that_the_source_stands_for(twin, paths):
    source = weights_of(twin)
    for name, weight in weights_of(paths["float32"]).items():
        assert torch.equal(weight, source[name]), name


# bfloat16 keeps 8 bits of a number, an error of 1/256 at most. Q8_0 has 127 steps from 0 to the largest of 32 numbers,
# Q4_1 15 between the smallest and the largest: half a step, and the float16 scale's 1/2048 of what it scales.
@pytest.mark.parametrize(("precision", "share"), [("bfloat16", 1 / 256), ("8 bits", 1 / 250), ("4 bits", 1 / 14)])
def test_the_other_files_hold_them_rounded_to_their_precision(twin, paths, precision, share):
    source = weights_of(twin)
    for name, weight in weights_of(paths[precision]).items():
        assert (weight - source[name]).abs().max() <= share * source[name].abs().max(), name


def test_each_file_keeps_matrices_in_its_format_and_vectors_in_float32(paths):
    for precision, kind in KINDS.items():
        file = GGUFFile(paths[precision])
        assert {file.kinds[name] for name, shape in file.shapes.items() if len(shape) > 1} == {kind}
        assert {file.kinds[name] for name, shape in file.shapes.items() if len(shape) == 1} == {"F32"}


def test_the_folder_for_transformers_holds_the_same_floats_and_the_same_tokenizer(twin, paths):
    model, tokenizer = load(paths[FOLDER])
    for name, weight in weights_of(twin).items():
        assert torch.equal(model.state_dict()[name], weight), name
    assert tokenizer.encode("the 12") == load(twin)[1].encode("the 12")


def test_files_that_are_there_are_not_written_again(twin, paths):
    told = []
    assert write_files(twin, twin.parent / "files", told.append) == paths
    assert not told


def test_the_mixed_requests_are_always_the_same_and_within_their_lengths():
    trace = mixed(64, 1000)
    assert trace == mixed(64, 1000) and len(trace) == 64
    assert {8 <= each.n_prompt_tokens <= 64 and 8 <= each.n_output_tokens <= 32 for each in trace} == {True}
    assert max(max(each.prompt) for each in trace) < 1000


def run_quickly(model, folder, *options):
    app = typer.Typer()
    app.command()(peers.main)
    asked = ["--model", model, "--files", folder, "--results", folder, "--quick", "--threads", 1, *options]
    result = CliRunner().invoke(app, [str(option) for option in asked])
    assert result.exit_code == 0, result.output
    return json.loads((folder / "peers.json").read_text(encoding="utf-8")), result.stdout


def test_a_quick_run_measures_the_engines_that_are_installed_and_names_the_others(twin, tmp_path):
    picture = tmp_path / "peers.svg"
    content, printed = run_quickly(twin, tmp_path, "--precision", "float32", "--plot", picture)
    engines, lacking = peers.installed_engines()
    assert [row["engine"] for row in content["rows"]] == engines and "NanoLM" in engines
    for row in content["rows"]:
        assert all(row[work] > 0 for work in RATES) and row["reads_per_second"] > 0
        assert row["text"] == content["rows"][0]["text"], "in float32 all engines write the same text"
        assert f"float32, 1 thread, {row['engine']}" in printed
    assert all(f"{name} is not measured" in printed for name in lacking)
    assert picture.read_text(encoding="utf-8").count("<svg") == 1


def test_an_engine_that_fails_is_told_and_the_others_are_measured(twin, tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "ENGINES", ("NanoLM", "no such engine"))
    content, printed = run_quickly(twin, tmp_path, "--precision", "8 bits")
    ours, other = content["rows"]
    assert ours["decode"] > 0 and "failed" not in ours
    assert other["decode"] is None and other["failed"].startswith(
        "loading: the process of no such engine, 8 bits ended"
    )
    assert "8 bits, 1 thread, no such engine failed at loading" in printed


def test_the_docs_get_the_table_and_a_picture_that_says_in_words_what_it_shows(tmp_path):
    row = {"engine": "NanoLM", "precision": "8 bits", "threads": 1, "decode": 12.4, "reads_per_second": 20.0}
    row |= {work: 2.0 for work in RATES[1:]} | {"text": [1], "memory": 3e8}
    failed = {"engine": "llama.cpp", "precision": "8 bits", "threads": 1, "decode": None, "failed": "loading: x"}
    setting = {"model": "m.gguf", "rounds": 1, "versions": [], "lacking": {}}
    for folder in ("benchmarks", "book/_static"):
        (tmp_path / folder).mkdir(parents=True)
    page = tmp_path / "benchmarks" / "README.md"
    page.write_text("a\n<!-- peers -->\n<!-- /peers -->\nb\n", encoding="utf-8")
    figures = {
        "machine": peers.machine.describe(),
        "setting": setting,
        "rows": [row, failed | {"reads_per_second": 20.0}],
    }
    peers.write_docs(figures, tmp_path)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("a\n<!-- peers -->") and text.endswith("<!-- /peers -->\nb\n")
    assert "| 8 bits, 1 thread, NanoLM | 12.4 | 0.62 | 1.00 | 2.0 | 2.0 | 2.0 | 300 | yes |" in text
    assert "| 8 bits, 1 thread, llama.cpp | failed |" in text
    assert "![Tokens a second, one text: 8 bits, 1 thread, NanoLM 12.](../book/_static/peers.svg)" in text
    assert (tmp_path / "book" / "_static" / "peers.svg").read_text(encoding="utf-8").count("<svg") == 1


def test_transformers_has_no_row_in_8_and_4_bits():
    assert [peers.runs("transformers", precision) for precision in KINDS] == [True, True, False, False]
    assert all(peers.runs(engine, precision) for engine in ("NanoLM", "llama.cpp") for precision in KINDS)


def test_a_process_counts_its_own_memory_and_not_that_of_the_one_that_started_it(twin, paths):
    held = bytearray(600 << 20)
    worker = peers.started("NanoLM", "8 bits", paths["8 bits"], 1, 265, True)
    try:
        assert worker.answer() == "ready"
        n = worker.ask("memory")
    finally:
        worker.stop()
    assert len(held) > 0 and (n is None or 50e6 < n < 600 << 20)  # torch alone takes some 300 MB


@pytest.mark.slow
def test_the_real_model_writes_the_same_text_in_all_engines(tmp_path):
    content, _ = run_quickly(real_smollm2(), tmp_path, "--precision", "float32")
    assert len({tuple(row["text"]) for row in content["rows"]}) == 1
