"""The prefill kernel against softmax in float64 and the torch path, in memory that shows every stray access."""

from unittest.mock import patch

import pytest
import torch
from by_hand import attention, random
from guarded import Memory
from hypothesis import given, settings
from hypothesis import strategies as st

from nanolm.attention import prefill_attention
from nanolm.kernels import triton_prefill

# Float32 sums of up to 150 terms of about 1; float16 has 11 binary digits, of which the weights and the result lose one
# each (values are up to 4).
TOLERANCE = {torch.float32: 5e-6, torch.float16: 4 * 2.0**-10}


def inputs(B, N, K, T, S, H, dtype=torch.float32, seed=0):
    return [random(B, n, length, H, seed=seed + i).to(dtype) for i, (n, length) in enumerate([(N, T), (K, S), (K, S)])]


def assert_right(q, k, v, out):
    dtype = q.dtype
    assert out.dtype == dtype
    for name, expected in (
        ("softmax in float64", attention(*(x.double() for x in (q, k, v)))),
        ("the torch path", prefill_attention(q, k, v, backend="torch").double()),
    ):
        error = (out.double() - expected).abs().max().item()
        assert error <= TOLERANCE[dtype], f"off by {error:.2g} from {name}"


def guarded(q, k, v):
    with Memory() as memory:
        return prefill_attention(*map(memory.embed, (q, k, v)), backend="triton")


@settings(max_examples=30)
@given(
    B=st.integers(1, 2),
    K=st.integers(1, 2),
    G=st.integers(1, 3),
    T=st.integers(1, 40),
    past=st.integers(0, 40),
    H=st.sampled_from([1, 4, 6, 16, 20]),
    dtype=st.sampled_from([torch.float32, torch.float16]),
    seed=st.integers(0, 99),
)
def test_the_kernel_is_softmax_attention_in_any_shape(B, K, G, T, past, H, dtype, seed):
    q, k, v = inputs(B, K * G, K, T, T + past, H, dtype, seed)
    small = triton_prefill.tiles_for(T, H, q.element_size()) | {"T_TILE": 16, "S_TILE": 16}  # many tiles of few keys
    with patch.object(triton_prefill, "tiles_for", lambda *_: small):
        assert_right(q, k, v, guarded(q, k, v))


@pytest.mark.parametrize(("T", "S"), [(1, 1), (1, 70), (16, 16), (64, 64), (65, 130), (3, 129)])
def test_the_kernel_with_the_tiles_that_it_chooses(T, S):
    q, k, v = inputs(1, 4, 2, T, S, 8)
    assert_right(q, k, v, guarded(q, k, v))


def test_the_kernel_reads_no_key_that_no_query_may_see():
    # The first 16 of 32 queries see 16 keys; with tiles of 16 queries they are a program of their own.
    q, k, v = inputs(1, 1, 1, 32, 32, 4)
    with patch.object(triton_prefill, "tiles_for", lambda *_: {"H": 4, "H_TILE": 16, "T_TILE": 16, "S_TILE": 64}):
        k[:, :, 16:], v[:, :, 16:] = torch.nan, torch.nan
        out = guarded(q, k, v)
    assert out[:, :, :16].isfinite().all() and out[:, :, 16:].isnan().all()


def test_the_kernel_takes_heads_as_the_model_cuts_them():
    # (B, T, N, H) turned to (B, N, T, H): rows of a head are N · H apart.
    q, k, v = (random(2, 9, n, 6, seed=n).float().transpose(1, 2) for n in (4, 2, 2))
    assert_right(q, k, v, prefill_attention(q, k, v, backend="triton"))


def test_the_kernel_takes_a_last_dimension_with_gaps():
    q, k, v = (random(1, 2, 6, 9, seed=n).float().transpose(2, 3) for n in range(3))
    assert_right(q, k, v, prefill_attention(q, k, v, backend="triton"))


def test_the_kernel_survives_scores_that_would_overflow_an_exponential():
    q, k, v = inputs(1, 1, 1, 5, 9, 4)
    q *= 200  # scores in the hundreds: 2^300 is more than a float32 holds
    assert_right(q, k, v, guarded(q, k, v))
