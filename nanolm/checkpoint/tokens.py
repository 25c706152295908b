"""Which tokens begin and end a text, and the tokenizer itself, from the files beside a model's weights."""

from dataclasses import replace
from pathlib import Path

from ..config import ModelConfig
from ..text.tokenizer import Tokenizer


def read_tokens(config: ModelConfig, folder: Path) -> ModelConfig:
    return config


def read_tokenizer(folder: Path, config: ModelConfig) -> Tokenizer:
    return Tokenizer.from_file(folder / "tokenizer.json")
