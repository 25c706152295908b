# %% one head after the other, the state written out
def flash_attention(q, k, v, tile=128):
    require_count(1, tile=tile)
    require_heads(q, k, v)
    B, N, T, H = q.shape
    K, S = k.shape[1], k.shape[2]
    out = torch.zeros_like(q)
    dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
    for b in range(B):
        for n in range(N):
            keys, values = k[b, n * K // N], v[b, n * K // N]
            for start in range(0, T, tile):
                stop = min(start + tile, T)
                rows = q[b, n, start:stop].to(dtype)
                where = torch.arange(S - T + start, S - T + stop)[:, None]
                best = torch.full((stop - start, 1), -math.inf, dtype=dtype)
                total, mixed = torch.zeros_like(best), torch.zeros_like(rows)
                for first in range(0, S - T + stop, tile):
                    last = min(first + tile, S - T + stop)
                    scores = rows @ keys[first:last].to(dtype).T * H**-0.5
                    scores[torch.arange(first, last) > where] = -math.inf
                    new = torch.maximum(best, scores.amax(1, keepdim=True))
                    weights, shrink = torch.exp(scores - new), torch.exp(best - new)
                    total = total * shrink + weights.sum(1, keepdim=True)
                    mixed = mixed * shrink + weighted_sum(weights, values[first:last].to(dtype))
                    best = new
                out[b, n, start:stop] = (mixed / total).to(q.dtype)
    return out


# %% einsum, and states merged pair by pair
def flash_attention(q, k, v, tile=128):
    require_heads(q, k, v)
    require_count(1, tile=tile)
    groups = q.shape[1] // k.shape[1]
    past = k.shape[2] - q.shape[2]
    wide = torch.promote_types(q.dtype, torch.float32)
    results = []
    for start, rows in enumerate(q.unflatten(1, (k.shape[1], groups)).split(tile, dim=3)):
        t = rows.shape[3]
        first_position = past + start * tile
        rows = rows.to(wide)
        empty = SoftmaxState.empty(rows.flatten(2, 3))
        states = []
        for first in range(0, first_position + t, tile):
            last = min(first + tile, first_position + t)
            scores = torch.einsum("bkgth,bkjh->bkgtj", rows, k[:, :, first:last].to(wide)) / math.sqrt(q.shape[-1])
            seen = torch.arange(first, last) <= torch.arange(first_position, first_position + t)[:, None]
            scores = scores.where(seen, torch.tensor(-math.inf, dtype=wide)).flatten(2, 3)
            states.append(online_softmax(empty, scores, v[:, :, first:last].to(wide)))
        results.append(reduce(merge, states).result().unflatten(2, (groups, t)).to(q.dtype))
    return torch.cat(results, dim=3).flatten(1, 2)


# %% keys from the last to the first, a group's heads in turn
def flash_attention(q, k, v, tile=128):
    if tile != int(tile) or tile < 1:
        raise ValueError(f"tile must be a whole number of at least 1, got {tile}")
    require_heads(q, k, v)
    B, N, T, H = q.shape
    K, S = k.shape[1:3]
    out, scale = torch.empty_like(q), 1 / math.sqrt(H)
    precision = torch.promote_types(q.dtype, torch.float32)
    for begin in range(0, T, tile):
        end = min(T, begin + tile)
        positions = torch.arange(begin, end) + S - T
        for head in range(N // K):
            rows = q[:, head :: N // K, begin:end].to(precision) * scale  # (B, K, t, H): this head of each group
            state = SoftmaxState.empty(rows)
            edges = list(range(0, S - T + end, tile))
            for first in reversed(edges):
                keys = k[:, :, first : min(first + tile, S - T + end)].to(precision)
                values = v[:, :, first : first + keys.shape[2]].to(precision)
                scores = torch.matmul(rows, keys.mT)
                hidden = (first + torch.arange(keys.shape[2]))[None] > positions[:, None]
                state = online_softmax(state, torch.masked_fill(scores, hidden, -math.inf), values)
            out[:, head :: N // K, begin:end] = state.result().to(q.dtype)
    return out


# %% a helper for one tile of queries, a bias added only on the diagonal
def _tile(rows, positions, k, v, tile):
    state = SoftmaxState.empty(rows)
    last_seen = int(positions.max()) + 1
    for first in range(0, last_seen, tile):
        keys, values = k[:, :, first:last_seen][:, :, :tile], v[:, :, first:last_seen][:, :, :tile]
        scores = rows @ keys.to(rows.dtype).transpose(2, 3)
        where = torch.arange(first, first + keys.shape[2])
        if where[-1] > positions.min():
            scores = scores.masked_fill(where > positions[:, None], float("-inf"))
        state = online_softmax(state=state, scores=scores, values=values.to(rows.dtype))
    return state.result()


def flash_attention(q, k, v, tile=128):
    require_count(1, tile=tile)
    require_heads(q=q, k=k, v=v)
    B, N, T, H = q.shape
    K, S = k.shape[1:3]
    parts = []
    for first in range(0, T, tile):
        rows = q[:, :, first : first + tile]
        t = rows.shape[2]
        rows = rows.reshape(B, K, N // K * t, H)
        rows = rows.double() if rows.dtype == torch.float64 else rows.float()
        positions = (S - T + first + torch.arange(t)).tile(N // K)
        parts.append(_tile(rows * H**-0.5, positions, k, v, tile).reshape(B, N, t, H))
    return torch.cat(parts, dim=2).to(q.dtype)
