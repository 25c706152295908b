"""What an answer shall look like (`response_format`), and what it may call (`tools`), as OpenAI's clients say it."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

MAX_TOOLS = 128
FORMAT_ALLOWED = '{"type": "text"}, {"type": "json_object"}, or {"type": "json_schema", "json_schema": {"schema": {…}}}'
TOOLS_ALLOWED = f'a list of up to {MAX_TOOLS} of {{"type": "function", "function": {{"name": …, "parameters": {{…}}}}}}'
CHOICE_ALLOWED = (
    '"none", "auto", "required", {"type": "function", "function": {"name": …}} of one of the tools, or {"type": '
    '"allowed_tools", "allowed_tools": {"mode": "auto" or "required", "tools": [such as before, …]}}'
)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class JsonSchema(_Strict):
    """A schema with a name; `strict` or not, the answer follows it."""

    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None


class ResponseFormat(_Strict):
    """What an answer shall look like."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None

    @property
    def schema_of_answer(self) -> dict[str, Any] | None:
        """The JSON schema that the answer must follow; None: any text."""
        if self.type == "json_schema":
            return self.json_schema.schema_ if self.json_schema else None
        return {"type": "object"} if self.type == "json_object" else None


class Function(_Strict):
    """A function that may be called."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None

    @field_validator("parameters")
    @classmethod
    def _check_parameters(cls, parameters: dict[str, Any] | None) -> dict[str, Any] | None:
        if parameters and parameters.get("type", "object") != "object":
            raise ValueError("parameters are those of an object")
        return parameters


class Tool(_Strict):
    """A tool; there are functions only."""

    type: Literal["function"]
    function: Function


class NamedFunction(_Strict):
    """A function by its name."""

    name: str


class NamedTool(_Strict):
    """The tool that must be called."""

    type: Literal["function"]
    function: NamedFunction


class AllowedTools(_Strict):
    """Some of the tools, and whether one of them must be called."""

    mode: Literal["auto", "required"]
    tools: Annotated[list[NamedTool], Field(min_length=1)]


class SomeTools(_Strict):
    """A choice of some of the tools."""

    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools


class CalledFunction(BaseModel):
    """What an earlier answer has called; its arguments are JSON in a string."""

    model_config = ConfigDict(extra="ignore", strict=True)
    name: str
    arguments: str


class Call(BaseModel):
    """A call in an earlier answer."""

    model_config = ConfigDict(extra="ignore", strict=True)
    id: str
    type: Literal["function"] = "function"
    function: CalledFunction
