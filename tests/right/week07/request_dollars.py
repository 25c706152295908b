# %% price by price
def request_dollars(n_input_tokens, n_output_tokens, input_dollars_per_million=2.0, output_dollars_per_million=10.0):
    for name, value in (("n_input_tokens", n_input_tokens), ("n_output_tokens", n_output_tokens)):
        if value < 0 or value != int(value):
            raise ValueError(f"{name} is {value}")
    if input_dollars_per_million < 0:
        raise ValueError("input_dollars_per_million is below 0")
    if output_dollars_per_million < 0:
        raise ValueError("output_dollars_per_million is below 0")
    asked = n_input_tokens / 1_000_000 * input_dollars_per_million
    answered = n_output_tokens / 1_000_000 * output_dollars_per_million
    return asked + answered


# %% a sum over pairs
def request_dollars(n_input_tokens, n_output_tokens, input_dollars_per_million=2.0, output_dollars_per_million=10.0):
    require_count(0, n_input_tokens=n_input_tokens)
    require_count(0, n_output_tokens=n_output_tokens)
    require_not_negative(input_dollars_per_million=input_dollars_per_million)
    require_not_negative(output_dollars_per_million=output_dollars_per_million)
    bill = ((n_input_tokens, input_dollars_per_million), (n_output_tokens, output_dollars_per_million))
    return math.fsum(n * price * 1e-6 for n, price in bill)


# %% NumPy
import numpy as np


def request_dollars(n_input_tokens, n_output_tokens, input_dollars_per_million=2.0, output_dollars_per_million=10.0):
    require_count(0, n_input_tokens=n_input_tokens, n_output_tokens=n_output_tokens)
    prices = np.array([input_dollars_per_million, output_dollars_per_million])
    if (prices < 0).any():
        raise ValueError(f"input_dollars_per_million and output_dollars_per_million are {prices}: 0 or more")
    return np.dot([n_input_tokens, n_output_tokens], prices) / 10**6


# %% exact fractions, a helper
from fractions import Fraction


def arrivals_in_order(n, price):
    return Fraction(price) * n / 1_000_000


def request_dollars(n_input_tokens, n_output_tokens, input_dollars_per_million=2.0, output_dollars_per_million=10.0):
    counts = {"n_input_tokens": n_input_tokens, "n_output_tokens": n_output_tokens}
    prices = {
        "input_dollars_per_million": input_dollars_per_million,
        "output_dollars_per_million": output_dollars_per_million,
    }
    for name, value in (counts | prices).items():
        if value < 0 or (name in counts and not isinstance(value, int)):
            raise ValueError(f"{name} may not be {value}")
    return float(sum(arrivals_in_order(n, price) for n, price in zip(counts.values(), prices.values())))
