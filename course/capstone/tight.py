"""The checked requests in caches so small that they meet: places are lost, shared and copied, whatever was chosen.

The engine is the plain one, which computes with the functions of the lessons alone.
"""

from collections.abc import Sequence
from typing import NamedTuple

from nanolm.engine import Engine, Output
from nanolm.engine.plain_runner import plain_model
from nanolm.sampling import Rng, SamplingParams
from nanolm.workload import all_at_once, replay_engine

from ..errors import CourseError
from .serving import Service
from .settings import BLOCK_SIZE

# The cache holds the longest request and no more, in small blocks, and newcomers come in wherever their prompts fit:
# most requests lose their place once.
_SMALL_BLOCK, _SMALL_STEP = 4, 64
_N_AGAIN = 4  # requests that are served once more, with a fork, and greedily
_IN_VAIN = 500  # a prompt's chunks are a few passes without a token
_TWINS = 1_000_000  # seeds of forks: these and up, no request's
_GREEDY = SamplingParams(0.0, end_tokens=())


class Fork(NamedTuple):
    """What a request had written when it was forked, what the fork wrote from there, and all that the request wrote."""

    begun: list[int]
    text: list[int]
    original: list[int]


class Tight(NamedTuple):
    """What was written: the checked requests, forks, greedy texts.

    n_leaked is the blocks that nobody gave back; below 0, those given back that the prefix cache still holds.
    """

    texts: list[list[int]]
    forks: list[Fork]
    greedy: list[list[int]]
    n_leaked: int

    @property
    def all_texts(self) -> list[list[int]]:
        """In the order of `expected`."""
        forked = [text for fork in self.forks for text in (fork.text, fork.original)]
        return [*self.texts, *forked, *self.greedy]


def tight(service: Service) -> Tight:
    """Serve all checked requests at once, in a cache for one of them.

    Then the first ones again, in a cache for two: each with a fork that has a seed of its own, so that the two write
    different tokens behind the same blocks; and greedily without seeds, since only then drafts are verified as in
    week 4, and the text is known all the same.

    Raises:
        CourseError: the engine runs on and brings nobody a token.
    """
    longest = max(arrival.n_tokens for arrival in service.checked)
    engine = _small(service, _SMALL_BLOCK, -(-longest // _SMALL_BLOCK))
    texts = replay_engine("tight", engine, all_at_once(service.checked), sampling=service.sampling).texts
    first = [(arrival.prompt or (), arrival.n_output_tokens) for arrival in service.checked[:_N_AGAIN]]
    for_two = _small(service, BLOCK_SIZE, 1 + 2 * -(-longest // BLOCK_SIZE))
    forks = [_forked(service, for_two, i, *each) for i, each in enumerate(first)]
    greedy = _greedy(for_two, first)
    return Tight(texts, forks, greedy, _n_leaked(engine) + _n_leaked(for_two))


def expected(service: Service, alone: list[list[int]], done: Tight) -> list[list[int]]:
    """Return what all texts must be, `generate` writing one by one: `alone`, the forks and their originals, greedy."""
    model, texts = plain_model(service.model), list(alone)
    for i, fork in enumerate(done.forks):
        rng = Rng(_TWINS + i)
        texts.append(service.generated(model, i, fork.begun, service.sampling, rng) if fork.begun else [])
        texts.append(alone[i])
    return texts + [service.generated(model, i, [], _GREEDY, Rng(i)) for i in range(len(done.greedy))]


def _small(service: Service, block_size: int, n_blocks: int) -> Engine:
    size = {"block_size": block_size, "n_blocks": n_blocks, "reserve": 0.0}
    size |= {"max_tokens_per_step": min(_SMALL_STEP, service.choices.max_tokens_per_step)}
    return _not_for_ever(service.engine(**size, plain=True, adaptive=False))


def _forked(service: Service, engine: Engine, i: int, prompt: Sequence[int], n: int) -> Fork:
    """Serve a request and a fork of it, begun late in a block, so that much of the block has to be copied."""
    first, twin = engine.add_request(prompt, n, service.sampling, seed=i), None
    begun: list[int] = []
    text: list[int] = []
    original: list[int] = []
    while engine.has_work:
        for output in engine.step():
            (text if output.id == twin else original).extend(output.tokens)
        is_late = (len(prompt) + len(original) - 1) % BLOCK_SIZE >= BLOCK_SIZE // 2
        if twin is None and is_late and 0 < len(original) < n and service.choices.slots > 1:
            twin, begun = engine.fork(first, seed=_TWINS + i), list(original)
    return Fork(begun, text, original)


def _greedy(engine: Engine, requests: Sequence[tuple[Sequence[int], int]]) -> list[list[int]]:
    texts: dict[int, list[int]] = {engine.add_request(*each, _GREEDY): [] for each in requests}
    while engine.has_work:
        for output in engine.step():
            texts[output.id] += output.tokens
    return list(texts.values())


def _n_leaked(engine: Engine) -> int:
    kept = engine.scheduler.prefix.n_blocks if engine.scheduler.prefix is not None else 0
    return engine.scheduler.allocator.n_used - kept


def _not_for_ever(engine: Engine) -> Engine:
    """Return the engine, whose passes end with an error where too many in a row bring nobody a token."""
    step, in_vain = engine.step, 0

    def watched() -> list[Output]:
        nonlocal in_vain
        outputs = step()
        in_vain = 0 if outputs else in_vain + 1
        if in_vain > _IN_VAIN:
            free, n = engine.scheduler.allocator.n_free, engine.cache.n_blocks
            raise CourseError(
                f"{in_vain} passes in a row brought nobody a token, with {free} of {n} blocks free: blocks are lost, "
                "or nobody is admitted"
            )
        return outputs

    engine.step = watched
    return engine
