"""A grammar that an answer follows once a trigger has come, and is free of before: a text, and then perhaps calls."""

from collections.abc import Sequence
from copy import copy

import torch
from torch import Tensor

from .guidance import GrammarCompiler, GuidanceConstraint, GuidanceGrammar


class OptionalGrammar:
    """Any text, up to a trigger; from there on a grammar.

    Args:
        grammar: of the text from the trigger on.
        trigger: its beginning; not empty.
        compiler: of the grammar; it knows the bytes of tokens.
        anywhere: whether other text may stand before the trigger; else spaces alone.
    """

    def __init__(
        self, grammar: GuidanceGrammar, trigger: str, compiler: GrammarCompiler, anywhere: bool = False
    ) -> None:
        self.grammar, self.trigger, self.compiler, self.anywhere = grammar, trigger.encode(), compiler, anywhere

    def constraint(self, end_tokens: Sequence[int]) -> "OptionalConstraint":
        """As Grammar.constraint."""
        return OptionalConstraint(self, end_tokens)


class OptionalConstraint:
    """Such a grammar along one answer. What is allowed depends on the text alone, so that drafts see the same masks."""

    def __init__(self, grammar: OptionalGrammar, end_tokens: Sequence[int]) -> None:
        self._of, self._ends = grammar, end_tokens
        self._search, self._n_read = _Search(grammar), 0
        self._inner: GuidanceConstraint | None = None  # once the trigger has come
        self._before: list[int] = []  # what it has read of the answer's first tokens, from the trigger on

    def allowed(self, answer: Sequence[int], drafted: Sequence[int]) -> Tensor:
        """As Constraint.allowed."""
        self._read(answer)
        if self._inner is not None:
            return self._inner.allowed(self._bound(answer), drafted)
        rows = torch.ones(len(drafted) + 1, self._of.grammar.vocab_size, dtype=torch.bool)
        ahead = self._search.copy()
        for i, token in enumerate(drafted, 1):
            begun = None if token in self._ends else ahead.take(token)
            if token in self._ends:
                break
            if begun is not None:
                rows[i:] = self._of.grammar.constraint(self._ends).allowed(begun, drafted[i:])
                break
        return rows

    def is_whole(self, answer: Sequence[int]) -> bool:
        """As Constraint.is_whole."""
        self._read(answer)
        return self._inner is not None and self._inner.is_whole(self._bound(answer))

    def _read(self, answer: Sequence[int]) -> None:
        while self._inner is None and self._n_read < len(answer):
            begun = self._search.take(answer[self._n_read])
            self._n_read += 1
            if begun is not None:
                self._before, self._inner = begun, self._of.grammar.constraint(self._ends)

    def _bound(self, answer: Sequence[int]) -> list[int]:
        """The answer from the trigger on."""
        return [*self._before, *answer[self._n_read :]]


class _Search:
    """Looks for the trigger in the bytes of an answer, a token at a time."""

    def __init__(self, of: OptionalGrammar) -> None:
        self._of, self._tokens, self._is_over = of, [], False

    def copy(self) -> "_Search":
        """Return one that goes on from here by itself."""
        other = copy(self)
        other._tokens = [*self._tokens]
        return other

    def take(self, token: int) -> list[int] | None:
        """Return the tokens from the trigger on if it is complete with this one, and the grammar takes what is there.

        A token may hold more than the trigger, and break the grammar at once: then it is text.
        """
        if self._is_over:
            return None
        self._tokens.append(token)
        text, trigger = self._bytes(self._tokens), self._of.trigger
        at = text.find(trigger)
        while at >= 0 and (self._of.anywhere or not text[:at].strip()):
            begun = self._from(at)
            if self._of.grammar.takes(begun):
                return begun
            at = text.find(trigger, at + 1)
        self._is_over = not self._of.anywhere and not trigger.startswith(text.strip())
        while self._of.anywhere and len(self._bytes(self._tokens[1:])) >= len(trigger) - 1 and self._tokens:
            del self._tokens[0]
        return None

    def _from(self, at: int) -> list[int]:
        """The tokens that make the text from a place on; the first may be another one, where that is within one."""
        for i, token in enumerate(self._tokens):
            own = self._bytes([token])
            if at < len(own):
                first = [token] if at == 0 else self._of.compiler.tokens_of(own[at:])
                return [*first, *self._tokens[i + 1 :]]
            at -= len(own)
        return []

    def _bytes(self, tokens: Sequence[int]) -> bytes:
        known = self._of.compiler.bytes  # a model's vocabulary may be padded with ids that are no tokens
        return b"".join(known[token] for token in tokens if token < len(known))
