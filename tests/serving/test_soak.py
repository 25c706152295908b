"""A server under everything at once, for minutes: right requests, wrong ones, clients that leave, failing passes.

NANOLM_SOAK_MINUTES says for how long; 30 unless said otherwise.
"""

import asyncio
import contextlib
import json
import os
import random
import time
from collections import Counter

import httpx
import pytest
from serving import PATIENCE_SECONDS, assert_nothing_left, random_model
from successor_model import byte_tokenizer
from web_server import running

from nanolm.web import Limits

MINUTES = float(os.environ.get("NANOLM_SOAK_MINUTES", "30"))
MODEL = random_model(max_positions=256)
PROMPTS = [[1 + i % 7, 10 + i % 50, 20 + i % 3] for i in range(40)]
WRONG = [
    b"{",
    b"[]",
    b'{"model": "tiny"}',
    b'{"model": "tiny", "prompt": "a", "n": 99}',
    b"\xff" * 1000,
    b" " * 300_000,
]


class Faults:
    """Lets a pass of an engine fail now and then, before or after its work."""

    def __init__(self, engine, rng):
        self.n, step = 0, engine.step

        def failing():
            if rng.random() < 0.002:
                self.n += 1
                if rng.random() < 0.5:
                    step()
                raise RuntimeError("a fault that was planted")
            return step()

        engine.step = failing


class Soak:
    """Clients of all kinds. What they met is counted in `seen`; an answer that is not the model's is in `wrong`."""

    def __init__(self, server, rng):
        self.server, self.rng, self.seen, self.wrong = server, rng, Counter(), []
        self.expected = {}

    def text(self, prompt):
        key = tuple(prompt)
        if key not in self.expected:
            self.expected[key] = "".join(byte_tokenizer().decode_stream(MODEL.generate(prompt, 12)))
        return self.expected[key]

    async def right(self, client):
        prompt, stream = self.rng.choice(PROMPTS), self.rng.random() < 0.5
        body = {"model": "tiny", "prompt": prompt, "max_tokens": 12, "temperature": 0, "stream": stream}
        answer = await client.post("/v1/completions", json=body)
        if answer.status_code != 200 or '"error"' in answer.text:
            self.seen["failed by a fault" if "a pass failed" in answer.text else f"{answer.status_code}"] += 1
            return
        if stream:
            events = [line.removeprefix("data: ") for line in answer.text.split("\n\n")][:-2]
            got = "".join(json.loads(event)["choices"][0]["text"] for event in events)
        else:
            got = answer.json()["choices"][0]["text"]
        self.seen["right"] += 1
        if got != self.text(prompt):
            self.wrong.append((prompt, got))

    async def leaving(self, client):
        body = {"model": "tiny", "prompt": [5], "max_tokens": 200, "temperature": 1, "n": 2, "stream": True}
        async with client.stream("POST", "/v1/completions", json=body) as answer:
            async for _ in answer.aiter_lines():
                self.seen["left"] += 1
                return

    async def nonsense(self, client):
        answer = await client.post("/v1/completions", content=self.rng.choice(WRONG))
        assert answer.status_code in (400, 413, 429), answer.text
        self.seen["nonsense"] += 1

    async def dripping(self, client):
        address = self.server.listener.getsockname()[:2]
        with contextlib.suppress(ConnectionError):
            _, writer = await asyncio.open_connection(*address)
            for letter in b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"[: self.rng.randrange(40)]:
                writer.write(bytes([letter]))
                await asyncio.sleep(0.01)
            writer.transport.abort()
        self.seen["dripped"] += 1

    async def watching(self, client):
        for path in ("/health", "/metrics"):
            assert (await client.get(path)).status_code == 200
        self.seen["watched"] += 1

    async def one_client(self, end):
        kinds = [self.right] * 6 + [self.leaving, self.nonsense, self.dripping, self.watching]
        async with httpx.AsyncClient(base_url=self.server.url, timeout=3 * PATIENCE_SECONDS) as client:
            while time.monotonic() < end:
                with contextlib.suppress(httpx.RemoteProtocolError, httpx.ReadError):  # its place was another's
                    await self.rng.choice(kinds)(client)

    async def all_clients(self, minutes, n=16):
        end = time.monotonic() + 60 * minutes
        await asyncio.gather(*(self.one_client(end) for _ in range(n)))


def soak(minutes, seed):
    limits = Limits(receive_seconds=2.0, stalled_seconds=2.0, max_connections=24)
    with running(MODEL, limits=limits, n_blocks=48, block_size=4, max_running=8) as server:
        faults, work = Faults(server.engine, random.Random(seed)), Soak(server, random.Random(seed + 1))
        asyncio.run(work.all_clients(minutes))
        server.wait_until_idle()
        assert_nothing_left(server.engine)
        assert server.thread.state == "serving"
        assert not work.wrong, f"{len(work.wrong)} of {work.seen['right']} texts are not the model's: {work.wrong[:3]}"
    return work.seen, faults.n


def test_a_few_seconds_of_everything(caplog):
    seen, _ = soak(minutes=0.08, seed=1)
    assert seen["right"] > 0


@pytest.mark.slow
def test_minutes_of_everything(caplog):
    seen, n_faults = soak(MINUTES, seed=2)
    print(f"{MINUTES:g} minutes: {dict(seen)}, {n_faults} passes failed")
    assert n_faults > 0 and all(seen[kind] for kind in ("right", "left", "nonsense", "dripped", "watched"))
