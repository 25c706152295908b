"""From logits to the next token: temperature, top-k, top-p, one draw; and the two random choices behind it."""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "filters": [
        "temperature_probs",
        "top_k_filter",
        "top_p_filter",
    ],
    "params": [
        "SamplingParams",
    ],
    "rng": [
        "Rng",
        "draw_rows",
    ],
    "sampler": [
        "sample_next",
    ],
    "summation": [
        "float32_sum",
        "greedy_pick_with_summation_order",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .filters import temperature_probs as temperature_probs
    from .filters import top_k_filter as top_k_filter
    from .filters import top_p_filter as top_p_filter
    from .params import SamplingParams as SamplingParams
    from .rng import Rng as Rng
    from .rng import draw_rows as draw_rows
    from .sampler import sample_next as sample_next
    from .summation import float32_sum as float32_sum
    from .summation import greedy_pick_with_summation_order as greedy_pick_with_summation_order
