"""What both endpoints take, in OpenAI's words, and those of vLLM for what OpenAI has no word for."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from ..config import ModelConfig
from ..sampling.params import SamplingParams
from ..text.tokenizer import Tokenizer
from .formats import FORMAT_ALLOWED, ResponseFormat

MAX_CHOICES, MAX_STOPS, MAX_STOP_LENGTH, MAX_SEED, MAX_LOGPROBS = 8, 16, 500, 2**63 - 1, 20
MAX_BIAS, MAX_PENALTY, MAX_REPETITION = 100, 2, 100
_STOPS_ALLOWED = f"a string, or up to {MAX_STOPS}, each of 1 to {MAX_STOP_LENGTH} characters"
_PENALTY = f"a number from {-MAX_PENALTY} to {MAX_PENALTY} (0 changes nothing)"
_BIASES = f"an object from token ids, as strings, to numbers from {-MAX_BIAS} to {MAX_BIAS}"


def _none_for(*neutral: int) -> BeforeValidator:
    """Read the numbers with which other servers' clients say "all of them", or "any", as null."""
    return BeforeValidator(lambda value: None if type(value) is int and value in neutral else value)


class Prompt(NamedTuple):
    """A prompt's tokens, and its text where it came as one."""

    ids: list[int]
    text: str | None = None


class StreamOptions(BaseModel):
    """What a stream shall hold besides the text; what is not done here may only ask for nothing."""

    model_config = ConfigDict(extra="forbid", strict=True)
    include_usage: bool | None = False
    include_obfuscation: bool | None = None  # padding against listeners, which no text depends on
    continuous_usage_stats: Literal[False] | None = None


class RequestBody(BaseModel):
    """A request's body. A description says what is allowed; errors quote it."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    text_param: ClassVar[str]  # the parameter that holds the prompt
    not_done: ClassVar[dict[str, Sequence[Any]]]  # beside those of `neutral`, with the values that ask for nothing

    model: str = Field(description="the name of a served model")
    max_tokens: int | None = Field(None, ge=1, description="a whole number, 1 or more")
    min_tokens: int | None = Field(None, ge=0, description="a whole number from 0 to max_tokens")
    temperature: float | None = Field(None, ge=0, le=2, description="a number from 0 (greedy) to 2")
    top_p: float | None = Field(None, gt=0, le=1, description="a number above 0 and at most 1")
    top_k: Annotated[int | None, _none_for(-1, 0)] = Field(
        None, ge=1, description="a whole number, 1 or more (-1 or 0: all)"
    )
    min_p: float | None = Field(None, ge=0, le=1, description="a number from 0 (all) to 1")
    presence_penalty: float | None = Field(None, ge=-MAX_PENALTY, le=MAX_PENALTY, description=_PENALTY)
    frequency_penalty: float | None = Field(None, ge=-MAX_PENALTY, le=MAX_PENALTY, description=_PENALTY)
    repetition_penalty: float | None = Field(
        None, gt=0, le=MAX_REPETITION, description=f"a number above 0 and at most {MAX_REPETITION} (1 changes nothing)"
    )
    logit_bias: dict[str, float] | None = Field(None, description=_BIASES)
    stop_token_ids: list[int] | None = Field(None, description="a list of token ids")
    ignore_eos: bool | None = Field(None, description="true or false")
    seed: Annotated[int | None, _none_for(-1)] = Field(
        None, ge=0, le=MAX_SEED, description="a whole number from 0 to 2**63 - 1 (-1: any)"
    )
    stop: str | list[str] | None = Field(None, description=_STOPS_ALLOWED)
    n: int | None = Field(None, ge=1, le=MAX_CHOICES, description=f"a whole number from 1 to {MAX_CHOICES}")
    response_format: ResponseFormat | None = Field(None, description=FORMAT_ALLOWED)
    stream: bool | None = Field(None, description="true or false")
    stream_options: StreamOptions | None = Field(None, description='{"include_usage": true or false}, with stream')

    @field_validator("stop")
    @classmethod
    def _check_stop(cls, stop: str | list[str] | None) -> str | list[str] | None:
        strings = [stop] if isinstance(stop, str) else stop or []
        if len(strings) > MAX_STOPS or not all(1 <= len(string) <= MAX_STOP_LENGTH for string in strings):
            raise ValueError(_STOPS_ALLOWED)
        return stop

    @field_validator("logit_bias")
    @classmethod
    def _check_bias(cls, biases: dict[str, float] | None) -> dict[str, float] | None:
        for token, bias in (biases or {}).items():
            if not (token.isascii() and token.isdecimal() and len(token) < 10 and abs(bias) <= MAX_BIAS):
                raise ValueError(_BIASES)
        return biases

    @field_validator("response_format")
    @classmethod
    def _check_format(cls, wanted: ResponseFormat | None) -> ResponseFormat | None:
        if wanted is not None and (wanted.type == "json_schema") != (wanted.json_schema is not None):
            raise ValueError(FORMAT_ALLOWED)
        return wanted

    @model_validator(mode="after")
    def _check_minimum(self) -> "RequestBody":
        if self.min_tokens and self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise ValueError(f"min_tokens is {self.min_tokens} and max_tokens {self.max_tokens}; it must be no more")
        if self.min_tokens and self.schema_of_answer is not None:
            raise ValueError(f"min_tokens is {self.min_tokens} beside response_format; the format says how long it is")
        return self

    @property
    def schema_of_answer(self) -> dict[str, Any] | None:
        """The JSON schema that the answer must follow; None: any text."""
        return None if self.response_format is None else self.response_format.schema_of_answer

    @property
    def stops(self) -> list[str]:
        """The strings that end the text."""
        return [self.stop] if isinstance(self.stop, str) else list(self.stop or [])

    @property
    def include_usage(self) -> bool:
        """Whether the stream ends with the numbers of tokens."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    @property
    def echoes(self) -> bool:
        """Whether the answer begins with the prompt."""
        return False

    @property
    def writes_nothing(self) -> bool:
        """Whether only the prompt is wanted."""
        return False

    @property
    def is_plain(self) -> bool:
        """Whether its texts have only to be cut: no template runs over them, and no grammar is made."""
        return False

    @property
    def n_logprobs(self) -> int | None:
        """How many of the likeliest tokens to report at each place; None: no log-probabilities at all."""
        raise NotImplementedError

    @property
    def n_choices(self) -> int:
        """How many answers a prompt gets."""
        return self.n or 1

    def texts(self) -> list[str]:
        """Return the texts that are to be cut into tokens."""
        raise NotImplementedError

    def prompts(self, config: ModelConfig, tokenizer: Tokenizer) -> list[Prompt]:
        """Return the prompts."""
        raise NotImplementedError

    def most_new_tokens(self, room: int) -> int:
        """Return how many tokens to write at most, where there is room for so many."""
        raise NotImplementedError

    def sampling(self, end_tokens: tuple[int, ...]) -> SamplingParams:
        """Return how tokens are chosen: temperature 1 unless said otherwise, as with OpenAI.

        Args:
            end_tokens: of the model and its conversations.
        """
        biases = {int(token): float(bias) for token, bias in (self.logit_bias or {}).items()}
        given: dict[str, Any] = {
            "temperature": 1.0 if self.temperature is None else float(self.temperature),
            "top_k": self.top_k,
            "top_p": None if self.top_p == 1 else self.top_p,
            "min_p": self.min_p or None,
            "repetition_penalty": 1.0 if self.repetition_penalty is None else self.repetition_penalty,
            "presence_penalty": self.presence_penalty or 0.0,
            "frequency_penalty": self.frequency_penalty or 0.0,
            "logit_bias": biases,
            "stop_token_ids": tuple(self.stop_token_ids or ()),
            "min_new_tokens": self.min_tokens or 0,
        }
        return SamplingParams(**given, end_tokens=() if self.ignore_eos else end_tokens, logprobs=self.n_logprobs)

    def seeds(self, n: int) -> list[int | None]:
        """Return a seed for each of n answers: that of the request for the first, and the numbers that follow."""
        return [None if self.seed is None else (self.seed + i) % (MAX_SEED + 1) for i in range(n)]
