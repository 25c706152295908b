"""Tests `nanolm/openai_api`: what each parameter does to the answer, in OpenAI's shapes, and how it is refused."""

import asyncio
import json

import pytest
import torch
from serving import ALPHABET, Gate, events_of, random_model, serving, text_of, until
from successor_model import byte_tokenizer, successor_model

from nanolm.openai_api import LLAMA_CPP, OPENAI, VLLM, WITHOUT_EFFECT, ChatBody, CompletionBody
from nanolm.sampling import Rng, SamplingParams
from nanolm.web import Limits

MODEL = random_model(eos_token_ids=())


def serve(scenario, *arguments, **options):
    async def run():
        async with serving(*arguments, **options) as served:
            return await scenario(served)

    return asyncio.run(run())


def choices_of(prompt, model=MODEL, **fields):
    async def scenario(served):
        answer = await served.complete(prompt, **fields)
        assert answer.status_code == 200, answer.text
        return answer.json()["choices"]

    return serve(scenario, model)


def text(ids):
    return "".join(byte_tokenizer().decode_stream(ids))


# --- Prompts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prompts", [["ab", "xyz", "Q"], [[5, 6], [7], [8, 9, 10]]], ids=["texts", "tokens"])
def test_each_of_several_prompts_gets_the_answer_it_would_get_alone(prompts):
    several = choices_of(prompts, max_tokens=6)
    assert [choice["index"] for choice in several] == [0, 1, 2]
    assert [choice["text"] for choice in several] == [choices_of(each, max_tokens=6)[0]["text"] for each in prompts]


def test_n_answers_to_each_of_several_prompts_stand_prompt_by_prompt():
    asked = dict(n=2, max_tokens=8, temperature=1, seed=3)
    both = [choice["text"] for choice in choices_of(["ab", "xyz"], **asked)]
    assert both[:2] == [choice["text"] for choice in choices_of("ab", **asked)]
    assert both[2:] == [choice["text"] for choice in choices_of("xyz", **{**asked, "seed": 5})]


def test_all_prompts_count_once_each():
    async def scenario(served):
        return (await served.complete(["ab", "xyz"], n=2, max_tokens=3)).json()["usage"]

    counted = serve(scenario, MODEL)
    assert (counted["prompt_tokens"], counted["completion_tokens"]) == (5, 12)


def test_several_prompts_are_streamed_by_their_indices():
    async def scenario(served):
        return events_of(await served.complete(["ab", "xyz"], max_tokens=6, stream=True))

    events = serve(scenario, MODEL)
    assert [text_of(events, i) for i in range(2)] == [
        choice["text"] for choice in choices_of(["ab", "xyz"], max_tokens=6)
    ]


@pytest.mark.parametrize("prompt", ["ab", [98, 99]])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_an_echo_stands_before_the_answer(prompt, stream):
    async def scenario(served):
        answer = await served.complete(prompt, echo=True, max_tokens=3, stream=stream)
        return text_of(events_of(answer)) if stream else answer.json()["choices"][0]["text"]

    said = prompt if isinstance(prompt, str) else byte_tokenizer().decode(prompt)
    assert serve(scenario, MODEL) == said + choices_of(prompt, max_tokens=3)[0]["text"]


def test_what_the_prefix_cache_had_is_told():
    async def scenario(served):
        first, second = [(await served.complete([7] * 40, max_tokens=2)).json()["usage"] for _ in range(2)]
        return first["prompt_tokens_details"], second["prompt_tokens_details"]

    assert serve(scenario, MODEL) == ({"cached_tokens": 0}, {"cached_tokens": 32})


# --- Log-probabilities -------------------------------------------------------------------------------------------


def logprobs_by_hand(prompt, answer):
    """The log-softmax at every place of an answer, from a full pass in float64."""
    rows = MODEL(torch.tensor([[*prompt, *answer]]))[0, len(prompt) - 1 : -1]
    return torch.log_softmax(rows.double(), -1)


def test_a_completion_s_log_probabilities_are_the_model_s():
    prompt = [5, 6, 7]
    answer = MODEL.generate(prompt, 6)
    shown = choices_of(prompt, max_tokens=6, logprobs=3)[0]["logprobs"]
    rows = logprobs_by_hand(prompt, answer)
    assert shown["token_logprobs"] == pytest.approx([float(row[i]) for row, i in zip(rows, answer, strict=True)])
    best = [row.topk(3).values.tolist() for row in rows]
    assert [sorted(top.values(), reverse=True) for top in shown["top_logprobs"]] == [pytest.approx(row) for row in best]
    lengths = [len(token) for token in shown["tokens"]]
    assert shown["text_offset"] == [sum(lengths[:i]) for i in range(6)] and len(lengths) == 6


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_an_echo_with_log_probabilities_has_those_of_the_prompt_too(stream):
    async def scenario(served):
        answer = await served.complete(["ab", "xyz"], n=2, echo=True, max_tokens=3, logprobs=1, stream=stream)
        if not stream:
            return [choice["logprobs"] for choice in answer.json()["choices"]]
        parts = [[each for each in event["choices"] if each["logprobs"]] for event in events_of(answer)]
        joined = [{name: [] for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")} for _ in range(4)]
        for (choice,) in filter(None, parts):
            for name, values in choice["logprobs"].items():
                joined[choice["index"]][name] += values
        return joined

    for i, shown in enumerate(serve(scenario, MODEL)):
        prompt = byte_tokenizer().encode(["ab", "xyz"][i // 2])
        answer = MODEL.generate(prompt, 3)
        rows = torch.log_softmax(MODEL(torch.tensor([[*prompt, *answer]]))[0].double(), -1)
        expected = [float(rows[at, token]) for at, token in enumerate([*prompt, *answer][1:])]
        assert shown["token_logprobs"][0] is shown["top_logprobs"][0] is None
        assert shown["token_logprobs"][1:] == pytest.approx(expected)
        assert "".join(shown["tokens"][: len(prompt)]) == ["ab", "xyz"][i // 2]
        assert shown["text_offset"][: len(prompt)] == list(range(len(prompt)))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_prompt_is_scored_and_nothing_written_where_no_token_is_wanted(stream):
    async def scenario(served):
        answer = await served.complete([5, 6, 7], echo=True, max_tokens=0, logprobs=1, stream=stream)
        if not stream:
            return answer.json()["choices"][0], answer.json()["usage"]["completion_tokens"]
        parts = [event["choices"][0] for event in events_of(answer)]
        return {**parts[0], "finish_reason": parts[-1]["finish_reason"]}, 0

    choice, n_written = serve(scenario, MODEL)
    rows = torch.log_softmax(MODEL(torch.tensor([[5, 6, 7]]))[0].double(), -1)
    expected = [float(rows[0, 6]), float(rows[1, 7])]
    assert (choice["text"], choice["finish_reason"], n_written) == (text([5, 6, 7]), "length", 0)
    assert choice["logprobs"]["token_logprobs"] == [None, *map(pytest.approx, expected)]


def test_an_echo_without_scores_needs_no_token_either():
    assert choices_of("ab", echo=True, max_tokens=0)[0]["text"] == "ab"


@pytest.mark.parametrize("prompts", [[[5, 6, 7, 8], [9, 10, 11]], [byte_tokenizer().encode("xyz")]])
def test_a_prompt_s_scores_are_found_where_lm_evaluation_harness_looks_for_them(prompts):
    """It sends tokens, wants one more, and takes the entries from the context's length up to the last but one."""
    model = MODEL if len(prompts) > 1 else successor_model(ALPHABET)  # behind "xyz" comes the end
    asked = dict(max_tokens=1, logprobs=1, echo=True, seed=1234)
    for prompt, choice in zip(prompts, choices_of(prompts, model, **asked), strict=True):
        rows = torch.log_softmax(model(torch.tensor([prompt]))[0].double(), -1)
        found = choice["logprobs"]
        scores = found["token_logprobs"][2:-1]
        assert scores == pytest.approx([float(rows[i - 1, prompt[i]]) for i in range(2, len(prompt))])
        is_greedy = [score == max(top.values()) for score, top in zip(scores, found["top_logprobs"][2:-1], strict=True)]
        assert is_greedy == [int(rows[i - 1].argmax()) == prompt[i] for i in range(2, len(prompt))]


def test_a_token_that_is_half_a_character_is_shown_by_its_bytes():
    shown = choices_of("p ", successor_model(ALPHABET), max_tokens=2, logprobs=0)[0]["logprobs"]
    assert shown["tokens"] == ["bytes:\\xc3", "bytes:\\xa9"] and shown["top_logprobs"] == [{}, {}]


def chat_choice(**fields):
    async def scenario(served):
        answer = await served.chat("ab", max_tokens=4, **fields)
        if fields.get("stream"):
            return [event["choices"][0] for event in events_of(answer)]
        return answer.json()["choices"][0]

    return serve(scenario, MODEL)


def test_a_chat_s_log_probabilities_are_an_object_a_token():
    content = chat_choice(logprobs=True, top_logprobs=2)["logprobs"]["content"]
    assert len(content) == 4
    for each in content:
        assert set(each) == {"token", "logprob", "bytes", "top_logprobs"} and len(each["top_logprobs"]) == 2
        assert bytes(each["bytes"]).decode(errors="replace") == each["token"]
        assert each["logprob"] == each["top_logprobs"][0]["logprob"], "greedy takes the likeliest"


def test_streamed_log_probabilities_are_the_same_piece_by_piece():
    pieces = [choice["logprobs"] for choice in chat_choice(logprobs=True, stream=True) if choice["logprobs"]]
    whole = chat_choice(logprobs=True)["logprobs"]["content"]
    assert len(pieces) > 1 and [each for piece in pieces for each in piece["content"]] == whole


def test_the_token_that_ends_an_answer_is_no_part_of_the_list():
    async def scenario(served):
        return (await served.complete("x", max_tokens=9, logprobs=0)).json()["choices"][0]

    choice = serve(scenario, successor_model(ALPHABET))
    assert choice["text"] == "yz" and choice["logprobs"]["tokens"] == ["y", "z"]


def test_without_being_asked_for_there_are_none():
    assert choices_of("ab", max_tokens=2, logprobs=None)[0]["logprobs"] is None
    assert chat_choice(logprobs=False)["logprobs"] is None


# --- Rules -------------------------------------------------------------------------------------------------------

RULES = {
    "presence_penalty": ({"presence_penalty": 2.0}, {"presence_penalty": 2.0}),
    "frequency_penalty": ({"frequency_penalty": 1.5}, {"frequency_penalty": 1.5}),
    "repetition_penalty": ({"repetition_penalty": 1.8}, {"repetition_penalty": 1.8}),
    "logit_bias": ({"logit_bias": {"65": 40, "66": -100}}, {"logit_bias": {65: 40.0, 66: -100.0}}),
    "min_p": ({"min_p": 0.9, "temperature": 1, "seed": 4}, {"min_p": 0.9, "temperature": 1.0}),
    "top_k": ({"top_k": 2, "temperature": 1, "seed": 4}, {"top_k": 2, "temperature": 1.0}),
    "top_p": ({"top_p": 0.3, "temperature": 1, "seed": 4}, {"top_p": 0.3, "temperature": 1.0}),
}


@pytest.mark.parametrize(("fields", "rules"), RULES.values(), ids=RULES)
def test_a_rule_makes_the_text_that_the_model_writes_by_it(fields, rules):
    sampling = SamplingParams(**{"temperature": 0.0, **rules})
    expected = MODEL.generate([5, 6, 7], 12, sampling, Rng(fields.get("seed", 0)))
    assert choices_of([5, 6, 7], max_tokens=12, **fields)[0]["text"] == text(expected)


def test_a_stop_token_ends_the_text():
    choice = choices_of("a", successor_model(ALPHABET), max_tokens=9, stop_token_ids=byte_tokenizer().encode("d"))[0]
    assert choice["text"] == "bcd" and choice["finish_reason"] == "stop"


def test_the_minimum_length_holds_the_end_off_and_ignore_eos_does_for_good():
    model = successor_model(ALPHABET)
    assert choices_of("y", model, max_tokens=9)[0]["finish_reason"] == "stop"
    for fields in ({"min_tokens": 9}, {"ignore_eos": True}):
        choice = choices_of("y", model, max_tokens=9, **fields)[0]
        assert choice["finish_reason"] == "length", fields


def test_a_temperature_of_nothing_said_is_one():
    assert CompletionBody(model="m", prompt="a").sampling(()) == SamplingParams(1.0, end_tokens=())


# --- Values that ask for nothing ---------------------------------------------------------------------------------

NEUTRAL = {**OPENAI, **VLLM, **LLAMA_CPP}
OF_OTHER_CLIENTS = {
    "repetition_penalty": 1.0,
    "min_p": 0,
    "top_k": -1,
    "ignore_eos": False,
    "seed": -1,
    "logprobs": None,
}


@pytest.mark.parametrize("chat", [False, True], ids=["completion", "chat"])
def test_what_asks_for_nothing_is_taken(chat):
    kind = ChatBody if chat else CompletionBody
    own = kind.model_fields

    async def scenario(served):
        ask = served.chat if chat else served.complete
        plain = (await ask("a", max_tokens=2)).json()["choices"]
        bodies = [
            {name: value}
            for name, values in {**NEUTRAL, **kind.not_done}.items()
            if name not in own
            for value in (*values, None)
        ]
        bodies += [{name: {"any": ["thing"]}} for name in WITHOUT_EFFECT]
        bodies += [
            {name: None} for name in own if name not in ("model", "prompt", "messages", "max_tokens", "temperature")
        ]
        bodies += [OF_OTHER_CLIENTS, {"logit_bias": {}, "stop_token_ids": [], "min_tokens": 0, "presence_penalty": 0}]
        for body in bodies:
            answer = await ask("a", max_tokens=2, **body)
            assert answer.status_code == 200, f"{body}: {answer.text}"
            assert answer.json()["choices"] == plain, body

    serve(scenario)


@pytest.mark.parametrize("chat", [False, True], ids=["completion", "chat"])
def test_what_asks_for_something_that_is_not_done_is_refused_by_its_name(chat):
    own = (ChatBody if chat else CompletionBody).model_fields

    async def scenario(served):
        ask = served.chat if chat else served.complete
        for name in NEUTRAL.keys() - own.keys():
            answer = await ask("a", **{name: 12345})
            error = answer.json()["error"]
            assert (answer.status_code, error["param"], error["code"]) == (400, name, "unsupported_parameter"), name
            assert f"{name} is 12345; this server does not do {name}" in error["message"]

    serve(scenario)


WRONG = [True, -3, 0, 1.5, 10**30, -1e300, "", "x", [], [None], [[]], ["a", 5], {}, {"a": {}}, [1e9], [-1], [2**70]]


@pytest.mark.parametrize("kind", [CompletionBody, ChatBody], ids=["completion", "chat"])
def test_a_wrong_value_of_any_parameter_is_one_400_that_names_it(kind):
    chat = kind is ChatBody

    async def scenario(served):
        ask, refused = (served.chat if chat else served.complete), {}
        for name in kind.model_fields:
            for value in WRONG:
                body = {"model": "tiny", "temperature": 0, "max_tokens": 2, name: value}
                if name == "max_completion_tokens":
                    del body["max_tokens"]  # they are one thing
                body |= {} if name in ("prompt", "messages") else {("messages" if chat else "prompt"): _TEXT[chat]}
                answer = await served.client.post("/v1/chat/completions" if chat else "/v1/completions", json=body)
                assert answer.status_code in (200, 400, 404 if name == "model" else 400), f"{body}: {answer.text}"
                if answer.status_code == 400:
                    error = answer.json()["error"]
                    is_too_long = error["code"] == "context_length_exceeded" and name in error["message"]
                    is_named = error["param"] == name and error["message"].startswith(f"{name} ")
                    assert is_named or is_too_long, f"{body}: {error}"
                    refused[name] = refused.get(name, 0) + 1
        assert (await ask("a", max_tokens=2)).status_code == 200
        return refused

    refused = serve(scenario)
    least = {name: 6 for name in kind.model_fields}  # each knows at least so many of the 17 to be wrong
    assert not [name for name in least if refused.get(name, 0) < least[name]], refused


_TEXT = {False: "a", True: [{"role": "user", "content": "a"}]}


@pytest.mark.parametrize(
    ("fields", "said", "param"),
    [
        ({"logit_bias": {"999": 1}}, "logit_bias names token 999; ids run from 0 to 256", "logit_bias"),
        ({"logit_bias": {"a": 1}}, "logit_bias is {'a': 1}; it must be an object from token ids", "logit_bias"),
        ({"logit_bias": {"5": 101}}, "numbers from -100 to 100", "logit_bias"),
        ({"stop_token_ids": [999]}, "stop_token_ids names token 999", "stop_token_ids"),
        ({"presence_penalty": 2.5}, "presence_penalty is 2.5; it must be a number from -2 to 2", "presence_penalty"),
        ({"min_p": 1.5}, "min_p is 1.5; it must be a number from 0 (all) to 1", "min_p"),
        ({"logprobs": 21}, "logprobs is 21; it must be a whole number from 0 to 20", "logprobs"),
        ({"logprobs": True}, "logprobs is True", "logprobs"),
        ({"prompt": ["a"] * 33}, "a list of 1 to 32 of either kind", "prompt"),
        ({"prompt": ["a", ""]}, "prompt 1 is empty", "prompt"),
        ({"stream": True, "stream_options": {"continuous_usage_stats": True}}, "stream_options is {", "stream_options"),
        ({"stream": True, "stream_options": {"include_uasge": True}}, "it must be {", "stream_options"),
        ({"min_tokens": 9, "max_tokens": 3}, "min_tokens is 9 and max_tokens 3", "min_tokens"),
        ({"max_tokens": 0}, "max_tokens is 0 without echo; it must be 1 or more then", "max_tokens"),
    ],
)
def test_a_completion_s_parameter_is_refused_with_its_value_and_what_is_allowed(fields, said, param):
    async def scenario(served):
        return await served.complete(**{"prompt": "a", **fields})

    answer = serve(scenario)
    assert answer.status_code == 400 and said in answer.json()["error"]["message"], answer.text
    assert answer.json()["error"]["param"] == param


def test_log_probabilities_of_the_likeliest_need_those_of_the_chosen():
    async def scenario(served):
        return await served.chat("a", top_logprobs=2)

    assert "top_logprobs is 2 without logprobs" in serve(scenario).json()["error"]["message"]


def test_more_answers_than_there_will_ever_be_places_for_are_no_matter_of_waiting():
    async def scenario(served):
        return await served.complete("a", n=4)

    answer = serve(scenario, max_running=1, max_waiting=2)
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "n"
    assert "n makes 4 requests; at most 3 may run or wait" in answer.json()["error"]["message"]


# --- Other clients' requests, as they send them ------------------------------------------------------------------


def test_the_requests_of_vllm_bench_serve_are_answered():
    completion = {
        "model": "tiny", "prompt": "a", "repetition_penalty": 1.0, "max_tokens": 4, "logprobs": None, "stream": True,
        "stream_options": {"include_usage": True}, "temperature": 0.0, "ignore_eos": True,
    }  # fmt: skip
    chat = {
        "model": "tiny", "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}], "stream": True,
        "max_completion_tokens": 4, "stream_options": {"include_usage": True}, "temperature": 0.0,
        "top_p": 1.0, "top_k": -1, "min_p": 0.0, "frequency_penalty": 0.0, "presence_penalty": 0.0, "ignore_eos": True,
    }  # fmt: skip

    async def scenario(served):
        answers = [
            await served.client.post("/v1/completions", json=completion),
            await served.client.post("/v1/chat/completions", json=chat),
        ]
        return [events_of(answer)[-1]["usage"]["completion_tokens"] for answer in answers]

    assert serve(scenario) == [4, 4]


# --- The server's time limit -------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_what_is_there_when_the_time_is_over_is_the_answer_and_it_ended_for_its_length(stream):
    async def scenario(served):
        engine, gate = served.engine, None
        step = engine.step

        def three_steps():
            nonlocal gate
            if len(engine.records) == 3 and gate is None:
                gate = Gate(engine)
                return engine.step()
            return step()

        engine.step = three_steps
        answer = await served.complete("a", max_tokens=30, stream=stream)
        gate.open()
        await until(lambda: not served.thread.n_open)
        return answer

    answer = serve(scenario, limits=Limits(max_seconds=1.0))
    choice = answer.json()["choices"][0] if not stream else None
    text, reason = (
        (text_of(events_of(answer)), events_of(answer)[-1]["choices"][0]["finish_reason"])
        if stream
        else (choice["text"], choice["finish_reason"])
    )
    assert (text, reason) == ("bcd", "length")


def test_a_failure_inside_the_server_in_mid_stream_is_an_event_and_the_last(caplog):
    async def scenario(served):
        import nanolm.serving.answers as answers

        take, calls = answers.Answer.take, []

        def failing(self, output, scored=None):
            calls.append(1)
            if len(calls) == 3:
                raise RuntimeError("boom")
            return take(self, output, scored)

        answers.Answer.take = failing
        try:
            return await served.complete("a", max_tokens=9, stream=True)
        finally:
            answers.Answer.take = take

    answer = serve(scenario)
    events = answer.text.removesuffix("\n\n").split("\n\n")
    assert json.loads(events[-1].removeprefix("data: "))["error"]["code"] == "internal_error"
    assert "[DONE]" not in answer.text and "boom" not in answer.text and "boom" in caplog.text
    assert len(events) == 3, "two pieces and the error"
