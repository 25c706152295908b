"""Stand-ins for models in tests: next-token distributions from a table, with honest books of what was read."""

from collections.abc import Sequence

import torch
from torch import Tensor

# A distribution for each last token, V = 4. Rows differ strongly, so that a stale or shifted context shows.
TARGET_TABLE = torch.tensor(
    [[0.4, 0.3, 0.2, 0.1], [0.1, 0.1, 0.2, 0.6], [0.7, 0.0, 0.1, 0.2], [0.05, 0.5, 0.4, 0.05]], dtype=torch.float64
)
DRAFT_TABLE = torch.tensor(
    [[0.5, 0.1, 0.1, 0.3], [0.3, 0.3, 0.3, 0.1], [0.2, 0.4, 0.2, 0.2], [0.0, 0.2, 0.3, 0.5]], dtype=torch.float64
)


class TableReader:
    """A target whose next token depends on the last one it has *read*, and that remembers what it read.

    After a rejection a real cache still holds the rejected tokens unless it is truncated; so does this one, and its
    next distribution then follows the wrong token.
    """

    def __init__(self, table: Tensor = TARGET_TABLE) -> None:
        self.table, self.read, self.passes = table, [], 0
        self.fed: list[int] = []  # all that it was ever given, what was forgotten later included

    @property
    def length(self) -> int:
        return len(self.read)

    def __repr__(self) -> str:
        return "a draft" if isinstance(self, TableDraft) else "a target"

    @property
    def _at_most(self) -> str:
        if isinstance(self, TableDraft):
            return "it may have read fewer than the target, so forget down to draft.length at most"
        return "the last new token was drawn after the pass and nobody has read it; len(text) + len(new) - 1 stay read"

    def feed(self, tokens: Sequence[int], last: int = 1) -> Tensor:
        assert tokens, (
            "feed was given nothing to read: the text has not grown, or a stale cache holds all of it already"
        )
        assert 1 <= last <= len(tokens), f"feed was asked for {last} rows and given {len(tokens)} tokens to read"
        self.read += list(tokens)
        self.fed += list(tokens)
        self.passes += 1
        return self.table[self.read[-last:]]

    def truncate(self, length: int) -> None:
        assert length >= 0, f"truncate({length}): {self} cannot keep fewer than 0 tokens"
        assert length <= len(self.read), (
            f"truncate({length}), but {self} has read only {len(self.read)} tokens: {self._at_most}"
        )
        del self.read[length:]


class TableDraft(TableReader):
    """A draft with the same books: it reads what it has not read of the text, then its own drafted tokens."""

    def __init__(self, table: Tensor = DRAFT_TABLE) -> None:
        super().__init__(table)

    def propose(self, text: Sequence[int], gamma: int, rng) -> tuple[list[int], Tensor]:
        drafted, probs, unread = [], [], list(text[self.length :])
        for _ in range(gamma):
            q = self.feed(unread)[-1]
            unread = [rng.categorical(q)]
            drafted += unread
            probs.append(q)
        return drafted, torch.stack(probs) if probs else torch.empty(0, self.table.shape[1], dtype=torch.float64)


class ScriptedDraft:
    """A draft that always proposes the same tokens, each with certainty."""

    def __init__(self, tokens: Sequence[int], vocab_size: int = 4) -> None:
        self.tokens, self.vocab_size, self.length = list(tokens), vocab_size, 0

    def propose(self, text: Sequence[int], gamma: int, rng) -> tuple[list[int], Tensor]:
        drafted = self.tokens[:gamma]
        return drafted, torch.nn.functional.one_hot(torch.tensor(drafted), self.vocab_size).double()

    def truncate(self, length: int) -> None:
        pass


def one_hot_rows(*next_tokens: int) -> Tensor:
    """A table that is certain: after token i comes next_tokens[i]."""
    return torch.nn.functional.one_hot(torch.tensor(next_tokens), len(next_tokens)).double()
