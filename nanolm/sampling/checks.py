"""What each rule may be: one that is not allowed is refused by its name, its value and what is allowed."""

import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

MOST_LOGPROBS = 20
MOST_PENALTY = 2.0  # OpenAI's range for the presence and frequency penalties

_TOKENS = "a sequence of token ids, whole numbers of 0 or more"
_BIASES = "token ids, whole numbers of 0 or more and each once, to numbers that are finite or -inf"


def _number(name: str, value: Any, is_allowed: Callable[[float], bool], allowed: str) -> float:
    """Return the value as a float; it must be a number, no bool and no NaN (every comparison with one fails).

    As a float, for tensors take neither fractions nor whole numbers beyond 64 bits, and would say so in mid-pass.
    """
    number = _as_float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if math.isnan(number) or not is_allowed(number):
        raise ValueError(f"{name} is {value!r}; it must be {allowed}")
    return number


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _whole(name: str, value: Any, least: int, most: float, allowed: str) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool) or not least <= int(value) <= most:
        raise ValueError(f"{name} is {value!r}; it must be {allowed}")
    return int(value)


def check_temperature(temperature: float) -> float:
    """Return a temperature as SamplingParams keeps it; raise a ValueError that says what is allowed."""
    return _number("temperature", temperature, lambda value: 0 <= value < math.inf, "finite and 0 (greedy) or more")


def check_top_k(k: int) -> int:
    """Return a top_k as SamplingParams keeps it; raise a ValueError that says what is allowed."""
    return _whole("top_k", k, 1, math.inf, "a whole number, 1 or more (None keeps all)")


def check_top_p(p: float) -> float:
    """Return a top_p as SamplingParams keeps it; raise a ValueError that says what is allowed."""
    return _number("top_p", p, lambda value: 0 < value <= 1, "above 0 and at most 1 (None keeps all)")


def check_min_p(min_p: float) -> float:
    """Return a min_p as SamplingParams keeps it; raise a ValueError that says what is allowed."""
    return _number("min_p", min_p, lambda value: 0 <= value <= 1, "from 0 to 1 (None keeps all)")


def _check_repetition_penalty(penalty: float) -> float:
    allowed = "finite and above 0 (1 changes nothing)"
    return _number("repetition_penalty", penalty, lambda value: 0 < value < math.inf, allowed)


def _check_presence_penalty(penalty: float, name: str = "presence_penalty") -> float:
    allowed = f"from {-MOST_PENALTY:g} to {MOST_PENALTY:g} (0 changes nothing)"
    return _number(name, penalty, lambda value: abs(value) <= MOST_PENALTY, allowed)


def _check_frequency_penalty(penalty: float) -> float:
    return _check_presence_penalty(penalty, "frequency_penalty")


def _check_min_new_tokens(n: int) -> int:
    return _whole("min_new_tokens", n, 0, math.inf, "a whole number, 0 or more")


def _check_logprobs(n: int) -> int:
    return _whole("logprobs", n, 0, MOST_LOGPROBS, f"a whole number from 0 to {MOST_LOGPROBS} (None reports none)")


def _check_end_tokens(tokens: Any, name: str = "end_tokens") -> tuple[int, ...]:
    try:
        return tuple(_whole(name, token, 0, math.inf, _TOKENS) for token in tokens)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {tokens!r}; it must be {_TOKENS}") from None


def _check_stop_token_ids(tokens: Any) -> tuple[int, ...]:
    return _check_end_tokens(tokens, "stop_token_ids")


def _check_logit_bias(biases: Any) -> tuple[tuple[int, float], ...]:
    """Return pairs (token, bias) in the order of the tokens, so that equal rules are equal and hash alike."""
    try:
        given = [(token, bias) for token, bias in (biases.items() if isinstance(biases, Mapping) else biases)]
        pairs = {_whole("", token, 0, math.inf, ""): _number("", b, lambda b: b < math.inf, "") for token, b in given}
        if len(pairs) < len(given):
            raise ValueError("a token twice")
    except (TypeError, ValueError):
        raise ValueError(f"logit_bias is {biases!r}; it must map {_BIASES}") from None
    return tuple(sorted(pairs.items()))


def _or_none(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else check(value)


# For each field of SamplingParams what checks it and returns it, sequences as tuples, whole numbers as ints.
FIELD_CHECKS: dict[str, Callable[[Any], Any]] = {
    "temperature": check_temperature,
    "top_k": _or_none(check_top_k),
    "top_p": _or_none(check_top_p),
    "end_tokens": _or_none(_check_end_tokens),
    "min_p": _or_none(check_min_p),
    "repetition_penalty": _check_repetition_penalty,
    "presence_penalty": _check_presence_penalty,
    "frequency_penalty": _check_frequency_penalty,
    "logit_bias": _check_logit_bias,
    "stop_token_ids": _check_stop_token_ids,
    "min_new_tokens": _check_min_new_tokens,
    "logprobs": _or_none(_check_logprobs),
}
