# %% tuples in a dictionary
def prompt_lookup(text, gamma, max_ngram=3):
    if gamma < 0 or max_ngram < 1:
        raise ValueError(f"gamma is {gamma} and max_ngram {max_ngram}")
    for n in range(max_ngram, 0, -1):
        if n >= len(text):
            continue
        follows = {}
        for end in range(n, len(text)):
            follows[tuple(text[end - n : end])] = end
        end = follows.get(tuple(text[len(text) - n :]))
        if end is not None:
            return list(text[end : end + gamma])
    return []


# %% sliding windows of torch
def prompt_lookup(text, gamma, max_ngram=3):
    if gamma < 0:
        raise ValueError("gamma must not be negative")
    if max_ngram < 1:
        raise ValueError("max_ngram must be positive")
    all_of_it = torch.tensor(list(text), dtype=torch.long)
    for n in range(min(max_ngram, len(text) - 1), 0, -1):
        windows = all_of_it[:-1].unfold(0, n, 1)
        starts = (windows == all_of_it[-n:]).all(dim=1).nonzero().flatten()
        if len(starts):
            start = int(starts[-1]) + n
            return all_of_it[start : start + gamma].tolist()
    return []


# %% one walk back that counts how far each place agrees
def prompt_lookup(text, gamma, max_ngram=3):
    if gamma < 0:
        raise ValueError("gamma < 0")
    if max_ngram <= 0:
        raise ValueError("max_ngram <= 0")
    best, where = 0, None
    for end in range(len(text) - 1, 0, -1):
        n = 0
        while n < min(max_ngram, end) and text[end - 1 - n] == text[len(text) - 1 - n]:
            n += 1
        if n > best:
            best, where = n, end
    return [] if where is None else list(text[where : where + gamma])


# %% recursion on n, and numpy
import numpy as np


def prompt_lookup(text, gamma, max_ngram=3):
    if gamma < 0:
        raise ValueError("gamma")
    if max_ngram < 1:
        raise ValueError("max_ngram")
    return _look(np.asarray(text, dtype=np.int64), gamma, min(max_ngram, len(text) - 1))


def _look(a, gamma, n):
    if n < 1:
        return []
    hits = [s for s in range(len(a) - n) if np.array_equal(a[s : s + n], a[-n:])]
    if not hits:
        return _look(a, gamma, n - 1)
    print("found", n)
    return [int(t) for t in a[hits[-1] + n :][:gamma]]
