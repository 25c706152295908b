"""The kernel of a mixture of experts against a loop in float64 and the torch path; idle experts are not read."""

import torch
from by_hand import random
from guarded import Memory
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import tiny_config, tiny_model, tokens_of

from nanolm import kernels
from nanolm.kernels import triton_grouped
from nanolm.model import GroupedMoE, MoE, grouped_matmul, quantize_model

# Relative to Σ |x|·|w|: float32 rounds each of up to 100 additions, float16 the result to 11 binary digits.
TOLERANCE = {torch.float32: 2.0**-20, torch.float16: 2.0**-10}


def assert_right(counts, D, F, dtype=torch.float32, seed=0, index=torch.int64):
    ends = torch.tensor(counts).cumsum(0)
    offsets, P = torch.cat([torch.zeros(1, dtype=torch.long), ends]).to(index), sum(counts)
    x, weights = random(P, D, seed=seed).to(dtype), random(len(counts), F, D, seed=seed + 1).to(dtype)
    has_rows = torch.tensor([count > 0 for count in counts])[:, None, None]
    with Memory() as memory:
        out = grouped_matmul(
            memory.embed(x),
            memory.embed(weights.masked_fill(~has_rows, torch.nan), has_rows),
            memory.embed(offsets),
            backend="triton",
        )
    chosen = [expert for expert, count in enumerate(counts) for _ in range(count)]
    pairs = list(zip(x.double(), weights.double()[chosen], strict=True))
    exact = torch.stack([matrix @ row for row, matrix in pairs])
    allowed = TOLERANCE[dtype] * torch.stack([matrix.abs() @ row.abs() for row, matrix in pairs])
    by_torch = grouped_matmul(x, weights, offsets, backend="torch").double()
    assert out.dtype == dtype
    for name, expected in (("float64", exact), ("the torch path", by_torch)):
        error = (out.double() - expected).abs()
        assert (error <= allowed).all(), f"off by {error.max():.2g} from {name} with {counts} rows an expert"


@settings(max_examples=30)
@given(
    counts=st.lists(st.integers(0, 20), min_size=1, max_size=6).filter(any),
    D=st.integers(1, 40),
    F=st.integers(1, 20),
    dtype=st.sampled_from([torch.float32, torch.float16]),
    seed=st.integers(0, 99),
)
def test_the_kernel_is_each_row_times_its_expert(counts, D, F, dtype, seed):
    assert_right(counts, D, F, dtype, seed)


def test_the_kernel_gives_an_expert_as_many_tiles_as_it_needs():
    # Tiles of 16 rows: 3, 0, 1, 2 and 0 of them; the bound is 66 // 16 + 5 = 9, so that 3 programs find no work.
    assert triton_grouped.tiles_for(66, 5, 4)["P_TILE"] == 16
    assert_right([33, 0, 16, 17, 0], 70, 70)


def test_the_kernel_takes_one_row_and_many_experts():
    assert_right([0] * 30 + [1] + [0] * 9, 8, 8)


def test_the_kernel_takes_int32_offsets():
    assert_right([2, 0, 3], 4, 5, index=torch.int32)


@settings(max_examples=10)
@given(B=st.integers(1, 3), T=st.integers(1, 9), n_experts=st.integers(1, 5), data=st.data())
def test_a_mixture_in_one_product_is_the_mixture_in_a_loop(B, T, n_experts, data):
    k = data.draw(st.integers(1, n_experts))
    config = tiny_config(n_experts=n_experts, experts_per_token=k)
    loop, grouped = MoE(config).requires_grad_(False), GroupedMoE(config).requires_grad_(False)
    grouped.load_state_dict(loop.state_dict())
    x = random(B, T, 20, seed=B + T).float()
    before = kernels.set_backend("triton")
    try:
        actual = grouped(x)
    finally:
        kernels.set_backend(before)
    # float32, sums of 20 and of 10 terms that are about 1: a few units of 2^-23 each.
    assert torch.allclose(actual, loop(x), atol=1e-4, rtol=1e-4)


def test_experts_that_are_quantized_run_one_by_one_whoever_computes():
    model = tiny_model(n_experts=3, experts_per_token=2).float()
    tokens = tokens_of(2, 5)
    assert all(type(layer.feedforward) is GroupedMoE for layer in model.layers)
    expected = quantize_model(tiny_model(n_experts=3, experts_per_token=2).float(), 8, kernels=False)(tokens)
    before = kernels.set_backend("triton")
    try:
        assert torch.equal(quantize_model(model, 8, kernels=False)(tokens), expected), "codes are no grouped product"
    finally:
        kernels.set_backend(before)
