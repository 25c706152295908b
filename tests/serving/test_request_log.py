"""Tests `serving/request_log.py`: a line of JSON for each request, however it ends, and none of its text."""

import asyncio
import io
import json
import logging

import pytest
from serving import AsgiClient, Gate, random_model, serving, until

from nanolm.serving import log_requests
from nanolm.web import Limits


@pytest.fixture
def lines():
    stream = io.StringIO()
    log_requests(stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    logger = logging.getLogger("nanolm.requests")
    logger.handlers.clear()
    logger.setLevel(logging.NOTSET)


def serve(scenario, *arguments, **options):
    async def run():
        async with serving(*arguments, **options) as served:
            return await scenario(served)

    return asyncio.run(run())


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_request_leaves_its_numbers_and_none_of_its_text(lines, stream):
    async def scenario(served):
        return await served.complete("a secret", max_tokens=5, n=2, stream=stream)

    answer = serve(scenario, random_model(eos_token_ids=()))
    (line,) = lines()
    assert (line["status"], line["error"], line["path"], line["stream"]) == (200, None, "/v1/completions", stream)
    assert (line["prompt_tokens"], line["completion_tokens"], line["cached_tokens"]) == (8, 10, 0)
    assert line["finish_reasons"] == ["length", "length"] and line["id"] in answer.text
    assert 0 <= line["queue_seconds"] <= line["ttft_seconds"] <= line["seconds"] and line["tpot_seconds"] > 0
    assert "secret" not in json.dumps(line)


@pytest.mark.parametrize(
    ("fields", "status", "error"),
    [({"temperature": 9}, 400, "temperature"), ({"model": "no"}, 404, "model_not_found"), ({"n": 9}, 400, "n")],
)
def test_a_refused_request_leaves_its_status_and_why(lines, fields, status, error):
    async def scenario(served):
        await served.complete("a", **fields)

    serve(scenario)
    (line,) = lines()
    assert (line["status"], line["error"], line["completion_tokens"]) == (status, error, 0)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_client_that_has_gone_is_499(lines, stream):
    async def scenario(served):
        body = {"model": "tiny", "prompt": [5], "max_tokens": 2000, "temperature": 1, "stream": stream}
        client = AsgiClient(served.app, "/v1/completions", body)
        asking = asyncio.create_task(client.ask())
        await until(lambda: served.thread.metrics.value("steps_total") > 3)
        client.gone.set()
        await asking

    serve(scenario, random_model(eos_token_ids=(), max_positions=2048), n_blocks=300)
    (line,) = lines()
    assert (line["status"], line["error"], line["stream"]) == (499, "client_gone", stream)


def test_a_stream_that_fails_leaves_the_error_though_its_status_was_sent(lines):
    async def scenario(served):
        gate = Gate(served.engine)
        asking = asyncio.create_task(served.complete("a", max_tokens=3, stream=True))
        await gate.reached()
        await asking
        gate.open()

    serve(scenario, limits=Limits(max_seconds=0.2))
    (line,) = lines()
    assert (line["status"], line["error"]) == (503, "timeout")


def test_a_log_that_cannot_be_written_costs_no_request(capsys):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(28, "No space left on device")

    log_requests(Full())

    async def scenario(served):
        return await served.complete("a", max_tokens=2)

    assert serve(scenario).status_code == 200
    logging.getLogger("nanolm.requests").handlers.clear()
    assert "Traceback" not in capsys.readouterr().err


def test_without_being_asked_for_there_is_no_log(capsys):
    logging.getLogger("nanolm.requests").setLevel(logging.NOTSET)

    async def scenario(served):
        await served.complete("a", max_tokens=2)

    serve(scenario)
    assert "prompt_tokens" not in capsys.readouterr().out
