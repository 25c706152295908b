"""Tests `nanolm/batch_invariant.py`: the promised order, by hand in float32, and bits that no batch changes."""

import struct

import pytest
import torch
import torch.nn.functional as F

from nanolm.batch_invariant import tile_linear, tree_linear


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
def test_tree_linear_gives_a_row_the_same_bits_in_every_batch_and_place(batch):
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
    assert seen == [(4, 16)] * 3, "tiles of 4 rows, and rows filled up to begin at multiples of 64 bytes"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("out", "D"), [(50, 128), (48, 24), (5, 7), (7, 33), (1, 77), (129, 257)])
def test_tile_linear_gives_a_row_the_same_bits_wherever_it_stands(out, D, dtype):
    weight, rows = random(out, D).to(dtype), random(100, D, seed=1).to(dtype)
    alone = torch.cat([tile_linear(row[None], weight) for row in rows])
    for first, n in [(0, 100), (0, 2), (3, 5), (1, 17), (7, 64), (98, 2)]:
        together = tile_linear(rows[first : first + n], weight)
        assert torch.equal(together, alone[first : first + n]), f"rows {first} to {first + n - 1} of 100"


def test_tile_linear_refuses_a_tile_without_rows():
    with pytest.raises(ValueError, match="rows is 0; a tile has at least 1 row"):
        tile_linear(random(2, 3), random(4, 3), rows=0)
