"""From logits to the next token: one draw a row."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .filters import check_finite
from .params import SamplingParams
from .rng import Rng

from course import NotYetWritten


def sample_next(logits: Float[Tensor, "B V"], sampling: SamplingParams, rng: Rng) -> Int[Tensor, "B"]:
    """Return one token a row, (B,) integers: temperature, then top-k, top-p and min-p, then one draw.

    Rows are drawn from the first to the last, each with one `rng.categorical` over its V probabilities. At temperature
    0 a row's token is the one with the largest logit, the lowest id among equals, and no randomness is used.

    Raises:
        ValueError: a row whose logits are all -inf; a NaN or +inf logit; at temperature 0 as well.
    """
    raise NotYetWritten(
        "exercise 3.5 sample_next is not written yet: read notebooks/week03_sampling/week03_sampling.ipynb, write "
        "it in exercises/sampling/sampler.py, then run: NANOLM_IMPL=exercises python -m pytest "
        "tests/sampling/test_sample_next.py --exercise sample_next"
    )
