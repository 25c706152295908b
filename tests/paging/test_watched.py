"""Holds `paging/watched.py` to its notices: who is told what, when, and that a refusal is told nobody."""

import pytest

from nanolm.paging import BlockTable, OutOfBlocks, WatchedAllocator


def heard(allocator):
    """A list that fills with what listeners are told."""
    said = []
    for name in ("on_allocate", "on_shared", "on_single", "on_free"):
        tell = lambda block, name=name: said.append((name, block, allocator.references(block)))  # noqa: E731
        getattr(allocator, name).append(tell)
    return said


def test_each_change_of_holders_is_told_once_and_after_it():
    allocator = WatchedAllocator(2)
    said = heard(allocator)
    block = allocator.allocate()
    assert said == [("on_allocate", block, 1)]
    for _ in range(2):
        allocator.share(block)
    assert said[1:] == [("on_shared", block, 2)], "the third holder changes nothing for anybody"
    for _ in range(3):
        allocator.free(block)
    assert said[2:] == [("on_single", block, 1), ("on_free", block, 0)]
    assert allocator.allocate() == block and said[4:] == [("on_allocate", block, 1)]


def test_a_refusal_is_told_nobody():
    allocator = WatchedAllocator(1)
    said = heard(allocator)
    for refused in (allocator.share, allocator.free):
        with pytest.raises(ValueError, match="free"):
            refused(0)
    allocator.allocate()
    with pytest.raises(OutOfBlocks):
        allocator.allocate()
    assert [name for name, *_ in said] == ["on_allocate"]


def test_every_listener_is_told_and_what_a_table_does_is_told_too():
    allocator, twice = WatchedAllocator(3), []
    allocator.on_allocate += [twice.append, twice.append]
    said = heard(allocator)
    table = BlockTable(allocator, 2)
    table.append(3)
    assert twice == [0, 0, 1, 1]
    twin = table.fork()
    twin.append(1)  # into the half-full block 1, which both hold: a copy
    assert [(name, block) for name, block, _ in said[2:]] == [
        ("on_shared", 0),
        ("on_shared", 1),
        ("on_allocate", 2),
        ("on_single", 1),
    ]
    table.release()
    twin.release()
    assert allocator.n_free == 3 and [name for name, *_ in said].count("on_free") == 3
