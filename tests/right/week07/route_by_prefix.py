# %% a loop that keeps the best
def route_by_prefix(prompt, replicas, max_extra_load=math.inf):
    if len(replicas) == 0:
        raise ValueError("replicas: there must be one")
    if max_extra_load < 0:
        raise ValueError(f"max_extra_load is {max_extra_load}")
    least = min(r.load for r in replicas)
    best, best_cached = None, 0
    for i, replica in enumerate(replicas):
        if replica.load - least > max_extra_load:
            continue
        cached = replica.cached_tokens(prompt)
        if best is None or cached > best_cached:
            best, best_cached = i, cached
        elif cached == best_cached and replica.load < replicas[best].load:
            best = i
    return best


# %% sorted three times, for sorting is stable
def route_by_prefix(prompt, replicas, max_extra_load=math.inf):
    if not replicas or max_extra_load < 0:
        raise ValueError(f"replicas has {len(replicas)} entries and max_extra_load is {max_extra_load}")
    order = sorted(range(len(replicas)), key=lambda i: replicas[i].load)
    smallest = replicas[order[0]].load
    order = [i for i in order if replicas[i].load <= smallest + max_extra_load]
    order.sort(key=lambda i: replicas[i].cached_tokens(prompt), reverse=True)
    return order[0]


# %% NumPy
import numpy as np


def route_by_prefix(prompt, replicas, max_extra_load=math.inf):
    require_not_negative(max_extra_load=min(max_extra_load, 1e300))
    if len(replicas) < 1:
        raise ValueError("no replicas")
    loads = np.array([replica.load for replica in replicas], dtype=float)
    cached = np.array([replica.cached_tokens(prompt) for replica in replicas])
    cached[loads > loads.min() + max_extra_load] = -1
    return np.lexsort((np.arange(len(loads)), loads, -cached))[0]


# %% min of a tuple, the filter step by step, a print
def route_by_prefix(prompt, replicas, max_extra_load=math.inf):
    if not replicas:
        raise ValueError("a prompt needs replicas")
    if max_extra_load < 0:
        raise ValueError("max_extra_load must be 0 or more")
    loads = [replica.load for replica in replicas]
    extra = [load - min(loads) for load in loads]
    print("extra loads", extra)
    candidates = []
    for i in range(len(replicas)):
        if extra[i] <= max_extra_load:
            candidates.append((-replicas[i].cached_tokens(prompt=prompt), loads[i], i))
    return min(candidates)[2]
