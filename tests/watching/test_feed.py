"""Tests `watching/feed.py` and `watching/endpoints.py`: who watches, what they get, and whom they do not stop."""

import asyncio
import json
from contextlib import asynccontextmanager

import httpx
import pytest
from serving import PATIENCE_SECONDS, AsgiClient, random_model, serving, until
from successor_model import byte_tokenizer

from nanolm.engine import Engine
from nanolm.serving import AsyncEngine, build_app
from nanolm.watching import MOST_QUEUED, MOST_WATCHERS, Feed, Recording, Watcher, words_of
from nanolm.web import Access, Limits, hosts_of

ASKED = {"model": "tiny", "prompt": "abcdefgh", "max_tokens": 12, "temperature": 0}


@asynccontextmanager
async def watched(word=False, recording=None, access=None):
    """A server with its feed, and a client."""
    engine = Engine(random_model(eos_token_ids=()), n_blocks=64)
    thread, tokenizer = AsyncEngine(engine), byte_tokenizer()
    feed = Feed(engine, thread.call, words_of(tokenizer) if word else None, recording)
    app = build_app(thread, tokenizer, "tiny", Limits(grace_seconds=0), access, feed)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        asyncio.timeout(PATIENCE_SECONDS),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        yield feed, app, client


def in_loop(scenario, **options):
    async def run():
        async with watched(**options) as parts:
            return await scenario(*parts)

    return asyncio.run(run())


class Stream(AsgiClient):
    """A watcher at the ASGI interface, who reads everything and goes away when told to."""

    def __init__(self, app):
        super().__init__(app, "/watch/events", {})

    async def receive(self):
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def ask(self):
        scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "path": self.path}
        scope |= {"root_path": "", "scheme": "http", "query_string": b"", "headers": [], "client": ("test", 1)}
        await self.app(scope | {"raw_path": self.path.encode(), "server": ("test", 80)}, self.receive, self.send)

    @property
    def frames(self):
        text = b"".join(message.get("body", b"") for message in self.sent).decode()
        data = [event.partition("\ndata: ")[2] for event in text.split("\n\n") if event.startswith("event: frame")]
        return [json.loads(each) for each in data]

    @property
    def n_passes(self):
        return sum(len(frame["passes"]) for frame in self.frames)


async def stream_of(app):
    stream = Stream(app)
    return stream, asyncio.ensure_future(stream.ask())


def test_a_watcher_gets_the_state_at_once_and_every_pass_after_it():
    async def scenario(feed, app, client):
        stream, task = await stream_of(app)
        await until(lambda: stream.frames)
        assert stream.frames[0]["running"] == []
        assert (await client.post("/v1/completions", json=ASKED)).status_code == 200
        await until(lambda: stream.n_passes == len(feed.camera.engine.records))
        stream.gone.set()
        await task
        assert stream.frames[-1]["pool"]["n"] == 64

    in_loop(scenario)


def test_the_engine_is_looked_at_only_while_somebody_watches():
    async def scenario(feed, app, client):
        await client.post("/v1/completions", json=ASKED)
        assert feed.camera.engine.observer is None
        stream, task = await stream_of(app)
        await until(lambda: feed.camera.is_on)
        stream.gone.set()
        await task
        await until(lambda: feed.camera.engine.observer is None)
        assert not feed.watchers

    in_loop(scenario)


@pytest.mark.parametrize("word", [False, True])
def test_texts_are_told_only_where_the_server_says_so(word):
    async def scenario(feed, app, client):
        stream, task = await stream_of(app)
        await until(lambda: stream.frames)
        await client.post("/v1/completions", json={**ASKED, "prompt": "qwertz"})
        await until(lambda: stream.n_passes == len(feed.camera.engine.records))
        stream.gone.set()
        await task
        parts = [part for frame in stream.frames for each in frame["passes"] for part in each["parts"]]
        prompts = ["".join(part["prompt"]) for part in parts if "prompt" in part]
        assert prompts == (["qwertz"] if word else [])
        assert word or all("new" not in part for part in parts)

    in_loop(scenario, word=word)


def test_a_slow_watcher_loses_the_oldest_frames_and_is_told_how_many():
    async def scenario():
        watcher = Watcher()
        for i in range(MOST_QUEUED + 5):
            watcher.give(str(i))
        watcher.end()
        return [event async for event in watcher.events()]

    events = asyncio.run(scenario())
    assert events[0] == "event: lost\ndata: 5\n\n"
    assert events[1] == "event: frame\ndata: 5\n\n" and len(events) == 1 + MOST_QUEUED


def test_a_watcher_who_reads_nothing_stops_no_request_and_no_other_watcher():
    async def scenario(feed, app, client):
        silent = feed.enter()
        stream, task = await stream_of(app)
        await until(lambda: stream.frames)
        for _ in range(3):
            assert (await client.post("/v1/completions", json=ASKED)).status_code == 200
        await until(lambda: stream.n_passes == len(feed.camera.engine.records))
        assert len(silent._frames) <= MOST_QUEUED
        stream.gone.set()
        await task

    in_loop(scenario)


def test_one_watcher_too_many_is_told_to_come_back():
    async def scenario(feed, app, client):
        for _ in range(MOST_WATCHERS):
            feed.enter()
        answer = await client.get("/watch/events")
        assert answer.status_code == 503 and answer.json()["error"]["code"] == "too_many_watchers"

    in_loop(scenario)


def test_a_server_that_shuts_down_lets_its_watchers_go_and_a_stopped_engine_run():
    async def scenario(feed, app, client):
        stream, task = await stream_of(app)
        await until(lambda: stream.frames)
        assert (await client.post("/watch/pace", json={"stop": True})).json() == {"is_slow": True}
        asked = asyncio.ensure_future(client.post("/v1/completions", json=ASKED))
        await until(lambda: feed.camera.engine.records)
        feed.close()
        await task
        assert (await asked).status_code == 200
        assert (await client.get("/watch/events")).status_code == 503

    in_loop(scenario, word=True)


def test_the_last_watcher_who_goes_lets_a_stopped_engine_run():
    async def scenario(feed, app, client):
        stream, task = await stream_of(app)
        await until(lambda: stream.frames)
        await client.post("/watch/pace", json={"stop": True})
        asked = asyncio.ensure_future(client.post("/v1/completions", json=ASKED))
        await until(lambda: feed.camera.engine.records)
        assert len(feed.camera.engine.records) == 1
        stream.gone.set()
        await task
        assert (await asked).status_code == 200

    in_loop(scenario, word=True)


def test_steps_let_single_passes_through():
    async def scenario(feed, app, client):
        feed.enter()
        await client.post("/watch/pace", json={"stop": True})
        asked = asyncio.ensure_future(client.post("/v1/completions", json=ASKED))
        for n in (1, 2, 3):
            await until(lambda n=n: len(feed.camera.engine.records) == n)
            await client.post("/watch/pace", json={"step": True})
        await client.post("/watch/pace", json={"seconds": 0})
        assert (await asked).status_code == 200

    in_loop(scenario, word=True)


def test_the_pace_is_not_to_be_set_without_watch():
    async def scenario(feed, app, client):
        answer = await client.post("/watch/pace", json={"stop": True})
        assert answer.status_code == 403 and "--watch" in answer.json()["error"]["message"]
        assert not feed.camera.pace.is_slow

    in_loop(scenario)


@pytest.mark.parametrize(
    "body", ["", "[]", "{}", '{"stop": false}', '{"seconds": "1"}', '{"seconds": 99}', '{"seconds": true}', "[" * 900]
)
def test_a_pace_that_is_none_is_refused(body):
    async def scenario(feed, app, client):
        answer = await client.post("/watch/pace", content=body)
        assert answer.status_code == 400 and answer.json()["error"]["code"] == "invalid_pace"

    in_loop(scenario, word=True)


def test_a_recording_has_every_pass_though_nobody_watched(tmp_path):
    recording = Recording("a test")

    async def scenario(feed, app, client):
        await client.post("/v1/completions", json=ASKED)
        return len(feed.camera.engine.records)

    n = in_loop(scenario, recording=recording)
    recording.save(tmp_path / "run.json")
    read = Recording.load(tmp_path / "run.json")
    assert read.title == "a test"
    assert sum(len(frame["passes"]) for frame in read.frames) == n


# --- Who may ask -------------------------------------------------------------------------------------------------

HOME = hosts_of("127.0.0.1")


def status_of(path, access, method="GET", host="localhost:8000", **headers):
    async def scenario():
        async with serving(access=access) as served:
            return await served.client.request(method, path, headers={"Host": host, **headers})

    return asyncio.run(scenario()).status_code


@pytest.mark.parametrize("path", ["/", "/watch.js"])
def test_the_page_and_its_script_need_no_key_and_hold_to_the_rules_of_host_and_origin(path):
    access = Access(HOME, api_key="key")
    assert status_of(path, access) == 200
    assert status_of(path, access, host="evil.example") == 403
    assert status_of(path, access, Origin="https://evil.example") == 403


@pytest.mark.parametrize(("path", "method"), [("/watch/events", "GET"), ("/watch/pace", "POST")])
def test_what_the_engine_does_is_told_to_nobody_without_the_key_or_from_elsewhere(path, method):
    access = Access(HOME, api_key="key")
    assert status_of(path, access, method) == 401
    bearer = {"Authorization": "Bearer key"}
    assert status_of(path, access, method, host="evil.example", **bearer) == 403
    assert status_of(path, access, method, Origin="https://evil.example", **bearer) == 403


def test_the_server_s_own_page_may_ask():
    body = {"Origin": "http://localhost:8000"}
    assert status_of("/watch/pace", Access(HOME), "POST", **body) == 403  # no --watch, and no complaint of the origin
    assert status_of("/v1/models", Access(HOME), **body) == 200


def test_a_page_of_another_port_of_this_machine_is_not_the_server_s_own():
    assert status_of("/v1/models", Access(HOME), Origin="http://localhost:9000") == 403


def test_a_name_that_is_not_known_to_be_the_server_s_makes_no_page_its_own():
    anybody = Access(None)
    assert status_of("/v1/models", anybody, host="evil.example", Origin="http://evil.example") == 403
    assert status_of("/v1/models", anybody, host="10.0.0.5:8000", Origin="http://10.0.0.5:8000") == 200


def test_the_page_may_load_nothing_from_elsewhere_and_stand_in_no_frame():
    async def scenario():
        async with serving() as served:
            return await served.client.get("/")

    policy = asyncio.run(scenario()).headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
