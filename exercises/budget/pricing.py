"""What requests cost, and which settings are worth their price. Dollars per million tokens, as providers print them."""

from collections.abc import Iterable, Sequence
from typing import Any

from .._require import require_count, require_not_negative, require_positive

from course import NotYetWritten


def request_dollars(
    n_input_tokens: int,
    n_output_tokens: int,
    input_dollars_per_million: float = 2.0,
    output_dollars_per_million: float = 10.0,
) -> float:
    """Return the price of one request: input and output tokens, each at their own price per million.

    Raises:
        ValueError: a token count that is not a whole number, 0 or more, or a price below 0.
    """
    raise NotYetWritten(
        "exercise 7.5 request_dollars is not written yet: read "
        "notebooks/week07_prompt_caching/week07_prompt_caching.ipynb, write it in exercises/budget/pricing.py, then"
        " run: NANOLM_IMPL=exercises python -m pytest tests/budget/test_pricing.py --exercise request_dollars"
    )


def prompt_cache_cost(
    arrivals_seconds: Iterable[float],
    n_shared_tokens: int,
    n_fresh_tokens: int,
    input_dollars_per_million: float,
    write_factor: float = 1.25,
    read_factor: float = 0.1,
    time_to_live_seconds: float = 300.0,
    granularity_tokens: int = 1,
) -> float:
    """Return the dollars for the prompts of all requests, which share their first `n_shared_tokens`.

    A request that finds the shared part in the cache pays `read_factor` of the price for it; one that does not,
    `write_factor`, and stores it. Writing and reading both start the time to live anew, so a request reads if it comes
    at most that long after the one before it. Only a whole multiple of `granularity_tokens` is cached: the rest of the
    shared part, and the `n_fresh_tokens` that are each request's own, cost the plain price. No request: 0 dollars.

    Raises:
        ValueError: a token count not a whole number, 0 or more; a granularity not one above 0; a factor, price or time
            below 0; arrivals that are not in order of time.
    """
    raise NotYetWritten(
        "exercise 7.6 prompt_cache_cost is not written yet: read "
        "notebooks/week07_prompt_caching/week07_prompt_caching.ipynb, write it in exercises/budget/pricing.py, then"
        " run: NANOLM_IMPL=exercises python -m pytest tests/budget/test_pricing.py --exercise prompt_cache_cost"
    )


def arrivals_in_order(arrivals_seconds: Iterable[float]) -> list[float]:
    """Return the arrivals as a list.

    Raises:
        ValueError: one that is below 0, or earlier than the one before.
    """
    arrivals = list(arrivals_seconds)
    for index, arrival in enumerate(arrivals):
        name = f"arrivals_seconds[{index}]"
        require_not_negative(**{name: arrival})
        if index and arrival < arrivals[index - 1]:
            raise ValueError(f"{name} is {arrival!r}; it must be at least {arrivals[index - 1]!r}, the one before")
    return arrivals


def cost_per_million(step_seconds: float, batch_size: int, dollars_per_hour: float) -> float:
    """Return the dollars for a million written tokens, if a step of the batch takes `step_seconds`.

    Each step writes one token for each of the `batch_size` sequences, and an hour of the hardware costs
    `dollars_per_hour`.

    Raises:
        ValueError: batch_size not a whole number above 0, or another argument not above 0.
    """
    raise NotYetWritten(
        "exercise 10.2 cost_per_million is not written yet: read "
        "notebooks/week10_price_of_a_token/week10_price_of_a_token.ipynb, write it in exercises/budget/pricing.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/budget/test_token_price.py --exercise "
        "cost_per_million"
    )


def pareto_front(points: Iterable[Sequence[Any]]) -> list[Sequence[Any]]:
    """Return the points that no other point beats, in ascending order of their first number.

    A point is (seconds, dollars, …), such as time per output token and price; less is better in both, and anything
    behind the first two goes along unread. A point is beaten by one that is no worse in either and better in one; so
    of two equal points both stay. No point: an empty list.

    Raises:
        ValueError: a point with fewer than two numbers, or with one that is not finite or below 0.
    """
    raise NotYetWritten(
        "exercise 10.6 pareto_front is not written yet: read "
        "notebooks/week10_price_of_a_token/week10_price_of_a_token.ipynb, write it in exercises/budget/pricing.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/budget/test_token_price.py --exercise pareto_front"
    )
