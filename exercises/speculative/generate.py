"""Rounds of speculation, one text: draft, verify in one pass, keep what stays."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from torch import Tensor

from .._require import require_whole
from ..sampling.rng import Rng
from .acceptance import verify_draft
from .speedup import check_alpha_gamma

from course import NotYetWritten


class TargetModel(Protocol):
    """What speculation needs of the target: a `Session`, or anything like one."""

    @property
    def length(self) -> int:
        """Tokens read so far."""
        ...

    def feed(self, tokens: Sequence[int], last: int = 1) -> Tensor:
        """Read tokens; return the next-token distributions after the last `last` of them, (last, V)."""
        ...

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` tokens."""


class Draft(Protocol):
    """What speculation needs of a draft; `nanolm.speculative.drafts` has two kinds."""

    @property
    def length(self) -> int:
        """Tokens read so far."""
        ...

    def propose(self, text: Sequence[int], gamma: int, rng: Rng) -> tuple[list[int], Tensor]:
        """Return up to γ tokens that may follow the text, and the distribution each was drawn from, (n, V)."""
        ...

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` tokens."""


class Round(NamedTuple):
    """What one round did: the tokens drafted, and the tokens that came out, all kept but the last."""

    drafted: list[int]
    tokens: list[int]


@dataclass
class SpecDecodeStats:
    """Counts over a generation.

    Attributes:
        new_tokens: tokens written.
        target_forwards: passes of the target.
        drafted: tokens the draft proposed.
        examined: drafted tokens that a decision was made about; those behind a rejection are thrown away unseen.
        accepted: examined tokens that were kept.
    """

    new_tokens: int = 0
    target_forwards: int = 0
    drafted: int = 0
    examined: int = 0
    accepted: int = 0

    @property
    def acceptance_rate(self) -> float:
        """Share of the examined drafted tokens that were kept, an estimate of α; NaN before the first."""
        return self.accepted / self.examined if self.examined else float("nan")

    @property
    def tokens_per_target_forward(self) -> float:
        """Mean number of new tokens a target pass; NaN before the first."""
        return self.new_tokens / self.target_forwards if self.target_forwards else float("nan")

    def count(self, done: Round, written: int) -> None:
        """Add one round, of whose tokens the first `written` went into the text (an end token cuts the rest off)."""
        self.new_tokens += written
        self.target_forwards += 1
        self.drafted += len(done.drafted)
        self.examined += min(len(done.drafted), len(done.tokens))
        self.accepted += len(done.tokens) - 1


def speculative_round(target: TargetModel, draft: Draft, text: Sequence[int], gamma: int, rng: Rng) -> Round:
    """Run one round and return the tokens drafted and the 1 to γ + 1 new tokens.

    1. The draft proposes up to γ tokens after the text.
    2. The target reads, in one pass, whatever of the text it has not read yet and all drafted tokens, and so gives
       the distribution after the text and after each of them.
    3. `verify_draft` decides which stay.
    4. Both forget what did not stay. Of the new tokens the last has been read by nobody: it was drawn after the
       pass. So len(text) + len(new) - 1 tokens stay read (the draft may have read fewer, and keeps those).

    Args:
        target: has read some beginning of the text, not all of it.
        draft: likewise.
        text: the whole text so far, at least one token longer than target.length.
        gamma: most tokens to draft, 0 or more.

    Raises:
        ValueError: gamma negative.
    """
    raise NotYetWritten(
        "exercise 4.8 speculative_round is not written yet: read "
        "notebooks/week04_speculative/week04_speculative.ipynb, write it in exercises/speculative/generate.py, then"
        " run: NANOLM_IMPL=exercises python -m pytest tests/speculative/test_round.py --exercise speculative_round"
    )


def speculative_generate(
    target: TargetModel,
    draft: Draft,
    prompt: Sequence[int],
    max_new_tokens: int,
    gamma: int,
    rng: Rng,
    end_tokens: Sequence[int] = (),
    on_round: Callable[[Round], None] | None = None,
) -> tuple[list[int], SpecDecodeStats]:
    """Return (new tokens, counts): rounds of speculation until max_new_tokens or an end token.

    Neither the prompt nor anything behind the first end token is in the result; the end token itself is. The last
    rounds draft less: with r tokens still to write, more than r - 1 drafted tokens could not be used.

    Args:
        target, draft: fresh, or having read a beginning of the prompt.
        prompt: token ids, at least one.
        gamma: tokens drafted a round; 0 is plain decoding.
        end_tokens: ids that end the text, also in the middle of a round.
        on_round: called with every round.

    Raises:
        ValueError: an empty prompt, or gamma or max_new_tokens negative.
    """
    raise NotYetWritten(
        "exercise 4.9 speculative_generate is not written yet: read "
        "notebooks/week04_speculative/week04_speculative.ipynb, write it in exercises/speculative/generate.py, then"
        " run: NANOLM_IMPL=exercises python -m pytest tests/speculative/test_generate.py --exercise "
        "speculative_generate"
    )


def baseline_generate(
    target: TargetModel, prompt: Sequence[int], max_new_tokens: int, rng: Rng, end_tokens: Sequence[int] = ()
) -> tuple[list[int], SpecDecodeStats]:
    """Return (new tokens, counts) of plain decoding, one token a target pass: what speculation is measured against."""
    check_request(prompt, max_new_tokens, gamma=0)
    text, stats = list(prompt), SpecDecodeStats()
    for _ in range(max_new_tokens):
        token = rng.categorical(target.feed(text[target.length :])[-1])
        text.append(token)
        stats.count(Round([], [token]), written=1)
        if token in end_tokens:
            break
    return text[len(prompt) :], stats


def check_draft(draft_vocabulary: int, target_vocabulary: int, gamma: int) -> None:
    """Raise a ValueError unless a draft with this vocabulary can propose gamma tokens for this target."""
    if draft_vocabulary != target_vocabulary:
        raise ValueError(
            f"draft has {draft_vocabulary} tokens and target {target_vocabulary}; they must share one vocabulary"
        )
    check_alpha_gamma(1.0, gamma)


def up_to_end(tokens: list[int], end_tokens: Sequence[int]) -> list[int]:
    """Return the tokens up to and with the first end token."""
    first = next((i for i, token in enumerate(tokens) if token in end_tokens), len(tokens) - 1)
    return tokens[: first + 1]


def check_request(prompt: Sequence[int], max_new_tokens: int, gamma: int) -> None:
    """Raise a ValueError for an empty prompt, or for max_new_tokens or gamma below 0."""
    if not len(prompt):
        raise ValueError("prompt is empty; the first token needs one before it (a start token will do)")
    require_whole(0, max_new_tokens=max_new_tokens)
    check_alpha_gamma(1.0, gamma)
