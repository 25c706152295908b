"""RMSNorm, plain and fast, against the formula in float64, and the fast one after all that can change a weight."""

import pytest
import torch
from by_hand import close, random

from nanolm.model import FastRMSNorm, RMSNorm

BOTH = [RMSNorm, FastRMSNorm]
D, EPS = 8, 1e-5


def by_formula(x, weight, eps=EPS):
    """x / sqrt(mean(x²) + eps), times the weight, in float64."""
    x = x.double()
    return x / torch.sqrt((x * x).mean(dim=-1, keepdim=True) + eps) * weight.double()


def weighted(kind, seed=1):
    """A norm with random weights."""
    norm = kind(D, EPS)
    with torch.no_grad():
        norm.weight.copy_(random(D, seed=seed))
    return norm


def input_of(seed=0):
    return random(2, 3, D, seed=seed).float()


# --- the formula -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BOTH)
def test_rms_norm_divides_by_the_root_of_the_mean_square(kind):
    norm = kind(2, eps=0.5)
    norm.weight.data = torch.tensor([1.0, 10.0])
    # (3, 4): mean square 12.5, with eps 13; 3/√13 = 0.83205, 4/√13 · 10 = 11.09400.
    actual = norm(torch.tensor([[[3.0, 4.0]]]))
    assert not close(actual, torch.tensor([[[-1.0, 10.0]]]), 0.3), (
        "RMSNorm does not take the mean away (LayerNorm does)"
    )
    assert close(actual, torch.tensor([[[0.83205, 11.09400]]]), 1e-4)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-13), (torch.float32, 1e-5), (torch.bfloat16, 0.03)]
)
@pytest.mark.parametrize("size", [0.0, 1e-6, 1.0, 1e6])
def test_rms_norm_equals_the_formula_from_tiny_to_large_vectors(kind, dtype, tolerance, size):
    # At 1e-6 the mean square is far below eps, at 1e6 far above. Results are a few units large; float32 keeps
    # 7 digits and bfloat16 less than 3.
    x, norm = random(2, 3, D) * size, kind(D, EPS).to(dtype)
    actual = norm(x.to(dtype))
    assert actual.dtype == dtype
    assert close(actual.double(), by_formula(x, torch.ones(D)), tolerance)


# --- the fast one is the plain one -------------------------------------------------------------------------------


@pytest.mark.parametrize("context", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_the_fast_norm_equals_the_plain_one_in_float32(context):
    plain, fast, x = weighted(RMSNorm), weighted(FastRMSNorm), input_of()
    with context():
        assert close(fast(x), plain(x), 1e-6)


def test_the_fast_norm_has_the_plain_one_s_gradients():
    grads = []
    for norm in (weighted(RMSNorm), weighted(FastRMSNorm)):
        x = input_of().requires_grad_()
        (norm(x) * input_of(seed=2)).sum().backward()
        grads.append((x.grad, norm.weight.grad))
    (plain_x, plain_weight), (fast_x, fast_weight) = grads
    assert close(fast_x, plain_x, 1e-5), "the gradient of what is normed"
    assert close(fast_weight, plain_weight, 1e-5), "the gradient of the weight"


def test_a_norm_that_is_not_fast_computes_as_the_plain_one_to_the_last_bit():
    plain, fast, x = weighted(RMSNorm), weighted(FastRMSNorm), input_of()
    fast.fast = False
    assert torch.equal(fast(x), plain(x))


def test_the_fast_norm_keeps_nothing_in_a_checkpoint_but_the_weight():
    assert list(FastRMSNorm(D, EPS).state_dict()) == list(RMSNorm(D, EPS).state_dict()) == ["weight"]


# --- whatever changes a weight -----------------------------------------------------------------------------------

NEW = random(D, seed=5).float()


def in_place(norm):
    with torch.no_grad():
        norm.weight.copy_(NEW)


def in_place_in_inference_mode(norm):
    with torch.inference_mode():
        norm.weight.copy_(NEW)


def through_a_view(norm):
    with torch.no_grad():
        norm.weight[2:5].fill_(3.0)


def behind_autograd_s_back(norm):
    norm.weight.data.copy_(NEW)


def its_data_replaced(norm):
    norm.weight.data = NEW.clone()


def replaced(norm):
    norm.weight = torch.nn.Parameter(NEW.clone())


def loaded(norm):
    norm.load_state_dict({"weight": NEW})


def loaded_and_assigned(norm):
    norm.load_state_dict({"weight": NEW.clone()}, assign=True)


def moved(norm):
    norm.to(torch.float64).to(torch.float32)
    in_place(norm)


def trained(norm):
    norm.requires_grad_(True)
    norm(input_of()).square().sum().backward()
    torch.optim.AdamW([norm.weight], lr=0.5, fused=True).step()


CHANGES = [
    in_place,
    in_place_in_inference_mode,
    through_a_view,
    behind_autograd_s_back,
    its_data_replaced,
    replaced,
    loaded,
    loaded_and_assigned,
    moved,
    trained,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("frozen", [True, False])
def test_the_fast_norm_follows_a_weight_that_is_changed(change, frozen):
    norm, x = weighted(FastRMSNorm), input_of()
    norm.requires_grad_(not frozen)
    before = norm.weight.detach().clone()
    with torch.inference_mode():
        norm(x)  # whatever it keeps of its weight, it keeps now
    change(norm)
    assert not close(norm.weight.detach(), before, 0.1), "the change changes nothing: this test tests nothing"
    with torch.inference_mode():
        expected = by_formula(x, norm.weight)
        assert close(norm(x).double(), expected, 1e-5), "the norm computes with the weight it had before"


def test_a_norm_made_without_memory_and_loaded_then_computes():
    with torch.device("meta"):
        norm = FastRMSNorm(D, EPS)
    norm.load_state_dict({"weight": NEW.clone()}, assign=True)
    assert close(norm(input_of()).double(), by_formula(input_of(), NEW), 1e-5)
