"""Tests `nanolm/model/batch_invariant.py`: the promised order, by hand in float32, and bits that no batch changes."""

import struct

import pytest
import torch
import torch.nn.functional as F
from tiny_models import tiny_model, tokens_of

from nanolm.model import tile_linear, tree_linear, with_linear


def random(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def float32(x):
    """Round to float32 with the standard library."""
    return struct.unpack("f", struct.pack("f", x))[0]


def by_halves(terms):
    """The sum in plain Python: two float32 numbers added in float64, then rounded, are a float32 addition."""
    while len(terms) > 1:
        half = len(terms) // 2
        terms = [float32(terms[i] + terms[half + i]) for i in range(half)] + terms[2 * half :]
    return terms[0]


@pytest.mark.parametrize("D", [1, 2, 3, 5, 8, 13, 384])
def test_tree_linear_adds_by_halves_in_float32(D):
    x, weight = random(3, D) * 1e3, random(4, D, seed=1)
    actual = tree_linear(x, weight)
    for row in range(3):
        for out in range(4):
            products = [float32(a * b) for a, b in zip(x[row].tolist(), weight[out].tolist(), strict=True)]
            assert actual[row, out].item() == by_halves(products), f"D = {D}, row {row}, output {out}"


@pytest.mark.parametrize("multiply", [tree_linear, tile_linear, lambda x, w: tile_linear(x, w, rows=5)])
@pytest.mark.parametrize("shape", [(1, 24), (16, 24), (17, 24), (3, 7, 24), (24,)])
def test_every_way_gives_the_product(multiply, shape):
    x, weight = random(*shape), random(10, 24, seed=1)
    actual = multiply(x, weight)
    assert actual.dtype == torch.float32
    assert actual.shape == (*shape[:-1], 10)
    assert torch.allclose(actual.double(), F.linear(x.double(), weight.double()), rtol=0, atol=1e-5)


@pytest.mark.parametrize("batch", [2, 3, 16, 64])
def test_tree_linear_gives_a_row_the_same_bits_in_every_company_and_place(batch):
    weight, rows = random(50, 128), random(batch, 128, seed=1)
    alone = tree_linear(rows[:1], weight)
    assert torch.equal(tree_linear(rows, weight)[:1], alone)
    assert torch.equal(tree_linear(rows.flip(0), weight)[-1:], alone), "its place in the batch changed it"
    assert torch.equal(tree_linear(rows.view(batch, 1, 128), weight)[0], alone)


def test_tile_linear_gives_a_row_at_its_place_the_same_bits_in_a_batch_of_any_size():
    weight, rows = random(50, 128), random(64, 128, seed=1)
    alone = tile_linear(rows[:1], weight)
    for batch in (2, 15, 16, 17, 64):
        assert torch.equal(tile_linear(rows[:batch], weight)[:1], alone), f"in a batch of {batch}"


def test_tile_linear_calls_the_library_with_one_shape_only(monkeypatch):
    seen, linear = [], F.linear
    monkeypatch.setattr(F, "linear", lambda x, weight: seen.append(tuple(x.shape)) or linear(x, weight))
    tile_linear(random(9, 6), random(2, 6), rows=4)
    assert seen == [(4, 6)] * 3


def test_tile_linear_refuses_a_tile_without_rows():
    with pytest.raises(ValueError, match="rows is 0; a tile has at least 1 row"):
        tile_linear(random(2, 3), random(4, 3), rows=0)


def test_with_linear_exchanges_every_linear_layer_and_shares_the_weights():
    model, calls = tiny_model(), []
    other = with_linear(model, lambda x, weight: calls.append(len(weight)) or F.linear(x, weight))
    tokens = tokens_of(2, 5)
    assert torch.equal(other(tokens), model(tokens))
    assert len(calls) == 4 * 3 + 1, "four a layer, and the head"
    ours, theirs = dict(model.named_parameters()), dict(other.named_parameters())
    assert ours.keys() == theirs.keys() and all(theirs[name] is weight for name, weight in ours.items())
    assert type(model.head) is torch.nn.Linear, "the model given stays as it is"


def test_with_linear_exchanges_the_experts_of_a_mixture_too():
    model, calls = tiny_model(n_experts=4, experts_per_token=2), []
    other = with_linear(model, lambda x, weight: calls.append(tuple(weight.shape)) or F.linear(x, weight))
    assert torch.equal(other(tokens_of(1, 1)), model(tokens_of(1, 1)))
    # In each of 3 layers qkv, out, the router and two matrices for each of two experts; then the head.
    assert len(calls) == 3 * (3 + 2 * 2) + 1
    stacked = model.layers[0].feedforward.down.weight
    assert other.layers[0].feedforward.down[1].weight.data_ptr() == stacked[1].data_ptr(), "shared, not copied"


def test_a_model_of_trees_scores_a_text_with_the_same_bits_alone_and_in_a_batch():
    model, tokens = with_linear(tiny_model().float(), tree_linear), tokens_of(16, 6)
    alone, together = model.new_cache(1, 6), model.new_cache(16, 6)
    for t in range(6):
        one, all_of_them = model(tokens[:1, t : t + 1], alone), model(tokens[:, t : t + 1], together)
        assert torch.equal(all_of_them[:1], one), f"position {t}"
        alone.advance(1)
        together.advance(1)
