"""Tests `nanolm/model/quantize.py`: a tiny model in float64, whose plain layers are exact."""

import copy

import pytest
import torch
from by_hand import close
from rounding_by_hand import rounded_layer
from tiny_models import tiny_model, tokens_of
from torch import nn

from nanolm.cache import KVCache
from nanolm.kernels import products_backend, set_products
from nanolm.model import collect_inputs, linear_layers, model_bytes, quantize_model, separate_experts, watch_routers
from nanolm.quantization import Int4Linear, PackedEmbedding, QuantizedLinear

NAMES = ["attention.qkv", "attention.out", "feedforward.gate_up", "feedforward.down"]


def sized_model(**changes):
    """A float32 model whose rows suit every kernel, random, with its head apart from the embedding."""
    sizes = dict(vocab_size=64, d_model=64, n_layers=2, n_heads=4, n_kv_heads=2, head_dim=16, d_ff=96)
    model = tiny_model(**{**sizes, "tie_embeddings": False, **changes}).float()
    for weight in model.parameters():
        if weight.ndim == 2:
            weight.mul_(0.25)
    return model


def with_rounded_weights(model, bits, group_size=None):
    """The model with every linear layer's weights rounded by hand, and multiplied the usual way."""
    model = copy.deepcopy(model)
    for layer in linear_layers(model).values():
        layer.weight.copy_(rounded_layer(layer, bits, group_size).weight)
    return model


def test_linear_layers_are_four_a_layer_in_the_order_of_a_pass():
    names = [f"layers.{i}.{name}" for i in range(3) for name in NAMES]
    assert list(linear_layers(tiny_model())) == names
    assert list(linear_layers(tiny_model(), head=True)) == [*names, "head"]


@pytest.mark.parametrize(("bits", "group_size"), [(8, None), (8, 2), (4, None), (4, 2)])
def test_a_quantized_model_equals_the_model_with_rounded_weights(bits, group_size):
    model, tokens = tiny_model(), tokens_of(2, 9)
    expected = with_rounded_weights(model, bits, group_size)(tokens)
    assert close(quantize_model(model, bits, group_size, kernels=False)(tokens), expected, 1e-10)


@pytest.mark.parametrize(("bits", "group_size"), [(8, None), (4, 32), (4, None), (3, None), (2, 16)])
def test_a_quantized_model_decodes_as_it_prefills(bits, group_size):
    # One position a pass takes the kernels, 20 at once do not: they agree up to bfloat16, layer after layer.
    model, tokens = quantize_model(sized_model(), bits, group_size), tokens_of(1, 20, vocab_size=64)
    cache, steps = model.new_cache(1, 20), []
    for position in range(20):
        steps.append(model(tokens[:, position : position + 1], cache))
        cache.advance(1)
    full = model(tokens)
    assert close(torch.cat(steps, dim=1), full, 0.05 * full.abs().max().item())


def test_8_bits_are_nearly_free_and_fewer_cost_more():
    model, tokens = sized_model(), tokens_of(4, 16, vocab_size=64)
    right = model(tokens)
    far = [
        ((quantize_model(copy.deepcopy(model), bits, size)(tokens) - right).norm() / right.norm()).item()
        for bits, size in ((8, None), (4, 16), (4, None), (3, None), (2, None))
    ]
    assert far == sorted(far) and far[0] < 0.03


def test_a_quantized_model_generates():
    model = quantize_model(sized_model(), 8)
    assert model.dtype == torch.float32 and model.device.type == "cpu"
    assert isinstance(model.new_cache(), KVCache)
    assert len(model.generate([1, 2, 3], 5)) == 5


def test_the_head_is_exchanged_only_if_asked_for():
    assert isinstance(quantize_model(sized_model(), 8).head, nn.Linear)
    model = quantize_model(sized_model(), 8, head=True)
    assert isinstance(model.head, QuantizedLinear) and isinstance(model.embedding, nn.Embedding)


@pytest.mark.parametrize(("bits", "group_size"), [(8, None), (4, 32), (3, None)])
def test_a_tied_embedding_and_the_head_share_one_packed_matrix(products, bits, group_size):
    model, tokens = sized_model(tie_embeddings=True), tokens_of(2, 9, vocab_size=64)
    expected = with_rounded_weights(model, bits, group_size)
    expected.head.weight.copy_(rounded_layer(model.head, bits, group_size).weight)
    size = model_bytes(model)
    quantize_model(model, bits, group_size, head=True)
    assert isinstance(model.embedding, PackedEmbedding) and model.embedding.table is model.head
    assert model_bytes(model) < size * (bits + 2) / 32, "the floats of the embedding are still there"
    assert close(model(tokens), expected(tokens), 0.02 * expected(tokens).abs().max().item())
    assert model.dtype == torch.float32 and len(model.generate([1, 2, 3], 5)) == 5
    assert model.bfloat16()(tokens).dtype == torch.bfloat16


def test_where_torch_s_layout_holds_a_tied_head_the_embedding_stays(products):
    products("torch")
    model = quantize_model(sized_model(tie_embeddings=True), 4, 32, head=True)
    kind = nn.Embedding if isinstance(model.head, Int4Linear) else PackedEmbedding
    assert isinstance(model.embedding, kind) and len(model.generate([1, 2, 3], 5)) == 5


@pytest.fixture
def products():
    """Sets who computes products on a CPU for the length of a test."""
    before = set_products("auto")
    yield set_products
    set_products(before)


@pytest.mark.parametrize("who", ["auto", "torch"])
def test_layers_take_torch_s_4_bit_layout_where_there_is_one_and_no_compiled_product(products, who):
    products(who)
    layer = QuantizedLinear.from_linear(nn.Linear(64, 64), 4, 32)
    assert layer.read_as_it_is == (products_backend()[0] == "compiled")
    kind = Int4Linear if Int4Linear.takes(layer) and not layer.read_as_it_is else QuantizedLinear
    assert all(type(m) is kind for m in exchanged(quantize_model(sized_model(), 4, 32)))
    assert all(type(m) is QuantizedLinear for m in exchanged(quantize_model(sized_model(), 4, 32, kernels=False)))


def exchanged(model):
    found = [module for module in model.modules() if isinstance(module, QuantizedLinear | Int4Linear)]
    assert len(found) == 8
    return found


def test_make_chooses_each_layer_and_sees_the_earlier_ones_exchanged():
    model, seen = tiny_model(), []

    def make(name, linear):
        seen.append((name, len(linear_layers(model))))
        return QuantizedLinear.from_linear(linear, 8)

    quantize_model(model, 8, make=make)
    assert seen == [(f"layers.{i // 4}.{NAMES[i % 4]}", 12 - i) for i in range(12)]


def test_a_model_is_not_quantized_twice():
    with pytest.raises(ValueError, match="quantized already"):
        quantize_model(quantize_model(tiny_model(), 8), 8)


def test_model_bytes_counts_what_is_held():
    # tiny_config: V 11, D 20, L 3, N 4, K 2, H 6, F 10. A layer: qkv 48·20 + out 20·24 + gate_up 20·20 + down 20·10
    # = 2040 weights, 48 + 20 + 20 + 20 = 108 rows, two norms of 20; with the embedding 220 and the last norm 20.
    model = tiny_model()
    assert model_bytes(model) == 8 * (3 * (2040 + 40) + 220 + 20), "float64; a tied head is counted once"
    quantized = model_bytes(quantize_model(model, 8))
    assert quantized == 3 * (2040 + 2 * 108) + 8 * (3 * 40 + 220 + 20), "a byte a weight, two a row"


@pytest.mark.parametrize(
    ("bits", "group_size", "expected"), [(8, None, 8.25), (4, 32, 4.5), (4, None, 4.25), (3, 16, 4)]
)
def test_model_bytes_at_few_bits_are_bits_and_scales(bits, group_size, expected):
    # Rows of 64 (and 96 in down) with a scale of 16 bits: 8 + 16/64 = 8.25; groups of 32: 4 + 16/32.
    model = sized_model()
    rest = model_bytes(model) - sum(layer.weight.nbytes for layer in linear_layers(model).values())
    n_weights = sum(layer.weight.numel() for layer in linear_layers(model).values())
    quantized = model_bytes(quantize_model(model, bits, group_size, kernels=False)) - rest
    assert quantized * 8 / n_weights == pytest.approx(expected, abs=0.03)


# --- mixtures ----------------------------------------------------------------------------------------------------

MIXTURE = dict(n_experts=4, experts_per_token=2)


def test_the_experts_of_a_mixture_are_exchanged_one_by_one_and_the_router_stays():
    model = quantize_model(sized_model(**MIXTURE), 8)
    layer = model.layers[0].feedforward
    assert type(layer.router) is nn.Linear, "an error in the router sends a token to another expert"
    assert [type(expert) for expert in (*layer.gate_up, *layer.down)] == [QuantizedLinear] * 8


@pytest.mark.parametrize(("bits", "group_size"), [(8, None), (4, 2)])
def test_a_quantized_mixture_equals_the_mixture_with_rounded_weights(bits, group_size):
    model, tokens = tiny_model(**MIXTURE), tokens_of(2, 9)
    rounded = copy.deepcopy(model)
    for layer in rounded.layers:
        for matrices in (layer.feedforward.gate_up, layer.feedforward.down):
            for weight in matrices.weight:
                linear = nn.Linear(*weight.T.shape, bias=False)
                linear.weight = nn.Parameter(weight, requires_grad=False)
                weight.copy_(rounded_layer(linear, bits, group_size).weight)
    expected = with_rounded_weights(rounded, bits, group_size)(tokens)  # attention's matrices
    assert close(quantize_model(model, bits, group_size, kernels=False)(tokens), expected, 1e-10)


def test_a_quantized_mixture_holds_a_quarter_of_the_bytes_and_generates():
    model = sized_model(**MIXTURE)
    before = model_bytes(model)
    after = model_bytes(quantize_model(model, 8))
    assert after < before * 0.35, "the experts, most of a mixture, were left in floats"
    assert len(model.generate([1, 2, 3], 5)) == 5


def test_an_expert_s_collected_inputs_are_the_rows_that_chose_it():
    model, rows = tiny_model(**MIXTURE), [[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 1, 3]]
    separate_experts(model)
    with watch_routers(model) as stats:
        model(torch.tensor(rows))
    inputs = collect_inputs(model, rows)
    for expert, count in enumerate(stats.counts[1].tolist()):
        assert inputs[f"layers.1.feedforward.gate_up.{expert}"].shape == (count, 20)
        assert inputs[f"layers.1.feedforward.down.{expert}"].shape == (count, 10)


def test_an_expert_that_reads_nothing_is_named():
    model = tiny_model(**MIXTURE)
    separate_experts(model)
    model.layers[0].feedforward.router.weight.zero_()  # everything goes to experts 0 and 1
    with pytest.raises(ValueError, match=r"rows send nothing to layers\.0\.feedforward\.gate_up\.2, .*"):
        collect_inputs(model, [[1, 2, 3]] * 20)


# --- collect_inputs ----------------------------------------------------------------------------------------------


def test_collected_inputs_are_what_each_layer_reads():
    model, rows = tiny_model(), [[1, 2, 3], [4, 5, 6], [7, 8], *[[9, 10]] * 20]
    inputs = collect_inputs(model, rows)
    assert list(inputs) == list(linear_layers(model))
    layer = model.layers[0]
    read = torch.cat([layer.attention_norm(model.embedding(torch.tensor(row))) for row in rows])
    assert close(inputs["layers.0.attention.qkv"], read), "the first layer reads the normed embeddings of all rows"
    widths = {name.split(".", 2)[2]: tuple(x.shape) for name, x in inputs.items()}
    assert widths == dict(zip(NAMES, [(48, 20), (48, 24), (48, 20), (48, 10)], strict=True)), "3 + 3 + 2 + 20 · 2 = 48"


def test_collected_inputs_are_those_of_the_named_layers_and_nothing_stays_behind():
    model = tiny_model()
    assert list(collect_inputs(model, [[1, 2]], ["layers.1.feedforward.down"])) == ["layers.1.feedforward.down"]
    assert not any(module._forward_pre_hooks for module in model.modules())
    quantize_model(model, 8)
    assert collect_inputs(model, [[1, 2]], ["layers.1.feedforward.down"])["layers.1.feedforward.down"].shape == (2, 10)


@pytest.mark.parametrize("rows", [[], [[1, 2], []]])
def test_nothing_to_read_is_refused(rows):
    with pytest.raises(ValueError, match="rows"):
        collect_inputs(tiny_model(), rows)
