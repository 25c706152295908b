"""From a pass's rows of logits to each request's new tokens: rules, drafts checked, one draw for all rows."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..sampling.logprobs import TokenLogprob, token_logprobs
from ..sampling.params import SamplingParams
from ..sampling.rng import Rng
from ..sampling.rows import rows_probs, sample_rows
from ..speculative.acceptance import verify_draft
from .drafting import TOKENS, VERIFICATION, adjust_request
from .request import Request


class Outcome(NamedTuple):
    """What a pass brought a request, of whose pending tokens it ran n_tokens.

    `new` are its new tokens, none after a chunk of a prompt; None where there could be none, for the reason `error`.
    `logprobs` has one entry a new token, where the request asks for them.
    """

    request: Request
    n_tokens: int
    new: list[int] | None
    logprobs: list[TokenLogprob] | None = None
    error: str | None = None


class TokenChoice:
    """The tokens of a pass: rows of logits are handed in request by request, and drawn from all at once.

    Attributes:
        outcomes: one a request, in order; complete once they are `made`.
    """

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self._logits: list[Tensor] = []
        self._rules: list[SamplingParams] = []
        self._rng: list[Rng] = []
        self._drawn: list[tuple[int, Tensor, slice]] = []  # an outcome, its logits as they came, its rows

    def refuse(self, request: Request, n: int, why: str) -> None:
        """Note a request that can have no token."""
        self.outcomes.append(Outcome(request, n, None, error=why))

    def add(self, request: Request, n: int, logits: Tensor) -> None:
        """Take in the rows behind a request's last token and behind each drafted one that ran."""
        drafted = request.draft[: len(logits) - 1]
        try:
            adjusted = adjust_request(request, logits, drafted)
        except ValueError as error:  # rules that leave no token are their owner's affair
            self.refuse(request, n, str(error))
            return
        if drafted and request.draft_probs is not None:
            self.outcomes.append(outcome_of(request, n, verify(request, adjusted, drafted), logits))
            return
        start = len(self._rules)
        self._logits.append(adjusted)
        self._rules += [request.sampling] * len(logits)
        self._rng += [request.rng.at(request.n_drawn + i, TOKENS) for i in range(len(logits))]
        self._drawn.append((len(self.outcomes), logits, slice(start, len(self._rules))))
        self.outcomes.append(Outcome(request, n, []))

    def made(self) -> list[Outcome]:
        """Draw, and return the outcomes."""
        tokens = self.draw(torch.cat(self._logits), self._rules, self._rng) if self._rules else []
        for at, logits, rows in self._drawn:
            request, n = self.outcomes[at][:2]
            self.outcomes[at] = outcome_of(request, n, keep_right_guesses(request.draft, tokens[rows]), logits)
        return self.outcomes

    def draw(self, logits: Tensor, rules: Sequence[SamplingParams], rng: Sequence[Rng]) -> list[int]:
        """Return a token for each row, by its own rules and randomness."""
        return sample_rows(logits, rules, rng)[0]


def keep_right_guesses(drafted: Sequence[int], own: Sequence[int]) -> list[int]:
    """Return the target's own tokens up to and with the first that was guessed wrong.

    own[i] is what the target draws behind the text and the first i drafted tokens, so own[i + 1] follows own[i] only
    where that is drafted[i]. Nothing here is random: with a draft the text is the same as without.
    """
    n_right = next((i for i, token in enumerate(own[:-1]) if token != drafted[i]), len(own) - 1)
    return list(own[: n_right + 1])


def verify(request: Request, logits: Tensor, drafted: Sequence[int]) -> list[int]:
    """Return the new tokens of a round of `verify_draft`, which keeps more guesses than equal draws would be."""
    assert request.draft_probs is not None  # whoever drafted has said what from
    probs = rows_probs(logits.to("cpu", torch.float64), request.sampling)
    # Two numbers a token are enough: one to keep it or not, one to draw another.
    rng = request.rng.at(2 * request.n_drawn, VERIFICATION)
    return verify_draft(probs, request.draft_probs[: len(drafted)], drafted, rng)


def outcome_of(request: Request, n: int, new: list[int], logits: Tensor) -> Outcome:
    """Return what a request gets, whose new tokens were drawn from what the rules made of these rows of logits."""
    n_top = request.sampling.logprobs
    return Outcome(request, n, new, None if n_top is None else token_logprobs(logits[: len(new)], new, n_top))


def score_prompt(request: Request, n: int, logits: Tensor) -> None:
    """Note what the model gave the prompt's tokens, where that is wanted, from the rows behind n of its tokens.

    Row i is behind position n_computed + i and so about the next; what an earlier try has noted stays.
    """
    if len(logits) != n or not request.score_prompt:
        return
    first = request.n_computed + 1
    begin, end = len(request.prompt_logprobs) + 1, min(first + n, request.n_prompt)
    if begin < end:
        rows = logits[begin - first : end - first]
        tokens = request.tokens[begin:end]
        request.prompt_logprobs += token_logprobs(rows, tokens, request.sampling.logprobs or 0)


def not_finite(n_read: int) -> str:
    """Return what is said of a request whose logits behind so many tokens cannot be drawn from."""
    return f"the logits after token {n_read} hold NaN or infinity"
