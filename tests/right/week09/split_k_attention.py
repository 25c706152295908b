# %% ranges of nearly equal length, merged as a tree
def split_k_attention(q, k, v, n_splits, lengths=None):
    require_count(1, n_splits=n_splits)
    require_heads(q, k, v)
    if q.shape[2] != 1:
        raise ValueError(f"q has {q.shape[2]} queries, and one is taken")
    B, N, _, H = q.shape
    K, S = k.shape[1], k.shape[2]
    dtype = torch.promote_types(q.dtype, torch.float32)
    rows = q.view(B, K, N // K, H).to(dtype) * H**-0.5

    def state_of(places):
        scores = torch.einsum("bkgh,bksh->bkgs", rows, k[:, :, places].to(dtype))
        if lengths is not None:
            scores = scores.masked_fill((places >= lengths[:, None])[:, None, None], -math.inf)
        return online_softmax(SoftmaxState.empty(rows), scores, v[:, :, places].to(dtype))

    def tree(states):
        if len(states) == 1:
            return states[0]
        middle = len(states) // 2
        return merge(tree(states[:middle]), tree(states[middle:]))

    states = [state_of(places) for places in torch.arange(S).tensor_split(min(n_splits, S))]
    return tree(states).result().reshape(B, N, 1, H).to(q.dtype)


# %% all ranges as one batch
def split_k_attention(q, k, v, n_splits, lengths=None):
    if n_splits < 1 or int(n_splits) != n_splits:
        raise ValueError("n_splits must be a whole number, 1 or more")
    require_heads(q, k, v)
    B, N, T, H = q.shape
    if T > 1:
        raise ValueError("q must have one query a row")
    K, S = k.shape[1:3]
    n = min(n_splits, S)
    size = math.ceil(S / n)
    n = math.ceil(S / size)
    wide = torch.promote_types(q.dtype, torch.float32)
    room = [torch.zeros(B, K, n * size, H, dtype=wide) for _ in range(2)]
    for place, x in zip(room, (k, v)):
        place[:, :, :S] = x
    keys, values = (x.view(B, K, n, size, H) for x in room)
    rows = (q.view(B, K, 1, N // K, H).to(wide) / math.sqrt(H)).expand(B, K, n, N // K, H)
    scores = rows @ keys.transpose(-1, -2)
    filled = torch.full((B,), S) if lengths is None else lengths
    hidden = torch.arange(n * size).view(n, 1, size) >= filled.view(B, 1, 1, 1, 1)
    every = online_softmax(SoftmaxState.empty(rows), scores.masked_fill(hidden, -math.inf), values)
    state = SoftmaxState(*(part[:, :, 0] for part in every))
    for i in range(1, n):
        state = merge(state, SoftmaxState(*(part[:, :, i] for part in every)))
    return state.result().view(B, N, 1, H).to(q.dtype)


# %% row by row, only what is filled
def split_k_attention(q, k, v, n_splits, lengths=None):
    require_count(1, n_splits=n_splits)
    require_heads(q, k, v)
    B, N, T, H = q.shape
    if T != 1:
        raise ValueError("q: one query only")
    K, S = k.shape[1:3]
    wide = torch.promote_types(q.dtype, torch.float32)
    out = torch.zeros_like(q)
    for b in range(B):
        length = S if lengths is None else int(lengths[b])
        rows = q[b].reshape(K, N // K, H).to(wide)
        total = SoftmaxState.empty(rows)
        size = -(-S // n_splits)
        for first in range(0, length, size):
            keys, values = k[b, :, first : min(first + size, length)], v[b, :, first : min(first + size, length)]
            scores = rows @ keys.to(wide).mT / math.sqrt(H)
            best = scores.amax(-1, keepdim=True)
            weights = (scores - best).exp()
            part = SoftmaxState(best, weights.sum(-1, keepdim=True), weights @ values.to(wide))
            total = merge(one=total, other=part)
        out[b] = total.result().reshape(N, 1, H).to(q.dtype)
    return out


# %% head by head, states kept as a list of tuples
def split_k_attention(q, k, v, n_splits, lengths=None):
    require_count(1, n_splits=n_splits)
    require_heads(q, k, v)
    if q.shape[2] != 1:
        raise ValueError(f"q: {q.shape[2]} queries are too many")
    S, H = k.shape[2:]
    wide = torch.promote_types(q.dtype, torch.float32)
    step = max(1, math.ceil(S / n_splits))
    lengths = torch.tensor([S] * len(q)) if lengths is None else lengths
    heads = []
    for n in range(q.shape[1]):
        kv = n // (q.shape[1] // k.shape[1])
        row, state = q[:, n].to(wide), None
        for first in range(0, S, step):
            keys, values = (x[:, kv, first : first + step].to(wide) for x in (k, v))
            scores = (row @ keys.transpose(1, 2)) / H**0.5
            places = torch.arange(first, first + keys.shape[1])
            scores = scores.where((places < lengths[:, None])[:, None], torch.full_like(scores, -math.inf))
            new = online_softmax(SoftmaxState.empty(row), scores, values)
            state = new if state is None else merge(new, state)
        heads.append(state.result())
    return torch.stack(heads, dim=1).to(q.dtype)
