"""POST /v1/chat/completions: conversations answered."""

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ..config import ModelConfig
from ..text.chat import ROLES, chat_prompt, check_messages
from ..text.tokenizer import Tokenizer
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
    content: str | list[TextPart]

    @property
    def text(self) -> str:
        """The content as one string."""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class ChatBody(RequestBody):
    """The body of POST /v1/chat/completions."""

    text_param: ClassVar[str] = "messages"
    messages: list[Message] = Field(
        description=f"a list, each with a role ({', '.join(ROLES)}) and a content of text, the last one the user's"
    )
    max_completion_tokens: int | None = Field(None, ge=1, description="a whole number, 1 or more")
    logprobs: bool | None = Field(None, description="true or false")
    top_logprobs: int | None = Field(
        None, ge=0, le=MAX_LOGPROBS, description=f"a whole number from 0 to {MAX_LOGPROBS}, with logprobs"
    )

    @field_validator("messages")
    @classmethod
    def _check_messages(cls, messages: list[Message]) -> list[Message]:
        check_messages([(message.role, message.text) for message in messages])
        return messages

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
        try:
            return [Prompt(chat_prompt(messages, tokenizer, config))]
        except ValueError as error:
            raise Refusal(400, str(error), self.text_param) from None

    def most_new_tokens(self, room: int) -> int:
        """Return how many tokens to write at most: as many as there is room for unless said otherwise."""
        return self.max_completion_tokens or self.max_tokens or room
