"""What a client gets, in OpenAI's words: whole answers, pieces of streamed ones, and models."""

import json
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

DONE = "data: [DONE]\n\n"


@dataclass
class CallPiece:
    """A piece of a tool's call: the first has its number and name, those that follow more of its arguments.

    Attributes:
        index: of the call in its answer.
        arguments: JSON, or the next characters of it.
    """

    index: int
    id: str | None = None
    name: str | None = None
    arguments: str = ""

    def body(self) -> dict[str, Any]:
        """Return it as a client expects it in a stream."""
        function = {} if self.name is None else {"name": self.name}
        head = {} if self.id is None else {"id": self.id, "type": "function"}
        return {"index": self.index, **head, "function": {**function, "arguments": self.arguments}}


@dataclass
class Choice:
    """One answer, or a piece of it.

    Attributes:
        text: what it adds.
        reason: why it ended, None while it goes on.
        logprobs: of its tokens, as `LogprobFormat` has them; None where nobody asked.
        calls: of tools, piece by piece.
    """

    text: str = ""
    reason: str | None = None
    logprobs: dict[str, Any] | None = None
    calls: list[CallPiece] = field(default_factory=list)


@dataclass
class Usage:
    """Tokens of a request; each prompt counts once, however many answers it gets.

    Attributes:
        n_prompt, n_new: read and written.
        n_cached: of the prompts', those that the prefix cache had.
    """

    n_prompt: int = 0
    n_new: int = 0
    n_cached: int = 0

    def body(self) -> dict[str, Any]:
        """Return it as a client expects it."""
        return {
            "prompt_tokens": self.n_prompt,
            "completion_tokens": self.n_new,
            "total_tokens": self.n_prompt + self.n_new,
            "prompt_tokens_details": {"cached_tokens": self.n_cached},
        }


class AnswerFormat:
    """The shape of one answer.

    Args:
        model: the name of the model.
        chat: whether it answers a conversation or completes a text.
        counted: whether a stream ends with the numbers of tokens; its other pieces then say that they have none.

    Attributes:
        id: of the answer.
    """

    def __init__(self, model: str, chat: bool, counted: bool = False) -> None:
        self.chat, self.counted = chat, counted
        self._object = "chat.completion" if chat else "text_completion"
        self.id = f"{'chatcmpl' if chat else 'cmpl'}-{uuid.uuid4().hex}"
        self._head = {"id": self.id, "created": int(time.time()), "model": model}

    def whole(self, choices: Sequence[Choice], usage: Usage) -> dict[str, Any]:
        """Return the answer with all its choices."""
        shown = []
        for index, choice in enumerate(choices):
            content = {"message": _message(choice)} if self.chat else {"text": choice.text}
            shown.append({"index": index, **content, "logprobs": choice.logprobs, "finish_reason": choice.reason})
        return {"object": self._object, **self._head, "choices": shown, "usage": usage.body()}

    def opening(self, index: int) -> dict[str, Any]:
        """Return what a choice's stream begins with in a chat: who speaks."""
        return self._piece(index, {"delta": {"role": "assistant", "content": ""}}, Choice())

    def piece(self, index: int, choice: Choice) -> dict[str, Any]:
        """Return a piece of a choice."""
        delta: dict[str, Any] = {"content": choice.text} if choice.text else {}
        if choice.calls:
            delta["tool_calls"] = [piece.body() for piece in choice.calls]
        return self._piece(index, {"delta": delta} if self.chat else {"text": choice.text}, choice)

    def closing(self, usage: Usage) -> dict[str, Any]:
        """Return the numbers of tokens, a piece without choices."""
        return {**self._piece_head(), "choices": [], "usage": usage.body()}

    def _piece(self, index: int, content: dict[str, Any], choice: Choice) -> dict[str, Any]:
        shown = {"index": index, **content, "logprobs": choice.logprobs, "finish_reason": choice.reason}
        return {**self._piece_head(), "choices": [shown], **({"usage": None} if self.counted else {})}

    def _piece_head(self) -> dict[str, Any]:
        return {"object": self._object + (".chunk" if self.chat else ""), **self._head}


def _message(choice: Choice) -> dict[str, Any]:
    if choice.calls:
        return {"role": "assistant", "content": choice.text or None, "tool_calls": _whole(choice.calls)}
    return {"role": "assistant", "content": choice.text}


def _whole(pieces: Sequence[CallPiece]) -> list[dict[str, Any]]:
    """The calls that pieces make."""
    calls: dict[int, dict[str, Any]] = {}
    for piece in pieces:
        if piece.index not in calls:
            calls[piece.index] = {name: value for name, value in piece.body().items() if name != "index"}
        else:
            calls[piece.index]["function"]["arguments"] += piece.arguments
    return [*calls.values()]


def event(content: dict[str, Any]) -> str:
    """Return a server-sent event."""
    return f"data: {json.dumps(content, ensure_ascii=False, separators=(',', ':'))}\n\n"


def model_card(name: str, created: int) -> dict[str, Any]:
    """Return what is said of a model."""
    return {"id": name, "object": "model", "created": created, "owned_by": "nanolm"}


def model_list(name: str, created: int) -> dict[str, Any]:
    """Return the list of models that are served: one."""
    return {"object": "list", "data": [model_card(name, created)]}
