"""How a conversation becomes a prompt: the one place that knows.

The shipped models were trained on plain text, so the template is plain text: that of the worked problems, where a
question and its answer share a line and the next question stands on the next. A system's message is a line of its own.

    user        89 + 27:
    assistant   9 + 7 = 16, 8 + 2 + 1 = 11, so 116.
    user        40 - 11:

is the prompt "89 + 27: 9 + 7 = 16, 8 + 2 + 1 = 11, so 116.\\n40 - 11:". The model writes the rest of the line, and the
end of the line ends the answer. The space that parts question and answer belongs to neither.
"""

from collections.abc import Sequence

END_OF_ANSWER = "\n"
ROLES = ("system", "developer", "user", "assistant")


def chat_prompt(messages: Sequence[tuple[str, str]]) -> str:
    """Return the prompt of a conversation.

    Args:
        messages: (role, content) in order, the role one of ROLES. Space around a content is dropped.

    Raises:
        ValueError: no messages, an unknown role, or a last message that is not the user's.
    """
    if not messages or messages[-1][0] != "user":
        raise ValueError("messages must end with one of the user, which the model can answer")
    prompt = ""
    for (role, content), following in zip(messages, [*(role for role, _ in messages[1:]), None], strict=True):
        if role not in ROLES:
            raise ValueError(f"role is {role!r}; it must be one of {', '.join(ROLES)}")
        is_question = role == "user" and following in ("assistant", None)
        after = "" if following is None else " " if is_question else "\n"
        prompt += content.strip() + after
    return prompt
