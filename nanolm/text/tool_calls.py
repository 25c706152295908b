"""Calls of tools in a model's own words, found out from its chat template.

Families write a call each in their own way: an object of JSON between two tags, behind a token, or bare. How, is in the
template, which has to write down the calls of earlier turns: so it is handed one, and two, and what it makes of them is
looked at.
"""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .rendered_chat import RenderedChat
from .tokenizer import Tokenizer

ID = "\0"  # stands in a part for the number of a call, where a family writes it down
ID_LENGTH = 9
_ARGUMENTS = r'\{{"a"(: ?)"{0}a"(, ?)"b"\1"{0}b"\}}'


@dataclass(frozen=True)
class ToolCallFormat:
    """How a model writes calls: `opening` name `middle` arguments, `between` two of them, and `closing`.

    Attributes:
        between: from the arguments of a call to the name of the next; None where an answer is one call.
        separators: behind the keys and the entries of the arguments' JSON.
        long_ids: whether the template takes numbers of calls as OpenAI has them; else they have nine characters.
    """

    opening: str
    middle: str
    between: str | None
    closing: str
    separators: tuple[str, str] = (": ", ", ")
    long_ids: bool = True

    @property
    def trigger(self) -> str:
        """What tells that a call begins: a tag or token in front of all else; without one the brace."""
        return self.opening.partition("{")[0].strip() or "{"

    @property
    def is_marked(self) -> bool:
        """Whether the trigger tells a call from other text, so that there may be some before it."""
        return self.trigger != "{"

    @property
    def spelled(self) -> str:
        """All its parts, in which special tokens may be spelled."""
        return " ".join((self.opening, self.middle, self.between or "", self.closing))

    def new_id(self) -> str:
        """Return a number for a call, of a kind that the template takes back."""
        return f"call_{secrets.token_hex(12)}" if self.long_ids else secrets.token_hex(5)[:ID_LENGTH]


def tool_call_format(chat: RenderedChat, tokenizer: Tokenizer) -> ToolCallFormat:
    """Return how a template writes calls.

    Raises:
        ValueError: it writes none, or in a way that is no name with an object of JSON behind it.
    """
    if "tools" not in chat.variables:
        raise ValueError("the model's chat template knows no tools")
    calls = [_Call(secrets.token_hex(8), secrets.token_hex(5)[:ID_LENGTH]) for _ in range(2)]
    one = _written(chat, calls[:1])
    try:
        both = _written(chat, calls)
    except ValueError:  # a family that calls one tool at a time
        both = one
    calls = calls if calls[1].name in both else calls[:1]
    return _parsed(both if len(calls) > 1 else one, calls, tokenizer, _takes_long_ids(chat))


@dataclass(frozen=True)
class _Call:
    """A call whose words are found again in any text."""

    word: str
    id: str

    @property
    def name(self) -> str:
        return f"n{self.word}"

    def body(self) -> dict[str, Any]:
        arguments = {"a": f"{self.word}a", "b": f"{self.word}b"}
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": arguments}}

    def find(self, text: str) -> tuple[int, int, re.Match[str]] | None:
        """Return where the name begins and ends, and where the arguments stand behind it."""
        start, arguments = text.find(self.name), re.search(_ARGUMENTS.format(self.word), text)
        end = start + len(self.name)
        return (start, end, arguments) if arguments and start >= 0 and end <= arguments.start() else None


def _written(chat: RenderedChat, calls: Sequence[_Call]) -> str:
    """What the template makes of an answer with these calls."""
    tools = [
        {"type": "function", "function": {"name": call.name, "description": "?", "parameters": {"type": "object"}}}
        for call in calls
    ]
    question = {"role": "user", "content": "?"}
    answer = {"role": "assistant", "content": "", "tool_calls": [call.body() for call in calls]}
    opening = chat.render([question], tools=tools)
    text = chat.render([question, answer], False, tools=tools)
    if not text.startswith(opening):
        opening = opening[: opening.rfind(opening.rstrip()[-1]) + 1] if opening.strip() else opening
    if not text.startswith(opening):
        raise ValueError("the model's chat template knows no tools")
    return text[len(opening) :]


def _takes_long_ids(chat: RenderedChat) -> bool:
    try:
        _written(chat, [_Call("f", f"call_{secrets.token_hex(12)}")])
    except ValueError:
        return False
    return True


def _parsed(text: str, calls: Sequence[_Call], tokenizer: Tokenizer, long_ids: bool) -> ToolCallFormat:
    found = [call.find(text) for call in calls]
    where = [each for each in found if each is not None]
    if len(where) < len(calls):
        raise ValueError(
            "the model's chat template writes calls of tools in a form that is no JSON of arguments behind a name"
        )
    (start, end, arguments), last = where[0], where[-1]
    between = text[arguments.end() : last[0]] if len(where) > 1 else None
    closing = text[last[2].end() :]
    ends = [at for special in tokenizer.special_texts if (at := closing.find(special)) >= 0]
    closing = closing[: min(ends, default=len(closing))].rstrip("\n")
    opening = text[:start].rpartition("</think>")[2]  # some write down that nothing was thought
    opening = opening if opening == text[:start] else opening.lstrip("\n")
    parts = [opening, text[end : arguments.start()], closing, between or ""]
    for call in calls:
        parts = [part.replace(call.id, ID) for part in parts]
    if any(call.word in part for call in calls for part in parts) or re.match(r"[\w.-]|$", parts[1]):
        raise ValueError("the model's chat template writes the name of a tool twice, or nothing behind it")
    if ID in parts[0]:
        raise ValueError("the model's chat template writes the number of a call before the name of the tool")
    separators = (arguments[1], arguments[2])
    return ToolCallFormat(parts[0], parts[1], between and parts[3], parts[2], separators, long_ids)
