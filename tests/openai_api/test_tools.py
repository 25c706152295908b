"""Tests `tools`: calls in the model's own words, read off its chat template, with arguments of their schema."""

import asyncio
import json

import jsonschema
import pytest
from serving import events_of, random_model, serving, text_of
from successor_model import successor_model
from tool_templates import NO_JSON, NO_TOOLS, SEVERAL, TEMPLATES, tool_tokenizer

from nanolm.text import ID, RenderedChat, tool_call_format

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
NAMED = {"type": "function", "function": {"name": "weather"}}
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
        asked = dict(tools=[WEATHER, CLOCK], max_tokens=200, temperature=1, n=4, tool_choice=NAMED)
        return (await served.chat("x", seed=1, **asked)).json()["choices"]

    for choice in serve(scenario, template, draft=draft):
        assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] is None, choice
        (call,) = choice["message"]["tool_calls"]
        assert call["type"] == "function" and (call["id"].startswith("call_") or len(call["id"]) == 9)
        assert call["function"]["name"] == "weather"
        jsonschema.validate(json.loads(call["function"]["arguments"]), ARGUMENTS)


def test_required_means_any_of_them():
    names = set()
    for seed in range(12):
        choice = choice_of(TEMPLATES["between tags"], tool_choice="required", temperature=1, seed=seed, max_tokens=300)
        names.add(choice["message"]["tool_calls"][0]["function"]["name"])
    assert names == {"weather", "clock"}


def put_together(events):
    """The calls that a client makes of a stream's pieces, as OpenAI's says: by index, arguments joined."""
    calls = {}
    for piece in (each for event in events for each in event["choices"][0]["delta"].get("tool_calls", [])):
        if piece["index"] not in calls:
            assert piece["type"] == "function" and piece["function"]["arguments"] == "", "first the name"
            calls[piece["index"]] = {"id": piece["id"], "name": piece["function"]["name"], "arguments": ""}
        else:
            assert set(piece) == {"index", "function"} and set(piece["function"]) == {"arguments"}
            calls[piece["index"]]["arguments"] += piece["function"]["arguments"]
    return [calls[i] for i in range(len(calls))]


@each_template
def test_a_streamed_call_comes_in_pieces_that_are_the_whole_one(template):
    asked = dict(tool_choice="required", temperature=1, seed=5, max_tokens=300)

    async def scenario(served):
        return events_of(await served.chat("x", tools=[WEATHER], stream=True, **asked))

    events = serve(scenario, template)
    assert text_of(events) == "" and events[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert len(events) > 8, "piece by piece"
    message = choice_of(template, tools=[WEATHER], **asked)["message"]
    whole = [call["function"] for call in message["tool_calls"]]
    assert [{"name": call["name"], "arguments": call["arguments"]} for call in put_together(events)] == whole
    for call in whole:
        jsonschema.validate(json.loads(call["arguments"]), ARGUMENTS)


@pytest.mark.parametrize("template", [TEMPLATES[name] for name in sorted(SEVERAL)], ids=sorted(SEVERAL))
def test_an_answer_may_be_several_calls_unless_they_are_asked_for_one_by_one(template):
    """The model is kept from what ends an answer: so it calls until its tokens are over, or has to stop after one."""
    ends = [0, *tool_tokenizer(template).encode("<|im_end|>]")]
    asked = dict(tool_choice="required", temperature=1, seed=2, logit_bias={str(token): -100 for token in ends})
    calls = choice_of(template, tools=[WEATHER], max_tokens=400, **asked)["message"]["tool_calls"]
    assert len(calls) > 3 and len({call["id"] for call in calls}) == len(calls)
    for call in calls[:-1]:
        jsonschema.validate(json.loads(call["function"]["arguments"]), ARGUMENTS)
    alone = choice_of(template, tools=[WEATHER], parallel_tool_calls=False, max_tokens=400, **asked)
    assert len(alone["message"]["tool_calls"]) == 1 and alone["finish_reason"] == "tool_calls"


def test_numbers_of_calls_are_such_as_the_template_takes_back():
    name = "a list with numbers of nine characters"
    (call,) = choice_of(TEMPLATES[name], tools=[WEATHER], tool_choice=NAMED)["message"]["tool_calls"]
    assert len(call["id"]) == 9 and call["id"].isalnum()


def test_an_answer_that_ends_in_mid_call_is_what_there_is_of_it_and_ended_for_its_length():
    choice = choice_of(TEMPLATES["between tags"], tools=[WEATHER], tool_choice=NAMED, max_tokens=60)
    (call,) = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "length" and call["function"]["name"] == "weather"
    assert call["function"]["arguments"].startswith('{"') and not call["function"]["arguments"].endswith("}")


@pytest.mark.parametrize("draft", [None, "prompt-lookup"], ids=["plain", "speculating"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_call_may_stand_behind_text_which_is_kept(draft, stream):
    """The model writes "Wel<do=", of which "<d" could be the end of a word; from the tag on it is bound."""
    template = TEMPLATES["a name in the tag"]
    tokenizer = tool_tokenizer(template)
    model = successor_model("\nWel<do=", vocab_size=tokenizer.vocab_size, max_positions=1024, end_id=0)

    async def scenario(served):
        answer = await served.chat("x", tools=[WEATHER], max_tokens=200, stream=stream)
        if stream:
            events = events_of(answer)
            calls = [{"function": call} for call in put_together(events)]
            return text_of(events), calls, events[-1]["choices"][0]["finish_reason"]
        choice = answer.json()["choices"][0]
        return choice["message"]["content"], choice["message"]["tool_calls"], choice["finish_reason"]

    text, calls, reason = serve(scenario, template, model, draft=draft)
    assert (text, reason) == ("Wel", "tool_calls") and calls[0]["function"]["name"] == "weather"
    jsonschema.validate(json.loads(calls[0]["function"]["arguments"]), ARGUMENTS)


def test_allowed_tools_are_those_that_may_be_called():
    def choose(mode):
        tools = [{"type": "function", "function": {"name": "clock"}}]
        return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}

    for seed in range(4):
        choice = choice_of(TEMPLATES["bare"], tool_choice=choose("required"), temperature=1, seed=seed)
        assert [call["function"] for call in choice["message"]["tool_calls"]] == [{"name": "clock", "arguments": "{}"}]
    assert "tool_calls" not in choice_of(TEMPLATES["bare"], tool_choice=choose("auto"), max_tokens=5)["message"]


def test_a_schema_s_references_are_to_its_own_parts():
    """As pydantic's models write them, whose parts stand under $defs."""
    place = {"type": "object", "properties": {"no": {"type": "integer", "minimum": 1, "maximum": 99}}}
    place |= {"required": ["no"], "additionalProperties": False}
    schema = {"type": "object", "properties": {"place": {"$ref": "#/$defs/Place"}}, "$defs": {"Place": place}}
    schema |= {"required": ["place"], "additionalProperties": False}
    tools = [function(name="go", parameters=schema), CLOCK]
    choice = choice_of(TEMPLATES["between tags"], tools=tools, tool_choice={**NAMED, "function": {"name": "go"}})
    jsonschema.validate(json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"]), schema)


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
        ({"tools": [function(name="a", parameters={"type": "array"})]}, "tools is [", "tools"),
        ({"tool_choice": {"type": "function", "function": {"name": "no"}}}, "tool_choice is 'no'", "tool_choice"),
        ({"tool_choice": "perhaps"}, 'it must be "none", "auto", "required"', "tool_choice"),
        ({"tools": [], "tool_choice": "required"}, "tool_choice is 'required' and tools is empty", "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "response_format is given beside tools", "response_format"),
        ({"tools": [function(name="a", parameters={"properties": {"b": {"type": "x"}}})]}, "has a schema", "tools"),
        ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {}}}, "tool_choice is {", "tool_choice"),
    ],
)  # fmt: skip
def test_tools_that_cannot_be_are_refused(fields, said, param):
    async def scenario(served):
        return await served.chat("x", **{"tools": [WEATHER], **fields})

    answer = serve(scenario, TEMPLATES["between tags"])
    assert answer.status_code == 400 and said in answer.json()["error"]["message"], answer.text
    assert answer.json()["error"]["param"] == param


@pytest.mark.parametrize("name", TEMPLATES)
def test_how_a_template_writes_calls_is_read_off_it(name):
    """What the template makes of calls is, in its parts' words, what it has made of them."""
    found = tool_call_format(RenderedChat(TEMPLATES[name], {}), tool_tokenizer(TEMPLATES[name]))
    calls = [("f", {"x": 1, "y": [2]}), ("g", {})]
    said = [
        {"id": "abcdefgh9", "type": "function", "function": {"name": name, "arguments": its}} for name, its in calls
    ]
    answer = {"role": "assistant", "content": "", "tool_calls": said}
    rendered = RenderedChat(TEMPLATES[name], {}).render([answer], False)
    written = [f"{name}{found.middle}{json.dumps(its)}" for name, its in calls][: 1 if found.between is None else 2]
    text = found.opening + (found.between or "").join(written) + found.closing
    assert text.replace(ID, "abcdefgh9") in rendered and (found.between is not None) == (
        name in SEVERAL | {"between tags"}
    )


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("{{ c.function.arguments | tojson }}{{ c.function.name }}", "no JSON of arguments behind a name"),
        ("{{ c.function.name }}{{ c.function.arguments | tojson }}", "or nothing behind it"),
        ("{{ c.function.name }}: {{ c.function.arguments.a }}", "no JSON of arguments behind a name"),
        ("<{{ c.function.name }}>{{ c.function.arguments | tojson }}</{{ c.function.name }}>", "name of a tool twice"),
        ("{{ c.id }} {{ c.function.name }} {{ c.function.arguments | tojson }}", "the number of a call before"),
    ],
)
def test_calls_in_a_form_that_cannot_be_followed_are_refused_with_why(call, why):
    template = TEMPLATES["between tags"].partition("<tool_call>")[0] + call + "{% endfor %}" + "{% endif %}{% endfor %}"
    with pytest.raises(ValueError, match=why):
        tool_call_format(RenderedChat(template, {}), tool_tokenizer(template))
