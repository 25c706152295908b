"""What a client gets, in OpenAI's words: whole answers, pieces of streamed ones, and models."""

import json
import time
import uuid
from collections.abc import Sequence
from typing import Any

DONE = "data: [DONE]\n\n"


class AnswerFormat:
    """The shape of one answer.

    Args:
        model: the name of the model.
        chat: whether it answers a conversation or completes a text.
        counted: whether a stream ends with the numbers of tokens; its other pieces then say that they have none.
    """

    def __init__(self, model: str, chat: bool, counted: bool = False) -> None:
        self.chat, self.counted = chat, counted
        self._object = "chat.completion" if chat else "text_completion"
        name = "chatcmpl" if chat else "cmpl"
        self._head = {"id": f"{name}-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}

    def whole(self, texts: Sequence[str], reasons: Sequence[str | None], usage: dict[str, int]) -> dict[str, Any]:
        """Return the answer with all its choices."""
        choices = []
        for text, reason in zip(texts, reasons, strict=True):
            content = {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
            choices.append({"index": len(choices), **content, "logprobs": None, "finish_reason": reason})
        return {"object": self._object, **self._head, "choices": choices, "usage": usage}

    def opening(self, index: int) -> dict[str, Any]:
        """Return what a choice's stream begins with in a chat: who speaks."""
        return self._piece(index, {"delta": {"role": "assistant", "content": ""}})

    def piece(self, index: int, text: str) -> dict[str, Any]:
        """Return a piece of a choice's text."""
        return self._piece(index, {"delta": {"content": text}} if self.chat else {"text": text})

    def ending(self, index: int, reason: str) -> dict[str, Any]:
        """Return what a choice's stream ends with: why."""
        return self._piece(index, {"delta": {}} if self.chat else {"text": ""}, reason)

    def closing(self, usage: dict[str, int]) -> dict[str, Any]:
        """Return the numbers of tokens, a piece without choices."""
        return {**self._piece_head(), "choices": [], "usage": usage}

    def _piece(self, index: int, content: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": index, **content, "logprobs": None, "finish_reason": reason}
        return {**self._piece_head(), "choices": [choice], **({"usage": None} if self.counted else {})}

    def _piece_head(self) -> dict[str, Any]:
        return {"object": self._object + (".chunk" if self.chat else ""), **self._head}


def usage(n_prompt_tokens: int, n_new_tokens: int) -> dict[str, int]:
    """Return the numbers of tokens; the prompt counts once, however many answers it gets."""
    total = n_prompt_tokens + n_new_tokens
    return {"prompt_tokens": n_prompt_tokens, "completion_tokens": n_new_tokens, "total_tokens": total}


def event(content: dict[str, Any]) -> str:
    """Return a server-sent event."""
    return f"data: {json.dumps(content, ensure_ascii=False, separators=(',', ':'))}\n\n"


def model_list(name: str, created: int) -> dict[str, Any]:
    """Return the list of models that are served: one."""
    return {"object": "list", "data": [{"id": name, "object": "model", "created": created, "owned_by": "nanolm"}]}
