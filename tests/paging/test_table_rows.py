"""Grades `paging/table_rows.py`: rows of a tensor that follow block tables, against one made of them anew."""

import random as chance

from hypothesis import given, settings
from hypothesis import strategies as st

from nanolm.paging import BlockAllocator, BlockTable, TableRows


def plain(tables, firsts, n):
    """What select returns, made of the tables by hand."""
    rows = [table.blocks[first : first + n] for table, first in zip(tables, firsts, strict=True)]
    return [[*row, *[table.blocks[-1]] * (n - len(row))] for row, table in zip(rows, tables, strict=True)]


def selected(rows, tables, n, firsts=None):
    """A pass over these tables: their rows, n columns of them."""
    rows.update(tables)
    return rows.select(tables, firsts or [0] * len(tables), n).tolist()


def table_with(allocator, n):
    table = BlockTable(allocator, 2)
    table.append(n)
    return table


class Requests:
    """Block tables to which happens what an engine does to them, in any order."""

    def __init__(self, seed):
        self.rng, self.allocator = chance.Random(seed), BlockAllocator(400)
        self.tables = [table_with(self.allocator, 3)]

    def append(self, table):
        table.append(self.rng.randint(1, 5))  # into a shared block: another takes its place

    def truncate(self, table):
        table.truncate(self.rng.randint(1, table.length))

    def preempt(self, table):
        table.release()
        table.append(self.rng.randint(1, 9))

    def replace(self, table):
        other = self.rng.choice(self.tables)
        n = self.rng.randint(0, min(len(table.blocks), len(other.blocks)))
        table.replace(other.blocks[:n])

    def fork(self, table):
        self.tables.append(table.fork())

    def come(self, _):
        self.tables.append(table_with(self.allocator, self.rng.randint(1, 9)))

    def end(self, table):
        if len(self.tables) > 1:
            self.tables.remove(table)
            table.release()

    def shift(self, table):
        """As where a block moved to another place: no operation does this, and it must be seen all the same."""
        table.blocks[:] = reversed(table.blocks)

    def some(self):
        return self.rng.sample(self.tables, self.rng.randint(1, len(self.tables)))


OPERATIONS = ["append"] * 4 + ["truncate", "preempt", "replace", "fork", "come", "come", "end", "shift"]


@settings(max_examples=150)
@given(st.integers(0, 10**6), st.lists(st.lists(st.sampled_from(OPERATIONS), max_size=4), min_size=1, max_size=12))
def test_rows_are_the_tables_whatever_happened_to_them_between_passes(seed, passes):
    requests, rows, most = Requests(seed), TableRows(), 0
    for operations in passes:
        for name in operations:
            getattr(requests, name)(requests.rng.choice(requests.tables))
        tables = requests.some()
        most = max(most, len(tables))
        firsts = [requests.rng.randrange(len(table.blocks)) for table in tables]
        n = requests.rng.randint(1, 9)
        assert selected(rows, tables, n, firsts) == plain(tables, firsts, n), f"after {operations}"
    assert rows.n_rows == most, "rows of tables that are not in the pass any more are used again"


def test_a_row_behind_its_last_block_repeats_a_block_of_its_own():
    allocator = BlockAllocator(9)
    rows, tables = TableRows(), [table_with(allocator, 1), table_with(allocator, 7)]
    assert selected(rows, tables, 4) == [[0, 0, 0, 0], [1, 2, 3, 4]]


def test_a_table_that_got_shorter_is_not_filled_up_with_what_it_held():
    allocator = BlockAllocator(9)
    rows, table = TableRows(), table_with(allocator, 8)
    assert selected(rows, [table], 4) == [[0, 1, 2, 3]]
    table.truncate(3)
    assert selected(rows, [table], 4) == [[0, 1, 1, 1]], "blocks 2 and 3 may be another's by now"
    other = table_with(allocator, 1)  # takes block 3, which was freed first
    table.append(3)
    assert selected(rows, [other, table], 3) == [[other.blocks[0]] * 3, table.blocks]


def test_requests_that_take_turns_keep_their_rows_as_long_as_there_are_enough():
    allocator = BlockAllocator(9)
    rows, tables = TableRows(), [table_with(allocator, 3) for _ in range(3)]
    selected(rows, tables, 2)
    for table in tables * 2:  # passes of one, as where prompts are read one by one
        assert selected(rows, [table], 2) == [table.blocks]
    newcomer = table_with(allocator, 4)
    assert selected(rows, [tables[1], newcomer, tables[2]], 2) == [tables[1].blocks, newcomer.blocks, tables[2].blocks]
    assert rows.n_rows == 3, "the newcomer takes the row of the one that is not in this pass"


def test_a_table_may_stand_twice_in_a_pass():
    allocator = BlockAllocator(9)
    rows, table = TableRows(), table_with(allocator, 3)
    assert selected(rows, [table, table], 2) == [table.blocks] * 2
    assert rows.n_rows == 1
