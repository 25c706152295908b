"""Speculative decoding: a cheap draft guesses γ tokens, the target checks them all in one pass.

The output is distributed exactly as the target's own: a guess x is kept with probability min(1, p(x)/q(x)), and
where one is not kept, the token comes from the residual max(p - q, 0) instead (Leviathan et al. 2022, algorithm 1
and appendix A.1; Chen et al. 2023, theorem 1).

p is the target and q the draft, here `target_probs` and `draft_probs`; some papers swap the letters. Temperature,
top-k and top-p are already in both. This file knows distributions and sessions; it knows no model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from .dice import Dice

from course import NotYetWritten


def residual_distribution(target_probs: Float[Tensor, "V"], draft_probs: Float[Tensor, "V"]) -> Float[Tensor, "V"]:
    """Return the distribution to draw from when a drafted token was not kept: max(p - q, 0), scaled to sum 1.

    It holds what the target gives beyond the draft, so tokens that the draft overrated get 0.

    Args:
        target_probs: p, the target's distribution of this token, (V,).
        draft_probs: q, the draft's, (V,).

    Raises:
        ValueError: p = q, where nothing is left over (such a draft is always kept, so nobody needs this).
    """
    raise NotYetWritten(
        "exercise 4.1 residual_distribution is not written yet: read "
        "notebooks/week04_speculative/week04_speculative.ipynb, write it in exercises/speculative.py, then run: "
        "NANOLM_IMPL=exercises python -m pytest tests/test_speculative.py -k residual_distribution"
    )


def accept_or_resample(
    target_probs: Float[Tensor, "V"], draft_probs: Float[Tensor, "V"], draft_token: int, dice: Dice
) -> tuple[int, bool]:
    """Return (token, accepted) for one drafted token.

    With probability min(1, p(x)/q(x)) the drafted token x is kept: (x, True). Otherwise a token is drawn from the
    residual distribution: (that token, False). When x was drawn from q, the returned token is distributed as p.

    Args:
        target_probs: p, (V,).
        draft_probs: q, the distribution that draft_token was drawn from, (V,).
        draft_token: x, a token id with q(x) > 0.
        dice: `bernoulli` decides about keeping, `categorical` draws from the residual.

    Raises:
        ValueError: probabilities that are negative, NaN or do not sum to 1; shapes that differ; q(x) = 0.
    """
    raise NotYetWritten(
        "exercise 4.2 accept_or_resample is not written yet: read "
        "notebooks/week04_speculative/week04_speculative.ipynb, write it in exercises/speculative.py, then run: "
        "NANOLM_IMPL=exercises python -m pytest tests/test_speculative.py -k accept_or_resample"
    )


def acceptance_rate(target_probs: Float[Tensor, "... V"], draft_probs: Float[Tensor, "... V"]) -> Float[Tensor, "..."]:
    """Return α, the probability that one drafted token is kept: the sum over tokens of min(p, q).

    It is 1 for equal distributions and 0 for distributions that share no token (Leviathan et al. 2022, section 3.2).
    Leading dimensions are kept: (…, V) gives (…).
    """
    raise NotYetWritten(
        "exercise 4.3 acceptance_rate is not written yet: read "
        "notebooks/week04_speculative/week04_speculative.ipynb, write it in exercises/speculative.py, then run: "
        "NANOLM_IMPL=exercises python -m pytest tests/test_speculative.py -k acceptance_rate"
    )


def expected_tokens_per_round(alpha: float, gamma: int) -> float:
    """Return the mean number of tokens that one target pass yields: 1 + α + α² + … + α^γ.

    One token always comes (the resampled or the bonus token); the i-th drafted token is kept if it and all before
    it are, which happens with α^i. That takes α as equal at every position (Leviathan et al. 2022, equation 1).

    Args:
        alpha: acceptance rate, 0 to 1. At 1 the result is γ + 1.
        gamma: drafted tokens a round, 0 or more.

    Raises:
        ValueError: alpha outside 0 … 1, or gamma negative.
    """
    raise NotYetWritten(
        "exercise 4.4 expected_tokens_per_round is not written yet: read "
        "notebooks/week04_speculative/week04_speculative.ipynb, write it in exercises/speculative.py, then run: "
        "NANOLM_IMPL=exercises python -m pytest tests/test_speculative.py -k expected_tokens_per_round"
    )


def speculative_speedup(alpha: float, gamma: int, draft_cost: float) -> float:
    """Return how many times faster than plain decoding speculation is: tokens a round over the time of a round.

    A round takes γ draft passes and one target pass, so in units of a target pass 1 + γ·draft_cost. That the target
    checks γ + 1 positions in the time of one holds while loading weights is what a pass waits for (Leviathan et al.
    2022, theorem 3.8). Below 1 means speculation loses.

    Args:
        alpha: acceptance rate, 0 to 1.
        gamma: drafted tokens a round, 0 or more; 0 gives 1.
        draft_cost: time of a draft pass as a share of a target pass, 0 or more.

    Raises:
        ValueError: an argument out of its range.
    """
    raise NotYetWritten(
        "exercise 4.5 speculative_speedup is not written yet: read "
        "notebooks/week04_speculative/week04_speculative.ipynb, write it in exercises/speculative.py, then run: "
        "NANOLM_IMPL=exercises python -m pytest tests/test_speculative.py -k speculative_speedup"
    )


def best_gamma(alpha: float, draft_cost: float, max_gamma: int = 32) -> int:
    """Return the γ from 0 to max_gamma with the largest speculative_speedup, the smallest among equals.

    0 means: do not speculate.
    """
    raise NotYetWritten(
        "exercise 4.6 best_gamma is not written yet: read notebooks/week04_speculative/week04_speculative.ipynb, "
        "write it in exercises/speculative.py, then run: NANOLM_IMPL=exercises python -m pytest "
        "tests/test_speculative.py -k best_gamma"
    )


class Reader(Protocol):
    """What speculation needs of the target: a `Session`, or anything like one."""

    length: int

    def feed(self, tokens: Sequence[int], last: int = 1) -> Tensor:
        """Read tokens; return the next-token distributions after the last `last` of them, (last, V)."""

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` tokens."""


class Draft(Protocol):
    """What speculation needs of a draft; `nanolm.drafts` has two kinds."""

    length: int

    def propose(self, text: Sequence[int], gamma: int, dice: Dice) -> tuple[list[int], Tensor]:
        """Return up to γ tokens that may follow the text, and the distribution each was drawn from, (n, V)."""

    def truncate(self, length: int) -> None:
        """Forget all but the first `length` tokens."""


class Round(NamedTuple):
    """What one round did: the tokens guessed, and the tokens that came out, all kept but the last."""

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


def verify_draft(
    target_probs: Float[Tensor, "n_plus_1 V"], draft_probs: Float[Tensor, "n V"], drafted: Sequence[int], dice: Dice
) -> list[int]:
    """Return the new tokens of a round, 1 to n + 1 of them.

    The drafted tokens are taken in order. Each goes through `accept_or_resample`; at the first that is not kept,
    the token drawn in its place is the last of the round, for what was drafted behind it continued another text.
    If all n are kept, the target pass has one more distribution to offer, and a bonus token is drawn from it.

    Args:
        target_probs: row i is the target's distribution given the text and the first i drafted tokens, (n + 1, V).
        draft_probs: row i is the distribution that drafted[i] was drawn from, (n, V).
        drafted: the n guesses; with none, the one new token is drawn from target_probs[0].
    """
    raise NotYetWritten(
        "exercise 4.7 verify_draft is not written yet: read notebooks/week04_speculative/week04_speculative.ipynb, "
        "write it in exercises/speculative.py, then run: NANOLM_IMPL=exercises python -m pytest "
        "tests/test_speculative.py -k verify_draft"
    )


def speculative_round(target: Reader, draft: Draft, text: Sequence[int], gamma: int, dice: Dice) -> Round:
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
        "notebooks/week04_speculative/week04_speculative.ipynb, write it in exercises/speculative.py, then run: "
        "NANOLM_IMPL=exercises python -m pytest tests/test_speculative.py -k speculative_round"
    )


def speculative_generate(
    target: Reader,
    draft: Draft,
    prompt: Sequence[int],
    max_new_tokens: int,
    gamma: int,
    dice: Dice,
    end_tokens: Sequence[int] = (),
    on_round: Callable[[Round], None] | None = None,
) -> tuple[list[int], SpecDecodeStats]:
    """Return (new tokens, counts): rounds of speculation until max_new_tokens or an end token.

    Neither the prompt nor anything behind the first end token is in the result; the end token itself is. The last
    rounds draft less: with r tokens still to write, more than r - 1 guesses could not be used.

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
        "notebooks/week04_speculative/week04_speculative.ipynb, write it in exercises/speculative.py, then run: "
        "NANOLM_IMPL=exercises python -m pytest tests/test_speculative.py -k speculative_generate"
    )


def baseline_generate(
    target: Reader, prompt: Sequence[int], max_new_tokens: int, dice: Dice, end_tokens: Sequence[int] = ()
) -> tuple[list[int], SpecDecodeStats]:
    """Return (new tokens, counts) of plain decoding, one token a target pass: what speculation is measured against."""
    _check_request(prompt, max_new_tokens, gamma=0)
    text, stats = list(prompt), SpecDecodeStats()
    for _ in range(max_new_tokens):
        token = dice.categorical(target.feed(text[target.length :])[-1])
        text.append(token)
        stats.count(Round([], [token]), written=1)
        if token in end_tokens:
            break
    return text[len(prompt) :], stats


def check_distributions(target_probs: Tensor, draft_probs: Tensor) -> None:
    """Raise a ValueError unless both are distributions over the same vocabulary, (V,)."""
    if target_probs.shape != draft_probs.shape or target_probs.ndim != 1:
        raise ValueError(
            f"target_probs has shape {tuple(target_probs.shape)} and draft_probs {tuple(draft_probs.shape)}; "
            "both must be (V,), over one vocabulary"
        )
    for name, probs in (("target_probs", target_probs), ("draft_probs", draft_probs)):
        total, least = probs.sum().item(), probs.min().item()
        if not abs(total - 1) < 1e-4 or not least >= 0:  # written so that NaN fails too
            raise ValueError(
                f"{name} sums to {total:.6g} with least entry {least:.6g}; probabilities are 0 or more and sum to 1"
            )


def check_draft(draft_vocabulary: int, target_vocabulary: int, gamma: int) -> None:
    """Raise a ValueError unless a draft with this vocabulary can guess gamma tokens for this target."""
    if draft_vocabulary != target_vocabulary:
        raise ValueError(
            f"draft has {draft_vocabulary} tokens and target {target_vocabulary}; they must share one vocabulary"
        )
    _check_alpha_gamma(1.0, gamma)


def up_to_end(tokens: list[int], end_tokens: Sequence[int]) -> list[int]:
    """Return the tokens up to and with the first end token."""
    first = next((i for i, token in enumerate(tokens) if token in end_tokens), len(tokens) - 1)
    return tokens[: first + 1]


def _check_alpha_gamma(alpha: float, gamma: int) -> None:
    if not 0 <= alpha <= 1:
        raise ValueError(f"alpha is {alpha}; an acceptance rate lies between 0 and 1")
    if gamma < 0:
        raise ValueError(f"gamma is {gamma}; a round drafts 0 or more tokens")


def _check_request(prompt: Sequence[int], max_new_tokens: int, gamma: int) -> None:
    if not len(prompt):
        raise ValueError("prompt is empty; the first token needs one before it (a start token will do)")
    if max_new_tokens < 0:
        raise ValueError(f"max_new_tokens is {max_new_tokens}; it must be 0 or more")
    _check_alpha_gamma(1.0, gamma)
