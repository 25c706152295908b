"""Speculation for several texts at once: one pass of each model serves every row, and rows keep different depths.

The round is that of `speculative_round`; each row has its own rng, so its text is the one it would get alone.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..model.decoder import NanoLM, check_prompts
from ..sampling.params import SamplingParams
from ..sampling.rng import Rng
from .acceptance import verify_draft
from .generate import Round, SpecDecodeStats, check_draft, up_to_end
from .session import BatchSession


def speculate_batch(
    target: NanoLM,
    draft: NanoLM,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    gamma: int = 4,
    sampling: SamplingParams | None = None,
    rng: Sequence[Rng] | None = None,
) -> list[tuple[list[int], SpecDecodeStats]]:
    """Return (new tokens, counts) for every prompt, in order.

    Args:
        rng: one source of randomness a row; None means unseeded.

    Raises:
        ValueError: what `speculate` refuses, or a number of rngs other than the number of prompts.
    """
    sampling = sampling or SamplingParams(temperature=0.0)
    rng = [Rng() for _ in prompts] if rng is None else list(rng)
    if len(rng) != len(prompts):
        raise ValueError(f"rng has {len(rng)} entries for {len(prompts)} prompts; each row needs its own")
    check_prompts(prompts, max_new_tokens, target.config)
    check_draft(draft.config.vocab_size, target.config.vocab_size, gamma)
    ends = sampling.ends(target.config.eos_token_ids)
    capacity = max(map(len, prompts)) + max_new_tokens + gamma + 1  # a row's padding may reach past its own text
    target_reader, draft_reader = (BatchSession(model, sampling, len(prompts), capacity) for model in (target, draft))
    rows = [_Row(list(prompt), len(prompt) + max_new_tokens, SpecDecodeStats()) for prompt in prompts]
    while any(not row.ended for row in rows):
        _round(target_reader, draft_reader, rows, gamma, rng, ends)
    return [(row.text[len(prompt) :], row.stats) for row, prompt in zip(rows, prompts, strict=True)]


class _Row:
    """One text and how far it may go."""

    def __init__(self, text: list[int], limit: int, stats: SpecDecodeStats) -> None:
        self.text, self.limit, self.stats = text, limit, stats
        self.ended = len(text) >= limit

    def gamma(self, most: int) -> int:
        return 0 if self.ended else min(most, self.limit - len(self.text) - 1)


def _round(
    target: BatchSession, draft: BatchSession, rows: list[_Row], gamma: int, rng: list[Rng], ends: Sequence[int]
) -> None:
    """One round of every row that goes on; ended rows read nothing."""
    drafted, draft_probs = _propose(draft, rows, gamma, rng)
    unread = [
        [] if row.ended else row.text[read:] + guesses
        for row, read, guesses in zip(rows, target.lengths, drafted, strict=True)
    ]
    target_probs = target.feed(
        unread, [0 if row.ended else len(guesses) + 1 for row, guesses in zip(rows, drafted, strict=True)]
    )
    for b, row in enumerate(rows):
        if row.ended:
            continue
        new = verify_draft(target_probs[b], draft_probs[b], drafted[b], rng[b])
        kept = up_to_end(new, ends)
        row.stats.count(Round(drafted[b], new), len(kept))
        row.text += kept
        row.ended = kept[-1] in ends or len(row.text) >= row.limit
    for reader in (target, draft):  # the last token of a text has been read by nobody
        reader.truncate([min(len(row.text) - 1, read) for row, read in zip(rows, reader.lengths, strict=True)])


def _propose(draft: BatchSession, rows: list[_Row], gamma: int, rng: list[Rng]) -> tuple[list[list[int]], list[Tensor]]:
    """Each row's drafted tokens and their distributions, (n, V); rows near their limit draft less."""
    wanted = [row.gamma(gamma) for row in rows]
    drafted: list[list[int]] = [[] for _ in rows]
    probs: list[list[Tensor]] = [[] for _ in rows]
    unread = [row.text[read:] for row, read in zip(rows, draft.lengths, strict=True)]
    for depth in range(max(wanted)):
        going = [depth < count for count in wanted]
        fed = draft.feed(
            [tokens if go else [] for tokens, go in zip(unread, going, strict=True)], [int(go) for go in going]
        )
        for b in (b for b, go in enumerate(going) if go):
            unread[b] = [rng[b].categorical(fed[b][-1])]
            drafted[b] += unread[b]
            probs[b].append(fed[b][-1])
    return drafted, [torch.stack(row) if row else torch.empty(0, 0) for row in probs]
