# %% an early return
def max_context(memory_bytes, weight_bytes, kv_bytes_per_token, batch_size=1, headroom=0.1):
    if not 0 <= headroom < 1:
        raise ValueError(f"headroom must be in [0, 1), got {headroom}")
    require_count(1, batch_size=batch_size)
    require_positive(memory_bytes=memory_bytes, weight_bytes=weight_bytes, kv_bytes_per_token=kv_bytes_per_token)
    usable = memory_bytes - headroom * memory_bytes
    if weight_bytes >= usable:
        return 0
    per_step = batch_size * kv_bytes_per_token
    return math.floor((usable - weight_bytes) / per_step)


# %% bisection
def max_context(memory_bytes, weight_bytes, kv_bytes_per_token, batch_size=1, headroom=0.1):
    require_positive(memory_bytes=memory_bytes, weight_bytes=weight_bytes, kv_bytes_per_token=kv_bytes_per_token)
    require_count(1, batch_size=batch_size)
    if not (headroom >= 0 and headroom < 1):
        raise ValueError(f"headroom: {headroom}")

    def fits(tokens):
        return weight_bytes + batch_size * tokens * kv_bytes_per_token <= memory_bytes * (1 - headroom)

    low, high = 0, 1
    while fits(high):
        high *= 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


# %% the share of one sequence first
def max_context(memory_bytes, weight_bytes, kv_bytes_per_token, batch_size=1, headroom=0.1):
    require_positive(memory_bytes=memory_bytes, weight_bytes=weight_bytes, kv_bytes_per_token=kv_bytes_per_token)
    require_count(1, batch_size=batch_size)
    require_not_negative(headroom=headroom)
    if headroom >= 1:
        raise ValueError("headroom is a fraction below 1")
    share = ((1 - headroom) * memory_bytes - weight_bytes) / batch_size
    return max(int(share / kv_bytes_per_token), 0)


# %% numpy, and a number of numpy's
def max_context(memory_bytes, weight_bytes, kv_bytes_per_token, batch_size=1, headroom=0.1):
    for name, value in (
        ("memory_bytes", memory_bytes),
        ("weight_bytes", weight_bytes),
        ("kv_bytes_per_token", kv_bytes_per_token),
    ):
        if value <= 0:
            raise ValueError(f"{name} must be > 0")
    if batch_size < 1 or batch_size % 1 != 0:
        raise ValueError("batch_size must be a whole number > 0")
    if np.isnan(headroom) or headroom < 0 or headroom >= 1:
        raise ValueError("headroom")
    tokens = np.floor_divide(memory_bytes * (1 - headroom) - weight_bytes, batch_size * kv_bytes_per_token)
    return np.int64(np.maximum(tokens, 0))
