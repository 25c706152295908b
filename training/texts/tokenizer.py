"""The tokenizer both models share: byte-level BPE of 1,024 tokens, learned from the training text only."""

import itertools
from collections.abc import Iterator
from pathlib import Path

from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
from tokenizers.models import BPE

from ..recipe import VOCABULARY
from ..state import write_atomically
from .corpus import play_documents
from .problems import problem_documents

END_TOKEN = "<|endoftext|>"
_PROBLEM_DOCUMENTS = 3000


def training_texts() -> Iterator[str]:
    """What the tokenizer learns from: every training scene, then a fixed sample of training problems."""
    yield from play_documents(held_out=False)
    yield from itertools.islice(problem_documents(seed=1), _PROBLEM_DOCUMENTS)


def train_tokenizer(texts: Iterator[str], vocabulary: int = VOCABULARY) -> Tokenizer:
    """A tokenizer with `vocabulary` entries: the end token as id 0, the 256 bytes, then the learned merges.

    Any text round-trips, because every byte has a token. Digits are split first, so a number is spelled digit by digit
    and a sum can be learned column by column.
    """
    if vocabulary < 257:
        raise ValueError(f"vocabulary: {vocabulary} is too small; 256 bytes and the end token need at least 257")
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_TOKEN],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def shared_tokenizer(path: Path, shipped: Path | None = None) -> Tokenizer:
    """The tokenizer kept at `path`; put there first when the file does not exist, from `shipped` or learned anew.

    Keeping it in a file, and not learning it anew for each model, makes sure that target and draft speak the same ids;
    taking the shipped one makes sure that a new draft speaks those of the shipped target.
    """
    if not path.exists():
        known = shipped is not None and shipped.exists()
        text = shipped.read_text(encoding="utf-8") if known else train_tokenizer(training_texts()).to_str(pretty=True)
        write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return Tokenizer.from_str(path.read_text(encoding="utf-8"))
