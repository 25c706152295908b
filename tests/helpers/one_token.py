"""One drafted token, decided and replaced: what must come out, and what comes out under each common mistake."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral

import numpy as np
import torch
from torch import Tensor

# p - q = (-0.1, 0.2, 0.1, -0.2): the residual keeps the positive part 0.3 as (0, 2/3, 1/3, 0), and
# α = 0.4 + 0.1 + 0.1 + 0.1 = 0.7. Two tokens in the residual: taking the largest instead of drawing would show.
P = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
Q = torch.tensor([0.5, 0.1, 0.1, 0.3], dtype=torch.float64)


def vector(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


def close(actual, expected, tolerance: float = 1e-6) -> bool:
    """Same numbers, in whatever type they come; no shape is stretched to another."""
    actual, expected = torch.as_tensor(actual).double(), torch.as_tensor(expected, dtype=torch.float64)
    return actual.shape == expected.shape and torch.allclose(actual, expected, rtol=0, atol=tolerance)


def as_int(token) -> int:
    is_int = isinstance(token, Integral) and not isinstance(token, bool)
    assert is_int, f"the token is {token!r}, a {type(token).__name__}: return an int"
    return int(token)


def residual_of(p: Tensor, q: Tensor) -> Tensor:
    left = (p - q).clamp(min=0)
    return left / left.sum()


def common_mistakes(p: Tensor, q: Tensor) -> dict[str, Tensor]:
    """How the token that comes out is distributed under each mistake, where the drafted one was drawn from q."""
    kept, residual = torch.minimum(p, q), residual_of(p, q)
    rejected = 1 - kept.sum()

    def keeping(chance: Tensor) -> Tensor:
        stays = q * chance.clamp(max=1)
        return stays + (1 - stays.sum()) * residual

    return {
        "the output follows the draft: every draft is kept (p(x)/q(x) is the chance to keep it), or p and q are "
        "swapped in the residual": q,
        "on rejection it draws from p, not from the residual: tokens kept already are counted twice": kept
        + rejected * p,
        "the ratio is upside down: keep with probability min(1, p(x)/q(x))": keeping(q / p),
        "it keeps with probability p(x): how often the draft proposes x counts too, so the chance is p(x)/q(x)": (
            keeping(p)
        ),
        "it keeps wherever p(x) is at least q(x) and never else: that is a matter of chance, p(x)/q(x)": keeping(
            (p >= q).double()
        ),
        "on rejection it takes the residual's largest token: draw from it": kept
        + rejected * torch.nn.functional.one_hot(residual.argmax(), len(p)),
        "on rejection it draws from q again: draw from the residual": kept + rejected * q,
        "on rejection it draws from all tokens alike: draw from the residual": kept + rejected / len(p),
    }


def name_the_mistake(actual: Tensor, p: Tensor, q: Tensor) -> str:
    """The first mistake under which exactly this would come out."""
    for mistake, result in common_mistakes(p, q).items():
        if close(actual, result):
            return mistake
    return "the accepted and the resampled mass do not add up to p"


def name_the_mistake_in_sample(counts: list[int], p: Tensor, q: Tensor) -> str:
    """The mistake whose distribution lies nearest to the shares drawn, if it lies near."""
    share = vector(*counts) / sum(counts)
    apart = {mistake: (share - result).abs().max().item() for mistake, result in common_mistakes(p, q).items()}
    nearest = min(apart, key=lambda mistake: apart[mistake])
    return nearest if apart[nearest] < 0.05 else "the output is not distributed as the target"


@contextmanager
def no_chance_but_the_rngs() -> Iterator[None]:
    """Fail when a number was drawn from torch, numpy or Python themselves inside the `with`."""
    before = _states()
    yield
    drawn = [name for name, state in _states().items() if state != before[name]]
    assert not drawn, (
        f"the randomness comes from {drawn[0]}, not from `rng`: ask rng.bernoulli(probability) whether, and "
        "rng.categorical(distribution) which"
    )


def _states() -> dict[str, str]:
    return {
        "torch (torch.rand, multinomial, …)": str(hash(torch.get_rng_state().numpy().tobytes())),
        "numpy (np.random.…)": repr(np.random.get_state()[1:3]),
        "Python (random.…)": str(hash(random.getstate())),
    }
