"""What the routers of a trained mixture do: the load of the experts, which tokens go where, what a step reads."""

from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from nanolm.budget import effective_experts, expected_unused_experts, expected_unused_given, load_imbalance
from nanolm.model import NanoLM, watch_routers

from .recipe import END_ID

BATCHES = (1, 2, 4, 8, 16, 32, 64)
KINDS = ("digit", "punctuation", "line break", "capitals", "start of a word", "inside a word")
_LENGTH, _PLAY_ROWS, _PROBLEM_ROWS = 256, 50, 14  # 64 texts, about the mixture of the training text


def texts_to_route(plays: np.ndarray, problems: np.ndarray) -> Tensor:
    """64 stretches of held-out text, (64, 256) token ids: 50 of plays, 14 of problems, in mixed order."""
    rows = [
        tokens[start : start + _LENGTH]
        for tokens, n in ((plays, _PLAY_ROWS), (problems, _PROBLEM_ROWS))
        for start in np.linspace(0, len(tokens) - _LENGTH, n).astype(int)
    ]
    texts = torch.from_numpy(np.stack(rows).astype(np.int64))
    return texts[torch.randperm(len(texts), generator=torch.Generator().manual_seed(0))]


@torch.inference_mode()
def choices(model: NanoLM, texts: Tensor) -> Tensor:
    """The experts that each position of the texts (R, T) goes through in each layer, (L, R, T, k)."""
    with watch_routers(model) as stats:
        for block in texts.split(8):
            model(block, last=1)
    return torch.stack([torch.cat(passes).unflatten(0, texts.shape) for passes in stats.choices])


def load_by_layer(chosen: Tensor, n_experts: int) -> list[dict[str, Any]]:
    """For each layer the share of its choices that each expert got, the imbalance and the effective experts."""
    layers = []
    for layer in chosen:
        counts = layer.flatten().bincount(minlength=n_experts).tolist()
        shares = [count / sum(counts) for count in counts]
        measures = {"imbalance": load_imbalance(counts), "effective_experts": effective_experts(counts)}
        layers.append({"shares": shares, **measures})
    return layers


def kind_of(text: str) -> str | None:
    """The kind of a token, by what it spells; None for the end token and for parts of characters."""
    letters = text.strip()
    if "\n" in text:
        return "line break"
    if not letters.isascii() or not (letters or text):
        return None
    if letters.isdigit():
        return "digit"
    if not any(char.isalpha() for char in letters):
        return "punctuation" if letters else None
    if len(letters) > 1 and letters.isupper():
        return "capitals"
    return "start of a word" if text.startswith(" ") else "inside a word"


def favourites(chosen: Tensor, texts: Tensor, tokenizer: Tokenizer, n_experts: int) -> dict[str, dict[str, Any]]:
    """For each kind of token their number and, layer by layer, [the expert most of them go through, their share].

    With k of E experts a position an expert that does not care gets k/E of every kind.
    """
    spelled = {i: None if i == END_ID else kind_of(tokenizer.decode([i])) for i in texts.unique().tolist()}
    kinds = [spelled[token] for token in texts.flatten().tolist()]
    found = {}
    for kind in KINDS:
        mine = torch.tensor([other == kind for other in kinds])
        goes_through = chosen.flatten(1, 2)[:, mine]  # (L, tokens of this kind, k)
        shares = torch.stack([(goes_through == expert).any(-1).double().mean(-1) for expert in range(n_experts)], -1)
        best = shares.max(dim=-1)
        layers = [list(pair) for pair in zip(best.indices.tolist(), best.values.tolist(), strict=True)]
        found[kind] = {"tokens": int(mine.sum()), "layers": layers}
    return found


def experts_read(chosen: Tensor, n_experts: int) -> list[dict[str, float]]:
    """Experts that one step reads in a layer, the mean over layers and steps, for B positions.

    `texts` is a decode step of B texts, each at its own place in its own text, and `one_text` B neighbours in one text,
    as a prefill runs them. `balanced` and `as_loaded` are what is expected of independent positions, with a balanced
    router and with the shares that the experts really have.
    """
    k, rows = chosen.shape[-1], []
    chances = [[k * share for share in layer["shares"]] for layer in load_by_layer(chosen, n_experts)]
    for size in BATCHES:
        as_loaded = [n_experts - expected_unused_given([min(1.0, c) for c in layer], size) for layer in chances]
        rows.append(
            {
                "positions": size,
                "balanced": n_experts - expected_unused_experts(size, n_experts, k),
                "as_loaded": sum(as_loaded) / len(as_loaded),
                "texts": _distinct(chosen.transpose(1, 2), size, n_experts),
                "one_text": _distinct(chosen, size, n_experts),
            }
        )
    return rows


def _distinct(chosen: Tensor, size: int, n_experts: int) -> float:
    """Mean number of different experts in groups of `size` neighbours along the second axis but one."""
    groups = chosen.unfold(2, size, size).flatten(3)  # (L, ., groups, k · size)
    used = torch.zeros(*groups.shape[:3], n_experts).scatter_(3, groups, 1.0)
    return used.sum(-1).mean().item()
