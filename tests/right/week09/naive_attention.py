# %% whole keys and torch's own attention
def naive_attention(q, q_rotary, latents, rotary_keys, up_keys, up_values, mask=None):
    B, N, T, H = q.shape
    S, R = rotary_keys.shape[1:]
    keys = latents[:, None] @ up_keys.transpose(1, 2)
    values = latents[:, None] @ up_values.transpose(1, 2)
    keys = torch.cat([keys, rotary_keys[:, None].expand(B, N, S, R)], dim=-1)
    if mask is None:
        mask = torch.ones(T, S, dtype=torch.bool).tril(S - T)
    queries = torch.cat([q, q_rotary], dim=-1)
    return torch.nn.functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)


# %% head by head
def naive_attention(q, q_rotary, latents, rotary_keys, up_keys, up_values, mask=None):
    heads = []
    for n in range(q.shape[1]):
        keys, values = latents @ up_keys[n].T, latents @ up_values[n].T
        scores = q[:, n] @ keys.mT + q_rotary[:, n] @ rotary_keys.mT
        weights = latent_softmax(scores[:, None], q.shape[3] + q_rotary.shape[3], mask)[:, 0]
        heads.append(weights @ values)
    return torch.stack(heads, dim=1)


# %% query by query over the keys that it sees
def naive_attention(q, q_rotary, latents, rotary_keys, up_keys, up_values, mask=None):
    B, N, T, H = q.shape
    S, length = latents.shape[1], H + q_rotary.shape[-1]
    keys = torch.tensordot(latents, up_keys, dims=([2], [2])).permute(0, 2, 1, 3)
    values = torch.tensordot(latents, up_values, dims=([2], [2])).permute(0, 2, 1, 3)
    out = q.new_zeros(B, N, T, up_values.shape[1])
    for t in range(T):
        sees = mask[t] if mask is not None else torch.arange(S) <= S - T + t
        scores = (keys[:, :, sees] * q[:, :, t, None]).sum(-1)
        scores = scores + (rotary_keys[:, None, sees] * q_rotary[:, :, t, None]).sum(-1)
        weights = torch.exp(scores / length**0.5 - (scores / length**0.5).amax(-1, keepdim=True))
        out[:, :, t] = (weights[..., None] * values[:, :, sees]).sum(2) / weights.sum(-1, keepdim=True)
    return out


# %% numpy inside
import numpy as np


def naive_attention(q, q_rotary, latents, rotary_keys, up_keys, up_values, mask=None):
    numbers = [x.numpy() for x in (q, q_rotary, latents, rotary_keys, up_keys, up_values)]
    q_, r_, c, rk, uk, uv = numbers
    keys = np.einsum("nhc,bsc->bnsh", uk, c)
    scores = np.einsum("bnth,bnsh->bnts", q_, keys) + np.einsum("bntr,bsr->bnts", r_, rk)
    scores = scores / np.sqrt(q_.shape[-1] + r_.shape[-1])
    T, S = scores.shape[2:]
    sees = np.tri(T, S, S - T, dtype=bool) if mask is None else mask.numpy()
    scores = np.where(sees, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = weights / weights.sum(-1, keepdims=True) @ np.einsum("nuc,bsc->bnsu", uv, c)
    return torch.from_numpy(mixed)
