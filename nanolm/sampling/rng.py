"""The two random choices of the whole package, behind one object.

Everything random passes through `bernoulli` and `categorical`. That is what lets a test put an enumerator in the
rng's place, follow *every* outcome with its weight, and add up the exact distribution of a sampled algorithm.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor


class Rng:
    """Randomness from one seeded generator.

    Args:
        seed: an int for a repeatable run; None for a fresh one.
    """

    def __init__(self, seed: int | None = None) -> None:
        self.generator = torch.Generator()
        if seed is None:
            self.generator.seed()
        else:
            self.generator.manual_seed(seed)

    def bernoulli(self, prob: float) -> bool:
        """Return True with probability `prob`: never at 0, always at 1 or above."""
        # rand() lies in [0, 1): strictly less is what makes 0 impossible and 1 certain.
        return torch.rand((), generator=self.generator, dtype=torch.float64).item() < prob

    def categorical(self, probs: Float[Tensor, "V"]) -> int:
        """Return an index drawn with the given probabilities; one of probability 0 is never drawn."""
        totals = probs.double().cumsum(-1)
        point = torch.rand((), generator=self.generator, dtype=torch.float64).item() * totals[-1].item()
        # The first index whose running total passes the point. A zero adds nothing to the total, so the index
        # before it passes first; the clamp is for a point that rounding has put on the very end.
        index = int(torch.searchsorted(totals, point, right=True))
        return index if index < len(totals) else int(probs.nonzero()[-1])


def draw_rows(probs: Float[Tensor, "B V"], rng: Sequence[Rng]) -> list[int]:
    """Return one index a row: what `rng[b].categorical(probs[b])` gives for row b, all rows at once."""
    totals = probs.double().cumsum(-1)  # (B, V)
    shares = [torch.rand((), generator=each.generator, dtype=torch.float64).item() for each in rng]
    points = torch.tensor(shares, dtype=torch.float64)[:, None] * totals[:, -1:]
    indices = torch.searchsorted(totals, points, right=True)[:, 0].tolist()
    V = probs.shape[-1]
    return [i if i < V else int(row.nonzero()[-1]) for i, row in zip(indices, probs, strict=True)]
