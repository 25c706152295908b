"""What serving is judged by, from times and passes written down by hand."""

import math

import pytest

from nanolm.engine import EngineMetrics, RequestMetrics, StepRecord, summary


def record(seconds, model_seconds, n_new, n_running, n_used=3, n_preempted=0):
    return StepRecord(
        at=0.0,
        seconds=seconds,
        model_seconds=model_seconds,
        n_prefill_tokens=0,
        n_decode_tokens=n_running,
        n_new_tokens=n_new,
        n_running=n_running,
        n_waiting=0,
        n_blocks_used=n_used,
        n_blocks_cached=0,
        n_preempted=n_preempted,
    )


def test_times_of_a_request_count_from_its_arrival():
    times = RequestMetrics(arrived_at=10.0, admitted_at=12.0, token_times=[15.0, 16.0, 16.0, 20.0], finished_at=20.5)
    assert (times.queue_seconds, times.ttft_seconds, times.end_to_end_seconds) == (2.0, 5.0, 10.5)
    # Two tokens of one pass come together: no wait between them.
    assert times.inter_token_seconds == [1.0, 0.0, 4.0]
    assert times.tpot_seconds == pytest.approx(5 / 3)


def test_what_has_not_happened_yet_has_no_time():
    times = RequestMetrics(arrived_at=10.0)
    for name in ("queue_seconds", "ttft_seconds", "tpot_seconds", "end_to_end_seconds"):
        assert math.isnan(getattr(times, name)), name
    assert times.inter_token_seconds == []


def test_one_token_has_a_first_time_and_no_time_per_token():
    times = RequestMetrics(arrived_at=1.0, token_times=[4.0])
    assert (times.ttft_seconds, times.inter_token_seconds) == (3.0, [])
    assert math.isnan(times.tpot_seconds)


def test_two_requests_do_not_share_a_list_of_times():
    RequestMetrics(0.0).token_times.append(1.0)
    assert RequestMetrics(0.0).token_times == []


def told(metrics):
    """The fields, without those that are NaN: nobody drafts, so there is nothing to tell of drafts."""
    return {name: value for name, value in vars(metrics).items() if not (isinstance(value, float) and value != value)}


def test_summary_of_passes():
    # 4 seconds, 3 of them in the model: a quarter is the engine's own. 8 tokens in 4 seconds. 4, 2 and 3 requests of 5.
    passes = [
        record(2.0, 1.0, n_new=4, n_running=4, n_used=7),
        record(1.0, 1.0, n_new=1, n_running=2, n_used=9, n_preempted=2),
        record(1.0, 1.0, n_new=3, n_running=3, n_used=2, n_preempted=1),
    ]
    expected = EngineMetrics(
        n_steps=3,
        seconds=4.0,
        own_share=0.25,
        tokens_per_second=2.0,
        mean_running=3.0,
        utilisation=pytest.approx(0.6),
        n_preemptions=3,
        again_share=0.0,
        peak_blocks=9,
        hit_rate=0.25,
    )
    assert told(summary(passes, max_running=5, hit_rate=0.25)) == told(expected)


def test_summary_weighs_passes_by_their_seconds_and_not_each_alike():
    # 1 token in 9 seconds and 9 in 1: 10 in 10, not the mean of 1/9 and 9.
    assert summary([record(9.0, 9.0, 1, 1), record(1.0, 1.0, 9, 1)], 1).tokens_per_second == 1.0


def test_summary_without_passes_is_zeros():
    assert told(summary([], 4)) == told(EngineMetrics(0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0.0))


def test_summary_of_passes_that_took_no_time_divides_by_nothing():
    total = summary([record(0.0, 0.0, 2, 1)], 4)
    assert (total.tokens_per_second, total.own_share, total.n_steps) == (0.0, 0.0, 1)
