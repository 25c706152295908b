"""The tensors of a paged cache against plain lists of positions; its int8 kind against the contiguous int8 cache."""

import pytest
import torch
from by_hand import random
from refusal import assert_refuses
from tiny_models import tiny_config

from nanolm.paged_cache import HostBlocks, Int8PagedKVCache, PagedKVCache
from nanolm.quantized_cache import Int8KVCache

L, K, H = 3, 2, 6  # of tiny_config
N_BLOCKS, SIZE = 5, 4
KINDS = [PagedKVCache, Int8PagedKVCache]


def cache_of(kind=PagedKVCache, **changes):
    return kind(tiny_config(), **{"n_blocks": N_BLOCKS, "block_size": SIZE, "dtype": torch.float64, **changes})


def slots_of(blocks, start, stop):
    """Position by position: the block that it falls into, and the place in it."""
    return torch.tensor([blocks[p // SIZE] * SIZE + p % SIZE for p in range(start, stop)])


def filled(kind=PagedKVCache):
    """A cache with other numbers in every place of every layer, and the numbers, (n, K, H) keys and values a layer."""
    cache, contents = cache_of(kind), []
    for layer in range(L):
        k, v = random(N_BLOCKS * SIZE, K, H, seed=2 * layer), random(N_BLOCKS * SIZE, K, H, seed=2 * layer + 1)
        cache.write(layer, k, v, torch.arange(N_BLOCKS * SIZE))
        contents.append((k, v))
    return cache, contents


def test_what_is_written_position_by_position_is_read_back_in_order():
    cache, blocks = cache_of(), [3, 0, 4]
    k, v = random(10, K, H, seed=1), random(10, K, H, seed=2)
    for start, stop in ((0, 3), (3, 4), (4, 9), (9, 10)):  # chunks that end inside a block, at one, and beyond one
        cache.write(1, k[start:stop], v[start:stop], slots_of(blocks, start, stop))
    keys, values = cache.read(1, torch.tensor([blocks]))
    assert keys.shape == values.shape == (1, K, 12, H), "(B, K, S, H), S all positions of the blocks"
    for p in range(10):
        assert torch.equal(keys[0, :, p], k[p]), f"the key of position {p}"
        assert torch.equal(values[0, :, p], v[p]), f"the value of position {p}"
    assert not keys[:, :, 10:].any(), "places that nobody has written hold zeros"
    assert not any(cache.pools[layer].any() for layer in (0, 2)), "another layer was written to"


def test_requests_are_written_together_and_read_by_their_own_tables():
    cache, first, second = cache_of(), [2, 4], [1, 3]
    k, v = random(11, K, H, seed=1), random(11, K, H, seed=2)
    slots = torch.cat([slots_of(first, 0, 6), slots_of(second, 0, 5)])
    cache.write(0, k, v, slots)
    keys, values = cache.read(0, torch.tensor([second, first]))
    for row, start, n in ((0, 6, 5), (1, 0, 6)):
        assert torch.equal(keys[row, :, :n], k[start : start + n].transpose(0, 1))
        assert torch.equal(values[row, :, :n], v[start : start + n].transpose(0, 1))


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_may_name_a_block_twice_and_two_rows_the_same_one(kind):
    cache, _ = filled(kind)
    keys, values = cache.read(2, torch.tensor([[1, 1], [1, 0]]))
    for both in (keys, values):
        assert torch.equal(both[0, :, :SIZE], both[0, :, SIZE:])
        assert torch.equal(both[0, :, :SIZE], both[1, :, :SIZE])


@pytest.mark.parametrize("kind", KINDS)
def test_copy_blocks_copies_all_layers_in_order(kind):
    cache, _ = filled(kind)
    before = [cache.read(layer, torch.tensor([[0, 1, 2, 3, 4]])) for layer in range(L)]
    cache.copy_blocks([(0, 3), (3, 4)])  # 0 goes to 3, and from there to 4
    for layer, (keys, values) in enumerate(before):
        for old, new in zip((keys, values), cache.read(layer, torch.tensor([[0, 1, 2, 3, 4]])), strict=True):
            parts, copied = old.split(SIZE, dim=2), new.split(SIZE, dim=2)
            for block, source in enumerate((0, 1, 2, 0, 0)):
                assert torch.equal(copied[block], parts[source]), f"block {block} of layer {layer}"


@pytest.mark.parametrize("kind", KINDS)
def test_clear_blocks_removes_what_a_nan_has_touched(kind):
    cache, _ = filled(kind)
    nan = torch.full((1, K, H), float("nan"), dtype=torch.float64)
    for layer in range(L):
        cache.write(layer, nan, nan, torch.tensor([2 * SIZE + 1]))
    before = [cache.read(layer, torch.tensor([[0, 1, 3]])) for layer in range(L)]
    cache.clear_blocks([2, 4])
    for layer in range(L):
        assert not any(x.any() for x in cache.read(layer, torch.tensor([[2, 4]]))), "0 everywhere, also where NaN was"
        for old, new in zip(before[layer], cache.read(layer, torch.tensor([[0, 1, 3]])), strict=True):
            assert torch.equal(old, new), "another block was cleared"


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_that_is_no_number_comes_back_as_none_and_leaves_its_neighbours_alone(kind):
    # A step that raised here would stop every request because of one.
    cache, (k, v) = cache_of(kind), (random(3, K, H, seed=1), random(3, K, H, seed=2))
    k[1, 0, 2] = float("nan")
    v[1, 1, 0] = float("inf")
    cache.write(0, k, v, torch.arange(3))
    keys, values = (x[0, :, :3].transpose(0, 1) for x in cache.read(0, torch.tensor([[0]])))
    assert not keys[1, 0].isfinite().all() and not values[1, 1].isfinite().all()
    for back, right in ((keys, k), (values, v)):
        assert (back[[0, 2]] - right[[0, 2]]).abs().max() < 0.02


# --- the int8 kind -----------------------------------------------------------------------------------------------


def test_int8_numbers_come_back_off_by_half_a_scale_at_most():
    # Heads and positions that differ a thousandfold: a scale that two of them shared would show.
    size = torch.logspace(-2, 1, 10 * K, dtype=torch.float64).view(10, K, 1)
    cache, k, v = cache_of(Int8PagedKVCache), random(10, K, H, seed=1) * size, random(10, K, H, seed=2) * size.flip(0)
    cache.write(0, k, v, slots_of([3, 0, 4], 0, 10))
    for back, right in zip(cache.read(0, torch.tensor([[3, 0, 4]])), (k, v), strict=True):
        # A scale is the largest of the H numbers over 127; as bfloat16 it keeps 8 digits: off by 1/256 at most.
        half = right.abs().amax(-1, keepdim=True) / 127 / 2 * (1 + 1 / 256)
        assert ((back[0, :, :10].transpose(0, 1) - right).abs() <= half).all()
        assert (back[0, :, :10].transpose(0, 1) != right).any(), "nothing was rounded: are these codes?"


def test_an_int8_paged_cache_has_the_numbers_of_the_contiguous_one():
    paged, contiguous = cache_of(Int8PagedKVCache), Int8KVCache(tiny_config(), 1, 10, torch.float64)
    k, v = random(10, K, H, seed=1), random(10, K, H, seed=2)
    paged.write(2, k, v, slots_of([3, 0, 4], 0, 10))
    right = contiguous.update(2, k.transpose(0, 1)[None], v.transpose(0, 1)[None])
    for back, expected in zip(paged.read(2, torch.tensor([[3, 0, 4]])), right, strict=True):
        assert back.dtype == torch.float64
        assert torch.equal(back[:, :, :10], expected)


# --- bytes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "dtype", "bytes_a_block"),
    [
        # 2 · 3 layers · 2 heads · 4 positions · 6 numbers = 288 numbers.
        (PagedKVCache, torch.float32, 1152),
        (PagedKVCache, torch.bfloat16, 576),
        # 288 codes and 48 scales of 2 bytes, whatever dtype comes out.
        (Int8PagedKVCache, torch.float32, 384),
        (Int8PagedKVCache, torch.bfloat16, 384),
    ],
)
def test_block_bytes_are_those_of_keys_and_values_in_all_layers(kind, dtype, bytes_a_block):
    cache = cache_of(kind, dtype=dtype)
    assert (cache.block_bytes, cache.allocated_bytes) == (bytes_a_block, 5 * bytes_a_block)


@pytest.mark.parametrize(("name", "value"), [("n_blocks", 0), ("block_size", 0), ("block_size", 1.5)])
def test_a_cache_without_room_is_refused(name, value):
    assert_refuses(name, lambda: cache_of(**{name: value}))


# --- HostBlocks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_block_saved_to_the_host_can_be_loaded_into_any_block(kind):
    cache, _ = filled(kind)
    host = HostBlocks(cache, 2)
    before = [cache.read(layer, torch.tensor([[1]])) for layer in range(L)]
    handle = host.save(1)
    cache.clear_blocks([1])  # the next holder writes over it: what is saved must be a copy
    host.load(handle, 4)
    host.load(handle, 0)
    for layer in range(L):
        for old, new in zip(before[layer], cache.read(layer, torch.tensor([[4], [0]])), strict=True):
            assert torch.equal(new, old.expand_as(new)), f"layer {layer} came back changed"
        assert not cache.read(layer, torch.tensor([[1]]))[0].any(), "loading wrote to the block it was saved from"


def test_a_host_without_room_saves_nothing_until_something_is_dropped():
    cache, _ = filled()
    host = HostBlocks(cache, 2)
    first, second = host.save(0), host.save(1)
    assert first != second
    assert (host.n_free, host.save(2)) == (0, None)
    host.drop(first)
    assert host.n_free == 1
    third = host.save(2)
    assert third not in (None, second), "a handle in use was given out again"
    host.load(second, 4)
    assert torch.equal(*cache.pools[0][:, :, [1, 4]].unbind(2)), "dropping one copy lost another"


def test_a_host_of_no_blocks_has_no_room_and_a_negative_number_is_refused():
    assert HostBlocks(cache_of(), 0).save(1) is None
    assert_refuses("n_blocks", HostBlocks, cache_of(), -1)
