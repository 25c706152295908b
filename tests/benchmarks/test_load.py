"""Tests `benchmarks/load.py`: do its pairs run, and do they set up what they say? Times are looked at by nobody."""

import pytest
import torch

import nanolm
from benchmarks import load


@pytest.fixture(scope="module")
def model():
    """The smaller of the shipped models: what is measured is not its speed."""
    return nanolm.load("draft")[0]


def test_full_pool_has_a_pass_with_and_without_cached_blocks(model):
    table = load.full_pool(model, rounds=1, n_cached=500)
    assert list(table) == ["room in the pool", "500 cached blocks"] and all(seconds > 0 for [seconds] in table.values())


def test_fill_pool_leaves_no_block_free_and_each_evictable(model):
    engine = load.decoding(model, [8] * 2, 4, block_size=4, n_blocks=300)
    held = engine.scheduler.allocator.n_used
    load.fill_pool(engine)
    assert engine.scheduler.allocator.n_free == 0
    assert engine.scheduler.prefix.n_evictable == 300 - held


def test_drafts_are_raced_with_none(model):
    table = load.drafts(model, model, load.SAMPLED, n=2, at_a_time=1, rounds=1)
    assert list(table) == ["no draft", "draft model", "prompt look-up"] and min(table.values()) > [0]


def test_a_reserve_spares_what_a_small_pool_runs_twice(model):
    shares = load.small_pool(model)
    assert shares["0.0% in reserve"] > shares["25.0% in reserve"] >= shares["50.0% in reserve"]


def test_long_among_short_counts_the_bytes_that_a_pass_reads(model):
    table, ratio = load.long_among_short(model, rounds=1)
    of_a_position = model.new_paged_cache(1, 1).block_bytes
    weights = sum(parameter.nbytes for parameter in model.parameters())
    assert ratio == pytest.approx((weights + of_a_position * (15 * 64 + 1900)) / (weights + of_a_position * 16 * 64))
    assert len(table) == 2


def test_ways_are_compared_round_by_round():
    # A machine that is twice as slow in one round: each round's ratio is 1.5 all the same.
    first, second = load.compared({"one": [2.0, 4.0, 2.0], "another": [3.0, 6.0, 3.3]})
    assert first == ["one", "2", "1.00", "1.00, 1.00"] and second == ["another", "3.3", "1.50", "1.50, 1.65"]


def test_one_round_has_no_spread_and_a_share_of_nothing_no_ratio():
    assert load.compared({"one": [0.0], "another": [0.5]}) == [["one", "0", "nan", ""], ["another", "0.5", "nan", ""]]


@pytest.fixture(autouse=True)
def threads():
    """The benchmarks run on one thread; other tests have what they had."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
