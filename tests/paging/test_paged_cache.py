"""The tensors of a paged cache against plain lists of positions; kinds of a byte a number against contiguous caches."""

import pytest
import torch
from by_hand import random
from refusal import assert_refuses
from tiny_models import tiny_config

from nanolm.budget import LatentAttention
from nanolm.cache import Float8KVCache, Int8KVCache
from nanolm.mla import LatentPagedCache
from nanolm.paging import (
    BlockAllocator,
    Float8PagedKVCache,
    HostBlocks,
    Int8PagedKVCache,
    PagedKVCache,
    RadixCache,
    Scratch,
)

L, K, H = 3, 2, 6  # of tiny_config
C, R = 5, 2
N_BLOCKS, SIZE = 5, 4
EXACT = [PagedKVCache, Float8PagedKVCache, LatentPagedCache]  # of small whole numbers, that is
KINDS = [*EXACT, Int8PagedKVCache]


def cache_of(kind=PagedKVCache, **changes):
    sizes = {"n_blocks": N_BLOCKS, "block_size": SIZE, "dtype": torch.float64, **changes}
    if kind is LatentPagedCache:
        sizes["latent"] = LatentAttention(kv_latent_dim=C, rotary_dim=R, value_dim=3)
    return kind(tiny_config(), **sizes)


def heads_of(kind, n, seed=0):
    """Keys and values of n positions, (K, n, H) each, or for a latent cache (1, n, C + R) and (1, n, C).

    Whole numbers up to 15: they have 4 binary digits.
    """
    shape = (1, n, C + R) if kind is LatentPagedCache else (K, n, H)
    k, v = ((4 * random(*shape, seed=2 * seed + i)).round().clamp(-15, 15) for i in range(2))
    return (k, k[..., :C]) if kind is LatentPagedCache else (k, v)


def slots_of(blocks, start, stop):
    """Position by position: the block that it falls into, and the place in it."""
    return torch.tensor([blocks[p // SIZE] * SIZE + p % SIZE for p in range(start, stop)])


def filled(kind=PagedKVCache):
    """A cache with other numbers in every place of every layer."""
    cache = cache_of(kind)
    for layer in range(L):
        cache.write(layer, *heads_of(kind, N_BLOCKS * SIZE, seed=layer), torch.arange(N_BLOCKS * SIZE))
    return cache


@pytest.mark.parametrize("kind", EXACT)
def test_what_is_written_position_by_position_is_read_back_in_order(kind):
    cache, blocks, (k, v) = cache_of(kind), [3, 0, 4], heads_of(kind, 10)
    for start, stop in ((0, 3), (3, 4), (4, 9), (9, 10)):  # chunks that end inside a block, at one, and beyond one
        cache.write(1, k[:, start:stop], v[:, start:stop], slots_of(blocks, start, stop))
    keys, values = cache.read(1, torch.tensor([blocks]))
    assert keys.dtype == values.dtype == torch.float64
    assert keys.shape == (1, len(k), 12, k.shape[2]), "(B, K, S, H), S all positions of the blocks"
    assert values.shape == (1, len(v), 12, v.shape[2]), "as many positions as keys, each as long as what was written"
    for p in range(10):
        assert torch.equal(keys[0, :, p], k[:, p]), f"the key of position {p}"
        assert torch.equal(values[0, :, p], v[:, p]), f"the value of position {p}"
    assert not keys[:, :, 10:].any(), "places that nobody has written hold zeros"
    for layer in (0, 2):
        assert not any(x.any() for x in cache.read(layer, torch.tensor([blocks]))), "another layer was written to"


@pytest.mark.parametrize("kind", EXACT)
def test_requests_are_written_together_and_read_by_their_own_tables(kind):
    cache, first, second, (k, v) = cache_of(kind), [2, 4], [1, 3], heads_of(kind, 11)
    slots = torch.cat([slots_of(first, 0, 6), slots_of(second, 0, 5)])
    cache.write(0, k, v, slots)
    keys, values = cache.read(0, torch.tensor([second, first]))
    for row, start, n in ((0, 6, 5), (1, 0, 6)):
        assert torch.equal(keys[row, :, :n], k[:, start : start + n])
        assert torch.equal(values[row, :, :n], v[:, start : start + n])


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_gathered_into_scratch_is_the_same_and_lies_there_until_the_next(kind):
    cache, scratch = filled(kind), Scratch()
    for tables in (torch.tensor([[3, 0], [1, 1]]), torch.tensor([[2], [4]])):
        for layer in range(L):
            found = cache.read(layer, tables, scratch)
            for x, right in zip(found, cache.read(layer, tables), strict=True):
                assert x.dtype == right.dtype and torch.equal(x, right)
    first = cache_of(kind, dtype=torch.float32), torch.tensor([[1, 2]])
    places = [first[0].read(layer, first[1], scratch)[0].data_ptr() for layer in range(L)]
    assert len(set(places)) == 1, "memory was taken anew for a layer"


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_may_name_a_block_twice_and_two_rows_the_same_one(kind):
    cache = filled(kind)
    keys, values = cache.read(2, torch.tensor([[1, 1], [1, 0]]))
    for both in (keys, values):
        assert torch.equal(both[0, :, :SIZE], both[0, :, SIZE:])
        assert torch.equal(both[0, :, :SIZE], both[1, :, :SIZE])


@pytest.mark.parametrize("kind", KINDS)
def test_copy_blocks_copies_all_layers_in_order(kind):
    cache = filled(kind)
    before = [cache.read(layer, torch.tensor([[0, 1, 2, 3, 4]])) for layer in range(L)]
    cache.copy_blocks([(0, 3), (3, 4)])  # 0 goes to 3, and from there to 4
    for layer, (keys, values) in enumerate(before):
        for old, new in zip((keys, values), cache.read(layer, torch.tensor([[0, 1, 2, 3, 4]])), strict=True):
            parts, copied = old.split(SIZE, dim=2), new.split(SIZE, dim=2)
            for block, source in enumerate((0, 1, 2, 0, 0)):
                assert torch.equal(copied[block], parts[source]), f"block {block} of layer {layer}"


@pytest.mark.parametrize("kind", KINDS)
def test_clear_blocks_removes_what_a_nan_has_touched(kind):
    cache, nans = filled(kind), [x * float("nan") for x in heads_of(kind, 1)]
    for layer in range(L):
        cache.write(layer, *nans, torch.tensor([2 * SIZE + 1]))
    before = [cache.read(layer, torch.tensor([[0, 1, 3]])) for layer in range(L)]
    cache.clear_blocks([2, 4])
    for layer in range(L):
        assert not any(x.any() for x in cache.read(layer, torch.tensor([[2, 4]]))), "0 everywhere, also where NaN was"
        for old, new in zip(before[layer], cache.read(layer, torch.tensor([[0, 1, 3]])), strict=True):
            assert torch.equal(old, new), "another block was cleared"


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_that_is_no_number_comes_back_as_none_and_leaves_its_neighbours_alone(kind):
    # A step that raised here would stop every request because of one.
    cache, (k, v) = cache_of(kind), heads_of(kind, 3)
    k[0, 1, 2] = float("nan")
    v[-1, 1, 0] = float("nan" if kind is Float8PagedKVCache else "inf")
    cache.write(0, k, v, torch.arange(3))
    keys, values = (x[0, :, :3] for x in cache.read(0, torch.tensor([[0]])))
    assert not keys[0, 1].isfinite().all() and not values[-1, 1].isfinite().all()
    for back, right in ((keys, k), (values, v)):
        # Half of an int8 step: 15 / 127 / 2 = 0.059, and the scale is off by 1/256 at most.
        assert (back[:, [0, 2]] - right[:, [0, 2]]).abs().max() < 0.06


# --- the int8 kind -----------------------------------------------------------------------------------------------


def test_int8_numbers_come_back_off_by_half_a_scale_at_most():
    # Heads and positions that differ a thousandfold: a scale that two of them shared would show.
    size = torch.logspace(-2, 1, 10 * K, dtype=torch.float64).view(K, 10, 1)
    cache, k, v = cache_of(Int8PagedKVCache), random(K, 10, H, seed=1) * size, random(K, 10, H, seed=2) * size.flip(1)
    cache.write(0, k, v, slots_of([3, 0, 4], 0, 10))
    for back, right in zip(cache.read(0, torch.tensor([[3, 0, 4]])), (k, v), strict=True):
        # A scale is the largest of the H numbers over 127; as bfloat16 it keeps 8 digits: off by 1/256 at most.
        half = right.abs().amax(-1, keepdim=True) / 127 / 2 * (1 + 1 / 256)
        assert ((back[0, :, :10] - right).abs() <= half).all()
        assert (back[0, :, :10] != right).any(), "nothing was rounded: are these codes?"


@pytest.mark.parametrize(
    ("paged", "contiguous"), [(Int8PagedKVCache, Int8KVCache), (Float8PagedKVCache, Float8KVCache)]
)
def test_a_paged_cache_of_a_byte_a_number_has_the_numbers_of_the_contiguous_one(paged, contiguous):
    paged, contiguous = cache_of(paged), contiguous(tiny_config(), 1, 10, torch.float64)
    k, v = random(K, 10, H, seed=1), random(K, 10, H, seed=2)
    paged.write(2, k, v, slots_of([3, 0, 4], 0, 10))
    right = contiguous.update(2, k[None], v[None])
    for back, expected in zip(paged.read(2, torch.tensor([[3, 0, 4]])), right, strict=True):
        assert back.dtype == torch.float64
        assert torch.equal(back[:, :, :10], expected)


# --- the kind of 8-bit floats ------------------------------------------------------------------------------------


def test_8_bit_floats_come_back_off_by_a_sixteenth_at_most():
    # Numbers from 2^-6 on have 4 binary digits, whatever their size: no scale is shared.
    size = torch.logspace(-1, 2, 10 * K, dtype=torch.float64).view(K, 10, 1)
    cache, k, v = cache_of(Float8PagedKVCache), *(x * size for x in heads_of(Float8PagedKVCache, 10))
    cache.write(0, k, v, slots_of([3, 0, 4], 0, 10))
    for back, right in zip(cache.read(0, torch.tensor([[3, 0, 4]])), (k, v), strict=True):
        held = right.clamp(-448, 448)
        assert ((back[0, :, :10] - held).abs() <= held.abs() / 16).all()
        assert (back[0, :, :10] != held).any(), "nothing was rounded: is this a byte a number?"


def test_8_bit_floats_hold_large_numbers_at_448():
    # As Float8KVCache does: beyond 1.75 · 2^8 the conversion alone would give NaN.
    cache, k = cache_of(Float8PagedKVCache), torch.full((K, 2, H), 1000.0, dtype=torch.float64)
    k[:, 1] = float("inf")
    cache.write(0, k, -k, torch.tensor([5, 6]))
    keys, values = cache.read(0, torch.tensor([[1]]))
    assert (keys[0, :, 1] == 448).all() and (values[0, :, 1] == -448).all()
    assert keys[0, :, 2].isnan().all() and values[0, :, 2].isnan().all(), "an infinite number became a large one"


# --- the latent kind ---------------------------------------------------------------------------------------------


def test_a_latent_paged_cache_keeps_a_value_within_its_key_and_nowhere_else():
    cache = filled(LatentPagedCache)
    assert cache.pools[0].numel() == N_BLOCKS * SIZE * (C + R), "C + R numbers a token and layer, and none besides"
    keys, values = cache.read(1, torch.tensor([[3, 0], [2, 4]]))
    assert torch.equal(values, keys[..., :C])
    assert values.data_ptr() == keys.data_ptr(), "values are a view of the keys: nothing is copied for them"


def test_only_numbers_as_they_are_can_be_read_by_the_kernel_of_paged_decode():
    # It takes a half of keys and a half of values, in the model's dtype.
    assert [cache_of(kind).is_plain for kind in (PagedKVCache, *KINDS[1:])] == [True, False, False, False]


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
        (Float8PagedKVCache, torch.float32, 288),
        (Float8PagedKVCache, torch.bfloat16, 288),
        # 3 layers · 4 positions · (5 + 2) numbers = 84 numbers.
        (LatentPagedCache, torch.float32, 336),
        (LatentPagedCache, torch.bfloat16, 168),
    ],
)
def test_block_bytes_are_those_of_keys_and_values_in_all_layers(kind, dtype, bytes_a_block):
    cache = cache_of(kind, dtype=dtype)
    assert (cache.block_bytes, cache.allocated_bytes) == (bytes_a_block, 5 * bytes_a_block)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "value"), [("n_blocks", 0), ("block_size", 0), ("block_size", 1.5)])
def test_a_cache_without_room_is_refused(kind, name, value):
    assert_refuses(name, lambda: cache_of(kind, **{name: value}))


# --- HostBlocks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_block_saved_to_the_host_can_be_loaded_into_any_block(kind):
    cache = filled(kind)
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
    cache = filled()
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


class Tiring(PagedKVCache):
    """A cache whose tensors can be reached `n_good` times, layer after layer, before the device fails."""

    n_good = 1000

    @property
    def _tensors(self):
        return self._in_turn()

    def _in_turn(self):
        for pool in self.pools:
            if not self.n_good:
                raise RuntimeError("the device is out of memory")
            self.n_good -= 1
            yield pool


@pytest.mark.parametrize("n_good", range(L))
def test_a_copy_that_fails_midway_leaves_the_host_as_it_was(n_good):
    cache = filled(Tiring)
    host = HostBlocks(cache, 2)
    kept = host.save(1)
    cache.n_good = n_good
    with pytest.raises(RuntimeError, match="out of memory"):
        host.save(2)
    assert host.n_free == 1, "half a copy takes room on the host"
    cache.n_good = n_good
    with pytest.raises(RuntimeError, match="out of memory"):
        host.load(kept, 4)
    cache.n_good = 1000
    host.load(kept, 4)
    for pool in cache.pools:
        assert torch.equal(*pool[:, :, [1, 4]].unbind(2)), "the copy is not good any more"
    assert host.save(3) is not None and host.n_free == 0


@pytest.mark.parametrize("n_good", range(2 * L))
def test_a_prefix_that_comes_back_in_part_is_found_in_part_and_later_in_whole(n_good):
    cache, blocks = filled(Tiring), BlockAllocator(N_BLOCKS)
    tree = RadixCache(blocks, SIZE, HostBlocks(cache, N_BLOCKS))
    text, held = range(2 * SIZE), [blocks.allocate(), blocks.allocate()]
    before = [pool[:, :, held].clone() for pool in cache.pools]
    tree.insert(text, held)
    for block in held:
        blocks.free(block)
    tree.evict(2)
    cache.clear_blocks(held)
    cache.n_good = n_good
    found = tree.match(text)
    assert len(found) == n_good // L, "a block of which a part was copied was found"
    assert (blocks.n_used, tree.n_blocks, tree.n_host_blocks) == (len(found), len(found), 2 - len(found))
    cache.n_good = 1000
    found = tree.match(text)
    for pool, old in zip(cache.pools, before, strict=True):
        assert torch.equal(pool[:, :, found], old), "what came back is not what was saved"
