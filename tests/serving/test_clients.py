"""OpenAI's own client against a server on a socket: synchronous and not, streamed and whole, formats and tools."""

import asyncio
import json

import jsonschema
import openai
import pytest
from serving import ALPHABET, PATIENCE_SECONDS, random_model
from successor_model import successor_model
from tool_templates import TEMPLATES, tool_tokenizer
from web_server import running

QUESTION = [{"role": "user", "content": "a"}]
ARGUMENTS = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 6},
        "days": {"type": "array", "items": {"enum": [1, 2, 3]}, "maxItems": 3},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def server():
    with running(successor_model(ALPHABET), n_blocks=256) as started:
        yield started


@pytest.fixture(scope="module")
def tool_server():
    tokenizer = tool_tokenizer(TEMPLATES["between tags"])
    model = random_model(vocab_size=tokenizer.vocab_size, max_positions=1024)
    with running(model, tokenizer=tokenizer, n_blocks=512) as started:
        yield started


def client(server, kind=openai.OpenAI):
    return kind(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=PATIENCE_SECONDS)


def test_a_model_is_found_by_its_name_and_an_unknown_one_is_not(server):
    with client(server) as asking:
        assert asking.models.retrieve("tiny").id == "tiny"
        with pytest.raises(openai.NotFoundError, match="no model 'gpt-5' is served"):
            asking.models.retrieve("gpt-5")


def test_a_completion_with_all_it_can_have(server):
    with client(server) as asking:
        answer = asking.completions.create(
            model="tiny", prompt=["a", "d"], max_tokens=3, temperature=0, echo=True, logit_bias={"5": -100}, user="me"
        )
        assert [choice.text for choice in answer.choices] == ["abcd", "defg"]
        scored = asking.completions.create(model="tiny", prompt="a", max_tokens=3, temperature=0, logprobs=2)
    assert scored.choices[0].logprobs.tokens == ["b", "c", "d"] and len(scored.choices[0].logprobs.top_logprobs[0]) == 2
    assert scored.usage.prompt_tokens_details.cached_tokens == 0


def test_a_chat_with_log_probabilities(server):
    with client(server) as asking:
        answer = asking.chat.completions.create(
            model="tiny", messages=QUESTION, max_tokens=3, temperature=0, logprobs=True, top_logprobs=1
        )
    content = answer.choices[0].logprobs.content
    assert [each.token for each in content] == ["b", "c", "d"] and content[0].top_logprobs[0].token == "b"


def test_the_asynchronous_client_streams_many_at_a_time(server):
    async def one(asking):
        stream = await asking.chat.completions.create(
            model="tiny", messages=QUESTION, max_tokens=5, temperature=0, stream=True
        )
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    async def all_of_them():
        async with client(server, openai.AsyncOpenAI) as asking:
            return await asyncio.gather(*(one(asking) for _ in range(16)))

    assert asyncio.run(all_of_them()) == ["bcdef"] * 16


def test_a_format_is_followed(server):
    pytest.importorskip("llguidance", reason="the library llguidance is not installed: no JSON schema was followed")
    wanted = {"type": "json_schema", "json_schema": {"name": "it", "schema": ARGUMENTS, "strict": True}}
    with client(server) as asking:
        for seed in range(5):
            answer = asking.chat.completions.create(
                model="tiny", messages=QUESTION, max_tokens=200, seed=seed, response_format=wanted
            )
            jsonschema.validate(json.loads(answer.choices[0].message.content), ARGUMENTS)


def test_a_tool_is_called_its_answer_given_and_the_conversation_goes_on(tool_server):
    pytest.importorskip("llguidance", reason="the library llguidance is not installed: no tool was called")
    tools = [{"type": "function", "function": {"name": "weather", "parameters": ARGUMENTS}}]
    with client(tool_server) as asking:
        asked = dict(model="tiny", tools=tools, max_tokens=200, temperature=0)
        first = asking.chat.completions.create(messages=QUESTION, tool_choice="required", **asked).choices[0]
        (call,) = first.message.tool_calls
        assert first.finish_reason == "tool_calls" and call.function.name == "weather"
        jsonschema.validate(json.loads(call.function.arguments), ARGUMENTS)
        result = {"role": "tool", "tool_call_id": call.id, "content": "rain"}
        after = [*QUESTION, first.message.to_dict(), result]
        second = asking.chat.completions.create(messages=after, tool_choice="none", **{**asked, "max_tokens": 5})
        assert second.choices[0].message.role == "assistant"


def test_a_streamed_call_is_put_together_by_the_client(tool_server):
    pytest.importorskip("llguidance", reason="the library llguidance is not installed: no tool was called")
    tools = [{"type": "function", "function": {"name": "weather", "parameters": ARGUMENTS}}]
    asked = dict(model="tiny", messages=QUESTION, tools=tools, tool_choice="required", max_tokens=200)
    asked["parallel_tool_calls"] = False  # a random model would go on with a second one, up to the limit
    with client(tool_server) as asking, asking.chat.completions.stream(**asked) as stream:
        answer = stream.get_final_completion()
    (call,) = answer.choices[0].message.tool_calls
    jsonschema.validate(json.loads(call.function.arguments), ARGUMENTS)


def test_what_is_refused_is_the_client_s_own_kind_of_error(server):
    with client(server) as asking:
        with pytest.raises(openai.BadRequestError) as refused:
            asking.chat.completions.create(model="tiny", messages=QUESTION, top_logprobs=2)
        assert refused.value.param == "top_logprobs"
