"""POST /v1/chat/completions: conversations answered."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic_core import from_json

from .._require import shown
from ..config import ModelConfig
from ..text.chat import ROLES, chat_prompt, check_messages
from ..text.tokenizer import Tokenizer
from .formats import CHOICE_ALLOWED, MAX_TOOLS, TOOLS_ALLOWED, Call, NamedTool, SomeTools, Tool
from .refusal import Refusal
from .request import MAX_LOGPROBS, Prompt, RequestBody


class TextPart(BaseModel):
    """A part of a message's content."""

    model_config = ConfigDict(extra="forbid", strict=True)
    type: Annotated[str, Field(pattern="^text$")]
    text: str


class Message(BaseModel):
    """One message of a conversation; what a client sends back of our own answers besides is left out."""

    model_config = ConfigDict(extra="ignore", strict=True)
    role: str
    content: str | list[TextPart] | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None
    name: str | None = None

    @model_validator(mode="after")
    def _check_content(self) -> "Message":
        if self.content is None and not self.tool_calls:
            raise ValueError("content is missing")
        return self

    @property
    def text(self) -> str:
        """The content as one string."""
        return "".join(part.text for part in self.content) if isinstance(self.content, list) else self.content or ""

    @property
    def more(self) -> dict[str, Any]:
        """What else a template reads: a name; calls, their arguments as objects; and which one a tool answers."""
        found: dict[str, Any] = {} if self.name is None else {"name": self.name}
        if self.tool_calls:
            found["tool_calls"] = [
                {**call.model_dump(), "function": {"name": call.function.name, "arguments": _object(call)}}
                for call in self.tool_calls
            ]
        return found if self.tool_call_id is None else {**found, "tool_call_id": self.tool_call_id}


def _object(call: Call) -> dict[str, Any]:
    try:
        arguments = from_json(call.function.arguments or "{}")
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        why = f"messages has a call whose arguments are {shown(call.function.arguments)}; they must be a JSON object"
        raise Refusal(400, why, "messages")
    return arguments


class ChatBody(RequestBody):
    """The body of POST /v1/chat/completions."""

    text_param: ClassVar[str] = "messages"
    not_done: ClassVar[dict[str, Sequence[Any]]] = {"add_special_tokens": (False,)}  # the template has its own
    messages: list[Message] = Field(
        description=f"a list, each with a role ({', '.join(ROLES)}) and a content of text, the last one the user's"
    )
    max_completion_tokens: int | None = Field(None, ge=1, description="a whole number, 1 or more")
    logprobs: bool | None = Field(None, description="true or false")
    top_logprobs: int | None = Field(
        None, ge=0, le=MAX_LOGPROBS, description=f"a whole number from 0 to {MAX_LOGPROBS}, with logprobs"
    )

    tools: list[Tool] | None = Field(None, max_length=MAX_TOOLS, description=TOOLS_ALLOWED)
    tool_choice: Literal["none", "auto", "required"] | NamedTool | SomeTools | None = Field(
        None, description=CHOICE_ALLOWED
    )
    parallel_tool_calls: bool | None = Field(None, description="true or false")

    @field_validator("messages")
    @classmethod
    def _check_messages(cls, messages: list[Message]) -> list[Message]:
        check_messages([(message.role, message.text) for message in messages], with_tools=True)
        return messages

    @model_validator(mode="after")
    def _check_tools(self) -> "ChatBody":
        names = [tool.function.name for tool in self.tools or ()]
        if len(set(names)) < len(names):
            raise ValueError(f"tools is a list of {shown(names)}; each name must be there once")
        strange = [name for name in self._chosen or () if name not in names]
        if strange:
            raise ValueError(f"tool_choice is {strange[0]!r}; it must be one of tools, {shown(names)}")
        if self.tool_choice == "required" and not names:
            raise ValueError("tool_choice is 'required' and tools is empty; it must hold one or more then")
        if not names and any(message.role == "tool" or message.tool_calls for message in self.messages):
            why = "must be those of ROLES where no tools are given".replace("ROLES", ", ".join(ROLES))
            raise ValueError(f"messages is {shown([message.role for message in self.messages])} by roles; they {why}")
        if self.callable_tools and self.schema_of_answer is not None:
            raise ValueError("response_format is given beside tools; this server follows one of them at a time")
        if self.callable_tools and self.min_tokens:
            raise ValueError(f"min_tokens is {self.min_tokens} beside tools; a call says how long it is")
        return self

    @property
    def callable_tools(self) -> list[dict[str, Any]]:
        """The functions that the answer may call: those that are given, or the one that is named."""
        if self.tool_choice == "none":
            return []
        given = [tool.function.model_dump(exclude_none=True) for tool in self.tools or ()]
        return [function for function in given if self._chosen is None or function["name"] in self._chosen]

    @property
    def _chosen(self) -> list[str] | None:
        """The names of the tools that tool_choice leaves; None: all."""
        choice = self.tool_choice
        if isinstance(choice, NamedTool):
            return [choice.function.name]
        return [tool.function.name for tool in choice.allowed_tools.tools] if isinstance(choice, SomeTools) else None

    @property
    def must_call(self) -> bool:
        """Whether the answer has to be a call."""
        if isinstance(self.tool_choice, SomeTools):
            return self.tool_choice.allowed_tools.mode == "required"
        return self.tool_choice == "required" or isinstance(self.tool_choice, NamedTool)

    @property
    def may_call_more(self) -> bool:
        """Whether the answer may be several calls: of one tool that is named, there is one."""
        return self.parallel_tool_calls is not False and not isinstance(self.tool_choice, NamedTool)

    @model_validator(mode="after")
    def _check_together(self) -> "ChatBody":
        if self.max_tokens is not None and self.max_completion_tokens is not None:
            raise ValueError("max_tokens and max_completion_tokens are both given; they are one thing")
        if self.top_logprobs and not self.logprobs:
            raise ValueError(f"top_logprobs is {self.top_logprobs} without logprobs; it must be given with it")
        return self

    @property
    def n_logprobs(self) -> int | None:
        """How many of the likeliest tokens to report at each place; None: no log-probabilities at all."""
        return (self.top_logprobs or 0) if self.logprobs else None

    def texts(self) -> list[str]:
        """Return the texts that are to be cut into tokens: the whole conversation is one of them."""
        return ["".join(message.text for message in self.messages)]

    def prompts(self, config: ModelConfig, tokenizer: Tokenizer) -> list[Prompt]:
        """Return the conversation behind the start token, as the model's own template has it; a list of one."""
        messages = [(message.role, message.text) for message in self.messages]
        more = [message.more for message in self.messages]
        try:
            return [Prompt(chat_prompt(messages, tokenizer, config, self._tools_of_template, more))]
        except ValueError as error:
            raise self._refusal(str(error)) from None

    @property
    def _tools_of_template(self) -> list[dict[str, Any]] | None:
        if not self.tools or (self.tool_choice == "none" and not any(message.tool_calls for message in self.messages)):
            return None
        return [tool.model_dump(exclude_none=True) for tool in self.tools]

    def _refusal(self, why: str) -> Refusal:
        """What the template refuses: tools that it does not know, or the conversation."""
        if self.tools and "tools" in why:
            names = shown([tool.function.name for tool in self.tools])
            return Refusal(400, f"tools is a list of {names}; {why}", "tools", "unsupported_parameter")
        return Refusal(400, why, self.text_param)

    def most_new_tokens(self, room: int) -> int:
        """Return how many tokens to write at most: as many as there is room for unless said otherwise."""
        return self.max_completion_tokens or self.max_tokens or room
