"""Tests `response_format`: JSON that follows a schema, whatever the model would have written; and what is refused."""

import asyncio
import json
import sys

import jsonschema
import pytest
from serving import events_of, random_model, serving, text_of

from nanolm.grammar import GAVE_UP, GuidanceConstraint

pytest.importorskip("llguidance", reason="the library llguidance is not installed: no JSON schema was followed")

MODEL = random_model(eos_token_ids=(0,), max_positions=512)
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "maxItems": 3},
        "address": {
            "type": "object",
            "properties": {"street": {"type": "string", "maxLength": 8}, "no": {"type": "integer", "maximum": 99}},
            "required": ["street"],
            "additionalProperties": False,
        },
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
SCHEMAS = {
    "an object": PERSON,
    "one of several words": {"enum": ["yes", "no", "perhaps"]},
    "a bounded list": {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4},
    "either of two": {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]},
    "a pattern": {"type": "string", "pattern": "^[a-c]{3}-[0-9]{2}$"},
    "recursive": {
        "$defs": {"tree": {
            "type": "object",
            "properties": {"v": {"type": "boolean"}, "l": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}},
            "required": ["v", "l"], "additionalProperties": False,
        }},
        "$ref": "#/$defs/tree",
    },
}  # fmt: skip


def serve(scenario, model=MODEL, **options):
    async def run():
        async with serving(model, n_blocks=256, **options) as served:
            return await scenario(served)

    return asyncio.run(run())


def following(schema):
    return {"type": "json_schema", "json_schema": {"name": "it", "schema": schema, "strict": True}}


@pytest.mark.parametrize("draft", [None, "prompt-lookup"], ids=["plain", "speculating"])
@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_a_random_model_writes_what_the_schema_allows_and_ends_there(schema, draft):
    async def scenario(served):
        answers = [
            served.chat(f"{i}", n=4, temperature=1, seed=i, max_tokens=300, response_format=following(schema))
            for i in range(3)
        ]
        return [choice for answer in await asyncio.gather(*answers) for choice in answer.json()["choices"]]

    for choice in serve(scenario, draft=draft):
        if schema is SCHEMAS["recursive"] and choice["finish_reason"] == "length":
            continue  # nothing bounds its depth
        assert choice["finish_reason"] == "stop", choice
        jsonschema.validate(json.loads(choice["message"]["content"]), schema)


@pytest.mark.parametrize(
    "rules", [{"temperature": 0}, {"logit_bias": {"10": 100, "65": 100}}, {"repetition_penalty": 5}]
)
def test_no_other_rule_breaks_the_format(rules):
    async def scenario(served):
        answer = await served.complete("x", max_tokens=300, response_format=following(PERSON), **rules)
        return answer.json()["choices"][0]

    jsonschema.validate(json.loads(serve(scenario)["text"]), PERSON)


def test_a_stream_is_the_same_json_in_pieces():
    async def scenario(served):
        asked = dict(max_tokens=300, response_format=following(PERSON))
        whole = (await served.chat("x", **asked)).json()["choices"][0]["message"]["content"]
        return whole, text_of(events_of(await served.chat("x", stream=True, **asked)))

    whole, streamed = serve(scenario)
    assert whole == streamed and json.loads(whole)


def test_a_json_object_is_one_object_or_the_beginning_of_one():
    async def scenario(served):
        asked = dict(max_tokens=400, temperature=1, response_format={"type": "json_object"})
        return [(await served.chat("x", seed=i, **asked)).json()["choices"][0] for i in range(6)]

    ended = 0
    for choice in serve(scenario):
        assert choice["message"]["content"].startswith("{")
        if choice["finish_reason"] == "stop":
            assert isinstance(json.loads(choice["message"]["content"]), dict)
            ended += 1
    assert ended, "none of six came to its end"


def test_of_200_answers_200_are_valid():
    async def scenario(served):
        asked = dict(n=8, temperature=1.0, max_tokens=300, response_format=following(PERSON))
        answers = await asyncio.gather(*(served.chat("x", seed=100 * i, **asked) for i in range(25)))
        return [choice["message"]["content"] for answer in answers for choice in answer.json()["choices"]]

    texts = serve(scenario, max_waiting=400)
    assert len(texts) == 200 and len(set(texts)) > 150
    for text in texts:
        jsonschema.validate(json.loads(text), PERSON)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"type": "xml"}, "response_format is {'type': 'xml'}; it must be {\"type\": \"text\"}"),
        ({"type": "json_schema"}, "response_format is {'type': 'json_schema'}; it must be"),
        ({"type": "json_object", "json_schema": {"schema": {}}}, "it must be"),
        ("json", "response_format is 'json'"),
        (following({"type": "nothing"}), "a schema that cannot be followed: Invalid type: nothing"),
        (following({"type": "string", "pattern": "("}), "a schema that cannot be followed: regex"),
        (following({"$ref": "#/nowhere"}), "a schema that cannot be followed"),
        (following({"$ref": "https://example.org/schema.json"}), "a schema that cannot be followed"),
        (following({"type": "object", "properties": 5}), "a schema that cannot be followed"),
        (following({"$ref": "#"}), "a schema that cannot be followed"),
        (following({"not": {"type": "string"}}), "a schema that cannot be followed: Unimplemented keys"),
        (following({"anyOf": [{"properties": {"a": {"const": i}}} for i in range(3000)]}), "cannot be followed"),
        (following(5), "response_format is {"),
    ],
)
def test_a_format_that_cannot_be_followed_is_refused(wanted, said):
    async def scenario(served):
        return await served.chat("a", response_format=wanted)

    answer = serve(scenario)
    assert answer.status_code == 400 and said in answer.json()["error"]["message"], answer.text
    assert answer.json()["error"]["param"] == "response_format"


def test_a_grammar_that_gives_up_in_mid_answer_is_the_client_s_error_and_ends_no_other(monkeypatch):
    allowed = GuidanceConstraint.allowed

    def giving_up(self, answer, drafted):
        if len(answer) > 3:
            raise ValueError(f"{GAVE_UP}: too complex")
        return allowed(self, answer, drafted)

    monkeypatch.setattr(GuidanceConstraint, "allowed", giving_up)

    async def scenario(served):
        asked = served.chat("a", max_tokens=50, response_format=following(PERSON))
        return await asyncio.gather(asked, served.chat("b", max_tokens=9))

    refused, other = serve(scenario)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "grammar_too_complex")
    assert other.status_code == 200


@pytest.mark.parametrize(
    "schema",
    [{"type": "string", "pattern": '[^"]*' * 2000}, {"items": {"$ref": "#"}, "type": "array", "minItems": 1}],
    ids=["a pattern of thousands", "lists in lists without end"],
)
def test_a_schema_that_grows_too_complex_with_the_answer_is_the_client_s_error(schema):
    async def scenario(served):
        return await served.chat("a", max_tokens=3, response_format=following(schema))

    answer = serve(scenario)
    assert answer.status_code == 400 and GAVE_UP in answer.json()["error"]["message"], answer.text


def test_a_minimum_length_beside_a_format_is_refused():
    async def scenario(served):
        return await served.chat("a", min_tokens=5, response_format={"type": "json_object"})

    assert "min_tokens is 5 beside response_format" in serve(scenario).json()["error"]["message"]


def test_without_the_library_it_is_told_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "llguidance", None)

    async def scenario(served):
        return await served.chat("a", response_format={"type": "json_object"}), await served.chat("a", max_tokens=2)

    refused, plain = serve(scenario)
    assert refused.status_code == 400 and refused.json()["error"]["code"] == "unsupported_parameter"
    assert "pip install -e '.[json]' -c constraints.txt" in refused.json()["error"]["message"]
    assert plain.status_code == 200
