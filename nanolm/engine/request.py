"""A request: what is asked, how far it has come, and why it ended. No tensors: a scheduler needs none."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..paging.blocks import BlockTable
from .metrics import RequestMetrics

if TYPE_CHECKING:
    from torch import Tensor

    from ..grammar.constraint import Constraint, Grammar
    from ..sampling.logprobs import TokenLogprob
    from ..sampling.params import SamplingParams
    from ..sampling.rng import Rng


# In `draft`: a place for a token that is still to be drafted, no token.
TO_DRAFT = -1

# Given by the engine, before it runs the request; whoever only schedules has no use for it.
_LATER: Any = None

# Why a request has ended: an end token, its own stop condition, or a grammar after which nothing may follow;
# max_new_tokens; somebody called it off; its logits were NaN or infinite.
FINISH_REASONS = ("stop", "length", "abort", "error")


@dataclass(eq=False)
class Request:
    """A request, as the engine and its scheduler see it.

    Attributes:
        tokens: prompt and answer so far.
        n_prompt: tokens of the prompt, the first ones of `tokens`.
        max_new_tokens: most tokens to write, 1 or more.
        sampling: how tokens are chosen.
        end_tokens: ids that end it; the end token is part of the answer.
        stop: is called with all new tokens after each one; True ends the request.
        grammar: what its answer must look like; None: anything.
        constraint: the grammar along this answer.
        score_prompt: whether the model's log-probabilities of the prompt's tokens are wanted; then all of it is run.
        prompt_logprobs: those so far, from the second token on.
        id: its number, counted up from 0 in order of arrival.
        rng: the randomness, which is the request's own; each token has numbers of its own in it, `n_drawn` says which.
        n_given: tokens that were there when it began: those of the prompt, and of a fork what its original had written.
        has_seed: whether that was asked for: then drafts must not change the text, only guess it.
        metrics: its times.
        may_draft: whether tokens may be drafted for it.
        draft: tokens proposed to follow; they run with the next pass and are not part of the text yet. Places for
            tokens that a model will draft once the pass is planned hold TO_DRAFT.
        draft_probs: the distributions that `draft` was drawn from, (n, V); None where nobody will ask.
        draft_wish: tokens asked of the draft for the next pass, of which it may have found fewer.
        lookup: its text's index, where drafts are looked up in it.
        leader: the request that it follows: it has nothing of its own yet and neither waits nor runs.
        followers: requests of the same prompt that will be forked from it as soon as the prompt has run.
        table: where its positions lie, given by the scheduler.
        n_computed: leading tokens whose keys and values are in the cache.
        n_draft_computed: leading tokens whose keys and values the draft model has in the same blocks.
        n_overtaken: how many short requests have gone before it in the queue.
        n_run: leading tokens that have been in the cache at some time.
        n_prefix_tokens: tokens that the prefix cache spared it, over all its admissions.
        n_preemptions: how often it was preempted.
        n_remembered: blocks that the prefix cache has been told of.
        finish_reason: one of FINISH_REASONS, None while it goes on.
        error: what went wrong, where the reason is "error".
    """

    tokens: list[int]
    n_prompt: int = -1  # made in __post_init__: all of the tokens
    max_new_tokens: int = 1
    sampling: "SamplingParams" = _LATER
    end_tokens: Sequence[int] = ()
    stop: Callable[[list[int]], bool] | None = None
    grammar: "Grammar | None" = None
    constraint: "Constraint | None" = field(init=False, default=None, repr=False)
    score_prompt: bool = False
    prompt_logprobs: "list[TokenLogprob]" = field(init=False, default_factory=list, repr=False)
    id: int = 0
    rng: "Rng" = _LATER
    metrics: RequestMetrics = field(default_factory=lambda: RequestMetrics(0.0))
    n_given: int = field(init=False)
    has_seed: bool = False
    may_draft: bool = True
    draft: list[int] = field(default_factory=list)
    draft_probs: "Tensor | None" = None
    draft_wish: int = 0
    lookup: Any = None
    leader: "Request | None" = None
    followers: list["Request"] = field(default_factory=list)
    table: BlockTable = field(init=False, repr=False)
    n_computed: int = 0
    n_draft_computed: int = 0
    n_overtaken: int = 0
    n_run: int = 0
    n_prefix_tokens: int = 0
    n_preemptions: int = 0
    n_remembered: int = 0
    finish_reason: str | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        self.n_given = len(self.tokens)
        self.n_prompt = len(self.tokens) if self.n_prompt < 0 else self.n_prompt
        if self.grammar is not None:
            self.constraint = self.grammar.constraint(self.end_tokens)

    def twin(self, stop: Callable[[list[int]], bool] | None) -> "Request":
        """Return a request that asks for the same and is as far, with nothing computed yet, and its own `stop`."""
        asked = (self.n_prompt, self.max_new_tokens, self.sampling, self.end_tokens, stop, self.grammar)
        return Request(list(self.tokens), *asked)

    @property
    def n_pending(self) -> int:
        """Tokens that have to run before the next one can be chosen, the draft included."""
        return len(self.tokens) + len(self.draft) - self.n_computed

    @property
    def is_decoding(self) -> bool:
        """Whether all but the newest token are in the cache."""
        return self.n_computed == len(self.tokens) - 1

    @property
    def new_tokens(self) -> list[int]:
        """The answer so far."""
        return self.tokens[self.n_prompt :]

    @property
    def n_drawn(self) -> int:
        """Tokens drawn so far, which is the position of the next one's randomness."""
        return len(self.tokens) - self.n_given

    @property
    def n_left(self) -> int:
        """Tokens that may still be written."""
        return self.n_prompt + self.max_new_tokens - len(self.tokens)

    def n_drafted_in(self, n: int) -> int:
        """Return how many of its next n pending tokens are drafted; below 0: so many of its own are left, a chunk."""
        return self.n_computed + n - len(self.tokens)

    def n_scored_in(self, n: int) -> int:
        """Return behind how many of its next n pending tokens logits are needed: the last, and each drafted one."""
        if self.score_prompt and self.n_computed < self.n_prompt:
            return n
        return max(1, self.n_drafted_in(n) + 1)

    def n_again(self, n: int) -> int:
        """Return how many of its next n pending tokens have been run before."""
        return max(0, min(self.n_run, self.n_computed + n) - self.n_computed)

    def raise_error(self) -> None:
        """Raise a ValueError if the request ended because something went wrong."""
        if self.error is not None:
            raise ValueError(self.error)

    def write(self, tokens: Sequence[int], at: float) -> list[int]:
        """Add tokens to the answer up to the one that ends it, and return those added."""
        added = []
        for token in tokens:
            self.tokens.append(token)
            self.metrics.token_times.append(at)
            added.append(token)
            self.finish_reason = self._reason(token)
            if self.finish_reason is not None:
                break
        return added

    def finish(self, reason: str, at: float, error: str | None = None) -> None:
        """Note why and when it ended."""
        self.finish_reason, self.error = reason, error
        self.metrics.finished_at = at
        self.metrics.n_preemptions = self.n_preemptions

    def _reason(self, token: int) -> str | None:
        if token in self.end_tokens or (self.stop is not None and self.stop(self.new_tokens)):
            return "stop"
        if self.constraint is not None and self.constraint.is_whole(self.new_tokens):
            return "stop"
        return "length" if not self.n_left else None


@dataclass(frozen=True)
class Output:
    """What a pass brought one request.

    Attributes:
        id: the request's number.
        tokens: its new tokens of this pass; none if it was called off or failed.
        logprobs: what the model gave each of them, where `SamplingParams.logprobs` asks for it; else None.
        prompt_logprobs: the same of the prompt's tokens but the first, with the first output, where that is asked for.
        finish_reason: why it ended with them, None if it goes on.
        error: what went wrong, where the reason is "error".
        metrics: its times, once it has ended.
    """

    id: int
    tokens: list[int] = field(default_factory=list)
    finish_reason: str | None = None
    error: str | None = None
    metrics: RequestMetrics | None = None
    logprobs: "list[TokenLogprob] | None" = None
    prompt_logprobs: "list[TokenLogprob] | None" = None
