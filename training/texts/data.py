"""Batches as a pure function of the step: whoever knows the step number knows the batch, so resuming needs no state."""

import itertools
from dataclasses import dataclass

import numpy as np
import torch
from tokenizers import Tokenizer

from ..recipe import END_ID, Recipe
from .corpus import play_documents
from .problems import problem_documents


def join_documents(tokenizer: Tokenizer, documents: list[str]) -> np.ndarray:
    """All documents as one int16 array of token ids, the end token before each and after the last."""
    ids = [END_ID]
    # A tokenizer that comes with a model may put a token in front of every text by itself.
    for encoding in tokenizer.encode_batch(documents, add_special_tokens=False):
        ids += [*encoding.ids, END_ID]
    return np.array(ids, dtype=np.int16)


def problem_tokens(tokenizer: Tokenizer, at_least: int, seed: int) -> np.ndarray:
    """At least `at_least` tokens of training problems, documents joined as in `join_documents`."""
    documents, parts, total = problem_documents(seed), [], 0
    while total < at_least:
        parts.append(join_documents(tokenizer, list(itertools.islice(documents, 500))))
        total += len(parts[-1])
    return np.concatenate(parts)


class Windows:
    """A long array cut into windows, each used once a pass in shuffled order, cut elsewhere in the next pass."""

    def __init__(self, tokens: np.ndarray, length: int, seed: int) -> None:
        # One token more than the window for the targets, and up to a window lost to the random first cut.
        self.count = (len(tokens) - 1) // length - 1
        if self.count < 1:
            raise ValueError(f"tokens: {len(tokens)} are too few for windows of {length}; at least {2 * length + 1}")
        self.tokens, self.length, self.seed = tokens, length, seed
        self._pass, self._order, self._cut = -1, np.empty(0, dtype=np.int64), 0

    def __getitem__(self, index: int) -> np.ndarray:
        """Window `index` of the endless sequence: (length + 1,) token ids."""
        this_pass, place = divmod(index, self.count)
        if this_pass != self._pass:
            rng = np.random.default_rng([self.seed, self.length, this_pass])
            self._pass, self._order = this_pass, rng.permutation(self.count)
            self._cut = int(rng.integers(self.length))
        start = self._cut + int(self._order[place]) * self.length
        return self.tokens[start : start + self.length + 1]


@dataclass
class Batches:
    """The batches of one run: plays, with every so-manieth row taken from the problems."""

    recipe: Recipe
    plays: np.ndarray
    problems: np.ndarray

    def __post_init__(self) -> None:
        lengths = {self.recipe.short, self.recipe.long}
        self._plays = {length: Windows(self.plays, length, self.recipe.seed) for length in lengths}
        self._problems = {length: Windows(self.problems, length, self.recipe.seed + 1000) for length in lengths}

    def at(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets of the step, both (B, T) int64, the targets one position ahead."""
        recipe = self.recipe
        long = step >= recipe.first_long_step
        length = recipe.long if long else recipe.short
        rows = recipe.tokens_per_step // length
        first = (step - recipe.first_long_step if long else step) * rows
        chosen = np.stack([self._row(length, index) for index in range(first, first + rows)])
        both = torch.from_numpy(chosen.astype(np.int64))
        return both[:, :-1].contiguous(), both[:, 1:].contiguous()

    def _row(self, length: int, index: int) -> np.ndarray:
        # Rows are dealt out evenly: the number of problem rows among the first n is always floor(n * share).
        before, after = (int((index + i) * self.recipe.problem_share) for i in (0, 1))
        return self._problems[length][before] if after > before else self._plays[length][index - before]


def load_batches(recipe: Recipe, tokenizer: Tokenizer) -> Batches:
    """Tokenise the training text for the recipe: the plays once, and as many fresh problems as the run will read."""
    needed = int(recipe.steps * recipe.tokens_per_step * recipe.problem_share) + 4 * recipe.long
    plays = join_documents(tokenizer, play_documents(held_out=False))
    return Batches(recipe, plays, problem_tokens(tokenizer, needed, recipe.seed + 2000))
