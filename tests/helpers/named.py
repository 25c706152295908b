"""A number that is wrong in a known way is told by the mistake that gives it."""

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

import pytest


def assert_number(got: Any, expected: float, wrong: Mapping[str, float], why: str, rel: float = 1e-9) -> None:
    """Fail unless `got` is `expected`, up to `rel` of it.

    Args:
        wrong: what each common mistake gives, by what to say of it; no two of them alike, nor like `expected`.
        why: how `expected` comes about, for a number that is none of these.
    """
    if not isinstance(got, Real):
        hint = " (.item() makes one)" if hasattr(got, "item") else ""
        pytest.fail(f"the result must be a number{hint}, not {got!r}")
    if math.isclose(got, expected, rel_tol=rel, abs_tol=1e-300):
        return
    for mistake, number in wrong.items():
        if math.isclose(got, number, rel_tol=rel, abs_tol=1e-300):
            pytest.fail(f"{mistake} ({float(got):.6g} in place of {expected:.6g})")
    pytest.fail(f"{float(got):.10g} in place of {expected:.10g}: {why}")
