"""Tests `serving/prompt_pool.py`: texts are read away from the event loop, a bounded number of them."""

import asyncio
import threading

import pytest
from serving import PATIENCE_SECONDS, serving, until
from successor_model import byte_tokenizer

from nanolm.checkpoint import SHIPPED
from nanolm.text import Tokenizer

LONG = "ab" * 100  # below the context of 256, above nothing: what matters is who waits


class SlowTokenizer(Tokenizer):
    """A tokenizer that waits for a gate once it serves; what its chat template does, any text may do."""

    def __init__(self):
        super().__init__(byte_tokenizer().inner)
        self.gate, self.reached = threading.Event(), threading.Event()
        self.serves = False  # before, the server reads a trial prompt, while nobody waits

    def encode(self, text, special_tokens=True):
        if not self.serves:
            return super().encode(text, special_tokens)
        self.reached.set()
        assert self.gate.wait(PATIENCE_SECONDS)
        return super().encode(text, special_tokens)


def serve(scenario, **options):
    tokenizer = SlowTokenizer()

    async def run():
        async with serving(tokenizer=tokenizer, **options) as served:
            tokenizer.serves = True
            try:
                return await scenario(served, tokenizer)
            finally:
                tokenizer.gate.set()

    return asyncio.run(run())


def test_while_a_text_is_read_others_are_answered():
    async def scenario(served, tokenizer):
        asking = asyncio.create_task(served.chat(LONG, max_tokens=2))
        await asyncio.to_thread(tokenizer.reached.wait, PATIENCE_SECONDS)
        health = await served.client.get("/health")
        tokens = await served.complete([5], max_tokens=2)  # tokens have not to be read
        tokenizer.gate.set()
        return health, tokens, await asking

    assert [answer.status_code for answer in serve(scenario)] == [200, 200, 200]


def test_no_more_wait_to_be_read_than_may_run_or_wait():
    async def scenario(served, tokenizer):
        asking = [asyncio.create_task(served.chat(LONG, max_tokens=2)) for _ in range(2)]
        await asyncio.to_thread(tokenizer.reached.wait, PATIENCE_SECONDS)
        pool = next(route.endpoint.__self__ for route in served.app.routes if route.path == "/health").pool
        await until(lambda: pool._n == 2)
        refused = await served.chat(LONG, max_tokens=2)
        tokenizer.gate.set()
        return refused, [answer.status_code for answer in await asyncio.gather(*asking)]

    refused, others = serve(scenario, max_running=1, max_waiting=1)
    assert refused.status_code == 429 and refused.headers["retry-after"] == "1"
    assert "2 prompts wait to be read; at most 2 may" in refused.json()["error"]["message"]
    assert others == [200, 200]


def test_a_text_that_is_too_long_however_it_is_cut_is_refused_before_anybody_cuts_it():
    async def scenario(served, tokenizer):
        answer = await served.complete("a" * 200_000)
        return answer, tokenizer.reached.is_set()

    answer, was_cut = serve(scenario)
    assert answer.status_code == 400 and not was_cut
    assert "the prompt has 200000 characters" in answer.json()["error"]["message"]
    assert answer.json()["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize("text", ["To be, or not to be. " * 2000, "é€😀" * 3000, " " * 9000])
def test_a_long_text_has_the_tokens_that_it_has_when_read_as_a_short_one(text):
    tokenizer = Tokenizer.from_file(SHIPPED / "target" / "tokenizer.json")
    assert tokenizer.encode(text) == tokenizer.inner.encode(text, add_special_tokens=False).ids
