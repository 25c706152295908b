"""How long a decode step of a batch takes, and which batch a goal allows: from bytes and operations alone."""

import math
from bisect import bisect_right

from .._require import require_count, require_not_negative, require_positive
from .hardware import Hardware
from .roofline import decode_seconds_per_token


def decode_step_time(
    batch_size: int, n_params: float, weight_bytes: float, kv_bytes: float, hardware: Hardware
) -> float:
    """Return the seconds of one decode pass of a batch: the time per output token that each user sees.

    The longer of reading the weights, once for all, and multiplying them for one position of each sequence; plus the
    reading of every sequence's own cache, which nothing hides.

    Args:
        batch_size: B.
        n_params: parameters multiplied per position, one multiplication and one addition each.
        weight_bytes: bytes of weights read.
        kv_bytes: cache of one sequence; 0 if it is left out of account.
        hardware: the chip.

    Raises:
        ValueError: batch_size not a whole number above 0, n_params or weight_bytes not above 0, kv_bytes below 0.

    Source: Pope 2022, section 2.
    """
    require_count(1, batch_size=batch_size)
    require_positive(n_params=n_params, weight_bytes=weight_bytes)
    require_not_negative(kv_bytes=kv_bytes)
    # One sequence's pass with B times the multiplications and B times the cache: the weights alone are read once.
    return decode_seconds_per_token(batch_size * n_params, weight_bytes, hardware, batch_size * kv_bytes)


def critical_batch(hardware: Hardware, weight_bits: float = 16) -> int:
    """Return the largest batch for which multiplying the weights takes no longer than reading them, caches left out.

    A parameter is read once, as weight_bits / 8 bytes, and costs two operations for each sequence. Up to this batch,
    one more sequence adds nothing to the weights' time. The result is rounded down, and may be 0.

    Raises:
        ValueError: weight_bits not above 0.
    """
    require_positive(weight_bits=weight_bits)
    return int(weight_bits / 8 * hardware.peak_flops_per_second // (2 * hardware.bandwidth_bytes_per_second))


def crossover_batch(weight_bytes: float, kv_bytes: float) -> int:
    """Return the smallest batch whose caches, of `kv_bytes` a sequence, weigh at least as much as the weights.

    Raises:
        ValueError: an argument not above 0.
    """
    require_positive(weight_bytes=weight_bytes, kv_bytes=kv_bytes)
    return math.ceil(weight_bytes / kv_bytes)


def max_batch_for_tpot(
    tpot_seconds: float, n_params: float, weight_bytes: float, kv_bytes: float, hardware: Hardware
) -> int:
    """Return the largest batch whose decode pass takes at most `tpot_seconds`; 0 if even one sequence takes longer.

    The other arguments are those of `decode_step_time`. Whether the caches fit into memory is another question.

    Raises:
        ValueError: kv_bytes below 0, or another argument not above 0.
    """
    require_positive(tpot_seconds=tpot_seconds, n_params=n_params)
    # Arithmetic alone allows no more than this, so the search has an end even without a cache.
    batch_sizes = range(1, int(tpot_seconds * hardware.peak_flops_per_second / (2 * n_params)) + 2)
    return bisect_right(
        batch_sizes, tpot_seconds, key=lambda size: decode_step_time(size, n_params, weight_bytes, kv_bytes, hardware)
    )
