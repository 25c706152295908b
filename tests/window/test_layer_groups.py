"""Grades `window/layer_groups.py`: layers cut into groups, and the most blocks of a text against books that count."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusal import assert_refuses

from nanolm.paging import BlockAllocator
from nanolm.window import GroupedTables, LayerGroups, blocks_for_request

WINDOWS = st.lists(st.sampled_from([None, None, 1, 2, 5, 8]), min_size=1, max_size=9)


@pytest.mark.parametrize(
    ("windows", "size", "groups"),
    [
        ([None] * 4, 4, [(None, (0, 1, 2, 3))]),
        ([8, 8, 8, None], 1, [(8, (0,)), (8, (1,)), (8, (2,)), (None, (3,))]),
        ([8, 8, None, 8, 8, None], 2, [(8, (0, 1)), (8, (3, 4)), (None, (2, 5))]),
        ([4, 9, None, 4, 9, None], 2, [(4, (0, 3)), (9, (1, 4)), (None, (2, 5))]),
        ([7], 1, [(7, (0,))]),
    ],
)
def test_layers_of_one_window_are_cut_into_groups_of_equally_many(windows, size, groups):
    found = LayerGroups(windows)
    assert found.size == size, "the largest number that divides how many layers have each window"
    assert [tuple(group) for group in found.groups] == groups
    assert found.windows == [window for window, _ in groups]


@given(WINDOWS)
def test_every_layer_has_one_place_and_its_own_window_there(windows):
    groups = LayerGroups(windows)
    assert len(groups.places) == len(windows) and len(set(groups.places)) == len(windows)
    for layer, (group, j) in enumerate(groups.places):
        assert groups.groups[group].layers[j] == layer and groups.windows[group] == windows[layer]
    assert {len(group.layers) for group in groups.groups} == {groups.size}, "every block holds as much"


@pytest.mark.parametrize(
    ("n", "windows", "chunk", "expected"),
    [
        (2000, [None], 64, 125),
        # 63 before the first and itself: 64 positions in a row touch 5 blocks of 16 if they begin in the middle of one.
        (2000, [64], 1, 5),
        (2000, [64], 100, 12),  # 163 positions: 162 = 10 · 16 + 2 behind the first one
        (40, [64], 1, 3),  # the text is shorter
        (2000, [None, 64, 64, 64], 1, 125 + 3 * 5),
        (0, [None, 64], 1, 0),
        (9, [1], 1, 1),
    ],
)
def test_the_most_blocks_of_a_text(n, windows, chunk, expected):
    assert blocks_for_request(n, windows, 16, chunk) == expected


@settings(max_examples=200)
@given(WINDOWS, st.integers(1, 6), st.integers(1, 9), st.lists(st.integers(1, 9), max_size=30))
def test_no_text_ever_holds_more_blocks_than_that(windows, block_size, chunk, passes):
    groups, allocator = LayerGroups(windows), BlockAllocator(3000)
    table = GroupedTables(allocator, block_size, groups)
    for n in passes:
        table.append(min(n, chunk))
        assert allocator.n_used <= blocks_for_request(table.length, groups.windows, block_size, chunk)
        table.drop_behind(table.length)


@pytest.mark.parametrize("window", [2, 5, 8, 16])
@pytest.mark.parametrize("chunk", [1, 3, 7])
def test_some_text_holds_as_many_as_that(window, chunk):
    most = 0
    for first in range(1, chunk + 1):  # wherever in a block a pass begins
        table = GroupedTables(BlockAllocator(99), 4, LayerGroups([window]))
        for n in [first, *[chunk] * 20, *[1, chunk] * 20]:
            table.append(n)
            most = max(most, len(table.blocks))
            table.drop_behind(table.length)
    assert most == blocks_for_request(200, [window], 4, chunk), "a bound that no text reaches wastes blocks"


@pytest.mark.parametrize("windows", [[], [0], [None, -1], [2.5], [True]])
def test_windows_that_are_none_are_refused(windows):
    assert_refuses("windows", LayerGroups, windows)
    assert_refuses("windows", blocks_for_request, 5, windows, 4, 1)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("n_positions", (-1, [2], 4, 1)), ("block_size", (5, [2], 0, 1)), ("chunk", (5, [2], 4, 0))],
)
def test_impossible_sizes_are_refused(name, arguments):
    assert_refuses(name, blocks_for_request, *arguments)
