"""Grades `window/block_tables.py`: what a text holds behind its windows, by cases and against books kept by hand."""

import random as chance

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusal import assert_is_refused, assert_refuses

from nanolm.paging import BlockAllocator, BlockTable, OutOfBlocks
from nanolm.window import HOLE, GroupedTables, LayerGroups, WindowedBlockTable, tables_of


def windowed(length, window=5, block_size=4, n_blocks=20):
    table = WindowedBlockTable(BlockAllocator(n_blocks), block_size, window)
    table.append(length)
    return table


def grouped(windows=(5, None), block_size=4, n_blocks=20):
    return GroupedTables(BlockAllocator(n_blocks), block_size, LayerGroups(windows))


# --- one table ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "n_dropped"),
    [(0, 0), (7, 0), (8, 1), (11, 1), (12, 2), (13, 2)],  # 8 sees 4 to 8: block 0 is behind it; 7 sees 3
)
def test_what_lies_behind_the_window_is_given_back(length, n_dropped):
    table = windowed(13)
    before = list(table.blocks)
    table.drop_behind(length)
    assert table.blocks == [HOLE] * n_dropped + before[n_dropped:], "later blocks stay where they were"
    assert (table.n_dropped, table.allocator.n_used, table.length) == (n_dropped, 4 - n_dropped, 13)
    table.drop_behind(0)
    assert table.n_dropped == n_dropped, "what has been given back is given back once"


def test_positions_keep_their_slots_and_dropped_ones_have_none():
    table = windowed(13)
    slots = table.slot_mapping(0, 13)
    table.drop_behind(12)
    assert table.slot_mapping(8, 13) == slots[8:]
    assert table.slot_mapping(3, 3) == []
    for start in (0, 7):
        assert_refuses("position", table.slot_mapping, start, 13)


def test_a_window_of_one_holds_no_more_than_the_block_that_is_written():
    table = windowed(0, window=1)
    for n in range(1, 20):
        assert table.append(1) == []
        assert table.allocator.n_used == 1
        table.drop_behind(n)
        assert table.allocator.n_used == (1 if n % 4 else 0)


def test_a_table_goes_back_as_far_as_its_next_query_still_sees_everything():
    table = windowed(13)
    table.drop_behind(12)  # blocks of positions 0 to 7 are gone; a query at 12 sees 8 to 12
    for length in (11, 8, 1):
        assert_refuses("length", table.truncate, length)
    table.truncate(12)
    assert (table.length, table.allocator.n_used) == (12, 1)
    table.append(6)
    table.truncate(0)
    assert (table.blocks, table.n_dropped, table.length, table.allocator.n_used) == ([], 0, 0, 0)
    table.append(3)
    assert len(table.blocks) == 1 and HOLE not in table.blocks, "after a release it begins anew"


def test_a_fork_shares_what_is_left_and_copies_what_it_writes():
    table = windowed(13)
    table.drop_behind(13)
    twin = table.fork()
    assert isinstance(twin, WindowedBlockTable) and twin.blocks == table.blocks and twin.n_dropped == 2
    last = table.blocks[-1]
    assert twin.blocks_needed(1) == 1 and [source for source, _ in twin.append(1)] == [last]
    assert table.append(1) == [], "the other one has it alone by now"
    table.drop_behind(14)
    table.release()
    assert [twin.allocator.references(block) for block in twin.blocks if block != HOLE] == [1, 1]
    twin.release()
    assert twin.allocator.n_used == 0


@pytest.mark.parametrize("length", [-1, 14])
def test_lengths_that_are_not_there_are_refused(length):
    table = windowed(13)
    assert_refuses("length", table.drop_behind, length)
    assert_refuses("length", table.truncate, length)
    table.drop_behind(12)
    assert_refuses("length", table.truncate, length)
    assert_refuses("window", WindowedBlockTable, table.allocator, 4, 0)


# --- tables of groups --------------------------------------------------------------------------------------------


def test_every_group_has_positions_and_only_windows_forget():
    tables = grouped()
    assert tables.blocks_needed(9) == 6 and tables.append(9) == []
    assert tables.length == 9 and tables.allocator.n_used == 6 and tables.blocks_needed(3) == 0
    tables.drop_behind(9)
    assert [len(table.blocks) for table in tables.tables] == [3, 3]
    assert tables.tables[0].blocks[0] == HOLE and HOLE not in tables.tables[1].blocks
    assert sorted(tables.blocks) == [block for block in range(20) if tables.allocator.references(block)]
    assert tables_of(tables) == tables.tables
    other = BlockTable(tables.allocator, 4)
    assert tables_of(other) == [other]
    tables.release()
    assert tables.allocator.n_used == 0 and tables.length == 0


def test_a_block_that_a_window_gave_back_serves_the_group_that_sees_all():
    tables = grouped(n_blocks=5)
    tables.append(8)
    tables.drop_behind(8)
    assert tables.append(4) == [] and tables.allocator.n_free == 0, "5 blocks: 2 of the window, 3 of the other"


def test_blocks_are_taken_for_all_groups_or_for_none():
    tables = grouped(n_blocks=5)
    tables.append(8)
    with pytest.raises(OutOfBlocks):
        tables.append(1)
    assert [table.length for table in tables.tables] == [8, 8] and tables.allocator.n_free == 1
    assert_refuses("n", tables.append, -1)


def test_a_truncation_that_one_group_refuses_changes_none():
    tables = grouped(windows=(None, 9, 3))
    tables.append(17)
    tables.drop_behind(16)
    before = [list(table.blocks) for table in tables.tables]
    assert_refuses("length", tables.truncate, 12)
    assert_refuses("length", tables.truncate, 18)
    assert [table.blocks for table in tables.tables] == before and {t.length for t in tables.tables} == {17}
    tables.truncate(16)
    assert [len(table.blocks) for table in tables.tables] == [4, 4, 4]


def test_what_only_a_prefix_cache_or_one_group_can_do_is_refused():
    tables = grouped()
    assert_is_refused("blocks of one group for all", tables.adopt, [1])
    assert_is_refused("blocks of one group for all", tables.replace, [1])
    assert_is_refused("a slot of which group?", tables.slot_mapping, 0, 0)


class Text:
    """A text's tables, and what they have to hold: each position that its next query sees, in every group."""

    def __init__(self, tables, n_computed=0):
        self.tables, self.n_computed = tables, n_computed

    def check(self):
        for table, window in zip(self.tables.tables, self.tables.groups.windows, strict=True):
            first = 0 if window is None else max(0, self.n_computed - window + 1)
            assert len(set(table.slot_mapping(first, self.tables.length))) == self.tables.length - first
            needed = -(-self.tables.length // 4) - first // 4
            assert sum(block != HOLE for block in table.blocks) == needed, f"window {window} holds more than it needs"


@settings(max_examples=150)
@given(
    st.lists(st.sampled_from([None, 1, 3, 6, 9]), min_size=1, max_size=5),
    st.lists(st.sampled_from(["run", "run", "run", "draft", "fork", "preempt", "end"]), max_size=40),
    st.integers(0, 10**6),
)
def test_texts_that_run_draft_fork_and_are_preempted_share_a_pool_without_loss(windows, steps, seed):
    rng, groups, allocator = chance.Random(seed), LayerGroups(windows), BlockAllocator(60)
    texts = [Text(GroupedTables(allocator, 4, groups)) for _ in range(2)]
    for step in steps:
        text = rng.choice(texts)
        if step == "fork" and len(texts) < 4:
            texts.append(Text(text.tables.fork(), text.n_computed))
        elif step in ("preempt", "end"):
            text.tables.release()
            text.n_computed = 0
        else:
            advance(text, rng, drafted=rng.randint(1, 4) if step == "draft" else 0)
        held = [block for each in texts for block in each.tables.blocks]
        for each in texts:
            each.check()
        assert allocator.n_used == len(set(held))
        assert all(allocator.references(block) == held.count(block) for block in held)
    for each in texts:
        each.tables.release()
    assert allocator.n_free == 60, "blocks were lost"


def advance(text, rng, drafted):
    """A pass over some tokens, of which the drafted ones are refused; preempted where there is no room."""
    n = rng.randint(1, 9)
    needed, free = text.tables.blocks_needed(n + drafted), text.tables.allocator.n_free
    if needed > free:
        text.tables.release()
        text.n_computed = 0
        return
    copies = text.tables.append(n + drafted)
    assert text.tables.allocator.n_free >= free - needed, "more was taken than blocks_needed said"
    own = set(text.tables.blocks)
    assert all(target in own and text.tables.allocator.references(target) == 1 for _, target in copies)
    text.n_computed += n
    text.tables.truncate(text.n_computed)
    text.tables.drop_behind(text.n_computed)
