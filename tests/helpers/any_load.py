"""Loads of every kind for an engine, each out of one number, and what each request must get whatever else happens.

A load mixes all that an engine can do: models and caches of every kind, drafts, pools from too small to wide, chunks,
prefix cache and host blocks, groups, forks, aborts, rules of sampling, stop conditions; and passes that fail at any
point. What a request must get is what `NanoLM.generate` writes for it alone, in float64, without a draft.
"""

import random
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

from tiny_models import tiny_latent_model, tiny_model

from nanolm.engine import Engine, Output
from nanolm.model import quantize_model
from nanolm.sampling import Rng, SamplingParams

V = 11
COMMON = [7, 7, 4, 1, 7, 7, 4, 1, 5, 5, 5, 5, 2, 0]
WINDOWS = {
    "one layer in four sees all": (5, 5, None, 5),
    "no layer sees all": (3, 3, 6, 6),
    "windows of one": (1, None, None, 1),
}
ROOM = 20  # positions that any request may take: every pool has so many


class Broken(RuntimeError):
    """A pass that was made to fail."""


@cache
def model(kind: str) -> Any:
    """A target or a draft."""
    makers = {
        "plain": tiny_model,
        "another": lambda: tiny_model(1),
        "smaller": lambda: tiny_model(2, n_layers=1, max_positions=12),
        "mixture": lambda: tiny_model(3, n_experts=4, experts_per_token=2),
        "latent": tiny_latent_model,
        "8 bits": lambda: quantize_model(tiny_model(), 8),
        "4 bits": lambda: quantize_model(tiny_model(), 4, group_size=2),
        "poisoned": _poisoned,
        **{name: partial(tiny_model, n_layers=4, windows=windows) for name, windows in WINDOWS.items()},
    }
    return makers[kind]()


def _poisoned() -> Any:
    draft = tiny_model(1, tie_embeddings=False)
    draft.embedding.weight[4] = float("nan")
    return draft


RULES = {
    "greedy": SamplingParams(0.0, end_tokens=(3,)),
    "sampled": SamplingParams(1.0, end_tokens=()),
    "top-k": SamplingParams(1.3, top_k=4, end_tokens=(3,)),
    "top-p": SamplingParams(0.8, top_p=0.7, end_tokens=()),
    "min-p": SamplingParams(1.2, min_p=0.2, end_tokens=(3,)),
    "repetition": SamplingParams(1.0, repetition_penalty=1.7, end_tokens=()),
    "presence, greedy": SamplingParams(0.0, presence_penalty=1.5, frequency_penalty=0.5, end_tokens=()),
    "bias": SamplingParams(1.0, logit_bias={2: 3.0, 5: -100.0}, end_tokens=(3,)),
    "a least length": SamplingParams(1.0, min_new_tokens=4, end_tokens=(3,), stop_token_ids=(6,)),
    "logprobs": SamplingParams(1.0, logprobs=2, end_tokens=()),
}


@dataclass
class Asked:
    """A request as it was asked, and what it has been given."""

    prompt: list[int]
    n_new: int
    rules: SamplingParams
    seed: int
    stop: frozenset[int]
    target: str
    cache_kind: str
    ended: str | None = None

    def right(self) -> list[int]:
        """What it writes alone."""
        return self.until_stop(alone(self.target, self.cache_kind, self.prompt, self.n_new, self.rules, self.seed))

    def until_stop(self, text: list[int]) -> list[int]:
        """A text up to its first stop token, that included."""
        first = next((i for i, token in enumerate(text) if token in self.stop), len(text) - 1)
        return text[: first + 1]

    def more(self) -> dict[str, Any]:
        """What else `add_request` and `add_group` are told."""
        return {}


def alone(target: str, kind: str, prompt: list[int], n_new: int, rules: SamplingParams, seed: int) -> list[int]:
    """What a model writes for one request with nobody beside it."""
    return model(target).generate(prompt, n_new, rules, Rng(seed), cache_kind=kind)


class Load:
    """One engine and what happens to it, all out of one number."""

    def __init__(self, number: int) -> None:
        self.chance = random.Random(number)
        self._models()
        self.options = self._options()
        as_model = self.draft if self.draft in (None, "prompt-lookup") else model(self.draft)
        self.engine = Engine(model(self.target), draft=as_model, **self.options)
        self.asked: dict[int, Asked] = {}
        self.texts: dict[int, list[int]] = defaultdict(list)
        self.n_failed = 0
        self._break_now_and_then()

    def _models(self) -> None:
        chance = self.chance
        self.target = chance.choice(["plain"] * 4 + ["mixture", "latent", "8 bits", "4 bits"])
        self.cache_kind = "float" if self.target == "latent" else chance.choice(["float"] * 4 + ["int8", "float8"])
        drafts = [None, None, "prompt-lookup", "plain", "another", "smaller", "poisoned"]
        self.draft = chance.choice(drafts)

    def _options(self) -> dict[str, Any]:
        chance, size = self.chance, self.chance.choice([1, 2, 4, 8])
        least, seconds = -(-ROOM // size), random.Random(1)
        ticks = iter(lambda: seconds.random(), None)
        now = [0.0]

        def clock() -> float:
            now[0] += next(ticks)
            return now[0]

        options = {
            "block_size": size,
            "n_blocks": least + chance.choice([0, 1, least, 6 * least]),
            "max_running": chance.choice([1, 3, 8, 32]),
            "max_tokens_per_step": chance.choice([1, 3, 8, 64]),
            "prefix_cache": chance.random() < 0.7,
            "host_blocks": chance.choice([0, 0, 4]),
            "cache_kind": self.cache_kind,
            "gamma": chance.randint(1, 4),
            "adaptive": chance.random() < 0.5,
            "reserve": chance.choice([0.0, 0.25, 0.5]),
            "max_overtakes": chance.choice([0, 1, 4]),
            "plain": chance.random() < 0.15,
            "clock": clock,
        }
        return options if options["prefix_cache"] else options | {"host_blocks": 0}

    def _break_now_and_then(self) -> None:
        """Let a part of a pass raise, before it has done its work or after, where the load is one with failures."""
        if self.chance.random() < 0.6:
            return
        host = self.engine.scheduler.prefix and self.engine.scheduler.prefix.host
        parts = [(self.engine.runner, "forward_segments"), (self.engine.runner, "copy_blocks")]
        parts += [(self.engine.runner, "outcomes")]
        parts += [(host, "save"), (host, "load")] if host else []
        owner, name = self.chance.choice(parts)
        real, often = getattr(owner, name), self.chance.choice([0.1, 0.3])

        def fails(*args: Any, **options: Any) -> Any:
            when = self.chance.random()
            if when < often / 2:
                raise Broken
            done = real(*args, **options)
            if when < often:
                raise Broken
            return done

        setattr(owner, name, fails)
        if name == "forward_segments" and hasattr(self.engine.runner.drafts, "forward"):
            self.engine.runner.drafts.forward = fails

    # --- what happens ---

    def run(self) -> None:
        """Let everything happen, until nobody is left."""
        for _ in range(self.chance.randint(3, 12)):
            self.chance.choice([self.ask, self.ask, self.ask_for_several, self.abort, self.fork, self.generate])()
            for _ in range(self.chance.randint(0, 4)):
                self.step()
        passes = 0
        while self.engine.has_work:
            self.step()
            passes += 1
            assert passes < 20_000, "it never ends"

    def step(self) -> None:
        try:
            outputs = self.engine.step()
        except Broken:
            self.n_failed += 1
            return
        for output in outputs:
            self.take(output, self.asked[output.id])

    def take(self, output: Output, asked: Asked) -> None:
        """Note what a pass brought a request."""
        assert asked.ended is None, "something came after the end"
        self.texts[output.id] += output.tokens
        asked.ended = output.finish_reason
        if asked.rules.logprobs is not None and output.tokens:
            assert output.logprobs is not None and len(output.logprobs) == len(output.tokens)

    def new(self) -> Asked:
        chance = self.chance
        prompt = COMMON[: chance.randint(0, 14)] + [chance.randrange(V) for _ in range(chance.randint(0, 4))]
        prompt = (prompt or [6])[: ROOM - 1]
        n_new = chance.randint(1, min(12, ROOM + 1 - len(prompt)))
        stop = frozenset(chance.sample(range(V), 2)) if chance.random() < 0.2 else frozenset()
        rules = RULES[chance.choice(list(RULES))]
        return Asked(prompt, n_new, rules, chance.randrange(10**6), stop, self.target, self.cache_kind)

    def ask(self) -> None:
        asked = self.new()
        stop = _stop(asked)
        number = self.engine.add_request(asked.prompt, asked.n_new, asked.rules, asked.seed, stop, **asked.more())
        self.asked[number] = asked

    def ask_for_several(self) -> None:
        first = self.new()
        several = [replace(first, seed=first.seed + i) for i in range(self.chance.randint(1, 5))]
        stops = [_stop(asked) for asked in several]
        seeds = [asked.seed for asked in several]
        numbers = self.engine.add_group(first.prompt, first.n_new, first.rules, seeds, stops, **first.more())
        self.asked |= dict(zip(numbers, several, strict=True))

    def twin(self, asked: Asked, **changes: Any) -> Asked:
        """What a fork of a request was asked."""
        return replace(asked, **changes)

    def abort(self) -> None:
        going = [number for number in self.asked if number in self.engine._requests]
        if going:
            number = self.chance.choice(going)
            self.engine.abort(number)
            self.asked[number].ended = "abort"

    def fork(self) -> None:
        running = self.engine.scheduler.running
        known = [r for r in running if r.id in self.asked and not r.sampling.adjusts and r.n_computed]
        if known and len(running) < self.engine.scheduler.max_running:
            request = self.chance.choice(known)
            asked = self.asked[request.id]
            so_far, seed = list(request.tokens), self.chance.randrange(10**6)
            twin = self.twin(asked, prompt=so_far, n_new=request.n_left, seed=seed, ended=None)
            self.asked[self.engine.fork(request.id, twin.seed, _stop(twin, len(request.new_tokens)))] = twin

    def generate(self) -> None:
        asked = Load.new(self)  # and nothing that more kinds of loads ask for: `generate` takes none of it
        asked.stop = frozenset()
        before = self.n_failed
        try:
            text = self.engine.generate([asked.prompt], asked.n_new, asked.rules, [asked.seed])[0]
        except Broken:
            self.n_failed = before + 1
            return
        assert text == asked.right(), "generate"

    # --- what must be true in the end ---

    def check(self) -> None:
        """Every text is right, and nothing is held."""
        for number, asked in self.asked.items():
            text, right = self.texts[number], asked.right()
            if asked.ended == "abort":
                assert text == right[: len(text)], f"request {number}, called off: {text}, alone {right}"
            else:
                assert (asked.ended in ("stop", "length"), text) == (True, right), f"request {number}, {asked}"
        scheduler = self.engine.scheduler
        assert not scheduler.running and not scheduler.waiting
        assert scheduler.allocator.n_used == (scheduler.prefix.n_blocks if scheduler.prefix else 0), "blocks are held"
        for record in self.engine.records:
            assert record.n_prefill_tokens + record.n_decode_tokens <= scheduler.max_tokens_per_step


def _stop(asked: Asked, n_before: int = 0) -> Any:
    if not asked.stop:
        return None
    return lambda new: new[-1] in asked.stop and len(new) > n_before
