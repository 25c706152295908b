"""From logits to the next token: temperature, top-k, top-p, one draw; and the two random choices behind it."""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "adjust": [
        "adjust_logits",
        "adjust_rows",
        "check_vocabulary",
    ],
    "adjusted_stream": [
        "Stream",
        "with_adjusted_logits",
    ],
    "checks": [
        "FIELD_CHECKS",
        "MOST_LOGPROBS",
        "MOST_PENALTY",
        "check_min_p",
        "check_temperature",
        "check_top_k",
        "check_top_p",
    ],
    "fast_filters": [
        "fast_probs",
        "top_ids",
    ],
    "filters": [
        "check_finite",
        "min_p_filter",
        "rounding_tolerance",
        "temperature_probs",
        "top_k_filter",
        "top_p_filter",
    ],
    "logprobs": [
        "TokenLogprob",
        "token_logprobs",
    ],
    "params": [
        "SamplingParams",
    ],
    "rng": [
        "Rng",
        "draw_rows",
    ],
    "rows": [
        "rows_probs",
        "sample_rows",
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
    from .adjust import adjust_logits as adjust_logits
    from .adjust import adjust_rows as adjust_rows
    from .adjust import check_vocabulary as check_vocabulary
    from .adjusted_stream import Stream as Stream
    from .adjusted_stream import with_adjusted_logits as with_adjusted_logits
    from .checks import FIELD_CHECKS as FIELD_CHECKS
    from .checks import MOST_LOGPROBS as MOST_LOGPROBS
    from .checks import MOST_PENALTY as MOST_PENALTY
    from .checks import check_min_p as check_min_p
    from .checks import check_temperature as check_temperature
    from .checks import check_top_k as check_top_k
    from .checks import check_top_p as check_top_p
    from .fast_filters import fast_probs as fast_probs
    from .fast_filters import top_ids as top_ids
    from .filters import check_finite as check_finite
    from .filters import min_p_filter as min_p_filter
    from .filters import rounding_tolerance as rounding_tolerance
    from .filters import temperature_probs as temperature_probs
    from .filters import top_k_filter as top_k_filter
    from .filters import top_p_filter as top_p_filter
    from .logprobs import TokenLogprob as TokenLogprob
    from .logprobs import token_logprobs as token_logprobs
    from .params import SamplingParams as SamplingParams
    from .rng import Rng as Rng
    from .rng import draw_rows as draw_rows
    from .rows import rows_probs as rows_probs
    from .rows import sample_rows as sample_rows
    from .sampler import sample_next as sample_next
    from .summation import float32_sum as float32_sum
    from .summation import greedy_pick_with_summation_order as greedy_pick_with_summation_order
