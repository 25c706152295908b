"""Tests `nanolm/quantization/linear.py`: layers against nn.Linear with the weights that their codes stand for."""

import pytest
import torch
from by_hand import close, random
from rounding_by_hand import rounded_layer
from torch import nn

from nanolm.kernels import set_products
from nanolm.quantization import Float8Linear, Int4Linear, QuantizedLinear, int4_kernel_takes


def linear_of(out=48, D=64, bias=True, seed=0):
    """A float64 linear layer, some of whose rows are much larger than others."""
    linear = nn.Linear(D, out, bias=bias).double().requires_grad_(False)
    linear.weight.copy_(random(out, D, seed=seed) * torch.logspace(-2, 2, out, dtype=torch.float64)[:, None])
    if bias:
        linear.bias.copy_(random(out, seed=seed + 1))
    return linear


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("bits", "group_size"), [(8, None), (8, 16), (6, None), (5, 32), (4, None), (4, 16), (3, None), (3, 16), (2, 8)]
)
def test_a_quantized_layer_equals_a_linear_layer_with_rounded_weights(bits, group_size, bias):
    linear, x = linear_of(bias=bias), random(2, 3, 64, seed=9)
    layer, expected = QuantizedLinear.from_linear(linear, bits, group_size), rounded_layer(linear, bits, group_size)
    assert close(layer.weight.double(), expected.weight, 1e-4 * linear.weight.abs().max().item())
    size = expected(x).abs().max().item()
    assert close(layer(x), expected(x), 1e-12 * size), "the layer does not multiply by code · scale"
    assert layer.group_size == (group_size or 64)


@pytest.mark.parametrize(("bits", "group_size"), [(8, None), (4, 32), (4, None)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_quantized_layer_at_batch_1_equals_the_rounded_layer_up_to_bfloat16(bits, group_size, dtype):
    linear, x = linear_of().to(dtype), random(1, 1, 64, seed=9)
    layer, expected = (
        QuantizedLinear.from_linear(linear, bits, group_size),
        rounded_layer(linear.double(), bits, group_size),
    )
    actual = layer(x.to(dtype))
    assert actual.dtype == dtype
    assert close(actual.double(), expected(x), 0.01 * expected(x).abs().max().item())


@pytest.mark.parametrize(
    ("bits", "group_size", "n_bytes"),
    [
        (8, None, 48 * 64 + 48 * 2),  # a byte a weight, two bytes a row
        (4, None, 48 * 64 // 2 + 48 * 2),
        (4, 16, 48 * 64 // 2 + 48 * 4 * 2),  # four groups a row
        (3, None, 48 * 64 * 3 // 8 + 48 * 2),
        (2, None, 48 * 64 // 4 + 48 * 2),
    ],
)
def test_a_quantized_layer_holds_packed_codes_and_scales_and_no_floats(bits, group_size, n_bytes):
    layer = QuantizedLinear.from_linear(linear_of(bias=False), bits, group_size)
    layer(random(1, 64))  # a decoded copy must not be kept
    held = {name: tensor.nbytes for name, tensor in (*layer.named_parameters(), *layer.named_buffers())}
    assert sum(held.values()) == n_bytes, f"{held}, together not {n_bytes}"


def test_a_quantized_layer_divides_its_inputs_by_the_channel_scales():
    linear, x = linear_of(), random(3, 64, seed=9)
    channel_scales = torch.linspace(0.5, 4, 64, dtype=torch.float64)
    enlarged = linear_of()
    enlarged.weight.mul_(channel_scales)
    codes = QuantizedLinear.from_linear(enlarged, 8)
    layer = QuantizedLinear(codes.integers(), codes.scales, 8, linear.bias, channel_scales)
    assert close(layer(x), rounded_layer(enlarged, 8)(x / channel_scales), 1e-10), "inputs are divided, not multiplied"
    largest = linear.weight.abs().amax(1, keepdim=True)
    assert ((layer.weight - linear.weight).abs() <= 0.05 * largest).all(), "`weight` takes the channel scales out again"


def test_a_quantized_layer_can_be_saved_loaded_and_changed_in_type():
    layer, other = (QuantizedLinear.from_linear(linear_of(seed=seed), 4, 16) for seed in (0, 5))
    other.load_state_dict(layer.state_dict())
    x = random(2, 64)
    assert torch.equal(layer(x), other(x))
    assert close(layer.double()(x), other(x)), "floats of another type change nothing: codes stay whole numbers"


def test_a_layer_of_zeros_gives_zeros():
    linear = linear_of()
    linear.weight.zero_()
    layer = QuantizedLinear.from_linear(linear, 4)
    assert close(layer(random(2, 64)), linear.bias.expand(2, -1))


def test_weights_that_cannot_be_quantized_are_refused():
    linear = linear_of()
    with pytest.raises(ValueError, match="group_size"):
        QuantizedLinear.from_linear(linear, 4, 48)
    with pytest.raises(ValueError, match="bits"):
        QuantizedLinear.from_linear(linear, 1)
    linear.weight[3, 5] = torch.nan
    with pytest.raises(ValueError, match="hold 1 NaN"):
        QuantizedLinear.from_linear(linear, 4)


def test_a_quantized_layer_prints_its_shape():
    assert "in_features=64, out_features=48, bits=4, group_size=16" in str(
        QuantizedLinear.from_linear(linear_of(), 4, 16)
    )


needs_int4 = pytest.mark.skipif(not int4_kernel_takes(64, 64, 32), reason="this processor has no 4-bit kernel")


@needs_int4
@pytest.mark.parametrize("shape", [(64,), (1, 1, 64), (2, 30, 64)])
def test_a_layer_in_the_4_bit_kernel_s_layout_equals_the_plain_layer(shape):
    linear, x = linear_of(), random(*shape, seed=9)
    plain = QuantizedLinear.from_linear(linear, 4, 32)
    plain.channel_scales = torch.linspace(0.5, 4, 64, dtype=torch.float64)
    assert Int4Linear.takes(plain)
    expected, actual = plain(x), Int4Linear(plain)(x.float())
    assert close(actual.double(), expected, 0.01 * expected.abs().max().item())


@needs_int4
def test_a_layer_in_the_4_bit_kernel_s_layout_holds_no_second_copy():
    layer = Int4Linear(QuantizedLinear.from_linear(linear_of(bias=False), 4, 32))
    # Half a byte a weight, and for each of two groups a row a scale and a zero point of two bytes each.
    assert sum(tensor.nbytes for tensor in layer.buffers()) == 48 * 64 // 2 + 48 * 2 * 4


@pytest.mark.parametrize(("bits", "group_size"), [(8, None), (4, 16), (3, 32)])
def test_the_4_bit_kernel_leaves_other_layers_alone(bits, group_size):
    assert not Int4Linear.takes(QuantizedLinear.from_linear(linear_of(), bits, group_size))


# --- the same bits alone and in a batch --------------------------------------------------------------------------

# The shapes of the shipped models and of SmolLM2, and odd ones.
SHAPES = [(256, 128), (128, 384), (1536, 128), (320, 128), (128, 160), (576, 1536), (17, 64), (33, 96), (5, 24)]
LAYERS = {
    "8 bits": lambda linear: QuantizedLinear.from_linear(linear, 8),
    "8 bits, torch's kernel": lambda linear: QuantizedLinear.from_linear(linear, 8),
    "8 bits in groups of 32": lambda linear: QuantizedLinear.from_linear(linear, 8, 32 if in_32(linear) else 8),
    "4 bits in groups of 32": lambda linear: QuantizedLinear.from_linear(linear, 4, 32 if in_32(linear) else 8),
    "4 bits, a scale a row": lambda linear: QuantizedLinear.from_linear(linear, 4),
    "8 bits, plain": lambda linear: plain(QuantizedLinear.from_linear(linear, 8)),
    "8 bits in groups": lambda linear: QuantizedLinear.from_linear(linear, 8, 8),
    "4 bits": lambda linear: QuantizedLinear.from_linear(linear, 4, 8),
    "4 bits, torch's kernel": lambda linear: in_the_kernel_s_layout(linear),
    "3 bits": lambda linear: QuantizedLinear.from_linear(linear, 3, 8),
    "float8": Float8Linear,
}
# Where a batch begins, and how many rows it has.
BATCHES = [(0, 2), (3, 5), (0, 16), (5, 17), (1, 32), (0, 33), (31, 33), (7, 100), (0, 257), (0, 512)]
LOOKED_AT = [0, 1, 2, 3, 5, 7, 15, 16, 17, 31, 32, 33, 63, 64, 101, 255, 256, 511]


def in_32(linear):
    return linear.in_features % 32 == 0


def plain(layer):
    layer.fast = False
    return layer


def in_the_kernel_s_layout(linear):
    layer = QuantizedLinear.from_linear(linear, 4, 32 if in_32(linear) else 8)
    if not Int4Linear.takes(layer):
        pytest.skip("the 4-bit kernel does not take this shape here")
    return Int4Linear(layer)


@pytest.mark.parametrize(("threads", "out", "D"), [(1, *shape) for shape in SHAPES] + [(2, 128, 384), (2, 33, 96)])
@pytest.mark.parametrize("name", LAYERS)
@torch.inference_mode()
def test_a_row_has_the_bits_that_it_has_alone_in_any_batch(n_threads, products, name, threads, out, D):
    n_threads(threads)
    products("torch" if name.endswith("torch's kernel") else "auto")
    layer, rows = LAYERS[name](linear_of(out, D).float()), random(512, D, seed=1).float()
    alone = {place: layer(rows[place : place + 1])[0] for place in LOOKED_AT}
    for first, n in BATCHES:
        among = layer(rows[first : first + n])
        differ = [i for i in LOOKED_AT if first <= i < first + n and not torch.equal(among[i - first], alone[i])]
        assert not differ, f"rows {differ} differ in a batch of {n}, from row {first} on, from what they are alone"
    shaped = layer(rows[:60].view(3, 20, D))
    assert torch.equal(shaped[1, 12], alone[32]), "(B, T, D) gives other bits than (B · T, D)"


@pytest.fixture
def products():
    """Sets who computes products on a CPU for the length of a test."""
    before = set_products("auto")
    yield set_products
    set_products(before)


@pytest.fixture
def n_threads():
    """Sets torch's number of threads for the length of a test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)
