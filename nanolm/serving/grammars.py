"""The grammars that requests ask for, made for the tokenizer of the model that is served."""

import json
import re
from functools import cached_property
from typing import Any

from ..grammar.constraint import Grammar
from ..grammar.guidance import GrammarCompiler
from ..grammar.optional import OptionalGrammar
from ..openai_api.chat import ChatBody
from ..openai_api.refusal import Refusal
from ..openai_api.request import RequestBody
from ..text.chat import chat_template
from ..text.rendered_chat import RenderedChat
from ..text.tokenizer import Tokenizer
from ..text.tool_calls import ID, ID_LENGTH, ToolCallFormat, tool_call_format

# What a function takes whose parameters are left out, as with OpenAI.
_NO_PARAMETERS = {"properties": {}, "additionalProperties": False}


class Grammars:
    """Makes grammars; what it needs once for a tokenizer is made when the first is asked for."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def of(self, asked: RequestBody) -> Grammar | None:
        """Return the grammar of the answers to a request; None: they may be anything.

        Raises:
            Refusal: a schema that is none or cannot be followed; the library for it is not installed.
        """
        calls = self.calls_of(asked)
        if asked.schema_of_answer is None and calls is None:
            return None
        param = "response_format" if calls is None else "tools"
        try:
            if calls is None or not isinstance(asked, ChatBody):
                return self.compiler.from_json_schema(asked.schema_of_answer)
            return self._of_calls(calls, asked)
        except ModuleNotFoundError as error:
            raise Refusal(400, f"{param}: {error}", param, "unsupported_parameter") from None
        except ValueError as error:
            raise Refusal(
                400, f"{param} has a schema that cannot be followed: {error}", param, "invalid_schema"
            ) from None

    def calls_of(self, asked: RequestBody) -> ToolCallFormat | None:
        """Return how calls look in the answers to a request; None where nothing may be called.

        Raises:
            Refusal: the model's template writes none that could be read.
        """
        if not isinstance(asked, ChatBody) or not asked.callable_tools:
            return None
        try:
            return self._call_format
        except ValueError as error:
            names = [tool["name"] for tool in asked.callable_tools]
            raise Refusal(400, f"tools is a list of {names}; {error}", "tools", "unsupported_parameter") from None

    @cached_property
    def compiler(self) -> GrammarCompiler:
        """What turns schemas into grammars."""
        return GrammarCompiler(self.tokenizer)

    @cached_property
    def _call_format(self) -> ToolCallFormat:
        template = chat_template(self.tokenizer)
        if not isinstance(template, RenderedChat):
            raise ValueError("the model has no chat template that knows tools")
        return tool_call_format(template, self.tokenizer)

    def _of_calls(self, calls: ToolCallFormat, asked: ChatBody) -> Grammar:
        # Each tool's schema is a root of its own: its references are to parts of itself.
        rules = {f"call_{i}": tool for i, tool in enumerate(asked.callable_tools)}
        opening = calls.opening if asked.must_call else calls.opening.lstrip()
        more = f"({' '.join(self._literals(calls.between))} call)*" if calls.between and asked.may_call_more else ""
        lines = [
            f"start: {' '.join([*self._literals(opening), 'call', more, *self._literals(calls.closing)])}",
            f"call: {' | '.join(rules)}",
            *(f"{rule}: {' '.join(self._call(calls, tool))}" for rule, tool in rules.items()),
        ]
        grammar = self.compiler.from_lark("\n".join(lines) + "\n")
        return grammar if asked.must_call else OptionalGrammar(grammar, calls.trigger, self.compiler, calls.is_marked)

    def _call(self, calls: ToolCallFormat, tool: dict[str, Any]) -> list[str]:
        key, item = calls.separators
        spaces = {"key_separator": key, "item_separator": item, "whitespace_flexible": False}
        schema = {"type": "object", **(tool.get("parameters") or _NO_PARAMETERS), "x-guidance": spaces}
        return [*self._literals(tool["name"] + calls.middle), f"%json {json.dumps(schema)}"]

    def _literals(self, text: str) -> list[str]:
        """A text in the library's words: strings, special tokens by their numbers, and the number of a call."""
        special = self.tokenizer.special_texts
        pattern = "|".join(map(re.escape, [ID, *sorted(special, key=len, reverse=True)]))
        return [self._literal(part) for part in re.split(f"({pattern})", text) if part]

    def _literal(self, part: str) -> str:
        if part == ID:
            return f"/[a-zA-Z0-9]{{{ID_LENGTH}}}/"
        is_special = part in self.tokenizer.special_texts
        return f"<[{self.tokenizer.inner.token_to_id(part)}]>" if is_special else json.dumps(part)
