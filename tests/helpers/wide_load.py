"""Loads as those of any_load.py, with what these have not: layers with windows, grammars, prompts that are scored."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from any_load import ROOM, WINDOWS, Asked, Load, V, alone
from torch import Tensor

from nanolm.engine import Output
from nanolm.window import blocks_for_request


class Some:
    """A grammar: an answer is of some tokens only, and whole when it has so many."""

    def __init__(self, tokens: frozenset[int], length: int) -> None:
        self.tokens, self.length = tokens, length

    def constraint(self, end_tokens: Sequence[int]) -> "Some":
        return self

    def allowed(self, answer: Sequence[int], drafted: Sequence[int]) -> Tensor:
        rows = torch.ones(len(drafted) + 1, V, dtype=torch.bool)
        for i, row in enumerate(rows):
            text = [*answer, *drafted[:i]]
            if len(text) < self.length and self.tokens.issuperset(text):
                row[[token for token in range(V) if token not in self.tokens]] = False
        return rows

    def is_whole(self, answer: Sequence[int]) -> bool:
        return len(answer) >= self.length


@dataclass
class WidelyAsked(Asked):
    """As Asked; `some` are the tokens of its grammar, and `length` what is left of its answer."""

    some: frozenset[int] | None = None
    length: int = 0
    is_scored: bool = False

    def right(self) -> list[int]:
        """What it writes alone: a grammar of some tokens is a bias that nothing outweighs."""
        if self.some is None:
            return super().right()
        forbidden = {token: -300.0 for token in range(V) if token not in self.some}
        rules = replace(self.rules, logit_bias={**dict(self.rules.logit_bias or ()), **forbidden})
        n_new = min(self.n_new, self.length)
        return self.until_stop(alone(self.target, self.cache_kind, self.prompt, n_new, rules, self.seed))

    def more(self) -> dict[str, Any]:
        grammar = None if self.some is None else Some(self.some, self.length)
        return {"grammar": grammar, "score_prompt": self.is_scored}


class WideLoad(Load):
    """As Load."""

    def __init__(self, number: int) -> None:
        self.further = random.Random(f"further {number}")
        super().__init__(number)

    def _models(self) -> None:
        super()._models()
        if self.further.random() < 0.4:
            self.target = self.further.choice(list(WINDOWS))
            self.draft = self.further.choice([None, "prompt-lookup"])

    def _options(self) -> dict[str, Any]:
        options = super()._options()
        if self.target in WINDOWS:
            chunk = min(ROOM, options["max_tokens_per_step"])
            least = blocks_for_request(ROOM, WINDOWS[self.target], options["block_size"], chunk)
            options["n_blocks"] = least + self.further.choice([0, 1, least, 6 * least])
            options |= {"prefix_cache": False, "host_blocks": 0}
        return options

    def new(self) -> WidelyAsked:
        asked = WidelyAsked(**vars(super().new()))
        if self.further.random() < 0.4:
            asked.some = frozenset(self.further.sample(range(V), 5))
            asked.length = self.further.randint(1, 12)
        asked.is_scored = self.further.random() < 0.3
        return asked

    def ask_for_several(self) -> None:
        """As Load's; the first of them runs the prompt, and has its scores."""
        before = set(self.asked)
        super().ask_for_several()
        for number in sorted(self.asked.keys() - before)[1:]:
            self.asked[number].is_scored = False

    def twin(self, asked: Any, **changes: Any) -> Asked:
        written = len(changes["prompt"]) - len(asked.prompt)
        return super().twin(asked, **changes, length=asked.length - written, is_scored=False)

    def take(self, output: Output, asked: Any) -> None:
        """As Load.take; a scored prompt's numbers come with the first output, and are those of one plain pass."""
        is_first = not self.texts[output.id]  # nothing has come of it yet
        super().take(output, asked)
        is_due = asked.is_scored and is_first and output.finish_reason != "abort"
        assert (output.prompt_logprobs is not None) == is_due
        if output.prompt_logprobs is not None:
            found = [each.logprob for each in output.prompt_logprobs]
            assert len(found) == len(asked.prompt) - 1
            if self.cache_kind == "float":
                assert found == pytest.approx(self._scores(asked.prompt), abs=1e-9)

    def _scores(self, prompt: list[int]) -> list[float]:
        rows = torch.log_softmax(self.engine.model(torch.tensor([prompt]))[0].double(), -1)
        return [float(rows[i, token]) for i, token in enumerate(prompt[1:])]
