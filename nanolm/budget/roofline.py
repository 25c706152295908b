"""What bounds one pass: reading its bytes or doing its arithmetic; and the waiting time of a request that follows.

Both go on at once, so a pass takes the longer of the two times. Reading a cache comes on top. The results are what
the chip could do at best; expect to measure between 1.2 and 2 times as much, and trust the ratios.
"""

from .._require import require_count, require_not_negative, require_positive
from .hardware import Hardware


def matmul_flops(n_params: float, n_tokens: int) -> float:
    """Return the operations of a pass over `n_tokens` positions: one multiplication and one addition a parameter.

    Raises:
        ValueError: n_params not above 0, or n_tokens not a whole number, 0 or more.

    Source: Kaplan 2020, section 2.1.
    """
    require_positive(n_params=n_params)
    require_count(0, n_tokens=n_tokens)
    return 2 * n_params * n_tokens


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
    require_count(1, n_tokens=n_tokens)
    require_positive(n_params=n_params, weight_bytes=weight_bytes)
    require_not_negative(kv_bytes=kv_bytes)
    return 2 * n_params * n_tokens / (weight_bytes + kv_bytes)


def ridge_point(hardware: Hardware) -> float:
    """Return the intensity, in operations a byte, at which reading and arithmetic take equally long on this chip.

    Source: Williams 2009 (the roofline model).
    """
    return hardware.peak_flops_per_second / hardware.bandwidth_bytes_per_second


def bottleneck(intensity: float, hardware: Hardware) -> str:
    """Return "memory" for an intensity below the chip's ridge point, "compute" from the ridge point on.

    Raises:
        ValueError: intensity not a finite number, 0 or more.
    """
    require_not_negative(intensity=intensity)
    return "memory" if intensity < ridge_point(hardware) else "compute"


def decode_seconds_per_token(n_params: float, weight_bytes: float, hardware: Hardware, kv_bytes: float = 0) -> float:
    """Return the seconds of one decode pass of a single sequence.

    The longer of reading all weights and multiplying them for one position, plus the reading of `kv_bytes`, the
    sequence's cache. `n_params` counts the parameters multiplied per position.

    Raises:
        ValueError: n_params or weight_bytes not above 0, or kv_bytes below 0.

    Source: Pope 2022, section 2.
    """
    require_positive(n_params=n_params, weight_bytes=weight_bytes)
    require_not_negative(kv_bytes=kv_bytes)
    W, P = hardware.bandwidth_bytes_per_second, hardware.peak_flops_per_second
    return kv_bytes / W + max(weight_bytes / W, 2 * n_params / P)


def prefill_seconds(n_prompt_tokens: int, n_params: float, weight_bytes: float, hardware: Hardware) -> float:
    """Return the seconds of the one pass that runs all positions of a prompt, attention itself left out.

    The longer of reading the weights, once, and multiplying them for every position: a short prompt waits for the
    reading, a long one for the arithmetic.

    Raises:
        ValueError: n_prompt_tokens not a whole number above 0, or n_params or weight_bytes not above 0.

    Source: Pope 2022, section 2.
    """
    require_count(1, n_prompt_tokens=n_prompt_tokens)
    require_positive(n_params=n_params, weight_bytes=weight_bytes)
    W, P = hardware.bandwidth_bytes_per_second, hardware.peak_flops_per_second
    return max(weight_bytes / W, 2 * n_params * n_prompt_tokens / P)


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
    require_count(1, n_prompt_tokens=n_prompt_tokens, n_layers=n_layers, n_heads=n_heads, head_dim=head_dim)
    require_positive(n_params=n_params)
    mean_context = (n_prompt_tokens + 1) / 2
    return 4 * n_layers * n_heads * head_dim * mean_context / (2 * n_params)


def end_to_end_seconds(ttft_seconds: float, tpot_seconds: float, n_output_tokens: int) -> float:
    """Return the seconds from a request to the last of its output tokens.

    The first token arrives after `ttft_seconds` (time to first token), every other `tpot_seconds` (time per output
    token) after the one before.

    Raises:
        ValueError: a time below 0, or n_output_tokens not a whole number above 0.
    """
    require_not_negative(ttft_seconds=ttft_seconds, tpot_seconds=tpot_seconds)
    require_count(1, n_output_tokens=n_output_tokens)
    return ttft_seconds + (n_output_tokens - 1) * tpot_seconds


def tokens_per_second(step_seconds: float, batch_size: int = 1) -> float:
    """Return the tokens that a batch writes in a second: each step writes one for each sequence.

    Raises:
        ValueError: step_seconds not above 0, or batch_size not a whole number above 0.
    """
    require_positive(step_seconds=step_seconds)
    require_count(1, batch_size=batch_size)
    return batch_size / step_seconds
