"""What bounds one pass: reading its bytes or doing its arithmetic; and the waiting time of a request that follows.

Both go on at once, so a pass takes the longer of the two times. Reading a cache comes on top. The results are what
the chip could do at best; expect to measure between 1.2 and 2 times as much, and trust the ratios.
"""

from .._require import require_count, require_not_negative, require_positive
from .hardware import Hardware

from course import NotYetWritten


def matmul_flops(n_params: float, n_tokens: int) -> float:
    """Return the operations of a pass over `n_tokens` positions: one multiplication and one addition a parameter.

    Raises:
        ValueError: n_params not above 0, or n_tokens not a whole number, 0 or more.

    Source: Kaplan 2020, section 2.1.
    """
    raise NotYetWritten(
        "exercise 1.1 matmul_flops is not written yet: read "
        "notebooks/week01_prefill_decode/week01_prefill_decode.ipynb, write it in exercises/budget/roofline.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/budget/test_roofline.py --exercise matmul_flops"
    )


def arithmetic_intensity(n_tokens: int, n_params: float, weight_bytes: float, kv_bytes: float = 0) -> float:
    """Return the operations that a pass does for each byte it reads.

    Args:
        n_tokens: positions that one reading of the weights serves: 1 in decode, B in a batch, the prompt in prefill.
        n_params: parameters multiplied per position, one multiplication and one addition each.
        weight_bytes: bytes of weights read.
        kv_bytes: bytes of cache read, of all sequences together.

    Raises:
        ValueError: n_tokens not a whole number above 0, n_params or weight_bytes not above 0, kv_bytes below 0.

    Source: Williams 2009 (the roofline model).
    """
    raise NotYetWritten(
        "exercise 1.2 arithmetic_intensity is not written yet: read "
        "notebooks/week01_prefill_decode/week01_prefill_decode.ipynb, write it in exercises/budget/roofline.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/budget/test_roofline.py --exercise "
        "arithmetic_intensity"
    )


def ridge_point(hardware: Hardware) -> float:
    """Return the intensity, in operations a byte, at which reading and arithmetic take equally long on this chip.

    Source: Williams 2009 (the roofline model).
    """
    raise NotYetWritten(
        "exercise 1.3 ridge_point is not written yet: read "
        "notebooks/week01_prefill_decode/week01_prefill_decode.ipynb, write it in exercises/budget/roofline.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/budget/test_roofline.py --exercise ridge_point"
    )


def bottleneck(intensity: float, hardware: Hardware) -> str:
    """Return "memory" for an intensity below the chip's ridge point, "compute" from the ridge point on.

    Raises:
        ValueError: intensity not a finite number, 0 or more.
    """
    raise NotYetWritten(
        "exercise 1.4 bottleneck is not written yet: read "
        "notebooks/week01_prefill_decode/week01_prefill_decode.ipynb, write it in exercises/budget/roofline.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/budget/test_roofline.py --exercise bottleneck"
    )


def decode_seconds_per_token(n_params: float, weight_bytes: float, hardware: Hardware, kv_bytes: float = 0) -> float:
    """Return the seconds of one decode pass of a single sequence.

    The longer of reading all weights and multiplying them for one position, plus the reading of `kv_bytes`, the
    sequence's cache. `n_params` counts the parameters multiplied per position.

    Raises:
        ValueError: n_params or weight_bytes not above 0, or kv_bytes below 0.

    Source: Pope 2022, section 2.
    """
    raise NotYetWritten(
        "exercise 1.5 decode_seconds_per_token is not written yet: read "
        "notebooks/week01_prefill_decode/week01_prefill_decode.ipynb, write it in exercises/budget/roofline.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/budget/test_pass_times.py --exercise "
        "decode_seconds_per_token"
    )


def prefill_seconds(n_prompt_tokens: int, n_params: float, weight_bytes: float, hardware: Hardware) -> float:
    """Return the seconds of the one pass that runs all positions of a prompt, attention itself left out.

    The longer of reading the weights, once, and multiplying them for every position: a short prompt waits for the
    reading, a long one for the arithmetic.

    Raises:
        ValueError: n_prompt_tokens not a whole number above 0, or n_params or weight_bytes not above 0.

    Source: Pope 2022, section 2.
    """
    raise NotYetWritten(
        "exercise 1.6 prefill_seconds is not written yet: read "
        "notebooks/week01_prefill_decode/week01_prefill_decode.ipynb, write it in exercises/budget/roofline.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/budget/test_pass_times.py --exercise "
        "prefill_seconds"
    )


def attention_share_of_prefill(
    n_prompt_tokens: int, n_params: float, n_layers: int, n_heads: int, head_dim: int
) -> float:
    """Return what scores and weighted values add to a prefill, as a fraction of the operations with the weights.

    Position t sees t positions, itself included: (T + 1) / 2 on average over a prompt of T. For each position seen, a
    layer does 2·N·H operations for the scores and 2·N·H for the sum of values; all N query heads do so, however few
    key/value heads there are. The weights cost 2·n_params a position. The result grows with T and may exceed 1.

    Raises:
        ValueError: n_params not above 0, or another argument not a whole number above 0.
    """
    raise NotYetWritten(
        "exercise 1.7 attention_share_of_prefill is not written yet: read "
        "notebooks/week01_prefill_decode/week01_prefill_decode.ipynb, write it in exercises/budget/roofline.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/budget/test_request_times.py --exercise "
        "attention_share_of_prefill"
    )


def end_to_end_seconds(ttft_seconds: float, tpot_seconds: float, n_output_tokens: int) -> float:
    """Return the seconds from a request to the last of its output tokens.

    The first token arrives after `ttft_seconds` (time to first token), every other `tpot_seconds` (time per output
    token) after the one before.

    Raises:
        ValueError: a time below 0, or n_output_tokens not a whole number above 0.
    """
    raise NotYetWritten(
        "exercise 1.8 end_to_end_seconds is not written yet: read "
        "notebooks/week01_prefill_decode/week01_prefill_decode.ipynb, write it in exercises/budget/roofline.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/budget/test_request_times.py --exercise "
        "end_to_end_seconds"
    )


def tokens_per_second(step_seconds: float, batch_size: int = 1) -> float:
    """Return the tokens that a batch writes in a second: each step writes one for each sequence.

    Raises:
        ValueError: step_seconds not above 0, or batch_size not a whole number above 0.
    """
    raise NotYetWritten(
        "exercise 1.9 tokens_per_second is not written yet: read "
        "notebooks/week01_prefill_decode/week01_prefill_decode.ipynb, write it in exercises/budget/roofline.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/budget/test_request_times.py --exercise "
        "tokens_per_second"
    )
