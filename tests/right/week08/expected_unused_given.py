# %% a loop
def expected_unused_given(chances, n_positions):
    require_count(0, n_positions=n_positions)
    unused = 0.0
    for chance in chances:
        if chance < 0 or chance > 1 or chance != chance:
            raise ValueError(f"chances hold {chance}")
        unused += (1 - chance) ** n_positions
    return unused


# %% numpy
import numpy as np


def expected_unused_given(chances, n_positions):
    require_count(0, n_positions=n_positions)
    c = np.array(chances, dtype=np.float64)
    if not ((c >= 0) & (c <= 1)).all():
        raise ValueError("chances lie between 0 and 1")
    return np.sum((1 - c) ** n_positions)


# %% position after position
def expected_unused_given(chances, n_positions):
    if n_positions < 0 or n_positions % 1:
        raise ValueError("n_positions is a whole number, 0 or more")
    if any(not 0 <= chance <= 1 for chance in chances):
        raise ValueError("one of the chances is none")
    untouched = [1.0] * len(chances)
    for _ in range(int(n_positions)):
        untouched = [left * (1 - chance) for left, chance in zip(untouched, chances)]
    return math.fsum(untouched)


# %% torch, the used ones taken away
def expected_unused_given(chances, n_positions):
    require_count(0, n_positions=n_positions)
    c = torch.tensor(list(chances), dtype=torch.float64)
    if not bool(((c >= 0) & (c <= 1)).all()):
        raise ValueError("chances")
    used = 1 - (1 - c) ** n_positions
    print(used)
    return len(c) - float(used.sum())


# %% recursion over the experts
def expected_unused_given(chances, n_positions):
    require_count(0, n_positions=n_positions)
    if not len(chances):
        return 0.0
    first, *others = chances
    if not 0 <= first <= 1:
        raise ValueError(f"chances: {first}")
    return pow(1 - first, n_positions) + expected_unused_given(others, n_positions)
