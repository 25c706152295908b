# %% index_copy_ and sdpa with a mask of its own
class KVCache(KVCache):
    @property
    def offset(self):
        return self.length

    def update(self, layer, k, v):
        end = self._end_of(k, v)
        places = torch.arange(self.length, end)
        self.keys[layer].index_copy_(2, places, k.detach())
        self.values[layer].index_copy_(2, places, v.detach())
        return self.keys[layer].narrow(2, 0, end), self.values[layer].narrow(2, 0, end)

    def advance(self, n):
        if n < 0 or self.length + n > self.capacity:
            raise ValueError(f"n = {n}: {self.capacity - self.length} positions are left")
        self.length = self.length + n

    def attend(self, layer, q, k, v, scale=None):
        keys, values = self.update(layer, k, v)
        mask = self.mask(q.shape[2])
        if mask is None:
            T, S = q.shape[2], keys.shape[2]
            mask = torch.arange(S) <= torch.arange(S - T, S)[:, None]
        groups = q.shape[1] // keys.shape[1]
        keys, values = keys.repeat_interleave(groups, 1), values.repeat_interleave(groups, 1)
        return torch.nn.functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask, scale=scale)


# %% softmax by hand, grouped by einsum
class KVCache(KVCache):
    @property
    def offset(self):
        position = int(self.length)
        return position

    @torch.no_grad()
    def update(self, layer, k, v):
        self._check(k, "k")
        self._check(v, "v")
        start, stop = self.length, self.length + k.shape[2]
        self.keys[layer][:, :, start:stop].copy_(k)
        self.values[layer][:, :, start:stop].copy_(v)
        return self.keys[layer][..., :stop, :], self.values[layer][..., :stop, :]

    def _check(self, x, name):
        B, K, capacity, H = self.keys[0].shape
        if x.dim() != 4 or (x.shape[0], x.shape[1], x.shape[3]) != (B, K, H):
            raise ValueError(f"{name} must be (B, K, T, H), not {tuple(x.shape)}")
        if self.length + x.shape[2] > capacity:
            raise ValueError(f"{name}: no room")

    def advance(self, n):
        if n < 0:
            raise ValueError("n must not be negative")
        if self.capacity < self.length + n:
            raise ValueError("n is more than the room left")
        self.length += n

    def attend(self, layer, q, k, v, scale=None):
        keys, values = self.update(layer, k, v)
        B, N, T, H = q.shape
        K, S = keys.shape[1], keys.shape[2]
        scores = torch.einsum("bkgth,bksh->bkgts", q.view(B, K, N // K, T, H), keys)
        scores = scores * (1 / math.sqrt(H) if scale is None else scale)
        mask = self.mask(T)
        if mask is None:
            mask = torch.ones(T, S, dtype=torch.bool).tril(S - T)
        scores = scores.masked_fill(~mask, float("-inf"))
        return torch.einsum("bkgts,bksu->bkgtu", scores.softmax(-1), values).reshape(B, N, T, -1)


# %% one position and one query after the other
class KVCache(KVCache):
    @property
    def offset(self):
        return self.length

    def update(self, layer, k, v):
        self._end_of(k, v)
        for t in range(k.shape[2]):
            self.keys[layer][:, :, self.length + t] = k.detach()[:, :, t]
            self.values[layer][:, :, self.length + t] = v.detach()[:, :, t]
        n = self.length + k.shape[2]
        return self.keys[layer][:, :, 0:n], self.values[layer][:, :, 0:n]

    def advance(self, n):
        if n < 0:
            raise ValueError(f"n is {n}")
        self._need_room(self.length + n)
        for _ in range(n):
            self.length += 1

    def attend(self, layer, q, k, v, scale=None):
        past = self.length
        keys, values = self.update(layer, k, v)
        mask, rows = self.mask(q.shape[2]), []
        for t in range(q.shape[2]):
            heads = []
            for n in range(q.shape[1]):
                kv = n * keys.shape[1] // q.shape[1]
                if mask is None:
                    seen_k, seen_v = keys[:, kv, : past + t + 1], values[:, kv, : past + t + 1]
                else:
                    seen_k, seen_v = keys[:, kv, mask[t]], values[:, kv, mask[t]]
                score = (seen_k * q[:, n, t, None]).sum(-1) * (q.shape[-1] ** -0.5 if scale is None else scale)
                heads.append((torch.softmax(score, dim=-1)[..., None] * seen_v).sum(1))
            rows.append(torch.stack(heads, dim=1))
        return torch.stack(rows, dim=2)


# %% the engine's attend, with keyword arguments and a print
class KVCache(KVCache):
    @property
    def offset(self):
        return self.length

    def update(self, layer, k, v):
        print("layer", layer, "gets", k.shape[2])
        end = self._end_of(k=k, v=v)
        for kept, new in ((self.keys, k), (self.values, v)):
            kept[layer][:, :, self.length : end] = new.detach()
        return tuple(kept[layer][:, :, :end] for kept in (self.keys, self.values))

    def advance(self, n):
        if n < 0:
            raise ValueError(f"n is {n}, and a cache only grows")
        self._need_room(end=self.length + n)
        self.length += n

    def attend(self, layer, q, k, v, scale=None):
        k, v = self.update(layer, k, v)
        if scale is None:
            scale = 1 / math.sqrt(q.size(-1))
        return attend(q=q, k=k, v=v, mask=self.mask(q.size(2)), scale=scale)
