# %% a loop over tokens
def end_to_end_seconds(ttft_seconds, tpot_seconds, n_output_tokens):
    require_not_negative(ttft_seconds=ttft_seconds, tpot_seconds=tpot_seconds)
    require_count(1, n_output_tokens=n_output_tokens)
    now = ttft_seconds
    for _ in range(n_output_tokens - 1):
        now += tpot_seconds
    return now


# %% all waits, less the one that TTFT replaces
def end_to_end_seconds(ttft_seconds, tpot_seconds, n_output_tokens):
    if ttft_seconds < 0 or tpot_seconds < 0:
        raise ValueError("ttft_seconds and tpot_seconds must be 0 or more")
    if n_output_tokens < 1 or n_output_tokens % 1:
        raise ValueError("n_output_tokens must be a whole number above 0")
    return n_output_tokens * tpot_seconds + (ttft_seconds - tpot_seconds)


# %% NumPy
import numpy as np


def end_to_end_seconds(ttft_seconds, tpot_seconds, n_output_tokens):
    require_not_negative(ttft_seconds=ttft_seconds, tpot_seconds=tpot_seconds)
    require_count(1, n_output_tokens=n_output_tokens)
    waits = np.full(int(n_output_tokens), tpot_seconds, dtype=np.float64)
    waits[0] = ttft_seconds
    return waits.sum()


# %% math.fsum
import math


def end_to_end_seconds(ttft_seconds, tpot_seconds, n_output_tokens):
    require_count(1, n_output_tokens=n_output_tokens)
    require_not_negative(ttft_seconds=ttft_seconds)
    require_not_negative(tpot_seconds=tpot_seconds)
    return math.fsum([ttft_seconds, *[tpot_seconds] * (n_output_tokens - 1)])


# %% an early return
def end_to_end_seconds(ttft_seconds, tpot_seconds, n_output_tokens):
    require_not_negative(ttft_seconds=ttft_seconds, tpot_seconds=tpot_seconds)
    require_count(1, n_output_tokens=n_output_tokens)
    if n_output_tokens == 1:
        return ttft_seconds
    return ttft_seconds + tpot_seconds * (n_output_tokens - 1)
