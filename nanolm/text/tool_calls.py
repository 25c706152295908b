"""Calls of tools in a model's own words, found out from its chat template.

Families write a call each in their own way: an object of JSON between two tags, behind a token, or bare. How, is in the
template, which has to write down the calls of earlier turns: so it is handed one, and what it makes of it is looked at.
"""

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .rendered_chat import RenderedChat
from .tokenizer import Tokenizer


@dataclass(frozen=True)
class ToolCallFormat:
    """How a model writes a call: `before`, an object with the name and the arguments under two keys, `after`."""

    before: str
    name_key: str
    arguments_key: str
    after: str

    @property
    def trigger(self) -> str:
        """What an answer begins with that is a call."""
        return self.before + "{"

    def schema(self, tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the JSON schema of a call's object.

        Args:
            tools: functions, each with its name and, under "parameters", the schema of its arguments.
        """
        calls = [
            {
                "type": "object",
                "properties": {
                    self.name_key: {"const": tool["name"]},
                    self.arguments_key: tool.get("parameters") or {"type": "object"},
                },
                "required": [self.name_key, self.arguments_key],
                "additionalProperties": False,
            }
            for tool in tools
        ]
        return calls[0] if len(calls) == 1 else {"anyOf": calls}

    def read(self, text: str) -> tuple[str, dict[str, Any]] | None:
        """Return the name and the arguments of the call that a text is; None if it is none, or not all of one."""
        start = text.find("{")
        if start < 0:
            return None
        try:
            call, _ = json.JSONDecoder().raw_decode(text, start)
            return call[self.name_key], call[self.arguments_key]
        except (ValueError, KeyError):
            return None


def tool_call_format(chat: RenderedChat, tokenizer: Tokenizer) -> ToolCallFormat:
    """Return how a template writes calls.

    Raises:
        ValueError: it writes none, or in a way that is no object of JSON with a name and arguments.
    """
    name, value = (f"x{secrets.token_hex(6)}" for _ in range(2))
    function = {"name": name, "arguments": {"q": value}}
    call = {"id": "call00000", "type": "function", "function": function}
    tool = {"type": "function", "function": {"name": name, "description": "?", "parameters": {"type": "object"}}}
    question = {"role": "user", "content": "?"}
    answer = {"role": "assistant", "content": "", "tool_calls": [call]}
    opening = chat.render([question], tools=[tool])
    text = chat.render([question, answer], False, tools=[tool])
    if not text.startswith(opening):
        opening = opening[: opening.rfind(opening.rstrip()[-1]) + 1] if opening.strip() else opening
    if "tools" not in chat.variables or not text.startswith(opening):
        raise ValueError("the model's chat template knows no tools")
    return _parsed(text[len(opening) :], name, {"q": value}, tokenizer)


def _parsed(text: str, name: str, arguments: dict[str, str], tokenizer: Tokenizer) -> ToolCallFormat:
    start = text.find("{")
    try:
        call, end = json.JSONDecoder().raw_decode(text, start)
    except ValueError:
        raise ValueError("the model's chat template writes calls of tools in a form that is no JSON") from None
    keys = {json.dumps(value): key for key, value in call.items()}
    name_key, arguments_key = keys.get(json.dumps(name)), keys.get(json.dumps(arguments))
    if name_key is None or arguments_key is None or len(call) > 2:
        raise ValueError("the model's chat template writes calls of tools with other keys than a name and arguments")
    after = text[end:]
    ends = [at for special in tokenizer.special_texts if (at := after.find(special)) >= 0]
    return ToolCallFormat(text[:start], name_key, arguments_key, after[: min(ends, default=len(after))].rstrip("\n"))
