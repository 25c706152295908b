"""A type checker for jaxtyping's import hook that checks the annotated shapes and nothing else."""

from typing import Any, get_args

from beartype import beartype
from jaxtyping import AbstractArray


def check(function: Any) -> Any:
    """Return the function with those annotations checked that hold a shape; an Rng or a TargetModel may be a fake."""
    annotations = getattr(function, "__annotations__", {})
    function.__annotations__ = {name: kind for name, kind in annotations.items() if _has_shape(kind)}
    return beartype(function)


def _has_shape(kind: Any) -> bool:
    if isinstance(kind, type) and issubclass(kind, AbstractArray):
        return True
    return any(_has_shape(part) for part in get_args(kind))
