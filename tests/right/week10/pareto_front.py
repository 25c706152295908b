# %% every pair compared
def pareto_front(points):
    points = list(points)
    for point in points:
        if len(point) < 2 or not all(0 <= number < float("inf") for number in point[:2]):
            raise ValueError(f"a point must have two finite numbers from 0 on, not {point}")
    front = []
    for point in points:
        beaten = False
        for other in points:
            no_worse = other[0] <= point[0] and other[1] <= point[1]
            if no_worse and (other[0] < point[0] or other[1] < point[1]):
                beaten = True
                break
        if not beaten:
            front.append(point)
    front.sort(key=lambda point: point[0])
    return front


# %% equal points in the other order
def pareto_front(points):
    given = [*points]
    for i, point in enumerate(given):
        if len(point) < 2:
            raise ValueError(f"points[{i}] is too short")
        require_not_negative(**{f"points_{i}": point[0]})
        require_not_negative(**{f"points_{i}": point[1]})
    front, best = [], math.inf
    for point in sorted(reversed(given), key=lambda p: (p[0], p[1])):
        if point[1] < best or (front and (point[0], point[1]) == (front[-1][0], front[-1][1])):
            front.append(point)
            best = point[1]
    return front


# %% NumPy
import numpy as np


def pareto_front(points):
    points = list(points)
    if not points:
        return []
    if any(len(point) < 2 for point in points):
        raise ValueError("each point needs two numbers")
    numbers = np.array([[float(point[0]), float(point[1])] for point in points])
    if not np.isfinite(numbers).all() or (numbers < 0).any():
        raise ValueError("each point needs two finite numbers, 0 or more")
    no_worse = (numbers[:, None] <= numbers[None]).all(-1)
    better = (numbers[:, None] < numbers[None]).any(-1)
    kept = ~(no_worse & better).any(0)
    return [points[i] for i in np.argsort(numbers[:, 0], kind="stable") if kept[i]]


# %% grouped by the first number
from itertools import groupby


def pareto_front(points):
    checked = []
    for point in points:
        if len(point) < 2:
            raise ValueError("a point has two numbers")
        require_not_negative(point=point[0])
        require_not_negative(point=point[1])
        checked.append(point)
    checked.sort(key=lambda point: point[0])
    front, cheapest = [], float("inf")
    for _, group in groupby(checked, key=lambda point: point[0]):
        group = list(group)
        lowest = min(point[1] for point in group)
        if lowest < cheapest:
            front.extend(point for point in group if point[1] == lowest)
            cheapest = lowest
    return front


# %% divide and conquer
def pareto_front(points):
    points = list(points)
    for index, point in enumerate(points):
        if len(point) < 2:
            raise ValueError(f"points[{index}] must be (seconds, dollars, …)")
        require_not_negative(**{f"points[{index}][0]": point[0], f"points[{index}][1]": point[1]})

    def front(some):
        if len(some) < 2:
            return some
        left, right = front(some[: len(some) // 2]), front(some[len(some) // 2 :])
        cheapest = min(point[1] for point in left)
        last = [(point[0], point[1]) for point in left]
        return left + [p for p in right if p[1] < cheapest or (p[0], p[1]) in last]

    return front(sorted(points, key=lambda point: (point[0], point[1])))
