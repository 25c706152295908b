# %% dollars of an hour over its millions of tokens
def cost_per_million(step_seconds, batch_size, dollars_per_hour):
    if step_seconds <= 0:
        raise ValueError("step_seconds must be above 0")
    if dollars_per_hour <= 0:
        raise ValueError("dollars_per_hour must be above 0")
    if batch_size < 1 or batch_size != int(batch_size):
        raise ValueError("batch_size must be a whole number above 0")
    tokens_per_hour = 3600 / step_seconds * batch_size
    return dollars_per_hour / (tokens_per_hour / 1_000_000)


# %% seconds that a million tokens take
def cost_per_million(step_seconds, batch_size, dollars_per_hour):
    require_positive(step_seconds=step_seconds, dollars_per_hour=dollars_per_hour)
    require_count(1, batch_size=batch_size)
    seconds = step_seconds * 1e6 / batch_size
    return seconds * (dollars_per_hour / 3600)


# %% NumPy
import numpy as np


def cost_per_million(step_seconds, batch_size, dollars_per_hour):
    require_positive(step_seconds=step_seconds, dollars_per_hour=dollars_per_hour)
    require_count(1, batch_size=batch_size)
    return np.prod([dollars_per_hour, step_seconds, 1e6]) / np.prod([3600, float(batch_size)])


# %% exact fractions
from fractions import Fraction


def cost_per_million(step_seconds, batch_size, dollars_per_hour):
    require_positive(step_seconds=step_seconds, dollars_per_hour=dollars_per_hour)
    require_count(1, batch_size=batch_size)
    print("price of", batch_size)
    return float(Fraction(dollars_per_hour) * Fraction(step_seconds) * 10**6 / (3600 * int(batch_size)))


# %% a helper of the name of an engine's function
def tokens_per_second(step, batch):
    return batch / step


def cost_per_million(step_seconds, batch_size, dollars_per_hour):
    require_count(1, batch_size=batch_size)
    require_positive(step_seconds=step_seconds)
    require_positive(dollars_per_hour=dollars_per_hour)
    return dollars_per_hour / 3600 / tokens_per_second(step_seconds, batch_size) * 1e6
