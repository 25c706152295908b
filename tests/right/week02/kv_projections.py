# %% one product
def kv_projections(n_prompt_tokens, n_new_tokens, cached, n_layers=1):
    require_count(1, n_layers=n_layers)
    return positions_run(n_prompt_tokens, n_new_tokens, cached) * 2 * n_layers


# %% keys and values counted apart, layer by layer
def kv_projections(n_prompt_tokens, n_new_tokens, cached, n_layers=1):
    if n_layers != int(n_layers) or n_layers < 1:
        raise ValueError(f"n_layers is {n_layers}")
    positions = positions_run(n_prompt_tokens, n_new_tokens, cached)
    keys = values = 0
    for _ in range(n_layers):
        keys += positions
        values += positions
    return keys + values


# %% without positions_run
def kv_projections(n_prompt_tokens, n_new_tokens, cached, n_layers=1):
    for name, value, least in (
        ("n_prompt_tokens", n_prompt_tokens, 1),
        ("n_new_tokens", n_new_tokens, 0),
        ("n_layers", n_layers, 1),
    ):
        if not isinstance(value, int) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}, got {value}")
    if not n_new_tokens:
        return 0
    if cached:
        positions = n_prompt_tokens + n_new_tokens - 1
    else:
        positions = sum(range(n_prompt_tokens, n_prompt_tokens + n_new_tokens))
    return 2 * positions * n_layers


# %% keyword arguments and a helper of its own
def _positions(prompt, new, cached):
    return positions_run(n_prompt_tokens=prompt, n_new_tokens=new, cached=cached)


def kv_projections(n_prompt_tokens, n_new_tokens, cached, n_layers=1):
    require_count(1, n_layers=n_layers)
    return np.int64(_positions(n_prompt_tokens, n_new_tokens, cached)) * 2 * n_layers
