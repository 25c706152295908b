"""Checkpoints on disk that a test can afford: random weights, and a tokenizer that spells every text."""

from functools import cache
from pathlib import Path

import tokenizers
import torch
from tiny_models import tiny_config
from tokenizers import decoders, models, pre_tokenizers, trainers

from nanolm.checkpoint import save
from nanolm.model import NanoLM
from nanolm.text import Tokenizer

END = "<|endoftext|>"
_LEARNED_FROM = "To be, or not to be, that is the question: the taxi costs 21 dollars, and the king is not to be seen."


@cache
def _tokenizer_json(vocab_size: int) -> str:
    inner = tokenizers.Tokenizer(models.BPE())
    inner.pre_tokenizer, inner.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=[END], initial_alphabet=alphabet, show_progress=False
    )
    inner.train_from_iterator([_LEARNED_FROM], trainer)
    return inner.to_str()


def tiny_tokenizer(vocab_size: int = 290) -> Tokenizer:
    """Return a byte-level tokenizer: the end token as id 0, the 256 bytes, and what it merged from one sentence."""
    return Tokenizer(tokenizers.Tokenizer.from_str(_tokenizer_json(vocab_size)))


def write_checkpoint(folder: Path, seed: int = 0, vocab_size: int = 290, **changes) -> Path:
    """Save a random model in float32 with its tokenizer; return the folder."""
    sizes = dict(vocab_size=vocab_size, max_positions=1024, bos_token_id=0, eos_token_ids=(0,))
    model = NanoLM(tiny_config(**{**sizes, **changes})).requires_grad_(False)
    generator = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        # About as large as a trained model's: larger ones multiply the rounding error layer by layer.
        weight.normal_(1.0 if weight.ndim == 1 else 0.0, 0.2, generator=generator)
    save(model, tiny_tokenizer(vocab_size), folder, torch.float32)
    return folder
