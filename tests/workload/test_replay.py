"""Tests `workload/replay.py`: every way of serving writes what the model writes alone, and the times are in order."""

import math

import pytest
from refusal import assert_refuses
from tiny_models import tiny_model, tokens_of

from nanolm.engine import Engine, RequestMetrics
from nanolm.workload import EXACTLY, Arrival, Replay, all_at_once, nanolm_batch, replay_batches, replay_engine

LENGTHS = ((3, 5), (7, 1), (2, 9), (5, 4), (4, 6))


@pytest.fixture(scope="module")
def model():
    return tiny_model()


@pytest.fixture(scope="module")
def trace():
    prompts = [tuple(tokens_of(n, seed=i).tolist()) for i, (n, _) in enumerate(LENGTHS)]
    return all_at_once(Arrival(0.0, len(p), n, p) for p, (_, n) in zip(prompts, LENGTHS, strict=True))


@pytest.fixture(scope="module")
def alone(model, trace):
    """What the model writes for each request by itself."""
    return [model.generate(arrival.prompt, arrival.n_output_tokens, EXACTLY) for arrival in trace]


def in_every_way(model, trace):
    yield replay_engine("engine", Engine(model, max_running=2, n_blocks=20, block_size=4), trace)
    for batch_size in (1, 2, 8):
        yield replay_batches("batches", nanolm_batch(model), trace, batch_size)


def test_every_way_writes_the_texts_of_each_request_alone(model, trace, alone):
    for replay in in_every_way(model, trace):
        assert replay.texts == alone, replay.name


def test_every_token_of_a_replay_has_a_time_after_the_one_before(model, trace):
    for replay in in_every_way(model, trace):
        for request, (_, n) in zip(replay.requests, LENGTHS, strict=True):
            times = request.token_times
            assert len(times) == n and times == sorted(times)
            assert 0 == request.arrived_at <= request.admitted_at <= times[0] <= times[-1] <= request.finished_at
            assert request.finished_at <= replay.seconds


def test_a_static_batch_holds_back_the_next_until_its_longest_is_done(model, trace):
    replay = replay_batches("batches", nanolm_batch(model), trace, 2)
    # Batches are {0, 1}, {2, 3}, {4}: request 2 comes in when request 0, the longest of its batch, has its last token.
    assert replay.requests[2].admitted_at >= replay.requests[0].finished_at
    assert replay.requests[1].finished_at < replay.requests[0].finished_at, "a short answer is done before a long one"


def test_a_request_is_not_served_before_it_arrives(model):
    prompt = tuple(tokens_of(3).tolist())
    late = [Arrival(0.0, 3, 2, prompt), Arrival(0.05, 3, 2, prompt)]
    for replay in (
        replay_engine("engine", Engine(model, n_blocks=20), late),
        replay_batches("batches", nanolm_batch(model), late, 2),
    ):
        assert replay.requests[1].admitted_at >= 0.05
        assert replay.requests[1].ttft_seconds < 5, "the wait counts from the arrival, not from the start of the trace"


def test_replay_tells_of_every_token(model, trace):
    counted = []
    replay_batches("batches", nanolm_batch(model), trace, 2, counted.append)
    replay_engine("engine", Engine(model, n_blocks=20), trace, counted.append)
    assert sum(counted) == 2 * sum(n for _, n in LENGTHS)


def test_replay_sums_up_throughput_and_percentiles():
    # Ten requests with a first token after 1, 2, …, 10 s and a second one 1 s later; 20 tokens in 20 s.
    requests = [
        RequestMetrics(0.0, admitted_at=0.0, token_times=[t, t + 1.0], finished_at=t + 1.0) for t in range(1, 11)
    ]
    replay = Replay("by hand", requests, [[0, 0]] * 10, seconds=20.0)
    assert replay.tokens_per_second == 1.0
    assert replay.ttft_seconds() == 5.5  # between the fifth and the sixth
    assert replay.ttft_seconds(95) == pytest.approx(9.55)  # 1 + 0.95 · 9
    assert replay.inter_token_seconds() == 1.0
    assert replay.end_to_end_seconds() == 6.5


def test_replay_of_single_tokens_has_no_wait_between_tokens(model):
    prompt = tuple(tokens_of(3).tolist())
    replay = replay_engine("engine", Engine(model, n_blocks=20), [Arrival(0.0, 3, 1, prompt)])
    assert math.isnan(replay.inter_token_seconds())


def test_replay_refuses_what_it_cannot_run(model):
    lengths_only = [Arrival(0.0, 3, 2)]
    assert_refuses("trace", replay_engine, "engine", Engine(model, n_blocks=20), lengths_only)
    assert_refuses("trace", replay_batches, "batches", nanolm_batch(model), lengths_only, 2)
    assert_refuses("batch_size", replay_batches, "batches", nanolm_batch(model), [], 0)
