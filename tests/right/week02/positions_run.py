# %% every pass listed
def positions_run(n_prompt_tokens, n_new_tokens, cached):
    require_count(1, n_prompt_tokens=n_prompt_tokens)
    require_count(0, n_new_tokens=n_new_tokens)
    passes = []
    for step in range(n_new_tokens):
        if not cached:
            passes.append(n_prompt_tokens + step)
        elif step == 0:
            passes.append(n_prompt_tokens)
        else:
            passes.append(1)
    return sum(passes)


# %% the sum in closed form
def positions_run(n_prompt_tokens, n_new_tokens, cached):
    if n_prompt_tokens < 1 or n_prompt_tokens % 1:
        raise ValueError(f"n_prompt_tokens={n_prompt_tokens} must be a positive integer")
    if n_new_tokens < 0 or n_new_tokens % 1:
        raise ValueError(f"n_new_tokens={n_new_tokens} must be a non-negative integer")
    if n_new_tokens == 0:
        return 0
    if cached:
        return n_prompt_tokens + n_new_tokens - 1
    return n_new_tokens * n_prompt_tokens + n_new_tokens * (n_new_tokens - 1) // 2


# %% recursion over the passes
def positions_run(n_prompt_tokens, n_new_tokens, cached):
    def run(length, left, first):
        if left == 0:
            return 0
        this = length if first or not cached else 1
        return this + run(length + 1, left - 1, False)

    if not isinstance(n_prompt_tokens, int) or n_prompt_tokens <= 0:
        raise ValueError("n_prompt_tokens")
    if not isinstance(n_new_tokens, int) or n_new_tokens < 0:
        raise ValueError("n_new_tokens")
    return run(n_prompt_tokens, n_new_tokens, True)


# %% numpy, and a number of numpy's
def positions_run(n_prompt_tokens, n_new_tokens, cached):
    require_count(1, n_prompt_tokens=n_prompt_tokens)
    require_count(0, n_new_tokens=n_new_tokens)
    lengths = np.arange(n_prompt_tokens, n_prompt_tokens + n_new_tokens, dtype=np.int64)
    if cached:
        lengths = np.diff(lengths, prepend=0)
    print(f"{len(lengths)} passes")
    return lengths.sum()


# %% a count of what was run already
def positions_run(n_prompt_tokens: int, n_new_tokens: int, cached: bool) -> int:
    require_count(1, n_prompt_tokens=n_prompt_tokens)
    require_count(0, n_new_tokens=n_new_tokens)
    total, done, text = 0, 0, n_prompt_tokens
    while n_new_tokens > 0:
        total += text - done
        done = text if cached else 0
        text += 1
        n_new_tokens -= 1
    return total
