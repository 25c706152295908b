"""Grades `begin_with_prefix`: what a newcomer takes from the prefix cache, and what it gives back.

The allocator, the block table and the request are the reference's; the cache is one that knows a single text.
"""

import random

import pytest
from schedules import FakePrefix, Named, made, running, waiting

from course.grading.seeds import fresh
from nanolm.paging import RadixCache

pytestmark = pytest.mark.exercise("begin_with_prefix")


def newcomer(n, known=0, n_blocks=8, block_size=4, evictable=0, held=0):
    """A request of n tokens that waits, a cache that knows the first of them, and the blocks; r holds some of those."""
    scheduler = made(n_blocks=n_blocks, block_size=block_size)
    if held:
        running(scheduler, "r", held * block_size)
    (request,) = waiting(scheduler, Named("a", n))
    return request, FakePrefix(scheduler.allocator, block_size, request.tokens[:known], evictable), scheduler.allocator


def test_begin_with_prefix_runs_nothing_again_that_the_cache_holds(impl):
    # 11 tokens, of which the cache holds two blocks of 4: 8 tokens. 3 are left to run.
    a, prefix, allocator = newcomer(11, known=9)
    assert impl.begin_with_prefix(a, prefix) is True
    assert a.n_computed == 8, "8 of the 11 tokens are in the prefix cache: they count as computed"
    assert a.n_pending == 3
    assert a.table.blocks == prefix.known, "its table begins with the cached blocks: adopt what match returns"
    assert a.table.length == 8
    assert a.n_remembered == 2, "n_remembered counts the blocks that the cache knows already: two"
    assert allocator.n_used == 2, "blocks for what is run are taken later, by append"


def test_begin_with_prefix_counts_what_the_cache_has_spared(impl):
    a, prefix, _ = newcomer(11, known=9)
    a.n_prefix_tokens = 4  # from an admission before it was preempted
    impl.begin_with_prefix(a, prefix)
    assert a.n_prefix_tokens == 12, "add the 8 tokens that the cache has spared it to its n_prefix_tokens"


@pytest.mark.parametrize(("block_size", "n", "left"), [(1, 5, 1), (4, 8, 4), (4, 9, 1)])
def test_begin_with_prefix_leaves_the_last_token_to_run(impl, block_size, n, left):
    # Blocks of 4 of which 8 tokens fill two: the second is found no more when one of its tokens has to run.
    a, prefix, _ = newcomer(n, known=n, n_blocks=20, block_size=block_size)
    assert impl.begin_with_prefix(a, prefix)
    assert a.n_pending != 0, (
        f"all {n} tokens were found and nothing is left to run, so nothing gives the logits of the next token: limit "
        "the match to one token fewer"
    )
    assert a.n_pending == left
    assert len(prefix.asked) == 1, "the prompt was looked up more than once: each time its blocks are pinned"
    assert prefix.asked == [n - 1], "look up all tokens but the last one"


def test_begin_with_prefix_evicts_what_is_missing_and_no_more(impl):
    # 8 blocks: 2 with a's prefix, 4 that only the cache holds, 2 free. a needs 3: one eviction.
    a, prefix, allocator = newcomer(20, known=8, evictable=4)
    assert impl.begin_with_prefix(a, prefix), "what only the prefix cache holds is room too"
    assert allocator.n_free >= 3, "2 blocks are free and 3 needed: evict for all that is pending, not for one token"
    assert len(prefix.spare) == 3, "2 blocks are free and 3 needed: evict 1, and keep what can be kept"


def test_begin_with_prefix_gives_everything_back_where_the_rest_has_no_room(impl):
    # 2 cached blocks, 4 held by r, 2 free; a needs 3 beside its prefix. The cached ones could be evicted, if a were not
    # to read them: that there is no room shows only once a has taken them.
    a, prefix, allocator = newcomer(20, known=8, held=4)
    for _ in range(2):
        assert not impl.begin_with_prefix(a, prefix), (
            "3 blocks are needed and 2 are free; what a itself has pinned makes no room, so ask n_evictable after match"
        )
        holders = [allocator.references(block) for block in prefix.known]
        assert holders == [1, 1], (
            f"the cached blocks have {holders} holders: one that waits holds nothing, or they could never be evicted"
        )
        assert (a.table.blocks, a.table.length) == ([], 0), "the table of one that waits is empty: release it"
        assert (a.n_computed, a.n_remembered) == (0, 0), "nothing of it is in the cache, so nothing counts as computed"
        assert a.n_prefix_tokens == 0, "the cache has spared it nothing: it waits, and looks again in the next pass"
    assert allocator.n_free == 2


def test_begin_with_prefix_evicts_nothing_if_that_is_not_enough(impl):
    # 3 blocks held by r, 2 with a's prefix, 1 that only the cache holds, 2 free; a needs 4 beside its prefix.
    a, prefix, _ = newcomer(24, known=8, evictable=1, held=3)
    assert not impl.begin_with_prefix(a, prefix)
    assert len(prefix.spare) == 1, "4 blocks are needed and 3 could be had: what is cached was lost in vain"


def test_begin_with_prefix_fills_the_room_to_the_last_block(impl):
    # 8 blocks: 2 with a's prefix, 2 that can be evicted, 4 free: exactly the 6 that its other 24 tokens need.
    a, prefix, allocator = newcomer(32, known=8, evictable=2)
    assert impl.begin_with_prefix(a, prefix), "6 blocks are needed, 4 are free and 2 can be evicted: that is enough"
    assert allocator.n_free == 6


def test_begin_with_prefix_of_an_unknown_text_begins_with_nothing(impl):
    a, prefix, _ = newcomer(9)
    assert impl.begin_with_prefix(a, prefix) is True, "nothing found is no reason to wait"
    assert (a.n_pending, a.table.blocks, a.n_prefix_tokens) == (9, [], 0)


def test_begin_with_prefix_keeps_the_books_of_a_real_cache(impl):
    # Texts that share beginnings come and go. Whoever begins can reserve all it has pending; whoever cannot holds
    # nothing; and a wait is refused only where free and evictable blocks together are too few.
    chance = random.Random(fresh(7))
    scheduler = made(n_blocks=12, block_size=2)
    allocator, prefix = scheduler.allocator, RadixCache(scheduler.allocator, 2)
    inside = []
    for _ in range(300):
        request = Named("a", 0)
        request.tokens = [chance.randint(1, 2) for _ in range(chance.randint(1, 16))]
        (request,) = waiting(scheduler, request)
        fit = prefix.fit(request.tokens, limit=len(request.tokens) - 1)
        fits = -(-len(request.tokens) // 2) - fit.n_device <= prefix.blocks_available(fit)
        said = impl.begin_with_prefix(request, prefix)
        assert said == fits, f"{fits} was right for {len(request.tokens)} tokens of which {2 * fit.n_device} are cached"
        if said:
            request.table.append(request.n_pending)
            prefix.insert(request.tokens, request.table.blocks)
            inside.append(request)
        while inside and (not said or len(inside) > 2):
            inside.pop(0).table.release()
            said = True
    for request in inside:
        request.table.release()
    assert allocator.n_used == prefix.n_blocks, "a block is held by nobody who is there"
