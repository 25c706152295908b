"""Which mistake a number comes from."""

from collections.abc import Mapping

import pytest


def named(actual: float, suspects: Mapping[str, float], otherwise: str) -> str:
    """The first mistake that gives this number, else the other sentence."""
    near = (mistake for mistake, value in suspects.items() if actual == pytest.approx(value, rel=1e-9, abs=1e-12))
    return next(near, otherwise)
