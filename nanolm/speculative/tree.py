"""A tree of drafted tokens: several guesses for one place, and the walk that keeps the target's distribution exact.

A line of drafted tokens ends at the first that is not kept. A tree has siblings there: other guesses for the same
place, which the target has scored in the same pass. This file knows distributions and no model; how a tree is run in
one pass (each token attends to its own ancestors only) is the affair of a model's mask.

Trees: Miao et al. 2023, "SpecInfer", arXiv:2305.09781. Siblings drawn one without the other: Jeon et al. 2024,
"Recursive speculative decoding", arXiv:2402.14160.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from ..sampling.rng import Rng
from .acceptance import residual_distribution


def verify_tree(
    target_probs: Float[Tensor, "n_plus_1 V"],
    draft_probs: Float[Tensor, "n V"],
    drafted: Sequence[int],
    parents: Sequence[int],
    rng: Rng,
) -> list[int]:
    """Return the new tokens of a round whose n drafted tokens form a tree: one path down from the text, and one more.

    The walk starts at the text. At each place its children are tried in their order, each with one `rng.bernoulli`.
    A child with token x is kept with probability min(1, p(x)/q(x)), where q is its row of draft_probs and p is what
    the target still owes at this place: the target's own row for the first child, and after every child that was not
    kept the residual of p and that child's q. The first child that is kept is the next place; its siblings and all
    below them are forgotten. Where no child is kept, or there is none, one `rng.categorical` draws the last token of
    the round from what is owed there.

    When every token was drawn from its row of draft_probs, texts are distributed as the target alone writes them. A
    tree without branches is a line, and the result that of `verify_draft`.

    Args:
        target_probs: row 0 is the target's distribution behind the text, row i + 1 the one behind drafted[i] and all
            its ancestors, (n + 1, V).
        draft_probs: row i is the distribution that drafted[i] was drawn from, given the siblings before it, (n, V).
        drafted: the tokens of the tree.
        parents: for each token the index of the one that it continues, -1 where that is the text. A parent stands
            before its children. Siblings are in the order in which they were drawn.
        rng: one `bernoulli` for each child that is tried, one `categorical` at the end.

    Raises:
        ValueError: parents, or rows, that do not fit the drafted tokens; a drafted token of draft probability 0.
    """
    check_tree(target_probs, draft_probs, drafted, parents)
    new: list[int] = []
    place = -1  # the text
    while True:
        owed, kept = target_probs[place + 1], None
        for child in (i for i, parent in enumerate(parents) if parent == place):
            token, q = drafted[child], draft_probs[child]
            if rng.bernoulli(owed[token].item() / q[token].item()):
                kept = child
                break
            owed = residual_distribution(owed, q)
        if kept is None:
            return [*new, rng.categorical(owed)]
        new.append(drafted[kept])
        place = kept


def sample_siblings(probs: Float[Tensor, "V"], n: int, rng: Rng) -> tuple[list[int], Float[Tensor, "m V"]]:
    """Return up to n different tokens for one place, and the distribution that each was drawn from.

    The first is drawn from `probs`, each other one from what is left of it without those before, scaled to sum 1. There
    are fewer than n where fewer tokens have a probability above 0.

    Raises:
        ValueError: n below 1.
    """
    if n < 1:
        raise ValueError(f"n is {n}; at least 1 token is drawn")
    tokens: list[int] = []
    rows = []
    left = probs
    for _ in range(min(n, int((probs > 0).sum()))):
        rows.append(left / left.sum())
        tokens.append(rng.categorical(rows[-1]))
        left = left.clone()
        left[tokens[-1]] = 0
    return tokens, torch.stack(rows)


def check_tree(target_probs: Tensor, draft_probs: Tensor, drafted: Sequence[int], parents: Sequence[int]) -> None:
    """Raise a ValueError unless these rows belong to these tokens, and the parents make a tree of them."""
    n = len(drafted)
    for name, rows in (("parents", len(parents)), ("draft_probs", len(draft_probs))):
        if rows != n:
            raise ValueError(f"{name} has {rows} entries for {n} drafted tokens; each token needs one")
    if len(target_probs) != n + 1:
        raise ValueError(f"target_probs has {len(target_probs)} rows for {n} drafted tokens; it needs {n + 1}")
    for i, (token, parent) in enumerate(zip(drafted, parents, strict=True)):
        if not -1 <= parent < i:
            raise ValueError(f"parents[{i}] is {parent}; it must be -1 or the index of an earlier token")
        if draft_probs[i, token] == 0:
            raise ValueError(f"drafted[{i}] is {token}, which has draft probability 0: it cannot have been drawn")
