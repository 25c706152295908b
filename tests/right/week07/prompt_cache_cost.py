# %% counts of writes and reads
def prompt_cache_cost(
    arrivals_seconds,
    n_shared_tokens,
    n_fresh_tokens,
    input_dollars_per_million,
    write_factor=1.25,
    read_factor=0.1,
    time_to_live_seconds=300.0,
    granularity_tokens=1,
):
    require_count(0, n_shared_tokens=n_shared_tokens, n_fresh_tokens=n_fresh_tokens)
    require_count(1, granularity_tokens=granularity_tokens)
    require_not_negative(input_dollars_per_million=input_dollars_per_million, write_factor=write_factor)
    require_not_negative(read_factor=read_factor, time_to_live_seconds=time_to_live_seconds)
    arrivals = arrivals_in_order(arrivals_seconds)
    if not arrivals:
        return 0.0
    gaps = [late - early for early, late in zip(arrivals, arrivals[1:])]
    n_reads = sum(gap <= time_to_live_seconds for gap in gaps)
    n_writes = len(arrivals) - n_reads
    cached = n_shared_tokens // granularity_tokens * granularity_tokens
    plain = len(arrivals) * (n_shared_tokens + n_fresh_tokens - cached)
    return (plain + cached * (n_writes * write_factor + n_reads * read_factor)) * input_dollars_per_million / 1e6


# %% dollars request by request, when the entry ends, own refusals
def prompt_cache_cost(
    arrivals_seconds,
    n_shared_tokens,
    n_fresh_tokens,
    input_dollars_per_million,
    write_factor=1.25,
    read_factor=0.1,
    time_to_live_seconds=300.0,
    granularity_tokens=1,
):
    not_below_0 = dict(
        n_shared_tokens=n_shared_tokens,
        n_fresh_tokens=n_fresh_tokens,
        input_dollars_per_million=input_dollars_per_million,
        write_factor=write_factor,
        read_factor=read_factor,
        time_to_live_seconds=time_to_live_seconds,
        granularity_tokens=granularity_tokens - 1,
    )
    for name, value in not_below_0.items():
        if value < 0 or (name.endswith("_tokens") and value != int(value)):
            raise ValueError(f"{name} must not be like this")
    a_token = input_dollars_per_million / 1_000_000
    rest = n_shared_tokens % granularity_tokens
    dollars, ends, before = 0, -1, None
    for arrival in arrivals_seconds:
        if before is not None and arrival < before:
            raise ValueError("arrivals_seconds are not in order")
        factor = read_factor if arrival <= ends else write_factor
        dollars += a_token * factor * (n_shared_tokens - rest) + a_token * (rest + n_fresh_tokens)
        ends, before = arrival + time_to_live_seconds, arrival
    return dollars


# %% NumPy
import numpy as np


def prompt_cache_cost(
    arrivals_seconds,
    n_shared_tokens,
    n_fresh_tokens,
    input_dollars_per_million,
    write_factor=1.25,
    read_factor=0.1,
    time_to_live_seconds=300.0,
    granularity_tokens=1,
):
    require_count(0, n_shared_tokens=n_shared_tokens, n_fresh_tokens=n_fresh_tokens)
    require_count(1, granularity_tokens=granularity_tokens)
    require_not_negative(
        write_factor=write_factor,
        read_factor=read_factor,
        time_to_live_seconds=time_to_live_seconds,
        input_dollars_per_million=input_dollars_per_million,
    )
    arrivals = np.array(arrivals_in_order(arrivals_seconds), dtype=float)
    waits = np.diff(arrivals, prepend=-np.inf)
    factors = np.where(waits <= time_to_live_seconds, read_factor, write_factor)
    cached = n_shared_tokens - n_shared_tokens % granularity_tokens
    tokens = cached * factors + (n_shared_tokens - cached) + n_fresh_tokens
    return tokens.sum() * input_dollars_per_million * 1e-6


# %% recursion over the arrivals, a helper
def dollars(n_tokens, price, factor=1):
    return n_tokens * price * factor / 1e6


def prompt_cache_cost(
    arrivals_seconds,
    n_shared_tokens,
    n_fresh_tokens,
    input_dollars_per_million,
    write_factor=1.25,
    read_factor=0.1,
    time_to_live_seconds=300.0,
    granularity_tokens=1,
):
    require_count(0, n_shared_tokens=n_shared_tokens, n_fresh_tokens=n_fresh_tokens)
    require_count(1, granularity_tokens=granularity_tokens)
    require_not_negative(input_dollars_per_million=input_dollars_per_million, write_factor=write_factor)
    require_not_negative(read_factor=read_factor, time_to_live_seconds=time_to_live_seconds)
    units, rest = divmod(n_shared_tokens, granularity_tokens)

    def bill(arrivals, last_use):
        if not arrivals:
            return 0
        now, *later = arrivals
        found = last_use is not None and now - last_use <= time_to_live_seconds
        price = input_dollars_per_million
        mine = dollars(units * granularity_tokens, price, read_factor if found else write_factor)
        return mine + dollars(rest + n_fresh_tokens, price) + bill(later, now)

    return bill(arrivals_in_order(arrivals_seconds), None)
