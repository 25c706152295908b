"""Tests `nanolm/machine/prediction.py`. How near its predictions come to a measurement, the lesson of week 1 shows."""

from dataclasses import replace

import pytest
import torch
from laptop import LAPTOP
from tiny_models import tiny_model

from nanolm.machine import count_operations, decode_step_of, predicted_decode_seconds, weights_read
from nanolm.model import quantize_model
from nanolm.quantization import PackedLinear, QuantizedLinear


def test_weights_read_are_all_but_an_embedding_that_is_only_looked_up():
    tied, apart = tiny_model(tie_embeddings=True), tiny_model(tie_embeddings=False)
    for model in (tied, apart):
        # V·D of the head, in 3 layers qkv (4 + 2·2)·6·D, out 4·6·D, gate and up 2·10·D, down 10·D, and 7 norms; D = 20.
        expected = 11 * 20 + 3 * 20 * (48 + 24 + 20 + 10) + 7 * 20
        assert sum(weight.numel() for weight in weights_read(model)) == expected
    assert any(weight is tied.embedding.weight for weight in weights_read(tied)), "a tied embedding is the head"
    assert not any(weight is apart.embedding.weight for weight in weights_read(apart))


def test_weights_read_hold_packed_weights_kept_as_buffers():
    model = tiny_model()
    model.layers[0].register_buffer("codes", torch.zeros(10, 4, dtype=torch.uint8))
    assert any(weight is model.layers[0].codes for weight in weights_read(model))


@pytest.mark.parametrize("tied", [True, False])
def test_weights_read_of_a_quantized_head_leave_the_embedding_out(tied):
    model = quantize_model(tiny_model(tie_embeddings=tied).float(), bits=8, head=True)
    looked_up = [] if tied else [model.embedding.weight]
    assert not any(weight is floats for weight in weights_read(model) for floats in looked_up)
    # 6,120 weights of the layers and 220 of the head, a byte each, as `test_weights_read_are_all_but…` counts them.
    codes = sum(weight.nbytes for weight in weights_read(model) if weight.dtype == torch.int8)
    assert codes == 3 * 20 * (48 + 24 + 20 + 10) + 11 * 20


def test_weights_read_of_a_mixture_are_those_of_the_experts_that_a_token_chooses():
    model = tiny_model(n_experts=5, experts_per_token=2)
    # As the dense model, but for two experts of 20 + 10 rows of D in place of one block, and five rows of a router.
    expected = 11 * 20 + 3 * 20 * (48 + 24 + 2 * (20 + 10) + 5) + 7 * 20
    assert sum(weight.numel() for weight in weights_read(model)) == expected
    codes = sum(weight.numel() for weight in weights_read(quantize_model(model, 8)) if weight.dtype == torch.int8)
    assert codes == 3 * 20 * (48 + 24 + 2 * (20 + 10)), "of quantized experts two as well; a router stays in floats"


def test_count_operations_counts_no_views():
    x = torch.ones(4, 4)
    assert count_operations(lambda: (x + x).view(16)[2:].mul(3)) == 2
    assert count_operations(lambda: None) == 0


def test_predicted_decode_seconds_are_reading_and_operations():
    model = tiny_model()  # float64: 8 B
    weights = weights_read(model)
    size = sum(weight.nbytes for weight in weights)
    flat = replace(LAPTOP, readings=((1, 1, 1e9),), operations=((1, 1e-6),))
    seconds = predicted_decode_seconds(flat, model)
    operations = round((seconds - size / 1e9) / 1e-6)
    # In each of 3 layers at least two norms, four products, one attention, two sums; at most a dozen more.
    assert 27 < operations < 90
    assert seconds == pytest.approx(size / 1e9 + operations * 1e-6)


def test_predicted_decode_seconds_charge_more_for_operations_with_many_bytes_between_them():
    model = tiny_model()
    size, n = sum(weight.nbytes for weight in weights_read(model)), count_operations(decode_step_of(model))
    costs = replace(LAPTOP, readings=((1, 1, 1e15),), operations=((size / n / 2, 1e-6), (size / n * 2, 3e-6)))
    assert predicted_decode_seconds(costs, model) == pytest.approx(n * 2e-6, rel=1e-4)


def test_predicted_decode_seconds_take_each_matrix_at_the_rate_of_its_rows():
    model = tiny_model()
    # Rows of 24 (out) and of 10 (down) numbers and all others of 20, in a set of all weights.
    rates = replace(LAPTOP, readings=((1, 10, 1e9), (1, 20, 2e9), (1, 24, 4e9)), operations=((1, 1e-15),))
    down, out = 3 * 10 * 20, 3 * 24 * 20
    rest = sum(weight.numel() for weight in weights_read(model)) - down - out
    expected = 8 * (down / 1e9 + rest / 2e9 + out / 4e9)
    assert predicted_decode_seconds(rates, model) == pytest.approx(expected, rel=1e-6)


FLAT = replace(LAPTOP, readings=((1, 1, 1e9),), operations=((1, 1e-15),), packed_readings={})


def kept_in(kind):
    """A model with its layers kept in this kind, and the bytes of those weights."""
    model = tiny_model(d_model=64, d_ff=96, head_dim=32).float()
    if kind == "bfloat16":
        model = model.to(torch.bfloat16)
        return model, sum(weight.nbytes for weight in weights_read(model))
    model = quantize_model(model, int(kind[3:]), 32 if kind == "int4" else None, head=True)
    return model, sum(layer.codes.nbytes for layer in model.modules() if isinstance(layer, QuantizedLinear))


@pytest.mark.parametrize("kind", ["bfloat16", "int8", "int4"])
def test_predicted_decode_seconds_read_what_is_packed_at_the_rate_of_its_kind(kind):
    model, packed = kept_in(kind)
    norms = 0 if kind == "bfloat16" else sum(w.nbytes for w in model.parameters() if w.ndim == 1)
    rates = replace(FLAT, packed_readings={kind: ((1, 1, 5e8),)})
    assert predicted_decode_seconds(rates, model) == pytest.approx(packed / 5e8 + norms / 1e9, rel=1e-6)


@pytest.mark.parametrize("kind", ["bfloat16", "int8", "int4"])
def test_predicted_decode_seconds_read_a_kind_that_was_not_measured_as_numbers(kind):
    model, packed = kept_in(kind)
    norms = 0 if kind == "bfloat16" else sum(w.nbytes for w in model.parameters() if w.ndim == 1)
    assert predicted_decode_seconds(FLAT, model) == pytest.approx((packed + norms) / 1e9, rel=1e-6)


def test_predicted_decode_seconds_know_rows_of_4_bit_codes_by_their_weights_not_by_their_bytes():
    model, packed = kept_in("int4")  # rows of 64 weights, 32 bytes, and of 96, the projections down
    rates = replace(FLAT, readings=((1, 1, 1e15),), packed_readings={"int4": ((1, 64, 1e9), (1, 96, 2e9))})
    layers = [layer for layer in model.modules() if isinstance(layer, QuantizedLinear)]
    long = sum(layer.codes.nbytes for layer in layers if layer.in_features == 96)
    wide = sum(layer.codes.nbytes for layer in layers if layer.in_features > 96)
    expected = (packed - long - wide) / 1e9 + (long + wide) / 2e9
    assert predicted_decode_seconds(rates, model) == pytest.approx(expected, rel=1e-6)


def test_predicted_decode_seconds_read_a_file_s_blocks_as_their_kind():
    model = tiny_model(d_model=64).float()
    before, floats = predicted_decode_seconds(FLAT, model), model.layers[0].feedforward.gate_up.weight
    codes = torch.zeros(len(floats), 32, dtype=torch.uint8)  # 64 weights a row
    scales = torch.ones(len(floats), 2, dtype=torch.float16)
    model.layers[0].feedforward.gate_up = PackedLinear(codes, scales, scales.clone())
    rates = replace(FLAT, packed_readings={"int4": ((1, 1, 5e8),)})
    change = predicted_decode_seconds(rates, model) - before
    assert change == pytest.approx(codes.nbytes / 5e8 - floats.nbytes / 1e9, rel=1e-3)


def test_predicted_decode_seconds_grow_by_the_cache_read():
    model, flat = tiny_model(), replace(LAPTOP, readings=((1, 1, 1e9),), operations=((1, 1e-6),))
    more = predicted_decode_seconds(flat, model, kv_bytes=5e6) - predicted_decode_seconds(flat, model)
    assert more == pytest.approx(5e-3)
    with pytest.raises(ValueError, match="kv_bytes"):
        predicted_decode_seconds(flat, model, kv_bytes=-1)


def test_predicted_decode_seconds_on_a_gpu_are_the_longer_of_reading_and_asking():
    model = tiny_model()
    size = sum(weight.nbytes for weight in weights_read(model))
    gpu = replace(LAPTOP, device="cuda", readings=((1, 1, 1e6),), operations=((1, 1e-9),))
    assert predicted_decode_seconds(gpu, model) == pytest.approx(size / 1e6)
    asked = predicted_decode_seconds(replace(gpu, operations=((1, 1.0),)), model)
    assert asked == round(asked) > 27


def test_predicting_leaves_the_model_as_it_was():
    model = tiny_model()
    before = [weight.clone() for weight in model.parameters()]
    predicted_decode_seconds(LAPTOP, model)
    assert all(map(torch.equal, before, model.parameters()))


def test_the_step_of_a_model_can_be_run_again():
    model = tiny_model()
    step = decode_step_of(model)
    assert torch.equal(step(), step()) and step().shape == (1, 1, 11)
