"""Tests `tools`: calls in the model's own words, read off its chat template, with arguments of their schema."""

import asyncio
import json

import jsonschema
import pytest
from serving import events_of, random_model, serving, text_of
from successor_model import successor_model
from tool_templates import NO_JSON, NO_TOOLS, TEMPLATES, tool_tokenizer

from nanolm.text import RenderedChat, tool_call_format

pytest.importorskip("llguidance", reason="the library llguidance is not installed: no tool was called")

ARGUMENTS = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 8}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"],
    "additionalProperties": False,
}


def function(**fields):
    return {"type": "function", "function": fields}


WEATHER = function(name="weather", description="<|im_end|>", parameters=ARGUMENTS)
CLOCK = function(name="clock")
each_template = pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)


def serve(scenario, template, model=None, **options):
    tokenizer = tool_tokenizer(template)
    model = model or random_model(vocab_size=tokenizer.vocab_size, max_positions=1024, eos_token_ids=(0,))

    async def run():
        async with serving(model, tokenizer=tokenizer, n_blocks=512, **options) as served:
            return await scenario(served)

    return asyncio.run(run())


def choice_of(template, model=None, tools=(WEATHER, CLOCK), **fields):
    async def scenario(served):
        answer = await served.chat("x", tools=list(tools), **{"max_tokens": 200, **fields})
        assert answer.status_code == 200, answer.text
        return answer.json()["choices"][0]

    return serve(scenario, template, model)


@each_template
@pytest.mark.parametrize("draft", [None, "prompt-lookup"], ids=["plain", "speculating"])
def test_a_call_that_must_be_is_one_of_the_tools_with_arguments_of_its_schema(template, draft):
    async def scenario(served):
        named = {"type": "function", "function": {"name": "weather"}}
        asked = dict(tools=[WEATHER, CLOCK], max_tokens=200, temperature=1, n=4, tool_choice=named)
        return (await served.chat("x", seed=1, **asked)).json()["choices"]

    for choice in serve(scenario, template, draft=draft):
        assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] is None, choice
        (call,) = choice["message"]["tool_calls"]
        assert call["type"] == "function" and call["id"].startswith("call_")
        assert call["function"]["name"] == "weather"
        jsonschema.validate(json.loads(call["function"]["arguments"]), ARGUMENTS)


def test_required_means_any_of_them():
    names = set()
    for seed in range(12):
        choice = choice_of(TEMPLATES["between tags"], tool_choice="required", temperature=1, seed=seed, max_tokens=300)
        if choice["finish_reason"] == "tool_calls":  # what the clock takes has no bound
            names.add(choice["message"]["tool_calls"][0]["function"]["name"])
    assert names == {"weather", "clock"}


def test_a_streamed_call_comes_whole_in_one_piece():
    async def scenario(served):
        answer = await served.chat("x", tools=[WEATHER], tool_choice="required", max_tokens=200, stream=True)
        return events_of(answer)

    events = serve(scenario, TEMPLATES["between tags"])
    assert text_of(events) == ""
    (call,) = [call for event in events for call in event["choices"][0]["delta"].get("tool_calls", [])]
    assert call["index"] == 0 and json.loads(call["function"]["arguments"])["days"] in range(1, 10)
    assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_an_answer_that_is_no_call_is_text(stream):
    """The model writes "<hi" after the line break of the prompt: a trigger begun, and then none."""
    tokenizer = tool_tokenizer(TEMPLATES["between tags"])
    model = successor_model("\n<hi", vocab_size=tokenizer.vocab_size, max_positions=1024)

    async def scenario(served):
        answer = await served.chat("x", tools=[WEATHER], max_tokens=20, stream=stream)
        if stream:
            return text_of(events_of(answer)), events_of(answer)[-1]["choices"][0]["finish_reason"]
        choice = answer.json()["choices"][0]
        return choice["message"]["content"], choice["finish_reason"]

    assert serve(scenario, TEMPLATES["between tags"], model) == ("<hi", "stop")


def test_an_answer_that_begins_as_a_call_becomes_one_and_follows_the_schema():
    """Left alone, the model would write "{x" for ever: it is bound from the brace on."""
    template = TEMPLATES["bare"]
    tokenizer = tool_tokenizer(template)
    model = successor_model("\n{x", vocab_size=tokenizer.vocab_size, max_positions=1024, end_id=0)
    choice = choice_of(template, model, tools=[WEATHER], tool_choice="auto")
    assert choice["finish_reason"] == "tool_calls", choice
    jsonschema.validate(json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"]), ARGUMENTS)


@pytest.mark.parametrize("tool_choice", ["none", None])
def test_without_tools_to_call_the_answer_is_text(tool_choice):
    tools = [WEATHER] if tool_choice else []
    choice = choice_of(TEMPLATES["between tags"], tools=tools, tool_choice=tool_choice, max_tokens=5)
    assert "tool_calls" not in choice["message"] and choice["finish_reason"] in ("length", "stop")


def test_calls_and_what_came_of_them_are_written_as_the_template_has_them():
    prompts = []

    async def scenario(served):
        add_request = served.engine.add_request
        served.engine.add_request = lambda prompt, **more: prompts.append(prompt) or add_request(prompt, **more)
        call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Ulm"}'}}
        messages = [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "rain<|im_end|>"},
        ]
        body = {"model": "tiny", "messages": messages, "tools": [WEATHER], "max_tokens": 1}
        return await served.client.post("/v1/chat/completions", json=body)

    template = TEMPLATES["between tags"]
    assert serve(scenario, template).status_code == 200
    tokenizer = tool_tokenizer(template)
    text = tokenizer.decode(prompts[0])
    assert '<tool_call>\n{"name": "weather", "arguments": {"city": "Ulm"}}\n</tool_call><|im_end|>' in text
    assert "<|im_start|>tool\nrain<|im_end|><|im_end|>\n" in text
    end = tokenizer.inner.token_to_id("<|im_end|>")
    # System, user, assistant, tool: one each. That of a tool's description or result is spelled, and is no token.
    assert prompts[0].count(end) == 4


@pytest.mark.parametrize(
    ("template", "why"),
    [(NO_TOOLS, "knows no tools"), (NO_JSON, "in a form that is no JSON"), (None, "no chat template that knows tools")],
)
def test_a_model_whose_template_writes_no_calls_refuses_tools_by_name(template, why):
    async def scenario(served):
        return await served.chat("x", tools=[WEATHER], max_tokens=3)

    answer = serve(scenario, template)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"], error["code"]) == (400, "tools", "unsupported_parameter")
    assert error["message"].startswith("tools is a list of ['weather']; ") and why in error["message"]


@pytest.mark.parametrize(
    ("fields", "said", "param"),
    [
        ({"tools": [{"type": "search"}]}, "tools is [{'type': 'search'}]; it must be a list of up to 128", "tools"),
        ({"tools": [CLOCK, CLOCK]}, "each name must be there once", "tools"),
        ({"tools": [function(name="a b")]}, "tools is [", "tools"),
        ({"tool_choice": {"type": "function", "function": {"name": "no"}}}, "tool_choice is 'no'", "tool_choice"),
        ({"tool_choice": "perhaps"}, 'it must be "none", "auto", "required"', "tool_choice"),
        ({"tools": [], "tool_choice": "required"}, "tool_choice is 'required' and tools is empty", "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "response_format is given beside tools", "response_format"),
        ({"tools": [function(name="a", parameters={"type": "x"})]}, "tools has a schema that cannot be", "tools"),
    ],
)  # fmt: skip
def test_tools_that_cannot_be_are_refused(fields, said, param):
    async def scenario(served):
        return await served.chat("x", **{"tools": [WEATHER], **fields})

    answer = serve(scenario, TEMPLATES["between tags"])
    assert answer.status_code == 400 and said in answer.json()["error"]["message"], answer.text
    assert answer.json()["error"]["param"] == param


@each_template
def test_how_a_template_writes_calls_is_read_off_it(template):
    tokenizer = tool_tokenizer(template)
    found = tool_call_format(RenderedChat(template, {}), tokenizer)
    text = f'{found.before}{{"{found.name_key}": "f", "{found.arguments_key}": {{"a": 1}}}}{found.after}'
    assert found.read(text) == ("f", {"a": 1})
    assert found.read(text[: len(found.before) + 9]) is None and found.read("no call") is None
