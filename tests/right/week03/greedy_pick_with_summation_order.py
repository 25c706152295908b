# %% a loop that keeps the best
def greedy_pick_with_summation_order(terms, order):
    best, pick = -float("inf"), 0
    for token, row in enumerate(terms):
        score = float32_sum(row, order)
        if score > best:
            best, pick = score, token
    return pick


# %% argmax of torch
def greedy_pick_with_summation_order(terms, order):
    scores = torch.tensor([float32_sum(row, order) for row in terms], dtype=torch.float32)
    return int(scores.argmax())


# %% all tokens at once
def greedy_pick_with_summation_order(terms, order):
    rows = torch.tensor([list(row) for row in terms], dtype=torch.float32)
    if sorted(order) != list(range(rows.shape[1])):
        raise ValueError("order is no permutation")
    total = torch.zeros(len(rows), dtype=torch.float32)
    for index in order:
        total = total + rows[:, index]
    return total.argmax().item()


# %% NumPy
import numpy as np


def greedy_pick_with_summation_order(terms, order):
    return np.argmax(np.array([float32_sum(row, order) for row in terms]))


# %% the index of the largest
def greedy_pick_with_summation_order(terms, order):
    logits = list(map(lambda row: float32_sum(values=row, order=order), terms))
    return logits.index(max(logits))
