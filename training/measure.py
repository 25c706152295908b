"""Figures of a model: bits per byte, exact-match accuracy on problems, agreement of a draft with its target."""

import math
from collections.abc import Iterable, Iterator

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor

from nanolm.model import NanoLM

from .recipe import END_ID
from .texts.problems import Problem


def windows_of(tokens: np.ndarray, length: int, limit: int | None = None) -> Iterator[Tensor]:
    """The array cut into (8, length + 1) blocks of int64, neighbours sharing one token; the rest is left out."""
    count = (len(tokens) - 1) // length
    count = count if limit is None else min(count, limit)
    rows = np.stack([tokens[i * length : (i + 1) * length + 1] for i in range(count)]).astype(np.int64)
    yield from torch.from_numpy(rows).split(8)


def _device(model: NanoLM) -> torch.device:
    return getattr(model, "device", torch.device("cpu"))  # any function of tokens can be measured, on a CPU


@torch.inference_mode()
def bits_per_byte(
    model: NanoLM, tokens: np.ndarray, tokenizer: Tokenizer, length: int = 1024, limit: int | None = None
) -> float:
    """Bits the model needs per byte of the text that the tokens spell, in windows of `length` tokens.

    Each window starts without context, so the figure is an upper bound. The end tokens' bits count, their bytes do not.
    """
    nats, n_bytes = 0.0, 0
    for block in windows_of(tokens, length, limit):
        ids = block.to(_device(model))
        logits = model(ids[:, :-1]).float()
        nats += float(F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="sum"))
        n_bytes += sum(len(text.encode("utf-8")) for text in tokenizer.decode_batch(block[:, 1:].tolist()))
    return nats / math.log(2) / n_bytes


@torch.inference_mode()
def solved(model: NanoLM, tokenizer: Tokenizer, problems: list[Problem]) -> list[bool]:
    """For each problem, whether greedy decoding from the bare prompt writes exactly its answer.

    Greedy text equals the answer if and only if, with the answer given, the largest logit before each of its tokens
    is that token: so one pass over all positions decides, and nothing needs to be generated.
    """
    right = []
    for start in range(0, len(problems), 64):
        part = problems[start : start + 64]
        prompts = [[END_ID, *ids] for ids in _ids(tokenizer, [p.prompt for p in part])]
        answers = _ids(tokenizer, [p.answer for p in part])
        rows = [prompt + answer for prompt, answer in zip(prompts, answers, strict=True)]
        width = max(map(len, rows))
        # Padding on the right is harmless: no position sees what comes after it.
        tokens = torch.tensor([row + [END_ID] * (width - len(row)) for row in rows], device=_device(model))
        guesses = model(tokens).argmax(-1).tolist()
        for prompt, answer, guess in zip(prompts, answers, guesses, strict=True):
            right.append(guess[len(prompt) - 1 : len(prompt) - 1 + len(answer)] == answer)
    return right


def _ids(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    """The tokens of each text and no others: an answer does not begin with the token that begins a text."""
    return [encoding.ids for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]


def accuracy_by_kind(model: NanoLM, tokenizer: Tokenizer, problems: list[Problem]) -> dict[str, float]:
    """Share of problems solved, 0 to 1, for each kind and, under "all", for all of them together."""
    right = solved(model, tokenizer, problems)
    kinds = list(dict.fromkeys(problem.kind for problem in problems))
    shares = {}
    for kind in kinds:
        ours = [ok for ok, problem in zip(right, problems, strict=True) if problem.kind == kind]
        shares[kind] = sum(ours) / len(ours)
    return {**shares, "all": sum(right) / len(right)}


@torch.inference_mode()
def acceptance(target: NanoLM, draft: NanoLM, blocks: Iterable[Tensor], temperature: float, context: int = 1) -> float:
    """Mean over the tokens of the blocks (B, T + 1) of the chance that the target keeps the draft's proposal.

    The first `context` tokens of each row are given, not proposed. At a temperature above 0 the chance is the sum over
    the vocabulary of min(p, q); at 0 it is 1 where the two agree on the likeliest token and 0 elsewhere.
    """
    if temperature < 0:
        raise ValueError(f"temperature: {temperature} is below 0")
    total, count = 0.0, 0
    for block in blocks:
        p, q = (model(block[:, :-1])[:, context - 1 :].float() for model in (target, draft))
        if temperature == 0:
            kept = (p.argmax(-1) == q.argmax(-1)).double()
        else:
            kept = torch.minimum((p / temperature).softmax(-1), (q / temperature).softmax(-1)).sum(-1).double()
        total, count = total + float(kept.sum()), count + kept.numel()
    return total / count
