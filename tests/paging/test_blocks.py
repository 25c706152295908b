"""Grades `paging/blocks.py`: a pool of numbered blocks, and tables of them; nothing else is needed, no tensors."""

import subprocess
import sys

import pytest
from refusal import assert_is_refused, assert_refuses

from nanolm.paging import BlockAllocator, BlockTable, OutOfBlocks, blocks_for
from nanolm.paging import blocks as paging

ALLOCATE = pytest.mark.exercise("BlockAllocator.allocate")
SHARE = pytest.mark.exercise("BlockAllocator.share")
FREE = pytest.mark.exercise("BlockAllocator.free")
APPEND = pytest.mark.exercise("BlockTable.append")
SLOTS = pytest.mark.exercise("BlockTable.slot_mapping")
FORK = pytest.mark.exercise("BlockTable.fork")


def table_of(impl, length, n_blocks=8, block_size=4):
    """A table with `length` positions reserved, made without `append`, in a pool of the engine's own."""
    allocator = BlockAllocator(n_blocks)
    table = impl.BlockTable(allocator, block_size)
    table.blocks = [allocator.allocate() for _ in range(-(-length // block_size))]
    table.length = length
    return allocator, table


def references(allocator):
    return [allocator.references(block) for block in range(allocator.n_blocks)]


def held_to_the_last(impl):
    """A pool of three blocks, all held, so that -1, taken for the last block, is a block that somebody holds."""
    allocator = impl.BlockAllocator(3)
    for _ in range(3):
        BlockAllocator.allocate(allocator)  # the engine's own, whatever the answer's does
    return allocator


def assert_refused_as_no_block(call):
    for block, instead in ((-1, "Python counts it from the end, as the last block"), (3, "the list has no such place")):
        try:
            call(block)
        except ValueError:
            continue
        except IndexError:
            pass
        pytest.fail(
            f"block {block} of a pool of 3 does not exist: raise a ValueError. `self._references[{block}]` does not "
            f"({instead}); `self.references({block})` does"
        )


# --- BlockAllocator ----------------------------------------------------------------------------------------------


@ALLOCATE
def test_allocate_gives_every_block_once_and_then_says_that_none_is_left(impl):
    allocator = impl.BlockAllocator(3)
    blocks = [allocator.allocate() for _ in range(3)]
    assert len(set(blocks)) == 3, f"blocks {blocks} of a pool of 3: one was given out twice; take it off the free list"
    assert sorted(blocks) == [0, 1, 2]
    assert allocator.n_free == 0, "an allocated block is still on the free list"
    try:
        given = allocator.allocate()
    except IndexError:
        pytest.fail("all 3 blocks are held: raise OutOfBlocks, which says so, before the empty list raises")
    except OutOfBlocks:
        given = None
    assert given is None, "all 3 blocks are held: raise OutOfBlocks"
    assert (allocator.n_free, allocator.n_used) == (0, 3), "an allocation that failed must change nothing"


@ALLOCATE
def test_allocate_gives_a_block_one_holder(impl):
    allocator = impl.BlockAllocator(2)
    assert references(allocator) == [0, 0]
    block = allocator.allocate()
    assert allocator.references(block) == 1, "an allocated block has one holder, the one who asked"
    assert allocator.references(1 - block) == 0, "the other block is free still"
    assert (allocator.n_free, allocator.n_used) == (1, 1)


@ALLOCATE
def test_allocate_takes_the_block_freed_last(impl):
    allocator = impl.BlockAllocator(4)
    first, second, _ = (allocator.allocate() for _ in range(3))
    allocator.free(first)
    allocator.free(second)
    assert allocator.allocate() == second, "the free blocks are a stack: the one freed last is still in fast memory"
    assert allocator.allocate() == first


@SHARE
def test_share_counts_one_more_holder(impl):
    allocator = impl.BlockAllocator(2)
    block = allocator.allocate()
    allocator.share(block)
    assert allocator.references(block) == 2, "shared once, a block has two holders: count the second"
    assert (allocator.n_free, allocator.n_used) == (1, 1), "sharing takes no block"
    allocator.share(block)
    holders = allocator.references(block)
    assert holders == 3, f"shared twice, a block has three holders, not {holders}: each adds one to those there are"
    allocator.free(block)
    assert allocator.n_free == 1, "one of three holders has gone; the block is not free yet"


@SHARE
def test_share_refuses_a_free_block(impl):
    allocator = impl.BlockAllocator(2)
    block = allocator.allocate()
    assert_is_refused(
        "a free block was shared: it can be given to somebody else at any time; raise a ValueError",
        *(allocator.share, 1 - block),
    )
    assert_refuses("block", allocator.share, 1 - block)
    allocator.free(block)
    assert_refuses("block", allocator.share, block)
    assert references(allocator) == [0, 0], "a refusal must not count"


@SHARE
def test_share_refuses_a_number_outside_the_pool(impl):
    allocator = held_to_the_last(impl)
    assert_refused_as_no_block(allocator.share)
    assert references(allocator) == [1, 1, 1], "a refusal must not count"


@FREE
def test_free_refuses_a_number_outside_the_pool(impl):
    allocator = held_to_the_last(impl)
    assert_refused_as_no_block(allocator.free)
    assert (allocator.n_free, references(allocator)) == (0, [1, 1, 1]), "a refusal must change nothing"


@FREE
def test_free_keeps_a_block_that_others_hold(impl):
    allocator = impl.BlockAllocator(2)
    block = allocator.allocate()
    allocator.share(block)
    allocator.free(block)
    holders = allocator.references(block)
    assert holders == 1, f"two holders less one are one, not {holders}: take one off the count"
    assert allocator.n_free == 1, "the block went back to the free list although somebody holds it"
    allocator.free(block)
    assert allocator.n_free != 1, "the last holder has gone and the block is not on the free list: it is lost for ever"
    assert (allocator.n_free, references(allocator)) == (2, [0, 0]), "the last holder has gone: the block is free"
    assert sorted(allocator.allocate() for _ in range(2)) == [0, 1], "both blocks can be allocated again, once each"


@FREE
def test_free_puts_the_block_on_top_of_those_that_are_free(impl):
    allocator = impl.BlockAllocator(4)
    held = [BlockAllocator.allocate(allocator) for _ in range(2)]  # the engine's own, whatever the answer's does
    for block in held:
        allocator.free(block)
        again = BlockAllocator.allocate(allocator)
        assert again == block, (
            f"block {block} was freed last, so it is taken first, before the others that are free; block {again} was. "
            "The top of the stack is the end of the list"
        )


@FREE
def test_free_refuses_a_block_that_is_free(impl):
    allocator = impl.BlockAllocator(3)
    block = allocator.allocate()
    allocator.free(block)
    assert_is_refused(
        "freed twice unnoticed: on the free list twice, a block is given to two requests, which overwrite each other; "
        "raise a ValueError",
        *(allocator.free, block),
    )
    assert (allocator.n_free, references(allocator)) == (3, [0, 0, 0]), "a refusal must change nothing"


@pytest.mark.parametrize("block", [-1, 3])
@pytest.mark.parametrize("call", ["references", "share", "free"])
def test_a_block_outside_the_pool_is_refused(call, block):
    # -1 would be taken for the last block, as Python counts.
    assert_refuses("block", getattr(BlockAllocator(3), call), block)


@pytest.mark.parametrize("n_blocks", [0, -1, 1.5, True])
def test_a_pool_without_blocks_is_refused(n_blocks):
    assert_refuses("n_blocks", BlockAllocator, n_blocks)


# --- BlockTable.append -------------------------------------------------------------------------------------------


@APPEND
def test_append_allocates_a_block_when_the_last_one_is_full_and_not_earlier(impl):
    allocator, table = table_of(impl, 0, n_blocks=12)
    held = []
    for _ in range(9):
        assert table.append(1) == [], "nothing is shared here, so nothing has to be copied"
        held.append(len(table.blocks))
    assert table.length == 9, (
        f"9 times one more position, and the table has {table.length}: 1 more than it had, each time"
    )
    # Positions 0-3, 4-7 and 8 of blocks of 4.
    assert held != [1, 1, 1, 2, 2, 2, 2, 3, 3], "a block was taken one position early: a full block is no reason yet"
    assert held != [1, 2, 3, 4, 5, 6, 7, 8, 9], "a block for each position: the partly filled last one is used up first"
    assert held == [1, 1, 1, 1, 2, 2, 2, 2, 3], f"9 positions, one by one, in blocks of 4 took {held} blocks"
    assert (table.length, allocator.n_used) == (9, 3)
    assert references(allocator).count(1) == 3, "a table holds each of its blocks once"


@APPEND
@pytest.mark.parametrize(
    ("length", "n", "blocks"), [(0, 0, 0), (0, 1, 1), (0, 4, 1), (0, 5, 2), (3, 1, 1), (3, 2, 2), (4, 4, 2), (6, 7, 4)]
)
def test_append_of_many_positions_takes_as_many_blocks_as_they_fill(impl, length, n, blocks):
    allocator, table = table_of(impl, length)
    table.append(n)
    assert table.length == length + n, (
        f"{n} more than it had, {length}, are {length + n} positions; length is {table.length}"
    )
    partly = "the partly filled last one is used up first"
    assert len(table.blocks) == allocator.n_used == blocks, (
        f"{length} and {n} positions in blocks of 4 need {blocks} blocks and the table has {len(table.blocks)}; "
        f"{partly if length % 4 else 'a block is taken when a position has to go into it, never earlier'}"
    )
    assert len(set(table.blocks)) == blocks


@APPEND
def test_append_into_a_shared_block_copies_it_first(impl):
    allocator, table = table_of(impl, 6)
    table.blocks.reverse()  # so that no block's number is its place in the table
    twin = table_of(impl, 0)[1]
    twin.allocator, twin.blocks, twin.length = allocator, list(table.blocks), 6
    for block in table.blocks:
        allocator.share(block)
    full, shared = table.blocks
    copies = twin.append(1)
    assert twin.blocks[1] != shared, (
        "copy on write: position 6 falls into a block that another table reads too; take a block of your own for it"
    )
    assert copies != [(twin.blocks[1], shared)], "the pair is the wrong way round: (from the shared block, to your own)"
    assert (1, 1) not in copies and (1, twin.blocks[1]) not in copies, (
        "a pair has the numbers of blocks, not their places"
    )
    assert (shared, twin.blocks[1]) in copies, f"the content has to be copied, from {shared} to the new block"
    assert len(copies) < 2, "one copy is enough: a full block is never written again and stays shared"
    assert twin.blocks[0] == full, "a full block is never written again and stays shared"
    assert table.blocks == [full, shared], "the other table keeps the old block"
    assert allocator.references(shared) == 1, "who leaves a shared block gives its reference back"
    assert table.append(1) == [], "the block has one holder again: nobody else reads it, so no copy"
    assert (allocator.n_used, allocator.references(full)) == (3, 2)


@APPEND
def test_append_into_a_shared_third_block_copies_the_last_one(impl):
    allocator, table = table_of(impl, 10)  # blocks of 4: two full ones, and two positions in the third
    for block in table.blocks:
        allocator.share(block)
    before = list(table.blocks)
    copies = table.append(1)
    assert table.blocks[:2] == before[:2], "full blocks before the last one stay: position 10 falls into the last block"
    assert copies, "position 10 falls into the last block, which another table reads too: it is copied, self.blocks[-1]"
    assert copies != [(table.blocks[2], before[2])], (
        "the pair is the wrong way round: (from the shared block, to yours)"
    )
    right = [(before[2], table.blocks[2])]
    assert copies == right, f"the last block is the shared one that is copied, self.blocks[-1]: {right}; got {copies}"


@APPEND
def test_append_behind_a_full_shared_block_copies_nothing(impl):
    allocator, table = table_of(impl, 4)
    allocator.share(table.blocks[0])
    first = table.blocks[0]
    said = table.append(1)
    assert table.blocks[0] == first and said == [], (
        "position 4 begins a new block, and the full one, which another holds too, was copied: it is not written to"
    )
    assert allocator.references(first) == 2


@APPEND
def test_append_of_nothing_copies_nothing(impl):
    allocator, table = table_of(impl, 3)
    allocator.share(table.blocks[0])
    assert table.append(0) == [], "no position is written, so nobody needs a copy"
    assert (allocator.n_used, table.length) == (1, 3)


@APPEND
def test_append_that_does_not_fit_changes_nothing(impl):
    # Two blocks are free. 3 + 10 positions need 4 blocks, one is there: 3 more.
    allocator, table = table_of(impl, 3, n_blocks=3)
    before = list(table.blocks)
    with pytest.raises(OutOfBlocks):
        table.append(10)
        pytest.fail("4 blocks of a pool of 3: raise OutOfBlocks")
    assert (table.blocks, table.length) == (before, 3), "ask first whether all blocks are there, then take them"
    assert allocator.n_free == 2, "blocks were taken by an append that failed"


@APPEND
def test_append_takes_the_last_free_blocks(impl):
    allocator, table = table_of(impl, 3, n_blocks=3)
    try:
        table.append(9)
    except OutOfBlocks:
        pytest.fail("12 positions in blocks of 4 need 3 blocks: 2 more, and 2 are free. That is room enough")
    assert (table.length, allocator.n_free) == (12, 0)


@APPEND
def test_append_counts_the_copy_among_the_blocks_it_needs(impl):
    # Two blocks are needed, one for the copy of the shared one and one for position 4; one is free.
    allocator, table = table_of(impl, 3, n_blocks=2)
    allocator.share(table.blocks[0])
    before = list(table.blocks)
    with pytest.raises(OutOfBlocks):
        table.append(2)
        pytest.fail("a copy and a new block are 2 blocks, and 1 is free: raise OutOfBlocks")
    assert (table.blocks, table.length, references(allocator)) == (before, 3, [2, 0]), (
        "a copy and a new block are 2 blocks, and 1 is free: count the copy too (blocks_needed does) before you take "
        "any; this table has been changed although it could not be served"
    )


@APPEND
def test_append_counts_the_block_for_a_copy(impl):
    # The last block is shared and none is free: one more position fits into it, but a copy has no place.
    allocator, table = table_of(impl, 3, n_blocks=1)
    allocator.share(table.blocks[0])
    with pytest.raises(OutOfBlocks):
        table.append(1)
        pytest.fail("the copy needs a block, and none is free: raise OutOfBlocks")
    assert (table.length, references(allocator)) == (3, [2])


@APPEND
def test_append_refuses_a_negative_number(impl):
    table = table_of(impl, 5)[1]
    assert_is_refused(
        "-1 positions were appended: nothing is given back that way (truncate does that); raise a ValueError",
        *(table.append, -1),
    )
    assert_refuses("n", table.append, -1)
    assert table.length == 5, "a refusal must change nothing"


def test_blocks_needed_says_what_append_takes():
    for length in range(9):
        for shared in (False, True):
            for n in range(9):
                allocator, table = table_of(paging, length)
                if shared and table.blocks:
                    allocator.share(table.blocks[-1])
                before, needed = allocator.n_free, table.blocks_needed(n)
                copies = table.append(n)
                # A block left to the other holder is not free, so each copy costs one.
                assert before - allocator.n_free == needed, f"{length} positions and {n} more, shared: {shared}"
                assert len(copies) == (shared and n > 0 and length % 4 > 0)


# --- BlockTable.slot_mapping -------------------------------------------------------------------------------------


@SLOTS
def test_slot_mapping_of_a_scattered_table(impl):
    # Blocks of 4: position 0 is place 0 of block 7, slot 28; position 5 is place 1 of block 2, slot 9.
    table = table_of(impl, 0)[1]
    table.blocks, table.length = [7, 2, 5, 0], 14
    slots = table.slot_mapping(0, 10)
    assert len(slots) != 11, "stop is not included: positions 0 to 9 are 10 slots, got 11"
    assert slots != [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], "a position is not a slot: go through the table"
    assert slots[:2] != [28, 8], "// and % are swapped: position p lies in block p // block_size, at p % block_size"
    assert slots[0] != 7, "a block has block_size slots: its first one is its number times block_size"
    assert slots == [28, 29, 30, 31, 8, 9, 10, 11, 20, 21]
    assert len(table.slot_mapping(3, 5)) != 5, "start was ignored: positions 3 and 4 are 2 slots, got those from 0 on"
    assert table.slot_mapping(3, 5) != [31, 8, 9], "stop is not included: positions 3 and 4 are 2 slots, got 3"
    assert table.slot_mapping(3, 5) == [31, 8], "start is the first position wanted and stop the first that is not"
    assert table.slot_mapping(4, 4) == [], "no positions, no slots"


@SLOTS
def test_slot_mapping_of_blocks_of_one_is_the_table(impl):
    table = table_of(impl, 0, block_size=1)[1]
    table.blocks, table.length = [5, 0, 3], 3
    slots = table.slot_mapping(0, 3)
    assert slots == [5, 0, 3], f"blocks of one place: each position's place is its block, [5, 0, 3]; got {slots}"


@SLOTS
@pytest.mark.parametrize(
    ("start", "stop", "why"),
    [
        (0, 11, "10 positions are reserved and 11 got a place: there is room in the third block, reserved for nobody"),
        (-1, 3, "position -1 does not exist, and Python counts it from the end"),
        (5, 4, "from 5 to 4, stop lies before start, and the answer was no error"),
    ],
)
def test_slot_mapping_refuses_positions_that_are_not_reserved(impl, start, stop, why):
    table = table_of(impl, 10)[1]
    assert_is_refused(f"{why}; raise a ValueError", table.slot_mapping, start, stop)
    assert_refuses("positions|start|stop", table.slot_mapping, start, stop)


# --- BlockTable.fork ---------------------------------------------------------------------------------------------


@FORK
def test_fork_shares_every_block_and_copies_none(impl):
    allocator, table = table_of(impl, 6)
    twin = table.fork()
    assert twin.allocator is allocator, "the twin has a pool of its own (a deep copy?): share the allocator"
    assert twin.blocks == table.blocks, "a fork reads the same blocks; that is why it costs nothing"
    assert allocator.n_used == 2, "a fork takes no block of its own before it writes"
    assert [allocator.references(block) for block in table.blocks] == [2, 2], (
        "each block has one more holder: without counting it, the first of the two to end frees the other's blocks"
    )
    assert twin.length == 6, f"the twin has all positions of its original, so its length is 6, not {twin.length}"
    assert twin.block_size == 4, f"the twin has blocks of 4 too, not of {twin.block_size}"


@FORK
def test_fork_has_a_list_of_its_own(impl):
    table = table_of(impl, 6)[1]
    twin = table.fork()
    assert twin is not table and twin.blocks is not table.blocks, "one list for both: what one appends the other holds"
    before = list(table.blocks)
    twin.blocks.append(99)
    assert table.blocks == before and table.length == 6


@FORK
def test_fork_of_an_empty_table_is_empty(impl):
    allocator, table = table_of(impl, 0)
    assert (table.fork().blocks, allocator.n_used) == ([], 0)


def test_forks_write_apart_and_the_last_one_keeps_the_shared_block():
    # 6 positions in 2 blocks; both forks write position 6: one copy, not two, since the last holder writes in place.
    allocator = BlockAllocator(8)
    table = BlockTable(allocator, 4)
    table.append(6)
    twin, third = table.fork(), table.fork()
    assert references(allocator)[:2] == [3, 3]
    copies = [*twin.append(1), *third.append(1), *table.append(1)]
    assert len(copies) == 2
    assert len({t.slot_mapping(6, 7)[0] for t in (table, twin, third)}) == 3, "two forks write into one slot"
    for t in (table, twin, third):
        t.release()
    assert allocator.n_free == 8


def test_four_forks_of_a_long_prompt_take_24_blocks_and_four_requests_60():
    # 193 positions of prompt, 232 in the end: 15 blocks of 16. Forks share the 12 full ones: 12 + 4 · (15 - 12) = 24.
    pool = BlockAllocator(60)
    original = BlockTable(pool, 16)
    original.append(193)
    forks = [original, *(original.fork() for _ in range(3))]
    for _ in range(232 - 193):
        for table in forks:
            table.append(1)
    assert pool.n_used == 24, "full blocks stay shared; the last one is copied for each but the last to write"
    apart = [BlockTable(BlockAllocator(15), 16) for _ in range(4)]
    for table in apart:
        table.append(232)
    assert sum(len(table.blocks) for table in apart) == 60


# --- adopt, truncate, release ------------------------------------------------------------------------------------


def test_truncate_gives_back_the_blocks_that_no_position_needs():
    allocator, table = table_of(paging, 10)
    first, second, third = table.blocks
    held = []
    for length in (9, 8, 5, 4, 1, 0):
        table.truncate(length)
        held.append(len(table.blocks))
    # ⌈length / 4⌉: the block of position 8 goes with it, and 5 positions need the second block still.
    assert held != [3, 3, 2, 2, 1, 1], "a block too many was kept: 8 positions fill two blocks exactly"
    assert held != [2, 2, 1, 1, 0, 0], "a block was freed that holds positions still: round up"
    assert held == [3, 2, 2, 1, 1, 0]
    assert allocator.n_free == 8
    # A stack gives back the last one freed.
    assert [allocator.allocate() for _ in range(3)] == [first, second, third]


def test_truncate_does_not_free_what_others_hold():
    allocator, table = table_of(paging, 10)
    twin = table.fork()
    table.truncate(3)
    assert (len(table.blocks), twin.length, allocator.n_used) == (1, 10, 3)
    assert twin.slot_mapping(0, 10), "the other table has all its positions"
    # Position 3 lies in the block that both hold.
    assert table.append(1) == [(twin.blocks[0], table.blocks[0])]


@pytest.mark.parametrize("length", [-1, 11])
def test_truncate_refuses_a_length_beyond_what_is_reserved(length):
    assert_refuses("length", table_of(paging, 10)[1].truncate, length)


def test_release_gives_everything_back_and_can_be_repeated():
    allocator, table = table_of(paging, 10)
    table.release()
    table.release()
    assert (table.blocks, table.length, allocator.n_free) == ([], 0, 8)
    table.append(1)
    assert allocator.n_used == 1


def test_adopt_begins_with_full_blocks_and_takes_over_their_references():
    allocator, table = table_of(paging, 0)
    blocks = [allocator.allocate() for _ in range(2)]
    table.adopt(blocks)
    assert (table.length, references(allocator)[:3]) == (8, [1, 1, 0]), "adopt takes a reference over; it adds none"
    table.append(1)
    assert len(blocks) == 2, "the caller's list is the caller's"
    table.release()
    assert allocator.n_free == 8


def test_adopt_refuses_a_table_that_has_begun():
    allocator, table = table_of(paging, 1)
    assert_refuses("table", table.adopt, [allocator.allocate()])


@pytest.mark.parametrize("block_size", [0, -4, 2.5])
def test_a_block_without_positions_is_refused(block_size):
    assert_refuses("block_size", BlockTable, BlockAllocator(1), block_size)


@pytest.mark.parametrize(("n", "blocks"), [(0, 0), (1, 1), (16, 1), (17, 2), (32, 2), (33, 3)])
def test_blocks_for_rounds_up(n, blocks):
    assert blocks_for(n, 16) == blocks


def test_paging_and_scheduling_do_without_torch():
    code = "import sys, nanolm.paging.blocks, nanolm.engine.scheduler; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_replace_takes_over_equal_blocks_and_gives_its_own_back():
    allocator, table = table_of(paging, 9)  # blocks 0, 1, 2, for the pool's first are its lowest numbers
    other = [allocator.allocate(), allocator.allocate()]
    table.replace([other[0], table.blocks[1]])
    assert table.blocks == [other[0], 1, 2] and table.length == 9
    assert [allocator.references(block) for block in (0, other[0], 1, 2)] == [0, 2, 1, 1]


def test_replace_can_begin_at_a_later_block():
    allocator, table = table_of(paging, 9)
    other = allocator.allocate()
    table.replace([other, 2], start=1)
    assert table.blocks == [0, other, 2] and table.length == 9
    assert [allocator.references(block) for block in (0, 1, 2, other)] == [1, 0, 1, 2]
