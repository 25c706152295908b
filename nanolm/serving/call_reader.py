"""An answer that may be the call of a tool: its text waits until it is known to be none."""

import json
import uuid
from collections.abc import Sequence
from typing import Any

from ..text.tool_calls import ToolCallFormat


class CallReader:
    """Reads one answer's text.

    Args:
        calls: how a call looks.
        hidden: tokens that are no text where they are special, and so are missing in what is read.
    """

    def __init__(self, calls: ToolCallFormat, hidden: Sequence[str]) -> None:
        self.calls, self._held = calls, ""
        self._trigger = calls.trigger
        for text in hidden:
            self._trigger = self._trigger.replace(text, "")
        self._trigger = self._trigger.lstrip(" ")
        self._is_text = False

    def push(self, text: str) -> str:
        """Take what comes next; return what can be shown of it as plain text."""
        self._held += text
        could_be = self._held.startswith(self._trigger) or self._trigger.startswith(self._held)
        self._is_text = self._is_text or not could_be
        if not self._is_text:
            return ""
        shown, self._held = self._held, ""
        return shown

    def end(self, text: str) -> tuple[str, dict[str, Any] | None]:
        """Take the last of it; return the text to be shown, or the call, in OpenAI's shape, that it has been."""
        shown = self.push(text)
        call = None if self._is_text else self.calls.read(self._held)
        if call is None:
            return shown + self._held, None
        function = {"name": call[0], "arguments": json.dumps(call[1], ensure_ascii=False)}
        return "", {"id": f"call_{uuid.uuid4().hex[:24]}", "type": "function", "function": function}
