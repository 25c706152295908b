# %% the whole prompt, position by position
def attention_share_of_prefill(n_prompt_tokens, n_params, n_layers, n_heads, head_dim):
    require_count(1, n_prompt_tokens=n_prompt_tokens, n_layers=n_layers, n_heads=n_heads, head_dim=head_dim)
    require_positive(n_params=n_params)
    pairs = n_prompt_tokens * (n_prompt_tokens + 1) // 2
    scores = values = 2 * n_heads * head_dim * pairs * n_layers
    return (scores + values) / (2 * n_params * n_prompt_tokens)


# %% a sum over positions
def attention_share_of_prefill(n_prompt_tokens, n_params, n_layers, n_heads, head_dim):
    require_count(1, n_prompt_tokens=n_prompt_tokens, n_layers=n_layers, n_heads=n_heads, head_dim=head_dim)
    require_positive(n_params=n_params)
    seen = sum(range(1, n_prompt_tokens + 1))
    return 2 * n_layers * n_heads * head_dim * seen / (n_prompt_tokens * n_params)


# %% NumPy
import numpy as np


def attention_share_of_prefill(n_prompt_tokens, n_params, n_layers, n_heads, head_dim):
    sizes = {"n_prompt_tokens": n_prompt_tokens, "n_layers": n_layers, "n_heads": n_heads, "head_dim": head_dim}
    for name, value in sizes.items():
        if value < 1 or value != int(value):
            raise ValueError(f"{name} must be a whole number above 0")
    if n_params <= 0:
        raise ValueError("n_params must be above 0")
    mean = np.arange(1, n_prompt_tokens + 1, dtype=np.float64).mean()
    return np.float64(4 * n_layers * n_heads * head_dim) * mean / (2 * n_params)


# %% shortened
def attention_share_of_prefill(n_prompt_tokens, n_params, n_layers, n_heads, head_dim):
    require_count(1, n_prompt_tokens=n_prompt_tokens, n_layers=n_layers, n_heads=n_heads, head_dim=head_dim)
    require_positive(n_params=n_params)
    return n_layers * n_heads * head_dim * (n_prompt_tokens + 1) / n_params


# %% layer by layer
def attention_share_of_prefill(n_prompt_tokens, n_params, n_layers, n_heads, head_dim):
    require_positive(n_params=n_params)
    require_count(1, n_prompt_tokens=n_prompt_tokens, n_layers=n_layers, n_heads=n_heads, head_dim=head_dim)
    share = 0.0
    for _ in range(n_layers):
        for part in ("scores", "values"):
            share += 2 * n_heads * head_dim * (n_prompt_tokens + 1) / 2 / (2 * n_params)
    return share
