"""What the engine needs of a grammar: which tokens may follow, and whether a text is whole.

The mask is the first of the rules: tokens that the grammar forbids get -inf before bias, minimum length, penalties and
temperature see the logits, and none of those makes a logit finite again. A draft is drawn and verified under the same
masks, so that speculation writes each text with the probability that the masked target gives it.
"""

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from jaxtyping import Bool, Float
from torch import Tensor

# What an error begins with that says that an answer has become too complex for its grammar.
GAVE_UP = "the answer's grammar gave up"


class Constraint(Protocol):
    """A grammar along one answer, whose text only grows."""

    def allowed(self, answer: Sequence[int], drafted: Sequence[int]) -> Bool[Tensor, "n V"]:
        """Return for each i from 0 to len(drafted) which tokens may follow answer + drafted[:i].

        Rows behind a drafted token that the grammar forbids, or behind a whole answer, allow everything: nobody will
        draw from them. In every other row something is allowed.

        Raises:
            ValueError: the answer has become too complex for the grammar's limits.
        """
        ...

    def is_whole(self, answer: Sequence[int]) -> bool:
        """Whether the answer is complete and nothing may follow."""
        ...


class Grammar(Protocol):
    """A grammar for any number of answers."""

    def constraint(self, end_tokens: Sequence[int]) -> Constraint:
        """Return a new answer's constraint.

        Args:
            end_tokens: ids that end a text; they may come where the answer is complete, and nowhere else.
        """
        ...


def mask_logits(logits: Float[Tensor, "n V"], allowed: Bool[Tensor, "n W"]) -> Float[Tensor, "n V"]:
    """Return the logits with -inf at all that is not allowed; ids that no mask knows (V > W) are not."""
    mask = torch.zeros(logits.shape, dtype=torch.bool)
    mask[:, : allowed.shape[1]] = allowed[:, : logits.shape[1]]
    return logits.masked_fill(~mask.to(logits.device), -math.inf)
