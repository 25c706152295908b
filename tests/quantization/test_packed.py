"""Tests `nanolm/quantization/packed.py`: layers over blocks of codes, against float64 by hand."""

import pytest
import torch
from by_hand import close, random

from nanolm.kernels import set_products
from nanolm.quantization import PackedEmbedding, PackedLinear, QuantizedLinear


def layer_of(kind, out=40, D=64):
    """Return a layer of 32 to a group and the weights in float64, laid out here as a file has them."""
    scales, minima = random(out, D // 32, seed=1).half(), random(out, D // 32, seed=2).half()
    wide, low = (t.double().repeat_interleave(32, 1) for t in (scales, minima))
    codes = torch.arange(out * D).view(out, D) * 7 % 16
    if kind == "8 bits":
        return PackedLinear((codes * 16 - 128).to(torch.int8), scales), (codes * 16 - 128) * wide
    blocks = codes.to(torch.uint8).view(out, -1, 32)
    packed = (blocks[..., :16] | blocks[..., 16:] << 4).flatten(1)
    if kind == "4 bits":
        return PackedLinear(packed, scales), (codes - 8) * wide
    return PackedLinear(packed, scales, minima), codes * wide + low


@pytest.fixture(params=["auto", "torch"])
def who(request):
    """Either who computes."""
    before = set_products(request.param)
    yield request.param
    set_products(before)


KINDS = ("8 bits", "4 bits", "4 bits and minima")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(64,), (1, 64), (2, 9, 64)])
def test_a_packed_layer_multiplies_by_what_its_blocks_stand_for(who, kind, shape):
    layer, meant = layer_of(kind)
    x = random(*shape, seed=5).float()
    assert close(layer(x).double(), x.double() @ meant.T, 1e-5 * (x.double() @ meant.T).abs().max().item())
    assert close(layer.weight.double(), meant, 1e-5 * meant.abs().max().item())


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_a_row_has_the_bits_that_it_has_alone_in_any_batch(who, kind):
    layer, _ = layer_of(kind)
    x = random(70, 64, seed=5).float()
    alone = torch.cat([layer(row) for row in x.split(1)])
    for first, n in ((0, 2), (3, 13), (5, 40), (0, 70)):
        assert torch.equal(layer(x[first : first + n]), alone[first : first + n])


@pytest.mark.parametrize("kind", KINDS)
def test_an_embedding_decodes_the_rows_that_are_looked_up(kind):
    layer, meant = layer_of(kind)
    tokens = torch.tensor([[3, 39], [0, 3]])
    assert close(PackedEmbedding(layer, torch.float64)(tokens), meant[tokens], 1e-5 * meant.abs().max().item())
    for outside in (40, -1):
        with pytest.raises(IndexError):
            PackedEmbedding(layer, torch.float32)(torch.tensor([outside]))


@pytest.mark.parametrize(("bits", "group_size"), [(8, None), (4, 16), (3, 16)])
def test_an_embedding_over_a_quantized_layer_gives_its_weights(bits, group_size):
    layer = QuantizedLinear.from_linear(torch.nn.Linear(64, 12).requires_grad_(False), bits, group_size)
    tokens = torch.tensor([11, 4, 4])
    assert torch.equal(PackedEmbedding(layer, torch.float32)(tokens), layer.weight[tokens])


def test_scales_keep_their_dtype_when_the_model_s_is_changed():
    layer, _ = layer_of("4 bits and minima")
    module = torch.nn.Sequential(PackedEmbedding(layer, torch.float32)).double()
    assert layer.scales.dtype == layer.minima.dtype == torch.float16
    assert module(torch.tensor([5])).dtype == torch.float64
