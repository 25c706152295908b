"""An error of Python's or torch's that has one likely reason: the reason, in the place of what the library says."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def errors_mean(why: str, *kinds: type[Exception]) -> Iterator[None]:
    """Fail with `why` where one of these errors is raised inside the `with`; "not written yet" passes through."""
    try:
        yield
    except NotImplementedError:
        raise
    except kinds as error:
        pytest.fail(f"{why} ({type(error).__name__}: {error})")
