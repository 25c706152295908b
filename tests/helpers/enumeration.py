"""Follow every random outcome of an algorithm with its weight, and so get its exact output distribution.

An algorithm whose randomness all passes through an rng is run again and again, each time along another path of
choices. No sampling is involved: the weights of all paths add up to 1, and the result is exact to rounding.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator


class ScriptedRng:
    """Follows a given beginning of a path, then the first possible branch, and notes what else was open."""

    def __init__(self, path: tuple[int, ...] = ()) -> None:
        self.path, self.weight = path, 1.0
        self.taken: list[int] = []
        self.open_branches: list[list[int]] = []

    def bernoulli(self, prob: float) -> bool:
        prob = min(max(float(prob), 0.0), 1.0)
        return self._choose([1.0 - prob, prob]) == 1

    def categorical(self, probs) -> int:
        return self._choose([float(p) for p in probs])

    def _choose(self, weights: list[float]) -> int:
        possible = [i for i, weight in enumerate(weights) if weight > 0]
        step = len(self.taken)
        choice = self.path[step] if step < len(self.path) else possible[0]
        self.taken.append(choice)
        self.open_branches.append([i for i in possible if i > choice] if step >= len(self.path) else [])
        self.weight *= weights[choice]
        return choice


def exact_distribution(run: Callable[[ScriptedRng], Hashable]) -> dict[Hashable, float]:
    """Return {outcome: probability} of `run(rng)`, every path followed."""
    total: dict[Hashable, float] = defaultdict(float)
    for outcome, weight in follow_all(run):
        total[outcome] += weight
    return dict(total)


def count_paths(run: Callable[[ScriptedRng], Hashable]) -> int:
    """Return how many paths `run(rng)` has."""
    return sum(1 for _ in follow_all(run))


def follow_all(run: Callable[[ScriptedRng], Hashable]) -> Iterator[tuple[Hashable, float]]:
    """Yield (outcome, weight) of every path of `run(rng)`."""
    paths: list[tuple[int, ...]] = [()]
    while paths:
        rng = ScriptedRng(paths.pop())
        outcome = run(rng)
        yield outcome, rng.weight
        for step, branches in enumerate(rng.open_branches):
            paths += [(*rng.taken[:step], branch) for branch in branches]
