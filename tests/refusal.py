"""Impossible input must be refused, and the refusal must say what is wrong."""

import pytest
import torch


def assert_refuses(name, call, *arguments):
    """Impossible input gets a ValueError that names the argument."""
    try:
        result = call(*arguments)
    except ValueError as error:
        assert name in str(error), f"the message {str(error)!r} should name the argument, {name}"
        return
    shown = ", ".join(str(a.tolist() if isinstance(a, torch.Tensor) else a) for a in arguments[:3])
    pytest.fail(f"({shown}, …) is impossible because of {name}: raise a ValueError that says so; it returned {result}")
