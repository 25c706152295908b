"""What a client may ask, in OpenAI's words, and how it is refused.

A parameter that would change the answer and is not done here is refused, never silently left out: whoever asks for
log-probabilities should not have to find out that there are none. Its neutral value is accepted, since clients send it.
"""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import from_json

from ..config import ModelConfig
from ..sampling.params import SamplingParams
from ..text.chat import ROLES, chat_prompt, check_messages
from ..text.detokenizer import after_start
from ..text.tokenizer import Tokenizer

MAX_CHOICES, MAX_STOPS, MAX_STOP_LENGTH, MAX_SEED = 8, 4, 500, 2**63 - 1
_STOPS_ALLOWED = f"a string, or up to {MAX_STOPS}, each of 1 to {MAX_STOP_LENGTH} characters"

# Parameters of OpenAI's that are not done here, with the values that ask for nothing.
_NOT_DONE: dict[str, Sequence[Any]] = {
    "echo": (False,),
    "logprobs": (False,),
    "top_logprobs": (),
    "best_of": (1,),
    "suffix": ("",),
    "presence_penalty": (0, 0.0),
    "frequency_penalty": (0, 0.0),
    "logit_bias": ({},),
    "tools": ([],),
    "tool_choice": ("none",),
    "functions": ([],),
    "function_call": ("none",),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
}
# Parameters that do not change the answer.
_WITHOUT_EFFECT = {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"}


class Refusal(Exception):
    """A request that is answered with an error, in OpenAI's shape.

    Attributes:
        status: the HTTP status.
        headers: of the answer.
    """

    def __init__(
        self, status: int, message: str, param: str | None = None, code: str | None = None, **headers: str
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def body(self) -> dict[str, Any]:
        """Return the error as a client expects it."""
        kinds = {429: "rate_limit_error", 500: "server_error", 503: "server_error"}
        kind = kinds.get(self.status, "invalid_request_error")
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


class StreamOptions(BaseModel):
    """What a stream shall hold besides the text."""

    model_config = ConfigDict(extra="ignore", strict=True)
    include_usage: bool = False


class Request(BaseModel):
    """What both endpoints take. A description says what is allowed; errors quote it."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    text_param: ClassVar[str]  # the parameter that holds the prompt

    model: str = Field(description="the name of a served model")
    max_tokens: int | None = Field(None, ge=1, description="a whole number, 1 or more")
    temperature: float | None = Field(None, ge=0, le=2, description="a number from 0 (greedy) to 2")
    top_p: float | None = Field(None, gt=0, le=1, description="a number above 0 and at most 1")
    top_k: int | None = Field(None, ge=1, description="a whole number, 1 or more")
    seed: int | None = Field(None, ge=0, le=MAX_SEED, description="a whole number from 0 to 2**63 - 1")
    stop: str | list[str] | None = Field(None, description=_STOPS_ALLOWED)
    n: int | None = Field(None, ge=1, le=MAX_CHOICES, description=f"a whole number from 1 to {MAX_CHOICES}")
    stream: bool | None = Field(None, description="true or false")
    stream_options: StreamOptions | None = Field(None, description='{"include_usage": true or false}, with stream')

    @field_validator("stop")
    @classmethod
    def _check_stop(cls, stop: str | list[str] | None) -> str | list[str] | None:
        strings = [stop] if isinstance(stop, str) else stop or []
        if len(strings) > MAX_STOPS or not all(1 <= len(string) <= MAX_STOP_LENGTH for string in strings):
            raise ValueError(_STOPS_ALLOWED)
        return stop

    @property
    def stops(self) -> list[str]:
        """The strings that end the text."""
        return [self.stop] if isinstance(self.stop, str) else list(self.stop or [])

    @property
    def include_usage(self) -> bool:
        """Whether the stream ends with the numbers of tokens."""
        return self.stream_options is not None and self.stream_options.include_usage

    @property
    def n_choices(self) -> int:
        """How many answers are wanted."""
        return self.n or 1

    def prompt_ids(self, config: ModelConfig, tokenizer: Tokenizer) -> list[int]:
        """Return the prompt's tokens."""
        raise NotImplementedError

    def max_new_tokens(self, room: int) -> int:
        """Return how many tokens to write at most, where there is room for so many."""
        raise NotImplementedError

    def sampling(self) -> SamplingParams:
        """Return how tokens are chosen: temperature 1 unless said otherwise, as with OpenAI."""
        temperature = 1.0 if self.temperature is None else float(self.temperature)
        return SamplingParams(temperature, self.top_k, None if self.top_p == 1 else self.top_p)

    def seeds(self) -> list[int | None]:
        """Return a seed for each answer: that of the request for the first, and the numbers that follow."""
        if self.seed is None:
            return [None] * self.n_choices
        return [(self.seed + i) % (MAX_SEED + 1) for i in range(self.n_choices)]


class CompletionBody(Request):
    """The body of POST /v1/completions."""

    text_param: ClassVar[str] = "prompt"
    prompt: str | list[int] = Field(description="one string, or one list of token ids")

    def prompt_ids(self, config: ModelConfig, tokenizer: Tokenizer) -> list[int]:
        """Return the prompt's tokens: those of the client as they are, those of a text behind the start token."""
        return after_start(tokenizer.encode(self.prompt), config) if isinstance(self.prompt, str) else self.prompt

    def max_new_tokens(self, room: int) -> int:
        """Return how many tokens to write at most: 16 unless said otherwise, as with OpenAI, where there is room."""
        return min(16, room) if self.max_tokens is None else self.max_tokens


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


class ChatBody(Request):
    """The body of POST /v1/chat/completions."""

    text_param: ClassVar[str] = "messages"
    messages: list[Message] = Field(
        description=f"a list, each with a role ({', '.join(ROLES)}) and a content of text, the last one the user's"
    )
    max_completion_tokens: int | None = Field(None, ge=1, description="a whole number, 1 or more")

    @field_validator("messages")
    @classmethod
    def _check_messages(cls, messages: list[Message]) -> list[Message]:
        check_messages([(message.role, message.text) for message in messages])
        return messages

    def prompt_ids(self, config: ModelConfig, tokenizer: Tokenizer) -> list[int]:
        """Return the tokens of the conversation behind the start token, as the model's own template has it."""
        try:
            return chat_prompt([(message.role, message.text) for message in self.messages], tokenizer, config)
        except ValueError as error:
            raise Refusal(400, str(error), self.text_param) from None

    def max_new_tokens(self, room: int) -> int:
        """Return how many tokens to write at most: as many as there is room for unless said otherwise."""
        return self.max_completion_tokens or self.max_tokens or room

    @model_validator(mode="after")
    def _check_limits(self) -> "ChatBody":
        if self.max_tokens is not None and self.max_completion_tokens is not None:
            raise ValueError("max_tokens and max_completion_tokens are both given; they are one thing")
        return self


Body = TypeVar("Body", bound=Request)


def parse(kind: type[Body], raw: bytes) -> Body:
    """Return the request in a body.

    Raises:
        Refusal: no JSON, something that is missing, wrong or unknown, or that is not done here; it names the parameter.
    """
    try:
        body = from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise Refusal(400, f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise Refusal(400, "the body must be a JSON object")
    for name in [name for name in _NOT_DONE if name in body]:
        value = body.pop(name)
        # By type as well: 0 equals False, and logprobs: 0 asks for some.
        asks_nothing = any(type(value) is type(neutral) and value == neutral for neutral in (None, *_NOT_DONE[name]))
        if not asks_nothing:
            why = f"{name} is {_shown(value)}; this server does not do {name}"
            raise Refusal(400, why, name, "unsupported_parameter")
    body = {name: value for name, value in body.items() if name not in _WITHOUT_EFFECT}
    if body.get("stream_options") is not None and not body.get("stream"):
        raise Refusal(400, "stream_options is given without stream", "stream_options")
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        raise _refusal(kind, body, error) from None


def _refusal(kind: type[Request], body: dict[str, Any], error: ValidationError) -> Refusal:
    first = error.errors(include_url=False)[0]
    if not first["loc"]:
        assert "ctx" in first  # a check of the whole body, as `_check_limits` is one, raised it
        return Refusal(400, str(first["ctx"]["error"]))
    name = str(first["loc"][0])
    if first["type"] == "extra_forbidden":
        return Refusal(400, f"{_shown(name)} is no parameter of this endpoint", name[:100], "unknown_parameter")
    allowed = kind.model_fields[name].description
    what = f"is {_shown(body[name])}" if name in body else "is missing"
    return Refusal(400, f"{name} {what}; it must be {allowed}", name)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
