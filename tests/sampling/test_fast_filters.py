"""`sampling/fast_filters.py` equals the plain filters: the same tokens kept, ties and all, probabilities to 1e-12."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nanolm.sampling import SamplingParams, fast_probs, top_ids


def assert_equal_filters(logits, **rules):
    sampling = SamplingParams(**rules)
    before = logits.clone()
    plain, fast = sampling.probs(logits), fast_probs(logits, sampling)
    assert torch.equal(logits, before), "the logits were changed in place"
    assert fast.dtype == torch.float64 and fast.shape == plain.shape
    same = (plain > 0) == (fast > 0)
    assert same.all(), f"{rules}: other tokens stay: {(~same).nonzero()[:5].tolist()} (row, token)"
    assert (plain - fast).abs().max() <= 1e-12, f"{rules}: probabilities differ by {(plain - fast).abs().max():.2g}"


def make(kind, n, V, seed=0):
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(n, V, generator=generator)
    zipf = -1.2 * torch.arange(1, V + 1).float().log()[torch.randperm(V, generator=generator)]
    return {
        "random": normal * 3,
        "float64": normal.double() * 3,
        "peaked": zipf + normal,
        "very peaked": (zipf + normal) * 5,
        "flat": torch.zeros(n, V),
        "nearly flat": normal * 1e-7,
        "tied": (normal * 2).round(),
        "bfloat16": normal.bfloat16(),
        "mostly forbidden": torch.where(normal > 1, normal, -math.inf).index_fill(1, torch.tensor([V // 2]), 0.5),
        "one token": torch.full((n, V), -math.inf).index_fill(1, torch.tensor([V - 1]), 0.0),
    }[kind]


KINDS = ["random", "float64", "peaked", "very peaked", "flat", "nearly flat", "tied", "bfloat16"]
KINDS += ["mostly forbidden", "one token"]
RULES = [
    {},
    {"top_k": 1},
    {"top_k": 50},
    {"top_p": 0.95},
    {"top_p": 1e-9},
    {"top_p": 1.0},
    {"min_p": 0.1},
    {"top_k": 50, "top_p": 0.95},
    {"top_k": 40, "top_p": 0.8, "min_p": 0.05, "temperature": 0.7},
    {"top_k": 3, "top_p": 0.5, "temperature": 0.0},
    {"top_p": 0.999999, "temperature": 3.0},
    {"top_k": 7, "top_p": 0.5, "temperature": 1e12},
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("V", [1, 2, 5, 49, 50, 51, 1024, 50_000])
def test_fast_equals_plain(kind, V):
    logits = make(kind, 3, V)
    for rules in RULES:
        assert_equal_filters(logits, **rules)


@settings(max_examples=300)
@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=12),
    st.integers(1, 14) | st.none(),
    st.integers(1, 40).map(lambda n: n / 40) | st.none(),
    st.integers(0, 10).map(lambda n: n / 10) | st.none(),
    st.sampled_from([0.3, 1.0, 4.0]),
)
def test_fast_equals_plain_on_short_rows_full_of_ties(logits, top_k, top_p, min_p, temperature):
    rows = torch.tensor([logits, logits[::-1]], dtype=torch.float32)
    assert_equal_filters(rows, top_k=top_k, top_p=top_p, min_p=min_p, temperature=temperature)


@pytest.mark.parametrize("p", [0.125, 0.25, 0.5, 0.75, 0.8, 0.999])
@pytest.mark.parametrize("V", [8, 1000, 4096])
def test_a_total_equal_to_p_up_to_rounding_has_reached_it_here_too(p, V):
    assert_equal_filters(torch.zeros(2, V), top_p=p)
    halves = -math.log(2) * torch.arange(1, V + 1)[None]  # 1/2, 1/4, 1/8, …: totals 1 - 2^-n
    assert_equal_filters(halves, top_p=p)


def test_k_at_or_above_v_and_p_1_together_change_nothing():
    logits = make("random", 2, 100)
    for k in (100, 101, 10**6):
        assert torch.equal(fast_probs(logits, SamplingParams(top_k=k)), fast_probs(logits, SamplingParams()))


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_what_plain_refuses_is_refused(wrong, temperature):
    logits = torch.zeros(3, 5)
    logits[1] = wrong
    with pytest.raises(ValueError, match="logits hold NaN"):
        fast_probs(logits, SamplingParams(temperature, top_k=2))


# --- top_ids -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 2, 50, 999, 1000, 2000])
def test_top_ids_are_the_first_of_a_stable_sort(kind, k):
    values = make(kind, 4, 1000)
    assert torch.equal(top_ids(values, k), values.argsort(dim=-1, descending=True, stable=True)[:, :k])
