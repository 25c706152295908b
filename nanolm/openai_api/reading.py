"""From the bytes of a body to a request, or to an error that names the parameter, its value and what is allowed."""

import math
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import from_json

from .._require import shown
from .neutral import without_neutral
from .refusal import Refusal
from .request import RequestBody

Body = TypeVar("Body", bound=RequestBody)


def parse(kind: type[Body], raw: bytes) -> Body:
    """Return the request in a body.

    Raises:
        Refusal: no JSON, something that is missing, wrong or unknown, or that is not done here; it names the parameter.
    """
    try:
        body = from_json(raw, allow_inf_nan=False)
    except ValueError as error:
        raise _no_json(raw, error) from None
    if not isinstance(body, dict):
        raise Refusal(400, "the body must be a JSON object")
    # What a kind of request has itself is its own, whatever another kind does not do.
    own = {name: body[name] for name in body.keys() & kind.model_fields.keys()}
    others = {name: value for name, value in body.items() if name not in own}
    body = {**without_neutral(others, kind.not_done), **own}
    if body.get("stream_options") is not None and not body.get("stream"):
        raise Refusal(400, "stream_options is given without stream", "stream_options")
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        raise _refusal(kind, body, error) from None


def _no_json(raw: bytes, error: ValueError) -> Refusal:
    """Say what is wrong with a body; Python and JavaScript write NaN and Infinity where they have no number."""
    try:
        body = from_json(raw)
    except ValueError:
        body = None
    fields = body if isinstance(body, dict) else {}
    name = next((name for name, value in fields.items() if _has_no_number(value)), None)
    if name is None:
        return Refusal(400, f"the body is not JSON: {error}")
    return Refusal(400, f"{shown(name)[1:-1]} has NaN or Infinity in it, which JSON does not know", name[:100])


def _has_no_number(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_no_number, value.values() if isinstance(value, dict) else value))
    return isinstance(value, float) and not math.isfinite(value)


def _refusal(kind: type[RequestBody], body: dict[str, Any], error: ValidationError) -> Refusal:
    first = error.errors(include_url=False, include_input=False)[0]
    if not first["loc"]:
        assert "ctx" in first  # a check of the whole body raised it
        why = str(first["ctx"]["error"])
        return Refusal(400, why, why.partition(" ")[0])
    name = str(first["loc"][0])
    if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:  # not one inside a parameter's value
        return Refusal(400, f"{shown(name)} is no parameter of this endpoint", name[:100], "unknown_parameter")
    allowed = kind.model_fields[name].description
    what = f"is {shown(body[name])}" if name in body else "is missing"
    return Refusal(400, f"{name} {what}; it must be {allowed}", name)
