# %% over the mean
def load_imbalance(counts):
    total = checked_total(counts)
    mean = total / len(counts)
    return max(counts) / mean


# %% numpy
import numpy as np


def load_imbalance(counts):
    checked_total(counts)
    a = np.asarray(counts, dtype=np.float64)
    return a.max() / a.mean()


# %% a loop, with refusals of its own
def load_imbalance(counts):
    busiest = total = n = 0
    for count in counts:
        if count < 0 or count != int(count):
            raise ValueError(f"counts hold {count}")
        total, n = total + count, n + 1
        if count > busiest:
            busiest = count
    if total == 0:
        raise ValueError("the counts add up to nothing")
    return busiest / (total / n)


# %% torch, by shares
def load_imbalance(counts):
    shares = torch.tensor(list(counts), dtype=torch.float64) / checked_total(counts=counts)
    return float(shares.max() * len(counts))


# %% a fraction of whole numbers, the largest by sorting
from fractions import Fraction


def load_imbalance(counts):
    total = int(checked_total(counts))
    *_, busiest = sorted(counts)
    print(busiest, "of", total)
    return float(Fraction(int(busiest) * len(counts), total))
