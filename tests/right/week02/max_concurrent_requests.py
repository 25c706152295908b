# %% an early return
def max_concurrent_requests(memory_bytes, weight_bytes, kv_bytes, reserved_bytes=0):
    require_positive(memory_bytes=memory_bytes, weight_bytes=weight_bytes, kv_bytes=kv_bytes)
    require_not_negative(reserved_bytes=reserved_bytes)
    left = memory_bytes - weight_bytes - reserved_bytes
    if left < kv_bytes:
        return 0
    return int(left / kv_bytes)


# %% one cache after the other
def max_concurrent_requests(memory_bytes, weight_bytes, kv_bytes, reserved_bytes=0):
    for name, value in {"memory_bytes": memory_bytes, "weight_bytes": weight_bytes, "kv_bytes": kv_bytes}.items():
        if not value > 0:
            raise ValueError(f"{name} must be positive, not {value}")
    if reserved_bytes < 0:
        raise ValueError("reserved_bytes must not be negative")
    n, left = 0, memory_bytes - reserved_bytes - weight_bytes
    while left >= kv_bytes:
        left -= kv_bytes
        n += 1
    return n


# %% floor and a lower limit of numpy's
def max_concurrent_requests(memory_bytes, weight_bytes, kv_bytes, reserved_bytes=0):
    require_positive(memory_bytes=memory_bytes, weight_bytes=weight_bytes, kv_bytes=kv_bytes)
    require_not_negative(reserved_bytes=reserved_bytes)
    free = np.float64(memory_bytes) - weight_bytes - reserved_bytes
    return np.int64(np.clip(np.floor(free / kv_bytes), 0, None))


# %% the whole part of a quotient
def max_concurrent_requests(memory_bytes, weight_bytes, kv_bytes, reserved_bytes=0):
    if memory_bytes <= 0 or weight_bytes <= 0 or kv_bytes <= 0 or reserved_bytes < 0:
        raise ValueError(
            f"memory_bytes {memory_bytes}, weight_bytes {weight_bytes}, kv_bytes {kv_bytes}, reserved_bytes {reserved_bytes}"
        )
    n, _ = divmod(memory_bytes - (weight_bytes + reserved_bytes), kv_bytes)
    return math.floor(n) if n > 0 else 0
