"""Holds `paging/counted_radix_cache.py` to its prices: work counted in lines run, which must not grow with the tree.

That it does what RadixCache does is in test_radix_cache_machine.py; here only what chance finds too rarely.
"""

import pytest
from work_count import lines_of

from nanolm.paging import BlockAllocator, CountedRadixCache, RadixCache, WatchedAllocator, blocks_for

FEW, MANY = 100, 10_000
TWO = [(RadixCache, BlockAllocator), (CountedRadixCache, WatchedAllocator)]


def new_cache(kind, n_blocks):
    cache, allocator = kind
    return cache(allocator(n_blocks), 1)


def run(cache, tokens):
    """Look a text up, evict and allocate what is missing, insert it; return the blocks, which are held on."""
    found = cache.match(tokens)
    n_more = blocks_for(len(tokens), cache.block_size) - len(found)
    cache.evict(max(0, n_more - cache.blocks.n_free))
    blocks = found + [cache.blocks.allocate() for _ in range(n_more)]
    cache.remember(tokens, blocks, len(found))
    return blocks


def release(cache, blocks):
    for block in blocks:
        cache.blocks.free(block)


def full_of_short_texts(kind, n_blocks):
    """A full pool of texts of four blocks, that only the tree holds; text i is [i, 0, 1, 2]."""
    cache = new_cache(kind, n_blocks)
    for i in range(n_blocks // 4):
        release(cache, run(cache, [i, 0, 1, 2]))
    assert cache.blocks.n_free == 0
    return cache


def work(do, *arguments):
    """Lines of `paging/` that run in a call."""
    with lines_of("paging") as count:
        do(*arguments)
    return count.n


def admit(cache, text):
    """All that an admission asks, and the request's end."""
    fit = cache.fit(text, limit=len(text) - 1)
    assert len(text) - fit.n_device <= cache.blocks_available(fit)
    release(cache, run(cache, text))


# --- work ---------------------------------------------------------------------------------------------------------

LOOK = {
    "n_evictable": lambda cache: cache.n_evictable,
    "a look-up that pins four blocks": lambda cache: cache.match([5, 0, 1, 2]),
    "fit": lambda cache: cache.fit([5, 0, 1, 2, 3]),
    "an admission that evicts": lambda cache: admit(cache, [-1, 0, 1, 2]),
    "an admission on a cached prefix": lambda cache: admit(cache, [7, 0, 1, 9]),
}


@pytest.mark.parametrize("do", LOOK.values(), ids=LOOK)
def test_the_work_is_the_same_with_a_hundred_cached_blocks_and_with_ten_thousand(do):
    few, many = (work(do, full_of_short_texts(TWO[1], n)) for n in (FEW, MANY))
    assert many == few, f"{few} lines with {FEW} cached blocks, {many:,} with {MANY:,}"


def test_the_plain_walk_grows_with_the_tree():
    # Or else this way of counting sees nothing.
    few, many = (work(LOOK["n_evictable"], full_of_short_texts(TWO[0], n)) for n in (FEW, MANY))
    assert many > 50 * few


@pytest.mark.parametrize("order", [1, -1], ids=["root first", "leaf first"])
def test_pinning_and_releasing_a_long_text_costs_the_same_for_each_block(order):
    def pin_and_release(n):
        cache = new_cache(TWO[1], n)
        release(cache, run(cache, range(n)))
        return work(lambda: release(cache, cache.match(range(n))[::order]))

    few, many = pin_and_release(FEW), pin_and_release(MANY)
    assert many <= 1.05 * few * MANY / FEW, f"{few / FEW:.0f} lines a block of {FEW}, {many / MANY:.0f} of {MANY:,}"


def test_pinned_leaves_are_looked_at_once_however_often_blocks_are_evicted():
    def evict_beside(n_pinned):
        cache = new_cache(TWO[1], n_pinned + 20)
        for i in range(n_pinned):
            release(cache, run(cache, [i]))
        for i in range(n_pinned):
            cache.match([i])  # pinned, and used before all others: their turn to go would come first
        for i in range(20):
            release(cache, run(cache, [-1 - i]))
        return work(cache.evict, 1), work(lambda: [cache.evict(1) for _ in range(10)])

    (first_few, few), (first_many, many) = evict_beside(FEW), evict_beside(MANY)
    assert first_many <= 1.05 * first_few * MANY / FEW, "each pinned leaf is taken out of the line once"
    assert many == few, f"ten evictions run {few} lines beside {FEW} pinned leaves, {many:,} beside {MANY:,}"


def test_a_text_that_grows_is_remembered_without_a_walk_from_its_beginning():
    def grow(n):
        cache = new_cache(TWO[1], n + 5)
        text = list(range(n))
        blocks = run(cache, text)
        text, blocks = [*text, -1], [*blocks, cache.blocks.allocate()]
        return work(cache.remember, text, blocks, n)

    assert grow(MANY) == grow(FEW), "the whole text was walked through for one more block"


# --- what chance finds too rarely ---------------------------------------------------------------------------------


def lru_order(cache):
    """Blocks in the order in which they go."""
    order = []
    while (before := set(cache._on_device.values())) and cache.evict(1):
        order += before - set(cache._on_device.values())
    return order


@pytest.mark.parametrize("kind", TWO, ids=["plain", "counted"])
def test_a_block_counts_as_used_when_what_is_behind_it_is(kind):
    cache = new_cache(kind, 8)
    text = run(cache, "ab")
    other = run(cache, "x")
    text.append(cache.blocks.allocate())
    cache.remember("abc", text, 2)  # uses a and b too, after x
    release(cache, text)
    assert cache.evict(1) == 1 and cache.peek("abc") == 2, "x is held, so c goes"
    release(cache, other)
    assert lru_order(cache) == [other[0], text[1], text[0]], "x was used before a b c was remembered"


@pytest.mark.parametrize("kind", TWO, ids=["plain", "counted"])
def test_to_remember_what_is_known_is_to_use_it(kind):
    cache = new_cache(kind, 8)
    text, other = run(cache, "ab"), run(cache, "x")
    assert cache.remember("ab", text, 2) == []
    release(cache, text + other)
    assert lru_order(cache) == [other[0], text[1], text[0]]


def test_a_cache_that_is_refused_listens_to_nobody():
    blocks = WatchedAllocator(2)
    with pytest.raises(ValueError, match="block_size"):
        CountedRadixCache(blocks, 0)
    assert not blocks.on_shared and not blocks.on_single
