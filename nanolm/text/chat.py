"""How a conversation becomes a prompt, and where the answer to it ends.

A model continues text. It answers if the text is laid out as conversations were in its training: that layout is its
template, and a model read under another one's answers badly without any error. Its files have it as a program
(`rendered_chat`). For those without one there are two layouts: ChatML where the vocabulary has its two markers, and
plain text, for the shipped models.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..config import ModelConfig
from .detokenizer import after_start
from .rendered_chat import Message, RenderedChat
from .tokenizer import Tokenizer

ROLES = ("system", "developer", "user", "assistant")
CHATML_MARKERS = ("<|im_start|>", "<|im_end|>")


@dataclass(frozen=True)
class ChatML:
    """<|im_start|>role, a line break, the content, <|im_end|>, a line break; and the beginning of the answer's message.

    Markers that a content spells out are text, not markers: a user cannot end their own message and speak as system.

    Attributes:
        system: the system's message of a conversation that has none; empty: none.
        stops: strings that end an answer and are no part of it; here the end is a token, which is no text.
    """

    system: str = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
    stops: tuple[str, ...] = ()

    def prompt(self, messages: Sequence[Message], tokenizer: Tokenizer) -> list[int]:
        """Return the tokens up to where the answer begins; without a system's message in front, `system` is it."""
        named = [("system" if role == "developer" else role, content) for role, content in messages]
        if self.system and named[0][0] != "system":
            named.insert(0, ("system", self.system))
        start, end = _markers(tokenizer)
        text = partial(tokenizer.encode, special_tokens=False)
        ids = [token for role, content in named for token in (start, *text(f"{role}\n{content}"), end, *text("\n"))]
        return [*ids, start, *text("assistant\n")]

    def end_tokens(self, tokenizer: Tokenizer) -> tuple[int, ...]:
        """Return the tokens that end an answer, beside the model's own: the end marker."""
        return (_markers(tokenizer)[1],)


@dataclass(frozen=True)
class PlainText:
    """The layout of the worked problems: question and answer share a line, the next question stands on the next.

        user        89 + 27:
        assistant   9 + 7 = 16, 8 + 2 + 1 = 11, so 116.
        user        40 - 11:

    is the prompt "89 + 27: 9 + 7 = 16, 8 + 2 + 1 = 11, so 116.\\n40 - 11:", and the end of the line ends the answer. A
    system's message is a line of its own. Space around a content is dropped, and so may be that before an answer.

    Attributes:
        stops: strings that end an answer and are no part of it: the end of the line.
    """

    stops: tuple[str, ...] = ("\n",)

    def prompt(self, messages: Sequence[Message], tokenizer: Tokenizer) -> list[int]:
        """Return the tokens up to where the answer begins."""
        roles = [role for role, _ in messages]
        text = ""
        for i, (role, content) in enumerate(messages):
            is_answered = role == "user" and "assistant" in roles[i + 1 : i + 2]
            text += content.strip() + (" " if is_answered else "\n")
        return tokenizer.encode(text.removesuffix("\n"), special_tokens=False)

    def end_tokens(self, tokenizer: Tokenizer) -> tuple[int, ...]:
        """Return the tokens that end an answer, beside the model's own: none, its end being text."""
        return ()


ChatTemplate = RenderedChat | ChatML | PlainText


def chat_template(tokenizer: Tokenizer) -> ChatTemplate:
    """Return the template of the models that this tokenizer belongs to.

    That is the one in their files; without it ChatML if the vocabulary has the markers (and no system's message, which
    nobody knows), or plain text.
    """
    if tokenizer.chat is not None:
        return RenderedChat(tokenizer.chat, tokenizer.special)
    has_markers = all(tokenizer.inner.token_to_id(marker) is not None for marker in CHATML_MARKERS)
    return ChatML(system="") if has_markers else PlainText()


def _markers(tokenizer: Tokenizer) -> tuple[int, int]:
    """The tokens of the two markers; `chat_template` takes ChatML only for a vocabulary that has them."""
    start, end = (tokenizer.inner.token_to_id(marker) for marker in CHATML_MARKERS)
    assert start is not None and end is not None
    return start, end


def last_tokens(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Return all tokens with which an answer is over, beside the model's own, for those who look at tokens alone.

    They are the template's end tokens, and the tokens whose text holds one of its stop strings. Who can cut text at the
    stop strings needs the end tokens only, and keeps what stands before a stop string in the same token.
    """
    template = chat_template(tokenizer)
    ids = range(tokenizer.vocab_size) if template.stops else ()
    holding = (i for i in ids if any(stop in tokenizer.decode([i]) for stop in template.stops))
    return (*template.end_tokens(tokenizer), *holding)


def chat_prompt(
    messages: Sequence[Message],
    tokenizer: Tokenizer,
    config: ModelConfig | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    more: Sequence[Mapping[str, Any]] = (),
) -> list[int]:
    """Return the token ids of a conversation, up to where the model's answer begins.

    Args:
        messages: (role, content) in order, as `check_messages` wants them.
        tokenizer: the model's own; it tells which template the model knows.
        config: the model's: the prompt is then whole, its start token where the model has one. A template in Jinja
            says itself where that is, so it is as transformers' `apply_chat_template` makes it, with or without.
        tools: what the model may call, as transformers hands it to templates; messages may be those of tools then.
        more: what each message has beside role and content, as the calls of an assistant.

    Raises:
        ValueError: no messages, an unknown role, or a last message that is not the user's; a template that refuses, or
            that knows no tools where some are given.
    """
    check_messages(messages, with_tools=tools is not None)
    template = chat_template(tokenizer)
    if isinstance(template, RenderedChat):
        if tools is not None and "tools" not in template.variables:
            raise ValueError("the model's chat template knows no tools")
        return template.prompt(messages, tokenizer, tools, more)
    if tools is not None:
        raise ValueError("the model has no chat template that knows tools")
    ids = template.prompt(messages, tokenizer)
    return ids if config is None else after_start(ids, config)


def check_messages(messages: Sequence[Message], with_tools: bool = False) -> None:
    """Raise ValueError unless there are messages, their roles are known, and the user's (or a tool's) comes last."""
    roles, last = (ROLES, ("user",)) if not with_tools else ((*ROLES, "tool"), ("user", "tool"))
    if not messages:
        raise ValueError("messages is empty; it must hold at least one message of the user")
    for role, _ in messages:
        if role not in roles:
            raise ValueError(f"role is {role!r}; it must be one of {', '.join(roles)}")
    if messages[-1][0] not in last:
        raise ValueError(f"messages end with one of the {messages[-1][0]}; the last must be the user's")
