"""Tests `nanolm/workload/trace.py`: laws of arrivals, files, and the trace that comes with NanoLM."""

import json
import math
from bisect import bisect_left
from itertools import pairwise

import pytest

from nanolm.config import ModelConfig
from nanolm.workload import (
    RECORDED,
    Arrival,
    Trace,
    all_at_once,
    at_rate,
    heavy_tailed_lengths,
    load_trace,
    poisson,
    save_trace,
)

TWO = Trace((Arrival(0.5, 3, 7, (1, 2, 3), "grüße"), Arrival(1.25, 4, 1)))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace.jsonl"


def test_a_trace_is_a_sequence_and_its_slices_are_traces():
    assert len(TWO) == 2 and TWO[1].n_output_tokens == 1 and TWO[-1] is TWO[1]
    assert TWO[:1] == Trace((TWO[0],))
    assert [arrival.n_tokens for arrival in TWO] == [10, 5]


def test_an_arrival_before_its_predecessor_is_refused():
    with pytest.raises(ValueError, match=r"arrivals\[1\]\.seconds is 0\.5 after 1\.25; it must be in ascending order"):
        Trace((TWO[1], TWO[0]))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"seconds": -1.0}, "seconds is -1.0; it must be a finite number, 0 or more"),
        ({"seconds": math.nan}, "seconds is nan"),
        ({"n_prompt_tokens": 0}, "n_prompt_tokens is 0; it must be a whole number, 1 or more"),
        ({"n_output_tokens": 1.5}, "n_output_tokens is 1.5"),
        ({"prompt": (1, 2)}, "n_prompt_tokens is 3; it must be 2, the length of the prompt"),
        ({"prompt": (1, 2, -3)}, r"prompt\[2\] is -3; it must be a whole number, 0 or more"),
        ({"prompt": "abc"}, "prompt is 'abc'; it must be a sequence of token ids"),
        ({"prefix_group": 7}, "prefix_group is 7; it must be a text"),
    ],
)
def test_an_impossible_arrival_is_refused(change, complaint):
    with pytest.raises(ValueError, match=complaint):
        Arrival(**{"seconds": 0.0, "n_prompt_tokens": 3, "n_output_tokens": 1} | change)


def test_steps_are_the_first_that_begin_after_an_arrival():
    # Steps begin at 0, 0.1, 0.2, …; 1.1 / 0.1 is 11.000000000000002 in floating point.
    trace = Trace(tuple(Arrival(seconds, 1, 1) for seconds in (0.0, 0.01, 0.1, 0.11, 0.3, 1.1)))
    assert trace.steps(0.1) == [0, 1, 1, 2, 3, 11]
    with pytest.raises(ValueError, match="step_seconds is 0"):
        trace.steps(0)


def test_all_at_once_keeps_requests_and_order_and_drops_their_times():
    trace = all_at_once(TWO)
    assert [arrival.seconds for arrival in trace] == [0.0, 0.0]
    assert [arrival.prompt for arrival in trace] == [(1, 2, 3), None]


def test_a_rate_spreads_recorded_requests_and_an_infinite_one_brings_all_at_once():
    assert at_rate(TWO, math.inf) == all_at_once(TWO)
    assert at_rate(TWO, 2.0) == poisson(2.0, 2, seed=0, requests=list(TWO))
    for rate in (0, -math.inf, math.nan):
        with pytest.raises(ValueError, match="rate_per_second"):
            at_rate(TWO, rate)


def test_poisson_with_a_seed_is_the_same_everywhere():
    # From Python 3.11's random.Random("6 gaps") and so on; Python promises these numbers for every version.
    seen = [(arrival.seconds, arrival.n_prompt_tokens, arrival.n_output_tokens) for arrival in poisson(2.0, 3, 6)]
    assert seen == [(1.318276, 10, 18), (1.741776, 23, 63), (1.93343, 8, 21)]


def test_poisson_seeds_differ_and_a_longer_trace_begins_like_a_shorter_one():
    assert poisson(2.0, 5, 1) != poisson(2.0, 5, 2)
    assert poisson(2.0, 50, 1)[:5] == poisson(2.0, 5, 1)


def test_poisson_gaps_have_the_mean_the_spread_and_the_memory_of_chance():
    # Exponential gaps of mean 1/4 second; over 20,000 of them the mean is off by 0.25 / √20,000 = 0.0018 a sigma, so
    # 0.01 is 5.6 sigma. The standard deviation equals the mean; P(gap > 0.5) = e^-2 = 0.1353, sigma 0.0024.
    times = [arrival.seconds for arrival in poisson(4.0, 20_000, 3, [Arrival(0, 1, 1)])]
    gaps = [times[0], *(after - before for before, after in pairwise(times))]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(0.25, abs=0.01)
    assert math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) == pytest.approx(0.25, abs=0.015)
    assert sum(gap > 0.5 for gap in gaps) / len(gaps) == pytest.approx(0.1353, abs=0.014)
    together = sum((a - mean) * (b - mean) for a, b in pairwise(gaps)) / len(gaps) / mean**2
    assert abs(together) < 0.04, "a gap says something about the next one"  # sigma 1 / √20,000 = 0.007


def test_poisson_takes_the_requests_in_turn_and_gives_them_times():
    trace = poisson(1.0, 5, 0, TWO)
    assert [arrival.prefix_group for arrival in trace] == ["grüße", None, "grüße", None, "grüße"]
    alone = poisson(1.0, 5, 0)
    assert [arrival.seconds for arrival in trace] == [arrival.seconds for arrival in alone], "times hang on the seed"


def test_poisson_lengths_have_nothing_to_do_with_its_gaps():
    # Drawn from one stream of random numbers, a long gap would come with a long prompt. sigma 1 / √5,000 = 0.014.
    trace = poisson(1.0, 5_000, 2)
    columns = [
        [after.seconds - before.seconds for before, after in pairwise(trace)],
        [arrival.n_prompt_tokens for arrival in trace][1:],
        [arrival.n_output_tokens for arrival in trace][1:],
    ]
    ranks = []
    for column in columns:
        ordered = sorted(column)
        ranks.append([bisect_left(ordered, value) / len(ordered) - 0.5 for value in column])
    for i, j in ((0, 1), (0, 2), (1, 2)):
        product = sum(a * b for a, b in zip(ranks[i], ranks[j], strict=True))
        size = math.sqrt(sum(a * a for a in ranks[i]) * sum(b * b for b in ranks[j]))
        assert abs(product / size) < 0.08


@pytest.mark.parametrize(
    ("arguments", "blamed"),
    [((0, 3, 0), "rate_per_second"), ((1.0, -1, 0), "n is -1"), ((1.0, 2, 0, []), "requests")],
)
def test_poisson_refuses_bad_input(arguments, blamed):
    with pytest.raises(ValueError, match=f"{blamed}.*must "):
        poisson(*arguments)


def test_no_arrivals_make_an_empty_trace(path):
    assert len(poisson(1.0, 0, 0)) == len(poisson(1.0, 0, 0, [])) == len(all_at_once([])) == 0
    save_trace([], path)
    assert load_trace(path) == Trace(())


def test_heavy_tailed_lengths_are_mostly_short_and_sometimes_long():
    # Half are at least x where 1/x - 1/201 = (1/8 - 1/201) / 2, x = 15.4: the median is 15. Above 100, that is from
    # 101 on, lie (1/101 - 1/201) / (1/8 - 1/201) = 4.1 %.
    lengths = sorted(heavy_tailed_lengths(20_000, 8, 200, seed=1))
    assert (lengths[0], lengths[-1]) == (8, 200)
    assert lengths[10_000] in (15, 16)
    assert sum(length > 100 for length in lengths) / 20_000 == pytest.approx(0.041, abs=0.007)  # 5 sigma
    assert heavy_tailed_lengths(3, 5, 5, seed=1) == [5, 5, 5]


@pytest.mark.parametrize(("shortest", "longest", "blamed"), [(0, 5, "shortest is 0"), (6, 5, "longest is 5")])
def test_heavy_tailed_lengths_refuses_an_empty_range(shortest, longest, blamed):
    with pytest.raises(ValueError, match=blamed):
        heavy_tailed_lengths(1, shortest, longest, seed=0)


def test_a_saved_trace_comes_back(path):
    save_trace(TWO, path)
    assert load_trace(path) == TWO
    assert [entry.name for entry in path.parent.iterdir()] == ["trace.jsonl"], "the unfinished file is left"


def test_a_saved_trace_is_one_object_a_line_in_utf_8(path):
    save_trace(TWO, path)
    assert path.read_bytes().decode("utf-8") == (
        '{"seconds":0.5,"n_prompt_tokens":3,"n_output_tokens":7,"prompt":[1,2,3],"prefix_group":"grüße"}\n'
        '{"seconds":1.25,"n_prompt_tokens":4,"n_output_tokens":1}\n'
    )


def test_a_group_named_with_a_line_separator_comes_back(path):
    odd = Trace((Arrival(0.0, 1, 1, None, "a\u2028b\nc"),))
    save_trace(odd, path)
    assert load_trace(path) == odd


def test_a_save_that_fails_leaves_the_old_file(path):
    save_trace(TWO, path)

    def broken():
        yield TWO[0]
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        save_trace(broken(), path)
    assert load_trace(path) == TWO
    with pytest.raises(OSError):
        save_trace(TWO, path.parent / "no such folder" / "trace.jsonl")


def test_a_file_from_an_editor_is_read_with_its_empty_lines_and_windows_ends(path):
    path.write_bytes(b'{"seconds": 0, "n_prompt_tokens": 4.0, "n_output_tokens": 1, "prompt": null}\r\n\r\n')
    (arrival,) = load_trace(path)
    assert arrival == Arrival(0, 4, 1)
    assert isinstance(arrival.n_prompt_tokens, int)


GOOD = b'{"seconds": 1, "n_prompt_tokens": 2, "n_output_tokens": 1}\n'


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"{", "Expecting property name"),
        (b"[1, 2]", r"it holds '\[1, 2\]'; it must hold an object"),
        (b"\xff", "can't decode byte 0xff"),
        (b'{"seconds": 1, "n_prompt_tokens": 2}', "n_output_tokens is missing"),
        (GOOD.replace(b"2", b"0"), "n_prompt_tokens is 0; it must be"),
        (GOOD.replace(b"2", b'"two"'), "n_prompt_tokens is 'two'; it must be"),
        (GOOD.replace(b"1,", b"NaN,"), "seconds is nan; it must be"),
        (GOOD.replace(b"1,", b"1" + 400 * b"0" + b","), "seconds is 10{99}…; it must be a finite number"),
        (GOOD.replace(b"1,", b"0.5,"), "seconds is 0.5 after 1; it must be in ascending order"),
        (GOOD.replace(b"seconds", b"second"), "'second' is no attribute of an arrival; those are seconds, n_prompt"),
        (GOOD.replace(b"}", b', "prompt": [5]}'), "n_prompt_tokens is 2; it must be 1, the length of the prompt"),
    ],
)
def test_a_broken_line_is_named_with_its_file(path, line, complaint):
    path.write_bytes(GOOD + b"\n" + line)
    with pytest.raises(ValueError, match=rf"trace\.jsonl, line 3: .*{complaint}"):
        load_trace(path)


def test_a_missing_file_is_named(path):
    with pytest.raises(FileNotFoundError, match=r"trace\.jsonl"):
        load_trace(path)


@pytest.fixture(scope="module")
def recorded():
    return load_trace()


def test_the_recorded_trace_has_64_requests_that_fit_the_shipped_target(recorded):
    config = ModelConfig.from_hf(json.loads((RECORDED.parent / "target" / "config.json").read_text(encoding="utf-8")))
    assert len(recorded) == 64
    assert max(arrival.n_tokens for arrival in recorded) <= config.max_positions
    assert all(0 <= token < config.vocab_size for arrival in recorded for token in arrival.prompt)
    assert RECORDED.stat().st_size < 60_000


def test_the_recorded_trace_has_mixed_lengths(recorded):
    prompts = sorted(arrival.n_prompt_tokens for arrival in recorded)
    outputs = sorted(arrival.n_output_tokens for arrival in recorded)
    assert prompts[0] <= 20 and 150 < prompts[-1] <= 200
    assert 8 <= outputs[0] <= 20 and 120 < outputs[-1] <= 160
    assert outputs[-1] > 4 * outputs[32], "no long tail"


@pytest.mark.parametrize(("group", "count", "shared"), [("worked", 14, 120), ("continued", 8, 90)])
def test_requests_of_a_group_of_the_recorded_trace_share_a_long_prefix(recorded, group, count, shared):
    prompts = [arrival.prompt for arrival in recorded if arrival.prefix_group == group]
    assert len(prompts) == len(set(prompts)) == count
    assert len({prompt[:shared] for prompt in prompts}) == 1


def test_requests_of_no_group_in_the_recorded_trace_share_no_long_prefix(recorded):
    prompts = [arrival.prompt for arrival in recorded if arrival.prefix_group is None]
    assert len({prompt[:24] for prompt in prompts}) == len(prompts) == 42
