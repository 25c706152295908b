"""How long a decode step of a batch takes, and which batch a goal allows: from bytes and operations alone."""

import math
from bisect import bisect_right

from .._require import require_count, require_not_negative, require_positive
from .hardware import Hardware
from .roofline import decode_seconds_per_token

from course import NotYetWritten


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
    raise NotYetWritten(
        "exercise 10.1 decode_step_time is not written yet: read "
        "notebooks/week10_price_of_a_token/week10_price_of_a_token.ipynb, write it in "
        "exercises/budget/decode_batch.py, then run: NANOLM_IMPL=exercises python -m pytest "
        "tests/budget/test_decode_batch.py --exercise decode_step_time"
    )


def critical_batch(hardware: Hardware, weight_bits: float = 16) -> int:
    """Return the largest batch for which multiplying the weights takes no longer than reading them, caches left out.

    A parameter is read once, as weight_bits / 8 bytes, and costs two operations for each sequence. Up to this batch,
    one more sequence adds nothing to the weights' time. The result is rounded down, and may be 0.

    Raises:
        ValueError: weight_bits not above 0.
    """
    raise NotYetWritten(
        "exercise 10.4 critical_batch is not written yet: read "
        "notebooks/week10_price_of_a_token/week10_price_of_a_token.ipynb, write it in "
        "exercises/budget/decode_batch.py, then run: NANOLM_IMPL=exercises python -m pytest "
        "tests/budget/test_batch_choice.py --exercise critical_batch"
    )


def crossover_batch(weight_bytes: float, kv_bytes: float) -> int:
    """Return the smallest batch whose caches, of `kv_bytes` a sequence, weigh at least as much as the weights.

    Raises:
        ValueError: an argument not above 0.
    """
    raise NotYetWritten(
        "exercise 10.3 crossover_batch is not written yet: read "
        "notebooks/week10_price_of_a_token/week10_price_of_a_token.ipynb, write it in "
        "exercises/budget/decode_batch.py, then run: NANOLM_IMPL=exercises python -m pytest "
        "tests/budget/test_batch_choice.py --exercise crossover_batch"
    )


def max_batch_for_tpot(
    tpot_seconds: float, n_params: float, weight_bytes: float, kv_bytes: float, hardware: Hardware
) -> int:
    """Return the largest batch whose decode pass takes at most `tpot_seconds`; 0 if even one sequence takes longer.

    The other arguments are those of `decode_step_time`. Whether the caches fit into memory is another question.

    Raises:
        ValueError: kv_bytes below 0, or another argument not above 0.
    """
    raise NotYetWritten(
        "exercise 10.5 max_batch_for_tpot is not written yet: read "
        "notebooks/week10_price_of_a_token/week10_price_of_a_token.ipynb, write it in "
        "exercises/budget/decode_batch.py, then run: NANOLM_IMPL=exercises python -m pytest "
        "tests/budget/test_batch_choice.py --exercise max_batch_for_tpot"
    )
