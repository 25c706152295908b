"""Tests `nanolm/serving/async_engine.py`: an engine that serves an event loop from a thread of its own."""

import asyncio
import logging
import threading
from contextlib import asynccontextmanager

import pytest
from serving import PATIENCE_SECONDS, Gate, assert_nothing_left, random_model, until

from nanolm.engine import Engine
from nanolm.machine import Threads
from nanolm.serving import AsyncEngine, Busy, NotServing

LONG = random_model(eos_token_ids=(), max_positions=2048)  # its requests go on until they are called off


@asynccontextmanager
async def running(model=None, max_waiting=64, gated=False, threads=None, **options):
    engine = Engine(model or random_model(), **{"n_blocks": 64, **options})
    gate = Gate(engine) if gated else None
    thread = AsyncEngine(engine, max_waiting, threads)
    thread.start()
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            yield (thread, gate) if gated else thread
    finally:
        if gated:
            gate.open()
        await thread.close()


def asked(prompt, max_new_tokens=8, **more):
    return {"prompt": prompt, "max_new_tokens": max_new_tokens, **more}


async def answers(group):
    """The tokens of each request of a group, and why it ended."""
    texts, ends = [[] for _ in group.requests], [None] * len(group.requests)
    while None in ends:
        index, output = await group.next()
        texts[index] += output.tokens
        ends[index] = output.finish_reason
    return texts, ends


def test_requests_get_the_tokens_that_the_model_writes_alone():
    model, prompts = random_model(), [[5], [6, 7], [8, 9, 10]]

    async def scenario():
        async with running() as thread:
            groups = [await thread.submit([asked(prompt)]) for prompt in prompts]
            return [(await answers(group))[0][0] for group in groups]

    assert asyncio.run(scenario()) == [model.generate(prompt, 8) for prompt in prompts]


def test_requests_of_one_ticket_are_told_apart():
    async def scenario():
        async with running() as thread:
            texts, ends = await answers(await thread.submit([asked([5], 3), asked([6], 4)]))
            assert ends == ["length", "length"]
            assert_nothing_left(thread.engine)
            return texts

    assert asyncio.run(scenario()) == [random_model().generate([5], 3), random_model().generate([6], 4)]


def test_the_loop_goes_on_while_a_pass_takes_long():
    async def scenario():
        async with running(gated=True) as (thread, gate):
            group = await thread.submit([asked([5], 1)])
            await gate.reached()
            for _ in range(100):  # the pass stands; the loop does not
                await asyncio.sleep(0)
            assert thread.n_open == 1
            gate.open()
            assert (await answers(group))[1] == ["length"]

    asyncio.run(scenario())


def test_a_request_that_the_engine_refuses_is_an_error_for_its_sender_alone():
    async def scenario():
        async with running() as thread:
            good = await thread.submit([asked([5])])
            with pytest.raises(ValueError, match="token 999"):
                await thread.submit([asked([999])])
            with pytest.raises(ValueError, match="max_new_tokens"):
                await thread.submit([asked([5]), asked([5], 10_000)])
            assert (await answers(good))[1] == ["length"]
            assert thread.n_open == 0
            assert_nothing_left(thread.engine)

    asyncio.run(scenario())


def test_more_requests_than_may_wait_are_refused_and_taken_once_there_is_room():
    async def scenario():
        async with running(max_waiting=1, max_running=2, gated=True) as (thread, gate):
            group = await thread.submit([asked([5])] * 3)
            with pytest.raises(Busy, match="3 requests run or wait; at most 3 may"):
                await thread.submit([asked([5])])
            gate.open()
            await answers(group)
            await answers(await thread.submit([asked([5])]))

    asyncio.run(scenario())


@pytest.mark.parametrize("which", [0, 1], ids=["running", "waiting"])
def test_an_abort_ends_a_request_and_gives_its_blocks_back(which):
    async def scenario():
        async with running(LONG, n_blocks=200, max_running=1) as thread:
            groups = [await thread.submit([asked([5], 2000)]), await thread.submit([asked([6], 2000)])]
            thread.abort(groups[which])
            thread.abort(groups[which])  # twice is no harm
            _, ends = await answers(groups[which])
            assert ends == ["abort"] and thread.n_open == 1
            thread.abort(groups[1 - which])
            await until(lambda: not thread.n_open)
            thread.abort(groups[which])  # nor is it after the end
            assert_nothing_left(thread.engine)

    asyncio.run(scenario())


def test_a_sender_who_is_cancelled_before_the_engine_answers_leaves_nothing():
    async def scenario():
        async with running(gated=True) as (thread, gate):
            await thread.submit([asked([5], 1)])
            await gate.reached()  # from here on no command is read
            sender = asyncio.create_task(thread.submit([asked([6], 100)]))
            await asyncio.sleep(0)
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)
            gate.open()
            await until(lambda: not thread.n_open)
            assert thread.metrics.value("requests_total", reason="abort") == 1, "it ran to its end for nobody"
            assert_nothing_left(thread.engine)

    asyncio.run(scenario())


def test_a_deadline_ends_the_wait_and_not_the_request():
    async def scenario():
        async with running(gated=True) as (thread, gate):
            group = await thread.submit([asked([5], 1)])
            with pytest.raises(TimeoutError):
                await group.next(asyncio.get_running_loop().time() + 0.01)
            gate.open()
            assert (await answers(group))[1] == ["length"]

    asyncio.run(scenario())


def broken(engine, error, at_call, after_it=False):
    """Let a call of `step` fail, before or after its pass."""
    step, calls = engine.step, []

    def failing():
        calls.append(1)
        if len(calls) != at_call:
            return step()
        if after_it:
            step()
        raise error

    engine.step = failing


@pytest.mark.parametrize("after_it", [False, True], ids=["before the pass", "after it"])
def test_a_pass_that_fails_ends_those_who_ran_with_an_error_and_serving_goes_on(caplog, after_it):
    caplog.set_level(logging.CRITICAL, "nanolm")

    async def scenario():
        async with running(max_running=1) as thread:
            broken(thread.engine, RuntimeError("the GPU is on fire"), at_call=2, after_it=after_it)
            first, second = await thread.submit([asked([5], 50)]), await thread.submit([asked([6], 4)])
            _, output = await ticket_end(first)
            assert output.finish_reason == "error"
            assert output.error == "a pass failed with RuntimeError; the server's log says more"
            assert (await answers(second))[0] == [random_model().generate([6], 4)]
            assert thread.state == "serving" and thread.metrics.value("requests_total", reason="error") == 1
            assert_nothing_left(thread.engine)

    asyncio.run(scenario())


async def ticket_end(group):
    while True:
        index, output = await group.next()
        if output.finish_reason:
            return index, output


def test_a_request_whose_last_output_is_lost_with_a_failed_pass_hears_of_it(caplog):
    caplog.set_level(logging.CRITICAL, "nanolm")

    async def scenario():
        async with running() as thread:
            broken(thread.engine, RuntimeError("too late"), at_call=1, after_it=True)
            # The first one's only token is drawn, so it has ended for the engine; then the pass fails.
            _, ends = await answers(await thread.submit([asked([5], 1), asked([6], 50)]))
            assert ends == ["error", "error"]
            assert_nothing_left(thread.engine)

    asyncio.run(scenario())


def test_a_plan_that_fails_before_anybody_runs_ends_the_requests_that_wait(caplog):
    caplog.set_level(logging.CRITICAL, "nanolm")

    async def scenario():
        async with running() as thread:
            broken(thread.engine, RuntimeError("no plan"), at_call=1)
            _, output = await ticket_end(await thread.submit([asked([5], 1)]))
            assert output.finish_reason == "error"
            assert_nothing_left(thread.engine)

    asyncio.run(scenario())


def test_an_engine_that_breaks_down_tells_everybody_and_takes_nothing_more(caplog):
    async def scenario():
        async with running(LONG, n_blocks=200, max_running=1) as thread:
            running_one, waiting_ones = [await thread.submit([asked([5], 2000)] * n) for n in (1, 2)]

            def no_abort(request_id):
                raise MemoryError("the books are lost")

            thread.engine.abort = no_abort
            thread.abort(running_one)
            with pytest.raises(NotServing, match="broken"):  # its command is never read
                await thread.submit([asked([7])])
            _, output = await ticket_end(running_one)
            assert output.error == "the engine has broken down; the server must be started anew"
            assert (await answers(waiting_ones))[1] == ["error", "error"]
            with pytest.raises(NotServing, match="broken"):
                await thread.submit([asked([5])])
            assert thread.state == "broken" and thread.n_open == 0
            await thread.close(grace_seconds=5)

    asyncio.run(scenario())
    assert "the books are lost" in caplog.text, "the log must say why"


def test_draining_refuses_newcomers_and_lets_the_others_end():
    async def scenario():
        async with running(gated=True) as (thread, gate):
            group = await thread.submit([asked([5], 8)])
            draining = asyncio.create_task(thread.drain(10))
            await asyncio.sleep(0)
            with pytest.raises(NotServing, match="draining"):
                await thread.submit([asked([6])])
            gate.open()
            assert (await answers(group))[1] == ["length"]
            await draining

    asyncio.run(scenario())


def test_what_has_not_ended_after_the_grace_period_is_aborted_with_a_reason():
    async def scenario():
        async with running(gated=True) as (thread, gate):
            group = await thread.submit([asked([5], 100)])
            await gate.reached()
            await thread.drain(0)
            gate.open()
            _, output = await ticket_end(group)
            assert output.finish_reason == "abort" and "shutting down" in output.error

    asyncio.run(scenario())


def test_close_ends_the_thread_and_can_be_called_twice():
    async def scenario():
        async with running() as thread:
            group = await thread.submit([asked([5], 100)])
            await thread.close()
            await thread.close()
            assert thread.state == "closed"
            assert (await ticket_end(group))[1].finish_reason == "abort"
            with pytest.raises(NotServing, match="closed"):
                await thread.submit([asked([5])])

    asyncio.run(scenario())
    assert not any(each.name == "nanolm-engine" for each in threading.enumerate())


def test_gauges_say_whether_drafting_pays_and_what_the_prefix_cache_is_worth():
    async def scenario():
        async with running(draft="prompt-lookup", adaptive=False, block_size=4) as thread:
            for _ in range(2):
                await answers(await thread.submit([asked([5, 6, 7, 5, 6, 7, 5, 6, 7], 8)]))
            return thread.gauges(), thread.metrics.text()

    gauges, text = asyncio.run(scenario())
    assert gauges["speculating"] == 1 and "nanolm_speculation_gain" in text
    assert gauges["blocks_evictable"] > gauges["blocks_used"] == 0, "all have ended: what is held can go"
    assert gauges["prefix_hit_rate"] == 8 / 18, "the second of two prompts of 9 tokens found two blocks of 4"


def test_counters_and_gauges_say_what_was_served():
    async def scenario():
        async with running() as thread:
            await answers(await thread.submit([asked([5, 6, 7], 4), asked([5, 6, 7], 4)]))
            return thread.metrics, thread.gauges()

    metrics, gauges = asyncio.run(scenario())
    # A prompt of 3 tokens, run once for both, and 3 decode passes for the tokens after the first, each of both.
    names = ("steps_total", "prefill_tokens_total", "decode_tokens_total", "new_tokens_total")
    assert [metrics.value(name) for name in names] == [4, 3, 6, 8]
    assert metrics.value("requests_total", reason="length") == 2
    assert [metrics.value(f"{name}_seconds_count") for name in ("ttft", "tpot", "inter_token")] == [2, 2, 6]
    assert gauges["open_requests"] == gauges["running_requests"] == gauges["waiting_requests"] == 0
    text = metrics.text()
    assert 'nanolm_requests_total{reason="length"} 2.0\n' in text and "nanolm_blocks 64.0\n" in text
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(float(line.rsplit(" ", 1)[1]) >= 0 for line in lines)


def test_threads_are_chosen_in_the_engine_s_thread_before_the_first_request_and_told():
    passes = []
    threads = Threads(lambda: passes.append(threading.current_thread().name), most=1, set_threads=lambda n: None)

    async def serve():
        async with running(threads=threads) as thread:
            await until(lambda: threads.choice is not None)
            return thread.gauges()

    gauges = asyncio.run(serve())
    assert gauges["threads"] == 1
    assert set(passes) == {"nanolm-engine"}
