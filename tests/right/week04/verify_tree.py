# %% a list of children for each place
def verify_tree(target_probs, draft_probs, drafted, parents, rng):
    check_tree(target_probs, draft_probs, drafted, parents)
    children = {}
    for i, parent in enumerate(parents):
        children.setdefault(parent, []).append(i)
    new, place, owed = [], -1, target_probs[0]
    while True:
        for child in children.get(place, []):
            x = drafted[child]
            if rng.bernoulli(min(1.0, float(owed[x] / draft_probs[child][x]))):
                new.append(x)
                place, owed = child, target_probs[child + 1]
                break
            owed = residual_distribution(owed, draft_probs[child])
        else:
            new.append(rng.categorical(owed))
            return new


# %% recursion, asking whether to reject
def verify_tree(target_probs, draft_probs, drafted, parents, rng):
    check_tree(target_probs, draft_probs, drafted, parents)

    def below(place, owed, candidates):
        if not candidates:
            return [rng.categorical(owed)]
        child, *others = candidates
        x = drafted[child]
        if rng.bernoulli(1 - owed[x].item() / draft_probs[child, x].item()):
            left = (owed - draft_probs[child]).clamp(min=0)
            return below(place, left / left.sum(), others)
        return [x] + down(child)

    def down(place):
        return below(place, target_probs[place + 1], [i for i, p in enumerate(parents) if p == place])

    return down(-1)


# %% one pass over the tokens in their order
def verify_tree(target_probs, draft_probs, drafted, parents, rng):
    check_tree(target_probs, draft_probs, drafted, parents)
    new, at, owed = [], -1, target_probs[0].clone()
    for i, (token, parent) in enumerate(zip(drafted, parents)):
        if parent != at:
            continue
        if rng.bernoulli(float(owed[token]) / float(draft_probs[i, token])):
            new, at, owed = [*new, token], i, target_probs[i + 1].clone()
        else:
            owed -= draft_probs[i]
            owed.clamp_(min=0)
            owed /= owed.sum()
    return [*new, rng.categorical(owed)]


# %% numpy, refusals of its own
import numpy as np


def verify_tree(target_probs, draft_probs, drafted, parents, rng):
    p, q = np.asarray(target_probs, dtype=np.float64), np.asarray(draft_probs, dtype=np.float64)
    n = len(drafted)
    if len(parents) != n:
        raise ValueError("parents: one for each token")
    if len(q) != n:
        raise ValueError("draft_probs: one row for each token")
    if len(p) != n + 1:
        raise ValueError("target_probs: one row more than tokens")
    if any(not (-1 <= parent < i) for i, parent in enumerate(parents)):
        raise ValueError("parents stand before their children")
    if any(q[i, token] == 0 for i, token in enumerate(drafted)):
        raise ValueError("drafted token of probability 0")
    new, place, owed = [], -1, p[0]
    todo = [i for i in range(n) if parents[i] == -1]
    while todo:
        child = todo.pop(0)
        x = drafted[child]
        if rng.bernoulli(owed[x] / q[child, x]):
            new.append(x)
            place, owed = child, p[child + 1]
            todo = [i for i in range(n) if parents[i] == place]
        else:
            left = np.maximum(owed - q[child], 0)
            owed = left / left.sum()
    return new + [rng.categorical(torch.from_numpy(np.array(owed)))]
