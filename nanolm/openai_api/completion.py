"""POST /v1/completions: texts continued."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, field_validator, model_validator

from ..config import ModelConfig
from ..text.detokenizer import after_start
from ..text.tokenizer import Tokenizer
from .refusal import Refusal
from .request import MAX_LOGPROBS, Prompt, RequestBody

MAX_PROMPTS = 32
_PROMPTS = f"a string, a list of token ids, or a list of 1 to {MAX_PROMPTS} of either kind"
_NO_LOGPROBS = BeforeValidator(lambda value: None if value is False else value)


class CompletionBody(RequestBody):
    """The body of POST /v1/completions."""

    text_param: ClassVar[str] = "prompt"
    not_done: ClassVar[dict[str, Sequence[Any]]] = {"add_special_tokens": (True,)}  # a text stands behind the start
    prompt: str | list[int] | list[str] | list[list[int]] = Field(description=_PROMPTS)
    max_tokens: int | None = Field(None, ge=0, description="a whole number, 1 or more; 0 with echo")
    echo: bool | None = Field(None, description="true or false")
    logprobs: Annotated[int | None, _NO_LOGPROBS] = Field(
        None, ge=0, le=MAX_LOGPROBS, description=f"a whole number from 0 to {MAX_LOGPROBS}"
    )

    @field_validator("prompt")
    @classmethod
    def _check_prompt(cls, prompt: str | list) -> str | list:
        if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) and len(prompt) > MAX_PROMPTS:
            raise ValueError(_PROMPTS)
        return prompt

    @model_validator(mode="after")
    def _check_length(self) -> "CompletionBody":
        if self.max_tokens == 0 and not self.echo:
            raise ValueError("max_tokens is 0 without echo; it must be 1 or more then, or there is nothing to answer")
        return self

    @property
    def writes_nothing(self) -> bool:
        """Whether only the prompt is wanted, scored perhaps."""
        return self.max_tokens == 0

    @property
    def echoes(self) -> bool:
        """Whether the answer begins with the prompt."""
        return bool(self.echo)

    @property
    def is_plain(self) -> bool:
        """Whether its texts have only to be cut: no template runs over them, and no grammar is made."""
        return self.schema_of_answer is None

    @property
    def n_logprobs(self) -> int | None:
        """How many of the likeliest tokens to report at each place; None: no log-probabilities at all."""
        return self.logprobs

    @property
    def _several(self) -> list[Any]:
        """The prompts, in a list also where there is one."""
        is_one = isinstance(self.prompt, str) or not self.prompt or isinstance(self.prompt[0], int)
        return [self.prompt] if is_one else [*self.prompt]

    def texts(self) -> list[str]:
        """Return the texts that are to be cut into tokens."""
        return [each for each in self._several if isinstance(each, str)]

    def prompts(self, config: ModelConfig, tokenizer: Tokenizer) -> list[Prompt]:
        """Return the prompts: tokens of the client as they are, those of a text behind the start token."""
        found = []
        for i, each in enumerate(self._several):
            is_text = isinstance(each, str)
            prompt = Prompt(after_start(tokenizer.encode(each), config), each) if is_text else Prompt(list(each))
            if not prompt.ids:
                raise Refusal(400, f"prompt {i} is empty; it must have at least one token", self.text_param)
            found.append(prompt)
        return found

    def most_new_tokens(self, room: int) -> int:
        """Return how many tokens to write at most: 16 unless said otherwise, as with OpenAI, where there is room.

        A prompt is scored by a pass that brings a token, which nobody is shown where none is wanted.
        """
        return min(16, room) if self.max_tokens is None else max(1, self.max_tokens)
