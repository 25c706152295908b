"""The order of a float32 sum decides its last bits, and a near tie decides a text."""

from collections.abc import Sequence

import torch


def float32_sum(values: Sequence[float], order: Sequence[int]) -> float:
    """Return the float32 sum of the values taken in the given order, rounded after every addition.

    The values themselves are rounded to float32 first. The result is a Python float; without values it is 0.0.

    Raises:
        ValueError: order is not a permutation of 0 … len(values) - 1.
    """
    if sorted(order) != list(range(len(values))):
        raise ValueError(f"order is {list(order)}; it must name each of 0 to {len(values) - 1} once")
    total = torch.zeros((), dtype=torch.float32)
    for index in order:
        total = total + torch.tensor(values[index], dtype=torch.float32)
    return total.item()


def greedy_pick_with_summation_order(terms: Sequence[Sequence[float]], order: Sequence[int]) -> int:
    """Return the token with the largest logit, each logit a float32 sum of its terms in the given order.

    `terms[token]` are the products that add up to the token's logit. The same terms in another order can pick
    another token: that is all it takes for temperature 0 to give two texts. Equal logits go to the lower id.

    Raises:
        ValueError: order is not a permutation of 0 … the number of a token's terms - 1.
    """
    scores = [float32_sum(row, order) for row in terms]
    return max(range(len(scores)), key=lambda token: (scores[token], -token))
