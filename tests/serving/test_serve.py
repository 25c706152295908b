"""Tests `serving/uvicorn_server.py`: the server behind a real socket, asked by real clients, curl and OpenAI's own."""

import asyncio
import contextlib
import json
import shutil
import signal
import socket
import subprocess
import threading

import httpx
import openai
import pytest
from serving import ALPHABET, PATIENCE_SECONDS, Gate, assert_nothing_left, random_model
from successor_model import byte_tokenizer
from web_server import running

from nanolm.web import listen


@pytest.fixture
def client_of():
    """OpenAI's client for a server, without its retries."""
    clients = []

    def make(server):
        clients.append(
            openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=PATIENCE_SECONDS)
        )
        return clients[-1]

    yield make
    for client in clients:
        client.close()


# --- OpenAI's client ---------------------------------------------------------------------------------------------


def test_openai_s_client_completes_chats_streams_and_lists(client_of):
    with running() as server:
        client = client_of(server)
        assert [model.id for model in client.models.list()] == ["tiny"]
        whole = client.completions.create(model="tiny", prompt="a", max_tokens=100, temperature=0, stop="fgh")
        assert whole.choices[0].text == "bcde" and whole.choices[0].finish_reason == "stop"
        asked = dict(model="tiny", messages=[{"role": "user", "content": "a"}], temperature=0, max_completion_tokens=4)
        answer = client.chat.completions.create(**asked)
        assert answer.choices[0].message.content == "bcde" and answer.usage.completion_tokens == 4
        chunks = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
        deltas = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
        assert "".join(deltas) == "bcde" and chunks[-1].usage.total_tokens == 5
        assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]][-1] == "length"
        pieces = [chunk.choices[0].text for chunk in client.completions.create(
            model="tiny", prompt="a", max_tokens=100, temperature=0, stream=True, extra_body={"top_k": 1}
        )]  # fmt: skip
        assert "".join(pieces) == ALPHABET[1:]


def test_openai_s_client_understands_our_errors(client_of):
    with running() as server:
        client = client_of(server)
        with pytest.raises(openai.NotFoundError) as not_found:
            client.completions.create(model="gpt-5", prompt="a")
        assert not_found.value.code == "model_not_found"
        with pytest.raises(openai.BadRequestError) as bad:
            client.completions.create(model="tiny", prompt="a", temperature=3)
        assert bad.value.param == "temperature" and "temperature is 3" in str(bad.value)


def test_openai_s_client_hears_of_an_error_in_the_middle_of_a_stream(client_of, caplog):
    with running() as server:
        step, engine = server.engine.step, server.engine

        def failing():
            if len(engine.records) == 4:
                engine.step = step
                raise RuntimeError("boom")
            return step()

        engine.step = failing
        got = []
        with pytest.raises(openai.APIError, match="a pass failed"):
            for chunk in client_of(server).completions.create(
                model="tiny", prompt="a", max_tokens=20, temperature=0, stream=True
            ):
                got.append(chunk.choices[0].text)
        assert "".join(got) == "bcde", "what was written before the failure has come"


# --- curl --------------------------------------------------------------------------------------------------------

needs_curl = pytest.mark.skipif(
    shutil.which("curl") is None, reason="curl is not installed: no server was asked with it"
)


def curl(*arguments):
    command = ["curl", "-sS", "--max-time", str(PATIENCE_SECONDS), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_curl
def test_curl_streams_events_line_by_line():
    body = '{"model": "tiny", "prompt": "a", "max_tokens": 3, "temperature": 0, "stream": true}'
    with running() as server:
        lines = curl("-N", f"{server.url}/v1/completions", "-d", body).split("\n")
    # Each event is a line and an empty line.
    assert lines[1::2] == [""] * (len(lines) // 2) and lines[-1] == "" and lines[-3] == "data: [DONE]"
    events = [json.loads(line.removeprefix("data: ")) for line in lines[:-3:2]]
    assert [event["choices"][0]["text"] for event in events] == ["b", "c", "d", ""]


@needs_curl
def test_curl_gets_a_status_and_a_body_for_what_is_refused(tmp_path):
    large = tmp_path / "large.json"
    large.write_text(" " * 2_000_000)
    with running() as server:
        said = curl("-w", "\n%{http_code}", f"{server.url}/v1/completions", "--data-binary", f"@{large}")
    body, status = said.rsplit("\n", 1)
    assert status == "413" and json.loads(body)["error"]["code"] == "body_too_large"


# --- Many at once, and those that break off ----------------------------------------------------------------------


def test_of_200_requests_at_once_20_break_off_and_all_others_are_answered_right():
    model, tokenizer = random_model(), byte_tokenizer()
    prompts = [[1 + i % 7, 10 + i % 50, 20 + i % 3] for i in range(200)]
    expected = {}
    for prompt in map(tuple, prompts):
        if prompt not in expected:
            expected[prompt] = "".join(tokenizer.decode_stream(model.generate(prompt, 12)))

    async def ask(client, i):
        body = {"model": "tiny", "prompt": prompts[i], "max_tokens": 12, "temperature": 0, "stream": i % 2 == 0}
        if i % 10 == 4:  # every tenth, 20 of them, goes away after the first line of a long stream
            async with client.stream("POST", "/v1/completions", json={**body, "max_tokens": 120}) as answer:
                async for _ in answer.aiter_lines():
                    return None
        answer = await client.post("/v1/completions", json=body)
        assert answer.status_code == 200, answer.text
        if not body["stream"]:
            return answer.json()["choices"][0]["text"]
        events = [line.removeprefix("data: ") for line in answer.text.split("\n\n")]
        return "".join(json.loads(event)["choices"][0]["text"] for event in events[:-2])

    async def everybody(url):
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=url, limits=limits, timeout=PATIENCE_SECONDS * 3) as client:
            return await asyncio.gather(*(ask(client, i) for i in range(200)))

    # 16 at a time of up to 4 blocks each and 48 blocks: some lose theirs and run again.
    with running(model, max_waiting=400, n_blocks=48, block_size=4, max_running=16) as server:
        texts = asyncio.run(everybody(server.url))
        server.wait_until_idle()
        assert_nothing_left(server.engine)
        assert server.thread.metrics.value("preemptions_total") > 0
    assert texts.count(None) == 20
    wrong = [i for i, text in enumerate(texts) if text is not None and text != expected[tuple(prompts[i])]]
    assert not wrong, f"of 180 answers these are not what the model writes alone: {wrong}"


def test_a_client_that_closes_its_connection_in_mid_stream_ends_its_request():
    with running(random_model(eos_token_ids=(), max_positions=2048), n_blocks=200) as server:
        body = {"model": "tiny", "prompt": [5], "max_tokens": 2000, "temperature": 1, "stream": True, "seed": 1}
        with httpx.stream("POST", f"{server.url}/v1/completions", json=body, timeout=PATIENCE_SECONDS) as answer:
            next(answer.iter_lines())
        server.wait_until_idle()
        assert_nothing_left(server.engine)
        metrics = server.thread.metrics
        assert metrics.value("requests_total", reason="abort") == 1 and metrics.value("new_tokens_total") < 2000


# --- The end -----------------------------------------------------------------------------------------------------


def test_told_to_stop_it_answers_those_it_has_and_ends():
    patient = {"timeout": PATIENCE_SECONDS}
    with running(grace_seconds=PATIENCE_SECONDS) as server, httpx.Client(base_url=server.url, **patient) as client:
        gate, answers = Gate(server.engine), []
        body = {"model": "tiny", "prompt": "a", "max_tokens": 3, "temperature": 0}
        asking = threading.Thread(target=lambda: answers.append(client.post("/v1/completions", json=body)))
        asking.start()
        asyncio.run(gate.reached())
        server.terminate()
        for _ in range(PATIENCE_SECONDS * 100):
            if server.thread.state == "draining":
                break
            threading.Event().wait(0.01)
        gate.open()
        asking.join(PATIENCE_SECONDS)
        server.join()
    assert answers[0].json()["choices"][0]["text"] == "bcd"
    assert server.thread.state == "closed"
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.url}/health")


def draining(server):
    for _ in range(PATIENCE_SECONDS * 100):
        if server.thread.state == "draining":
            return
        threading.Event().wait(0.01)
    raise AssertionError(f"it is {server.thread.state}")


def test_while_it_drains_newcomers_are_told_to_come_back_also_on_a_new_connection():
    with running(grace_seconds=PATIENCE_SECONDS) as server:
        gate, answers = Gate(server.engine), []
        body = {"model": "tiny", "prompt": "a", "max_tokens": 3, "temperature": 0}
        asking = threading.Thread(target=lambda: answers.append(httpx.post(f"{server.url}/v1/completions", json=body)))
        asking.start()
        asyncio.run(gate.reached())
        server.terminate()
        draining(server)
        refused = httpx.post(f"{server.url}/v1/completions", json=body)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "10")
        assert httpx.get(f"{server.url}/ready").status_code == 503 and httpx.get(f"{server.url}/health").is_success
        gate.open()
        asking.join(PATIENCE_SECONDS)
        server.join()
    assert answers[0].json()["choices"][0]["text"] == "bcd"


def test_a_second_sigint_waits_for_nobody():
    model, whole = random_model(eos_token_ids=(), max_positions=2048), []
    with running(model, n_blocks=200, grace_seconds=10 * PATIENCE_SECONDS) as server:
        gate = Gate(server.engine)
        body = {"model": "tiny", "prompt": [5], "max_tokens": 2000, "temperature": 1, "seed": 1}

        def ask():
            with contextlib.suppress(httpx.HTTPError):
                answer = httpx.post(f"{server.url}/v1/completions", json=body, timeout=PATIENCE_SECONDS)
                whole.append(answer.is_success and answer.json()["usage"]["completion_tokens"] == 2000)

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        asyncio.run(gate.reached())
        server.server.handle_exit(signal.SIGINT, None)
        draining(server)
        server.server.handle_exit(signal.SIGINT, None)
        gate.open()  # the pass that runs ends, as any does; 1,999 would follow
        server.join()
        asking.join(PATIENCE_SECONDS)
    assert not any(whole), "the second SIGINT waited for the whole text"


def test_told_to_stop_without_grace_it_ends_streams_with_an_error():
    with running(random_model(eos_token_ids=(), max_positions=2048), n_blocks=200) as server:
        body = {"model": "tiny", "prompt": [5], "max_tokens": 2000, "temperature": 1, "stream": True, "seed": 1}
        with httpx.stream("POST", f"{server.url}/v1/completions", json=body, timeout=PATIENCE_SECONDS) as answer:
            lines = answer.iter_lines()
            next(lines)
            server.terminate()
            last = [line for line in lines if line][-1]
        server.join()
    assert "shutting down" in json.loads(last.removeprefix("data: "))["error"]["message"]


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen at 127.0.0.1, port {port}: "):
            listen("127.0.0.1", port)
