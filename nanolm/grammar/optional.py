"""A grammar that an answer follows once it begins like one that does, and is free of otherwise: a call, or a text."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..text.tokenizer import Tokenizer
from .guidance import GuidanceGrammar


class OptionalGrammar:
    """A grammar, or anything.

    Args:
        grammar: of the answers that begin with the trigger.
        trigger: their beginning; not empty.
        tokenizer: makes text of tokens.
    """

    def __init__(self, grammar: GuidanceGrammar, trigger: str, tokenizer: Tokenizer) -> None:
        self.grammar, self.trigger, self.tokenizer = grammar, trigger, tokenizer

    def constraint(self, end_tokens: Sequence[int]) -> "OptionalConstraint":
        """As Grammar.constraint."""
        return OptionalConstraint(self, end_tokens)


class OptionalConstraint:
    """Such a grammar along one answer. What is allowed depends on the text alone, so that drafts see the same masks."""

    def __init__(self, grammar: OptionalGrammar, end_tokens: Sequence[int]) -> None:
        self._of, self._ends = grammar, end_tokens
        self._inner = grammar.grammar.constraint(end_tokens)
        self._is_bound: bool | None = None  # None: too short to tell

    def allowed(self, answer: Sequence[int], drafted: Sequence[int]) -> Tensor:
        """As Constraint.allowed."""
        self._decide(answer)
        if self._is_bound:
            return self._inner.allowed(answer, drafted)
        rows = torch.ones(len(drafted) + 1, self._of.grammar.vocab_size, dtype=torch.bool)
        if self._is_bound is None:
            for i in range(1, len(drafted) + 1):
                text = [*answer, *drafted[:i]]
                if self._binds(text):
                    rows[i] = self._of.grammar.constraint(self._ends).allowed(text, [])[0]
        return rows

    def is_whole(self, answer: Sequence[int]) -> bool:
        """As Constraint.is_whole."""
        self._decide(answer)
        return bool(self._is_bound) and self._inner.is_whole(answer)

    def _decide(self, answer: Sequence[int]) -> None:
        if self._is_bound is None:
            self._is_bound = self._binds(answer)

    def _binds(self, answer: Sequence[int]) -> bool | None:
        """Whether an answer is one that follows the grammar; None if it is too short to tell."""
        text = self._of.tokenizer.decode(answer)
        if not text.startswith(self._of.trigger):
            return None if self._of.trigger.startswith(text) else False
        return self._of.grammar.takes(answer)  # its last token may hold more than the trigger, and break it at once
