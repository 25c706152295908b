"""The order of a float32 sum decides its last bits, and a near tie decides a text."""

from collections.abc import Sequence

import torch

from course import NotYetWritten


def float32_sum(values: Sequence[float], order: Sequence[int]) -> float:
    """Return the float32 sum of the values taken in the given order, rounded after every addition.

    The values themselves are rounded to float32 first. The result is a Python float; without values it is 0.0.

    Raises:
        ValueError: order is not a permutation of 0 … len(values) - 1.
    """
    raise NotYetWritten(
        "exercise 3.6 float32_sum is not written yet: read notebooks/week03_sampling/week03_sampling.ipynb, write "
        "it in exercises/sampling/summation.py, then run: NANOLM_IMPL=exercises python -m pytest "
        "tests/sampling/test_summation.py --exercise float32_sum"
    )


def greedy_pick_with_summation_order(terms: Sequence[Sequence[float]], order: Sequence[int]) -> int:
    """Return the token with the largest logit, each logit a float32 sum of its terms in the given order.

    `terms[token]` are the products that add up to the token's logit. The same terms in another order can pick
    another token: that is all it takes for temperature 0 to give two texts. Equal logits go to the lower id.

    Raises:
        ValueError: order is not a permutation of 0 … the number of a token's terms - 1.
    """
    raise NotYetWritten(
        "exercise 3.7 greedy_pick_with_summation_order is not written yet: read "
        "notebooks/week03_sampling/week03_sampling.ipynb, write it in exercises/sampling/summation.py, then run: "
        "NANOLM_IMPL=exercises python -m pytest tests/sampling/test_summation.py --exercise "
        "greedy_pick_with_summation_order"
    )
