# %% both ways spelled out
def latent_multiplications(T, S, head_dim, latent):
    require_count(1, T=T)
    require_count(1, S=S)
    H, C, R, U = head_dim, latent.kv_latent_dim, latent.rotary_dim, latent.value_dim
    naive = S * C * H + S * C * U + T * S * (H + R) + T * S * U
    absorbed = T * H * C + T * C * U + T * S * (C + R) + T * S * C
    return naive, absorbed


# %% a helper for any product of matrices
def latent_multiplications(T, S, head_dim, latent):
    if T < 1 or T != int(T):
        raise ValueError(f"T is {T}")
    if S < 1 or S != int(S):
        raise ValueError(f"S is {S}")

    def product(rows, inner, columns):
        return rows * inner * columns

    C, R, U = latent.kv_latent_dim, latent.rotary_dim, latent.value_dim
    naive = product(S, C, head_dim) + product(S, C, U) + product(T, head_dim + R, S) + product(T, S, U)
    absorbed = product(T, head_dim, C) + product(T, C + R, S) + product(T, S, C) + product(T, C, U)
    return (naive, absorbed)


# %% one query and one position at a time
def latent_multiplications(T, S, head_dim, latent):
    require_count(1, T=T, S=S)
    C, U = latent.kv_latent_dim, latent.value_dim
    a_position = a_query = C * head_dim + C * U
    naive_meeting = head_dim + latent.rotary_dim + U
    absorbed_meeting = C + latent.rotary_dim + C
    naive = sum(a_position + T * naive_meeting for _ in range(min(S, 10_000)))
    naive = naive * S // min(S, 10_000)
    return naive, a_query * T + absorbed_meeting * S * T


# %% a matrix of counts, as whole numbers
def latent_multiplications(T, S, head_dim, latent):
    require_count(1, T=T, S=S)
    C, R, U = latent.kv_latent_dim, latent.rotary_dim, latent.value_dim
    counts = torch.tensor([[S, head_dim + R + U], [T, 2 * C + R]], dtype=torch.int64)
    weights = torch.stack([counts[:, 0] * C * (head_dim + U), counts[:, 1] * T * S])
    return tuple(weights.sum(0).tolist())
