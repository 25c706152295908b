# %% three pieces of the projection, rotated apart
class Attention(nn.Module):
    def forward(self, x, cache=None, offset=0):
        N, K, H = self.n_heads, self.n_kv_heads, self.head_dim
        q, k, v = self.qkv(x).split([N * H, K * H, K * H], dim=-1)
        q = apply_rope(q.unflatten(-1, (N, H)).transpose(1, 2), offset, self.theta)
        k = apply_rope(k.unflatten(-1, (K, H)).transpose(1, 2), offset, self.theta)
        v = v.unflatten(-1, (K, H)).transpose(1, 2)
        if cache is not None:
            y = cache.attend(self.layer, q, k, v)
        else:
            y = attend(q, k, v)
        return self.out(y.transpose(1, 2).flatten(2))


# %% einsum over the weights, and the product with out head by head
class Attention(nn.Module):
    def forward(self, x, cache=None, offset=0):
        weights = self.qkv.weight.unflatten(0, (-1, self.head_dim))
        heads = torch.einsum("btd,nhd->bnth", x, weights)
        queries, keys, values = heads.tensor_split((self.n_heads, self.n_heads + self.n_kv_heads), dim=1)
        queries = apply_rope(queries, offset=offset, theta=self.theta)
        keys = apply_rope(keys, offset=offset, theta=self.theta)
        if cache is None:
            seen = attend(q=queries, k=keys, v=values)
        else:
            seen = cache.attend(layer=self.layer, q=queries, k=keys, v=values)
        out = self.out.weight.unflatten(1, (self.n_heads, self.head_dim))
        return torch.einsum("bnth,dnh->btd", seen, out)


# %% softmax by hand without a cache, the scale said aloud
class Attention(nn.Module):
    def forward(self, x, cache=None, offset=0):
        B, T, _ = x.shape
        q, k, v = self.heads_of(x)
        q, k = (apply_rope(part, offset, self.theta) for part in (q, k))
        scale = 1 / math.sqrt(self.head_dim)
        if cache is None:
            k, v = (part.repeat_interleave(self.n_heads // self.n_kv_heads, dim=1) for part in (k, v))
            scores = q @ k.transpose(-1, -2) * scale
            scores += torch.full((T, T), float("-inf")).triu(1)
            seen = scores.softmax(dim=-1) @ v
        else:
            seen = cache.attend(self.layer, q, k, v, scale)
        return self.out(seen.permute(0, 2, 1, 3).reshape(B, T, self.n_heads * self.head_dim))

    def heads_of(self, x):
        heads = self.qkv(x).reshape(*x.shape[:2], -1, self.head_dim).permute(0, 2, 1, 3)
        N, K = self.n_heads, self.n_kv_heads
        return heads[:, :N], heads[:, N : N + K], heads[:, -K:]


# %% row by row, joined again
class Attention(nn.Module):
    def forward(self, x, cache=None, offset=0):
        rows = [self.qkv(row) for row in x]
        heads = torch.stack([row.view(len(row), -1, self.head_dim).transpose(0, 1) for row in rows])
        q, k, v = heads.split([self.n_heads, self.n_kv_heads, self.n_kv_heads], dim=1)
        q, k = apply_rope(q, offset, self.theta), apply_rope(k, offset, self.theta)
        attended = cache.attend(self.layer, q, k, v) if cache is not None else attend(q, k, v)
        return torch.stack([self.out(torch.cat(list(row), dim=-1)) for row in attended])
