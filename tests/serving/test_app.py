"""Tests `serving/app.py`: what a client of OpenAI's API gets, and what it is refused. The network: test_serve.py."""

import asyncio
import gc
import json
import sys
from collections import deque

import pytest
from serving import (
    ALPHABET,
    AsgiClient,
    Gate,
    Served,
    assert_nothing_left,
    events_of,
    random_model,
    serving,
    text_of,
    until,
)
from successor_model import byte_tokenizer, chatml_tokenizer, successor_model

from nanolm.web import Limits

# What the model of ALPHABET writes after "a": 15 bytes to "p", a space, 2 + 3 + 4 bytes, 10 to "z", the end token.
AFTER_A = ALPHABET[1:]
N_AFTER_A = 36


def serve(scenario, *arguments, **options):
    """Run a scenario with a server; return what it returns."""

    async def run():
        async with serving(*arguments, **options) as served:
            return await scenario(served)

    return asyncio.run(run())


def answer_to(*arguments, chat=False, **fields):
    """The answer to one request."""

    async def scenario(served: Served):
        return await (served.chat if chat else served.complete)(*arguments, **fields)

    return serve(scenario)


def usage(n_prompt, n_new, n_cached=0):
    return {
        "prompt_tokens": n_prompt,
        "completion_tokens": n_new,
        "total_tokens": n_prompt + n_new,
        "prompt_tokens_details": {"cached_tokens": n_cached},
    }


# --- Answers -----------------------------------------------------------------------------------------------------


def test_a_completion_is_the_model_s_text_and_ends_with_the_end_token():
    body = answer_to("a", max_tokens=100).json()
    assert body["object"] == "text_completion" and body["id"].startswith("cmpl-") and body["model"] == "tiny"
    assert body["choices"] == [{"index": 0, "text": AFTER_A, "logprobs": None, "finish_reason": "stop"}]
    assert body["usage"] == usage(1, N_AFTER_A)


def test_a_completion_has_16_tokens_unless_said_otherwise():
    choice = answer_to("a").json()["choices"][0]
    assert choice["text"] == "bcdefghijklmnop " and choice["finish_reason"] == "length"


def test_a_prompt_can_be_token_ids():
    assert answer_to(byte_tokenizer().encode("ab"), max_tokens=2).json()["choices"][0]["text"] == "cd"


def test_a_chat_answers_on_the_question_s_line_without_the_space_that_parts_them():
    async def scenario(served):
        return await served.chat("1+?")

    body = serve(scenario, successor_model("? 42.\nx")).json()
    assert body["object"] == "chat.completion" and body["id"].startswith("chatcmpl-")
    choice = body["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": "42."} and choice["finish_reason"] == "stop"
    # " 42.\n": the end of the line is a token that was written.
    assert body["usage"] == usage(3, 5)


# A model of chats: it answers a line break with "Hi" and the marker <|im_end|>, 258, which is no end token of its own.
CHAT_MODEL = {"vocab_size": 259, "end_id": 258, "bos_token_id": 5}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_chat_model_s_answer_ends_with_its_end_marker(stream):
    async def scenario(served):
        more = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        return await served.chat("Who?", **more)

    model = successor_model("\nHi", max_positions=512, **CHAT_MODEL)
    answer = serve(scenario, model, tokenizer=chatml_tokenizer())
    if stream:
        events = events_of(answer)
        assert text_of(events) == "Hi" and events[-2]["choices"][0]["finish_reason"] == "stop"
        counted = events[-1]["usage"]
    else:
        choice, counted = answer.json()["choices"][0], answer.json()["usage"]
        assert (choice["message"]["content"], choice["finish_reason"]) == ("Hi", "stop")
    assert counted["completion_tokens"] == 3, (
        "two letters and the marker; a fourth: the marker has not ended the answer"
    )


def test_a_line_break_does_not_end_a_chat_model_s_answer():
    async def scenario(served):
        return await served.chat("Who?", max_tokens=4)

    (line_break,) = byte_tokenizer().encode("\n")
    model = successor_model("\nHi", max_positions=512, **CHAT_MODEL | {"end_id": line_break})  # "Hi\nHi\n...", for ever
    choice = serve(scenario, model, tokenizer=chatml_tokenizer()).json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("Hi\nH", "length")


@pytest.mark.parametrize(
    ("tokenizer", "expected", "n_markers"),
    [
        (byte_tokenizer(), "Sums. <|im_end|>\n1+?", 0),
        (
            chatml_tokenizer(),
            "<|im_start|>system\nSums. <|im_end|><|im_end|>\n<|im_start|>user\n1+?<|im_end|>\n<|im_start|>assistant\n",
            5,
        ),
    ],
    ids=["plain text", "ChatML"],
)
def test_a_chat_s_prompt_is_the_start_token_and_the_template_of_the_tokenizer(tokenizer, expected, n_markers):
    prompts = []

    async def scenario(served):
        add_request = served.engine.add_request
        served.engine.add_request = lambda prompt, **more: prompts.append(prompt) or add_request(prompt, **more)
        messages = [{"role": "system", "content": "Sums. <|im_end|>"}, {"role": "user", "content": "1+?"}]
        body = {"model": "tiny", "messages": messages, "max_tokens": 1}
        return await served.client.post("/v1/chat/completions", json=body)

    serve(scenario, successor_model("?", max_positions=512, **CHAT_MODEL), tokenizer=tokenizer)
    assert prompts[0][0] == 5, "the start token of the model is missing"
    assert tokenizer.decode(prompts[0][1:]) == expected
    assert sum(token > 256 for token in prompts[0]) == n_markers, "a marker that a client spells out has become one"


def test_a_chat_takes_content_in_parts_and_max_completion_tokens():
    parts = [{"type": "text", "text": "x"}, {"type": "text", "text": "a"}]
    choice = answer_to(parts, chat=True, max_completion_tokens=3).json()["choices"][0]
    assert choice["message"]["content"] == "bcd" and choice["finish_reason"] == "length"


def test_a_chat_without_a_limit_writes_until_the_context_is_full():
    async def scenario(served):
        return await served.chat("x")

    body = serve(scenario, random_model(eos_token_ids=(), seed=3)).json()
    assert body["choices"][0]["finish_reason"] in ("length", "stop")
    if body["choices"][0]["finish_reason"] == "length":
        assert body["usage"]["total_tokens"] == 128


def test_fields_that_are_null_or_ask_for_nothing_are_accepted():
    nothing = dict(
        logprobs=None, echo=False, best_of=1, presence_penalty=0, frequency_penalty=0.0, logit_bias={}, user="me"
    )
    empty = dict(top_p=None, top_k=None, seed=None, stop=None, n=None, stream=None, stream_options=None)
    assert answer_to("a", max_tokens=2, **nothing, **empty).json()["choices"][0]["text"] == "bc"


def test_n_answers_are_n_choices_and_the_prompt_counts_once():
    body = answer_to("a", max_tokens=3, n=3).json()
    assert [choice["index"] for choice in body["choices"]] == [0, 1, 2]
    assert {choice["text"] for choice in body["choices"]} == {"bcd"}
    assert body["usage"] == usage(1, 9)


def test_a_seed_repeats_all_n_answers_and_they_differ_among_themselves():
    async def scenario(served):
        asked = dict(n=2, max_tokens=20, temperature=1)
        answers = [(await served.complete("ab", seed=seed, **asked)).json()["choices"] for seed in (1, 1, 2)]
        return [[choice["text"] for choice in choices] for choices in answers]

    first, again, other = serve(scenario, random_model())
    assert first == again != other and first[0] != first[1]


@pytest.mark.parametrize("narrow", [{"top_k": 1}, {"top_p": 1e-9}])
def test_top_k_and_top_p_reach_the_engine(narrow):
    async def scenario(served):
        texts = [
            (await served.complete("ab", max_tokens=20, **fields)).json()["choices"][0]["text"]
            for fields in ({}, {"temperature": 2, **narrow})
        ]
        return texts

    greedy, narrowed = serve(scenario, random_model())
    assert greedy == narrowed


def test_models_health_and_metrics_answer():
    async def scenario(served):
        await served.complete("a", max_tokens=2)
        return [await served.client.get(path) for path in ("/v1/models", "/health", "/ready", "/metrics")]

    models, health, ready, metrics = serve(scenario)
    assert [model["id"] for model in models.json()["data"]] == ["tiny"]
    assert health.status_code == 200 and health.json() == {"status": "serving"}
    assert ready.status_code == 200 and ready.json() == {"status": "serving"}
    assert metrics.headers["content-type"].startswith("text/plain")
    assert "nanolm_new_tokens_total 2.0\n" in metrics.text


# --- Stop strings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stop", "text"),
    [
        ("e", "bcd"),
        ("efg", "bcd"),  # three tokens
        (["xyz", "fgh"], "bcde"),
        ("é€", "bcdefghijklmnop "),  # five tokens, two characters
        ("b", ""),
        (["qq", "zz", "ab", "hello"], AFTER_A),  # "ab" is half prompt, and only the answer is searched
    ],
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_stop_strings_end_the_text_and_are_never_part_of_it(stop, text, stream):
    answer = answer_to("a", max_tokens=100, stop=stop, stream=stream)
    if stream:
        events = events_of(answer)
        assert text_of(events) == text and events[-1]["choices"][0]["finish_reason"] == "stop"
    else:
        assert answer.json()["choices"][0]["text"] == text and answer.json()["choices"][0]["finish_reason"] == "stop"


def test_no_pass_is_run_after_a_stop_string():
    async def scenario(served):
        counted = (await served.complete("a", max_tokens=100, stop="efg")).json()["usage"]
        return counted, served.thread.metrics

    counted, metrics = serve(scenario)
    # b c d e f g are six tokens, one a pass.
    assert counted["completion_tokens"] == 6 == metrics.value("steps_total")
    assert metrics.value("requests_total", reason="stop") == 1


def test_the_beginning_of_a_stop_string_is_shown_when_the_answer_ends_with_it():
    assert answer_to("a", max_tokens=4, stop="def").json()["choices"][0]["text"] == "bcde"


# --- Streams -----------------------------------------------------------------------------------------------------


def test_a_streamed_completion_comes_in_pieces_and_says_why_it_ended():
    events = events_of(answer_to("a", max_tokens=100, stream=True))
    assert text_of(events) == AFTER_A and len(events) > 20
    assert {event["object"] for event in events} == {"text_completion"} and len({event["id"] for event in events}) == 1
    reasons = [event["choices"][0]["finish_reason"] for event in events]
    assert reasons == [None] * (len(events) - 1) + ["stop"]
    assert not any("usage" in event for event in events), "nobody asked for usage"


def test_no_piece_of_a_stream_holds_half_a_character():
    pieces = [event["choices"][0]["text"] for event in events_of(answer_to("a", max_tokens=100, stream=True))]
    assert {"é", "€", "😀"} <= set(pieces) and "\ufffd" not in "".join(pieces)


def test_a_streamed_chat_begins_with_the_role():
    events = events_of(answer_to("a", chat=True, max_tokens=3, stream=True))
    assert {event["object"] for event in events} == {"chat.completion.chunk"}
    deltas = [event["choices"][0]["delta"] for event in events]
    assert deltas[0] == {"role": "assistant", "content": ""} and deltas[-1] == {}
    assert text_of(events) == "bcd" and events[-1]["choices"][0]["finish_reason"] == "length"


def test_a_stream_ends_with_usage_where_that_is_asked_for():
    events = events_of(answer_to("a", max_tokens=3, stream=True, stream_options={"include_usage": True}))
    assert events[-1]["choices"] == [] and all(event["usage"] is None for event in events[:-1])
    assert events[-1]["usage"] == usage(1, 3)


def test_n_streamed_answers_are_told_apart_by_their_index():
    async def scenario(served):
        asked = dict(n=3, seed=5, max_tokens=12, temperature=1)
        whole = (await served.complete("ab", **asked)).json()["choices"]
        events = events_of(await served.complete("ab", stream=True, **asked))
        return [choice["text"] for choice in whole], [text_of(events, index) for index in range(3)]

    whole, streamed = serve(scenario, random_model())
    assert whole == streamed


def test_streamed_or_not_the_text_is_the_same_whatever_bytes_the_model_writes():
    async def scenario(served):
        for prompt in ("ab", "xyz", "Q", "7", "€"):
            whole = await served.complete(prompt, max_tokens=40)
            streamed = await served.complete(prompt, max_tokens=40, stream=True)
            assert text_of(events_of(streamed)) == whole.json()["choices"][0]["text"]

    serve(scenario, random_model())


# --- Refusals ----------------------------------------------------------------------------------------------------


def assert_refused(answer, status, said, param=None, code=None):
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert said in error["message"], error
    assert (error["param"], error["code"]) == (param, code)


@pytest.mark.parametrize(
    ("fields", "said", "param"),
    [
        ({"temperature": 2.1}, "temperature is 2.1; it must be a number from 0 (greedy) to 2", "temperature"),
        ({"temperature": "hot"}, "temperature is 'hot'", "temperature"),
        ({"top_p": 0}, "top_p is 0; it must be a number above 0 and at most 1", "top_p"),
        ({"top_k": -2}, "top_k is -2; it must be a whole number, 1 or more", "top_k"),
        ({"max_tokens": 0}, "max_tokens is 0", "max_tokens"),
        ({"max_tokens": True}, "max_tokens is True", "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens is 1.5", "max_tokens"),
        ({"n": 9}, "n is 9; it must be a whole number from 1 to 8", "n"),
        ({"seed": -2}, "seed is -2", "seed"),
        ({"seed": 2**63}, "seed is 9223372036854775808", "seed"),
        ({"stop": ["a"] * 17}, "; it must be a string, or up to 16, each of", "stop"),
        ({"stop": ""}, "stop is ''", "stop"),
        ({"stop": ["a", ""]}, "stop is ['a', '']", "stop"),
        ({"stop": 5}, "stop is 5", "stop"),
        ({"stop": "x" * 501}, "it must be a string, or up to 16, each of 1 to 500 characters", "stop"),
        ({"stream": "yes"}, "stream is 'yes'", "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options is given without stream", "stream_options"),
        (
            {"prompt": ["a", 5]},
            "prompt is ['a', 5]; it must be a string, a list of token ids, or a list of 1 to",
            "prompt",
        ),
        ({"prompt": None}, "prompt is None", "prompt"),
        ({"prompt": 5}, "prompt is 5", "prompt"),
        ({"prompt": []}, "prompt 0 is empty", "prompt"),
        ({"prompt": ""}, "prompt 0 is empty", "prompt"),
        ({"prompt": [257]}, "token 257; ids run from 0 to 256", "prompt"),
        ({"prompt": [-1]}, "token -1", "prompt"),
        ({"model": None}, "model is None", "model"),
    ],
)
def test_a_wrong_parameter_is_refused_with_its_value_and_what_is_allowed(fields, said, param):
    assert_refused(answer_to(**{"prompt": "a", **fields}), 400, said, param)


@pytest.mark.parametrize(
    ("name", "value"),
    [("best_of", 2), ("suffix", "x"), ("use_beam_search", True), ("repeat_penalty", 1.1), ("bad_words", ["a"])],
)
def test_what_is_not_done_here_is_refused_and_not_ignored(name, value):
    said = f"{name} is {value!r}; this server does not do {name}"
    assert_refused(answer_to("a", **{name: value}), 400, said, name, "unsupported_parameter")


def test_an_unknown_parameter_is_refused():
    assert_refused(answer_to("a", tempature=1), 400, "'tempature' is no parameter", "tempature", "unknown_parameter")


@pytest.mark.parametrize(
    "messages",
    [[], "hello", [{"role": "tool", "content": "a"}], [{"role": "user"}], [{"role": "assistant", "content": "a"}]],
)
def test_a_conversation_that_is_none_is_refused(messages):
    async def scenario(served):
        return await served.client.post("/v1/chat/completions", json={"model": "tiny", "messages": messages})

    assert_refused(serve(scenario), 400, "messages is [" if messages != "hello" else "messages is 'hello'", "messages")


def test_two_names_for_one_limit_are_refused():
    answer = answer_to("a", chat=True, max_tokens=3, max_completion_tokens=3)
    assert_refused(answer, 400, "max_tokens and max_completion_tokens are both given", "max_tokens")


def test_a_missing_parameter_is_named():
    async def scenario(served):
        return await served.client.post("/v1/completions", json={"prompt": "a"})

    assert_refused(serve(scenario), 400, "model is missing; it must be the name of a served model", "model")


@pytest.mark.parametrize(
    "body",
    [
        b'{"model": "tiny", "prompt": "a", "temperature": NaN}',
        b'{"model": "tiny", "prompt": "a", "temperature": -Infinity}',
        b'{"model": "tiny", "prompt": "a", "temperature": [{"a": [NaN]}]}',
    ],
)
def test_what_json_has_no_number_for_is_refused_by_the_field_that_has_it(body):
    async def scenario(served):
        return await served.client.post("/v1/completions", content=body)

    assert_refused(
        serve(scenario), 400, "temperature has NaN or Infinity in it, which JSON does not know", "temperature"
    )


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"5", b"[NaN]", b'"\\ud800"', b'{"model": "\\ud800"}', b"\xff", b"[" * 5000]
)
def test_a_body_that_is_no_json_object_is_refused(body):
    async def scenario(served):
        return await served.client.post("/v1/completions", content=body)

    assert_refused(serve(scenario), 400, "the body")


def test_another_model_is_not_found():
    assert_refused(
        answer_to("a", model="gpt-5"), 404, "no model 'gpt-5' is served; there is 'tiny'", "model", "model_not_found"
    )


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/v1/nothing", 404), ("GET", "/v1/completions", 405)])
def test_an_unknown_address_is_an_error_of_the_same_shape(method, path, status):
    async def scenario(served):
        return await served.client.request(method, path)

    assert_refused(serve(scenario), status, f"{method} {path}", code="no_such_route")


def test_a_large_body_is_refused_by_its_announced_length_or_by_its_real_one():
    async def scenario(served):
        announced = await served.complete("a" * 1000)

        async def chunks():
            for _ in range(4):
                yield b" " * 100

        real = await served.client.post("/v1/completions", content=chunks())
        assert "content-length" not in real.request.headers
        return announced, real

    for answer in serve(scenario, limits=Limits(max_body_bytes=300)):
        assert_refused(answer, 413, "the body has more than 300 bytes", code="body_too_large")


def test_a_prompt_beyond_the_limit_or_the_context_is_refused():
    async def scenario(served):
        return [
            await served.complete("x" * 51),
            await served.complete([5] * 50),
            await served.complete("x", max_tokens=5000),
        ]

    by_limit, allowed, by_context = serve(scenario, limits=Limits(max_prompt_tokens=50))
    said = "the prompt has 51 tokens; at most 50 are allowed, and the context is 256"
    assert_refused(by_limit, 400, said, "prompt", "context_length_exceeded")
    assert allowed.status_code == 200
    assert_refused(by_context, 400, "together they may have at most 256", "prompt", "context_length_exceeded")


def test_a_full_queue_is_429_with_a_time_to_come_back():
    async def scenario(served):
        gate = Gate(served.engine)
        first = asyncio.create_task(served.complete("a", max_tokens=2))
        await gate.reached()
        refused = await served.complete("a")
        gate.open()
        return refused, await first

    refused, first = serve(scenario, max_waiting=0, max_running=1)
    assert_refused(refused, 429, "1 requests run or wait; at most 1 may; try again later", code="queue_full")
    assert refused.headers["retry-after"] == "1" and refused.json()["error"]["type"] == "rate_limit_error"
    assert first.json()["choices"][0]["text"] == "bc"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_request_beyond_its_time_ends_with_an_error_and_leaves_nothing(stream):
    async def scenario(served):
        gate = Gate(served.engine)
        answer = asyncio.create_task(served.complete("a", max_tokens=2, stream=stream))
        await gate.reached()
        answer = await answer
        gate.open()
        await until(lambda: not served.thread.n_open)
        assert_nothing_left(served.engine)
        return answer

    answer = serve(scenario, limits=Limits(max_seconds=0.2))
    said = "the time for one request is over; it was ended after 0 tokens"
    if stream:
        assert json.loads(answer.text.removeprefix("data: "))["error"]["message"] == said
    else:
        assert_refused(answer, 503, said, code="timeout")
        assert answer.headers["x-should-retry"] == "false", "the same request would take as long again"


def test_a_body_that_never_comes_is_given_up():
    async def scenario(served):
        async def chunks():
            yield b"{"
            await asyncio.sleep(10)

        return await served.client.post("/v1/completions", content=chunks())

    said = "the body did not come within 0.05 seconds"
    assert_refused(serve(scenario, limits=Limits(receive_seconds=0.05)), 408, said, code="body_too_slow")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_pass_that_fails_is_an_error_for_those_in_it_and_no_end(stream, caplog):
    async def scenario(served):
        step, failures = served.engine.step, [RuntimeError("boom")]

        def failing():
            if failures and step() and len(served.engine.records) == 3:
                raise failures.pop()
            return [] if failures else step()

        served.engine.step = failing
        return await served.complete("a", stream=stream), await served.complete("a", max_tokens=2)

    failed, after = serve(scenario)
    said = "a pass failed with RuntimeError; the server's log says more"
    if stream:
        last = failed.text.removesuffix("\n\n").rsplit("\n\n", 1)[-1].removeprefix("data: ")
        assert json.loads(last)["error"]["message"] == said and "[DONE]" not in failed.text
    else:
        assert_refused(failed, 500, said, code="engine_error")
        assert failed.json()["error"]["type"] == "server_error"
    assert "boom" in caplog.text and "boom" not in failed.text, "the log says what it was, the answer does not"
    assert after.json()["choices"][0]["text"] == "bc"


def test_a_mistake_of_the_server_itself_is_an_error_of_the_same_shape():
    async def scenario(served):
        served.thread.submit = None  # calling it is a TypeError
        return await served.complete("a")

    assert_refused(serve(scenario), 500, "the server failed; its log says more", code="internal_error")


def test_while_shutting_down_newcomers_get_503_and_the_others_their_answers():
    async def scenario(served):
        gate = Gate(served.engine)
        first = asyncio.create_task(served.complete("a", max_tokens=3))
        await gate.reached()
        draining = asyncio.create_task(served.thread.drain(10))
        await asyncio.sleep(0)
        refused = await served.complete("a")
        health, ready = [await served.client.get(path) for path in ("/health", "/ready")]
        gate.open()
        await draining
        return refused, health, ready, await first

    refused, health, ready, first = serve(scenario)
    assert_refused(refused, 503, "the server is draining", code="not_serving")
    assert refused.headers["retry-after"] == "10"
    assert ready.status_code == 503 and ready.json() == {"status": "draining"}
    assert health.status_code == 200, "it lives, and nobody need start it anew"
    assert first.json()["choices"][0]["text"] == "bcd"


def test_after_the_grace_period_the_others_get_503_too():
    async def scenario(served):
        gate = Gate(served.engine)
        first = asyncio.create_task(served.complete("a", max_tokens=3))
        await gate.reached()
        await served.thread.drain(0.01)
        gate.open()
        return await first

    assert_refused(serve(scenario), 503, "the server is shutting down", code="aborted")


@pytest.mark.parametrize(
    "wrong", [{"max_body_bytes": 0}, {"max_prompt_tokens": 0}, {"max_seconds": 0}, {"grace_seconds": -1}]
)
def test_limits_that_allow_nothing_are_refused(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"{name} is {wrong[name]}"):
        Limits(**wrong)


# --- Clients that go away ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_client_that_goes_away_ends_its_requests(stream):
    async def scenario(served):
        body = {"model": "tiny", "prompt": [5], "max_tokens": 2000, "temperature": 1, "n": 2, "stream": stream}
        client = AsgiClient(served.app, "/v1/completions", body)
        asking = asyncio.create_task(client.ask())
        await until(lambda: served.thread.metrics.value("steps_total") > 3)
        client.gone.set()
        await asking
        await until(lambda: not served.thread.n_open)
        assert_nothing_left(served.engine)
        assert served.thread.metrics.value("requests_total", reason="abort") == 2, "both answers are called off"
        assert served.thread.metrics.value("new_tokens_total") < 4000
        return client

    client = serve(scenario, random_model(eos_token_ids=(), max_positions=2048), n_blocks=300)
    if stream:
        assert all(message["more_body"] for message in client.sent[1:]), "a stream that was broken off has no end"


def test_a_client_that_goes_away_while_it_waits_in_the_queue_leaves_it():
    async def scenario(served):
        gate = Gate(served.engine)
        first = asyncio.create_task(served.complete("a", max_tokens=2))
        await gate.reached()
        body = {"model": "tiny", "prompt": "a", "max_tokens": 100, "stream": True}
        client = AsgiClient(served.app, "/v1/completions", body)
        asking = asyncio.create_task(client.ask())
        await until(lambda: served.thread.n_open == 2)
        client.gone.set()
        gate.open()
        await asyncio.gather(asking, first)
        await until(lambda: not served.thread.n_open)
        assert_nothing_left(served.engine)

    serve(scenario, max_running=1)


def test_a_client_that_stops_reading_is_given_up(monkeypatch):
    monkeypatch.setattr("nanolm.web.disconnect._LAST_WORDS_SECONDS", 0.1)

    async def scenario(served):
        body = {"model": "tiny", "prompt": "a", "max_tokens": 30, "stream": True}
        client = AsgiClient(served.app, "/v1/completions", body)
        client.send = lambda message: asyncio.sleep(100)  # the buffers are full, for ever
        await client.ask()
        await until(lambda: not served.thread.n_open)

    serve(scenario, limits=Limits(max_seconds=0.2))


def test_memory_does_not_grow_over_2000_requests():
    async def scenario(served):
        served.engine.records = deque(maxlen=10)  # the engine keeps the last 100,000 by design
        gate = asyncio.Semaphore(32)

        async def one(i):
            async with gate:
                stop = "c" if i % 3 == 0 else None
                answer = await served.complete("a", max_tokens=3, stop=stop, stream=i % 2 == 0)
                assert answer.status_code == 200

        async def round_of(n):
            await asyncio.gather(*(one(i) for i in range(n)))
            await asyncio.sleep(0.05)
            gc.collect()
            return len(gc.get_objects()), sys.getallocatedblocks()

        return [await round_of(400) for _ in range(5)]

    first, *_, last = serve(scenario)  # the first round fills caches
    # A single container forgotten with each request would be 1,600 objects, a single string 1,600 blocks.
    assert last[0] - first[0] < 200, f"{last[0] - first[0]:,} objects more after 1,600 requests"
    assert last[1] - first[1] < 1200, f"{last[1] - first[1]:,} blocks of memory more after 1,600 requests"
