"""Which of several machines should serve a prompt: the one that has most of it cached, unless it is busy."""

import math
from collections.abc import Sequence
from typing import Protocol

from .._require import require_not_negative

from course import NotYetWritten


class Replica(Protocol):
    """One of several machines that serve the same model."""

    load: float  # in requests or tokens, the same unit for all

    def cached_tokens(self, prompt: Sequence[int]) -> int:
        """Return how many tokens of the prompt's beginning it has cached."""
        ...


def route_by_prefix(prompt: Sequence[int], replicas: Sequence[Replica], max_extra_load: float = math.inf) -> int:
    """Return the index of the replica that should serve the prompt.

    The one with the most cached tokens of it; of those with equally many, the one with the least load; of those, the
    first. A replica whose load is more than `max_extra_load` above the smallest load is left out, whatever it has
    cached: a prefix that everybody uses would otherwise send everybody to one machine.

    Raises:
        ValueError: no replica, or max_extra_load below 0.
    """
    raise NotYetWritten(
        "exercise 7.4 route_by_prefix is not written yet: read "
        "notebooks/week07_prompt_caching/week07_prompt_caching.ipynb, write it in exercises/paging/routing.py, then"
        " run: NANOLM_IMPL=exercises python -m pytest tests/paging/test_prefix.py --exercise route_by_prefix"
    )
