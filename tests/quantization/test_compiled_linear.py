"""Tests `nanolm/quantization/compiled_linear.py`: float layers whose few rows the compiled product multiplies."""

import copy

import pytest
import torch
from by_hand import close, random
from tiny_models import tiny_model, tokens_of
from torch import nn

from nanolm.checkpoint import load
from nanolm.kernels import products_backend, set_products
from nanolm.model import model_bytes
from nanolm.quantization import MOST_ROWS, CompiledLinear, with_compiled_linear
from nanolm.quantization import compiled_linear as module

compiled = pytest.mark.skipif(products_backend()[0] != "compiled", reason=f"{products_backend()[1]}")
MOST = 2  # rows of every dtype
SIZES = dict(vocab_size=64, d_model=64, n_layers=2, n_heads=4, n_kv_heads=2, head_dim=16, d_ff=96)


@pytest.fixture(autouse=True)
def small_matrices_too(monkeypatch):
    monkeypatch.setattr(module, "LEAST_BYTES", 0)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [1, MOST, MOST + 1, 5])
def test_a_compiled_layer_equals_the_linear_layer_that_it_stands_for(bias, dtype, rows):
    linear = nn.Linear(64, 40, bias=bias).to(dtype).requires_grad_(False)
    layer, x = CompiledLinear.over(linear), random(rows, 64).to(dtype)
    expected = linear.double()(x.double())
    layer.to(dtype)
    rounding = {torch.float64: 1e-12, torch.float32: 1e-5}.get(dtype, 0.01)
    assert layer(x).dtype is dtype and close(layer(x).double(), expected, rounding * expected.abs().max().item())


@compiled
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_few_rows_are_multiplied_by_the_compiled_product_and_many_are_not(monkeypatch, dtype):
    sizes = []
    real = module.product_if_compiled
    monkeypatch.setattr(module, "product_if_compiled", lambda *a: (sizes.append(len(a[0])), real(*a))[1])
    layer = CompiledLinear.over(nn.Linear(64, 40, dtype=dtype).requires_grad_(False))
    for rows in (1, MOST_ROWS[dtype], MOST_ROWS[dtype] + 1):
        layer(random(rows, 64).to(dtype))
    assert sizes == [1, MOST_ROWS[dtype]]


@compiled
@pytest.mark.parametrize(("out", "is_used"), [(1023, False), (1024, True)])
def test_a_matrix_that_lies_in_the_processor_s_cache_is_torch_s(monkeypatch, out, is_used):
    monkeypatch.undo()
    used = []
    monkeypatch.setattr(module, "product_if_compiled", lambda *_: used.append(True))
    CompiledLinear.over(nn.Linear(64, out).requires_grad_(False))(random(1, 64).float())  # 64 · 1,024 · 4 bytes: 2^18
    assert bool(used) is is_used


def test_a_model_that_is_loaded_has_such_layers():
    layers = [layer for layer in load("draft")[0].modules() if isinstance(layer, nn.Linear)]
    assert layers and all(type(layer) is CompiledLinear for layer in layers)


@compiled
def test_a_row_has_the_same_bits_alone_and_among_a_few():
    layer = CompiledLinear.over(nn.Linear(64, 40, dtype=torch.bfloat16).requires_grad_(False))
    x = random(MOST, 64).bfloat16()
    assert torch.equal(layer(x), torch.cat([layer(row) for row in x.split(1)]))


def test_a_layer_in_training_has_a_gradient():
    layer = CompiledLinear.over(nn.Linear(64, 40))
    layer(torch.ones(1, 64)).sum().backward()
    assert layer.weight.grad is not None


@pytest.mark.parametrize("who", ["auto", "torch"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_model_of_compiled_layers_gives_the_same_logits_from_the_same_weights(who, dtype):
    before = set_products(who)
    model, tokens = tiny_model(**SIZES).to(dtype), tokens_of(1, 9, vocab_size=64)
    fast = with_compiled_linear(copy.deepcopy(model))
    expected = model(tokens).double()
    assert close(
        fast(tokens).double(), expected, (1e-4 if dtype is torch.float32 else 0.05) * expected.abs().max().item()
    )
    assert fast.head.weight is fast.embedding.weight and model_bytes(fast) == model_bytes(model)
    assert sum(isinstance(layer, CompiledLinear) for layer in fast.modules()) == 2 * 4 + 1
    set_products(before)
