"""What requests cost, and which settings are worth their price. Dollars per million tokens, as providers print them."""

from collections.abc import Iterable, Sequence
from typing import Any

from .._require import require_count, require_not_negative, require_positive


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
    require_count(0, n_input_tokens=n_input_tokens, n_output_tokens=n_output_tokens)
    require_not_negative(
        input_dollars_per_million=input_dollars_per_million, output_dollars_per_million=output_dollars_per_million
    )
    total = n_input_tokens * input_dollars_per_million + n_output_tokens * output_dollars_per_million
    return total / 1e6


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
    require_count(0, n_shared_tokens=n_shared_tokens, n_fresh_tokens=n_fresh_tokens)
    require_count(1, granularity_tokens=granularity_tokens)
    require_not_negative(
        input_dollars_per_million=input_dollars_per_million,
        write_factor=write_factor,
        read_factor=read_factor,
        time_to_live_seconds=time_to_live_seconds,
    )
    cached_tokens = n_shared_tokens - n_shared_tokens % granularity_tokens
    plain_tokens = n_shared_tokens - cached_tokens + n_fresh_tokens
    billed_tokens, last_use = 0.0, None
    for arrival in arrivals_in_order(arrivals_seconds):
        hit = last_use is not None and arrival - last_use <= time_to_live_seconds
        billed_tokens += plain_tokens + cached_tokens * (read_factor if hit else write_factor)
        last_use = arrival
    return billed_tokens * input_dollars_per_million / 1e6


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
    require_positive(step_seconds=step_seconds, dollars_per_hour=dollars_per_hour)
    require_count(1, batch_size=batch_size)
    return dollars_per_hour / 3600 * step_seconds / batch_size * 1e6


def pareto_front(points: Iterable[Sequence[Any]]) -> list[Sequence[Any]]:
    """Return the points that no other point beats, in ascending order of their first number.

    A point is (seconds, dollars, …), such as time per output token and price; less is better in both, and anything
    behind the first two goes along unread. A point is beaten by one that is no worse in either and better in one; so
    of two equal points both stay. No point: an empty list.

    Raises:
        ValueError: a point with fewer than two numbers, or with one that is not finite or below 0.
    """
    points = list(points)
    for index, point in enumerate(points):
        if len(point) < 2:
            raise ValueError(f"points[{index}] is {point!r}; it must be (seconds, dollars, …)")
        require_not_negative(**{f"points[{index}][0]": point[0], f"points[{index}][1]": point[1]})
    front: list[Sequence[Any]] = []
    for point in sorted(points, key=lambda point: tuple(point[:2])):
        if not front or point[1] < front[-1][1] or tuple(point[:2]) == tuple(front[-1][:2]):
            front.append(point)
    return front
