"""The command line: what cannot be trained is refused in one line, before anything is read or written."""

import pytest
import torch
from typer.testing import CliRunner

from nanolm import checkpoint
from nanolm.config import ModelConfig
from nanolm.model import NanoLM
from nanolm.text import Tokenizer
from training import train
from training.texts.tokenizer import train_tokenizer

MODEL = ModelConfig(
    vocab_size=260, d_model=16, n_layers=1, n_heads=2, n_kv_heads=1, head_dim=8, d_ff=32, max_positions=64
)


def refused(*arguments):
    """The one line that the command prints when it refuses."""
    result = CliRunner().invoke(train.app, list(arguments))
    assert result.exit_code == 2, result.output
    return " ".join(result.output.split())


@pytest.fixture
def stranger(tmp_path):
    """A checkpoint of another shape and vocabulary than the recipes'."""
    torch.manual_seed(0)
    tokenizer = train_tokenizer(iter(["one two three one two three"]), vocabulary=260)
    checkpoint.save(NanoLM(MODEL), Tokenizer(tokenizer), tmp_path / "stranger")
    return tmp_path / "stranger", tokenizer


def test_an_unknown_model_is_refused_by_name():
    assert refused("big") == "name: 'big' is not a recipe; allowed are target, draft, mixture"


def test_a_teacher_of_another_vocabulary_is_refused(stranger):
    folder, _ = stranger
    other = train_tokenizer(iter(["four five"]), vocabulary=259)
    with pytest.raises(ValueError, match=r"^teacher: .*another vocabulary"):
        train._load_matching(folder, "teacher", other)


def test_a_teacher_of_the_same_vocabulary_is_taken(stranger):
    folder, tokenizer = stranger
    assert train._load_matching(folder, "teacher", tokenizer).config == MODEL


def test_a_teacher_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        train._load_matching(tmp_path / "nowhere", "teacher", None)
