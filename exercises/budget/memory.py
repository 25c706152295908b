"""How many bytes a model and its caches take, how many requests fit, and how long a batch takes for its next tokens.

Chips are in `hardware`, models in `shapes`, single passes in `roofline`, dollars in `pricing`. Their names can be
imported from here too, so that one import serves a whole estimate. No tensor is touched. GB is 10⁹ bytes.
"""

import math

from .._require import require_count, require_not_negative, require_positive
from .shapes import ModelShape

from course import NotYetWritten


def weight_bytes(n_params: float, weight_bits: float = 16) -> int:
    """Return the bytes of `n_params` parameters at `weight_bits` bits each, rounded up.

    Memory holds all parameters: of a mixture every expert, chosen or not. The scale of a group counts as bits of its
    weights: 4.125 for 4-bit codes with a 2-byte scale for each 128.

    Raises:
        ValueError: n_params or weight_bits not above 0.
    """
    raise NotYetWritten(
        "exercise 2.10 weight_bytes is not written yet: read notebooks/week02_kv_cache/week02_kv_cache.ipynb, write"
        " it in exercises/budget/memory.py, then run: NANOLM_IMPL=exercises python -m pytest "
        "tests/budget/test_budget.py --exercise weight_bytes"
    )


def kv_bytes_per_token(shape: ModelShape, kv_bits: float = 16) -> int:
    """Return the bytes that one token of one sequence occupies in the cache, over all layers, rounded up.

    Each layer keeps a key and a value of H numbers for each of the K key/value heads. With latent attention
    (`shape.latent` is not None) it keeps `kv_latent_dim + rotary_dim` numbers instead, for all heads together.

    Raises:
        ValueError: kv_bits not above 0.

    Source: Ainslie 2023 (GQA), section 2.2; DeepSeek-V2, section 2.1.
    """
    raise NotYetWritten(
        "exercise 2.8 kv_bytes_per_token is not written yet: read notebooks/week02_kv_cache/week02_kv_cache.ipynb, "
        "write it in exercises/budget/memory.py, then run: NANOLM_IMPL=exercises python -m pytest "
        "tests/budget/test_budget.py --exercise kv_bytes_per_token"
    )


def kv_cache_bytes(shape: ModelShape, n_tokens: int, batch_size: int = 1, kv_bits: float = 16) -> int:
    """Return the bytes of the caches of `batch_size` sequences with `n_tokens` positions each; 0 for 0 tokens.

    Raises:
        ValueError: n_tokens not a whole number, 0 or more; batch_size not one above 0; kv_bits not above 0.
    """
    raise NotYetWritten(
        "exercise 2.9 kv_cache_bytes is not written yet: read notebooks/week02_kv_cache/week02_kv_cache.ipynb, "
        "write it in exercises/budget/memory.py, then run: NANOLM_IMPL=exercises python -m pytest "
        "tests/budget/test_budget.py --exercise kv_cache_bytes"
    )


def max_concurrent_requests(
    memory_bytes: float, weight_bytes: float, kv_bytes: float, reserved_bytes: float = 0
) -> int:
    """Return how many sequences fit beside the weights, each with a cache of `kv_bytes`; 0 if not even one.

    `reserved_bytes` of the memory stay free for activations and the rest of the program.

    Raises:
        ValueError: reserved_bytes below 0, or another argument not above 0.

    Source: Kwon 2023 (PagedAttention), section 3.
    """
    raise NotYetWritten(
        "exercise 2.11 max_concurrent_requests is not written yet: read "
        "notebooks/week02_kv_cache/week02_kv_cache.ipynb, write it in exercises/budget/memory.py, then run: "
        "NANOLM_IMPL=exercises python -m pytest tests/budget/test_budget.py --exercise max_concurrent_requests"
    )


def max_context(
    memory_bytes: float, weight_bytes: float, kv_bytes_per_token: float, batch_size: int = 1, headroom: float = 0.1
) -> int:
    """Return the longest context, in tokens, that every one of `batch_size` sequences can have at the same time.

    `headroom` is the fraction of the whole memory that stays free. Weights and caches share the rest. The result is
    rounded down, and 0 if the weights alone do not fit.

    Raises:
        ValueError: headroom outside 0 ≤ headroom < 1, batch_size not a whole number above 0, a size not above 0.
    """
    raise NotYetWritten(
        "exercise 2.12 max_context is not written yet: read notebooks/week02_kv_cache/week02_kv_cache.ipynb, write "
        "it in exercises/budget/memory.py, then run: NANOLM_IMPL=exercises python -m pytest "
        "tests/budget/test_budget.py --exercise max_context"
    )


def gpus_needed(total_bytes: float, gpu_memory_bytes: float) -> int:
    """Return the smallest number of GPUs whose memories together hold `total_bytes`.

    Raises:
        ValueError: an argument not above 0.
    """
    require_positive(total_bytes=total_bytes, gpu_memory_bytes=gpu_memory_bytes)
    return math.ceil(total_bytes / gpu_memory_bytes)


def positions_run(n_prompt_tokens: int, n_new_tokens: int, cached: bool) -> int:
    """Return how many positions a model runs, over all passes, to write `n_new_tokens` after a prompt.

    Each pass yields one token, the first pass included. Without a cache it runs the prompt and all tokens written so
    far. With one, the first pass runs the prompt and each later pass the token written last. The final token is
    written and never run. No new token: no pass.

    Raises:
        ValueError: n_prompt_tokens not a whole number above 0, or n_new_tokens not one of 0 or more.
    """
    raise NotYetWritten(
        "exercise 2.2 positions_run is not written yet: read notebooks/week02_kv_cache/week02_kv_cache.ipynb, write"
        " it in exercises/budget/memory.py, then run: NANOLM_IMPL=exercises python -m pytest "
        "tests/budget/test_budget.py --exercise positions_run"
    )


def kv_projections(n_prompt_tokens: int, n_new_tokens: int, cached: bool, n_layers: int = 1) -> int:
    """Return how often a decode projects a token to a key or to a value: to both, in each layer, at each position run.

    Raises:
        ValueError: a count not whole, n_new_tokens below 0, or another below 1.
    """
    raise NotYetWritten(
        "exercise 2.3 kv_projections is not written yet: read notebooks/week02_kv_cache/week02_kv_cache.ipynb, "
        "write it in exercises/budget/memory.py, then run: NANOLM_IMPL=exercises python -m pytest "
        "tests/budget/test_budget.py --exercise kv_projections"
    )
