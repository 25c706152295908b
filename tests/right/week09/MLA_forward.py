# %% two branches with an early return
class MLA(nn.Module):
    def forward(self, x, cache=None, offset=0):
        B, T, _ = x.shape
        H, R, C = self.head_dim, self.latent.rotary_dim, self.latent.kv_latent_dim
        q = self.q(x).unflatten(-1, (self.n_heads, H + R)).transpose(1, 2)
        content, position = q[..., :H], apply_rope(q[..., H:], offset, self.theta)
        down = self.down(x)
        latents = self.norm(down[..., :C])
        rotary_keys = apply_rope(down[..., C:].unsqueeze(1), offset, self.theta).squeeze(1)
        up_keys, up_values = self.up_projections()
        if not self.absorbs(T, cache):
            if cache is not None:
                latents, rotary_keys = cache.update(self.layer, latents, rotary_keys)
            heads = naive_attention(content, position, latents, rotary_keys, up_keys, up_values)
            return self.out(heads.transpose(1, 2).flatten(2))
        options = {} if cache is None else {"attend": partial(cache.attend, self.layer)}
        heads = absorbed_attention(content, position, latents, rotary_keys, up_keys, up_values, **options)
        return self.out(heads.transpose(1, 2).flatten(2))


# %% both ways written out
class MLA(nn.Module):
    def forward(self, x, cache=None, offset=0):
        B, T, _ = x.shape
        H, R, C, U = self.head_dim, self.latent.rotary_dim, self.latent.kv_latent_dim, self.latent.value_dim
        q, turn = self.q(x).view(B, T, self.n_heads, H + R).permute(0, 2, 1, 3).tensor_split([H], dim=-1)
        turn = apply_rope(turn, offset=offset, theta=self.theta)
        c, key = torch.split(self.down(x), (C, R), dim=-1)
        c, key = self.norm(c), apply_rope(key[:, None], offset=offset, theta=self.theta)[:, 0]
        up_keys, up_values = self.up_projections()
        scale = 1 / math.sqrt(H + R)
        if self.absorbs(T, cache):
            queries = torch.cat([q @ up_keys, turn], dim=-1)
            keys, values = torch.cat([c, key], dim=-1)[:, None], c[:, None]
            if cache is None:
                mixed = dot_product.attend(queries, keys, values, scale=scale)
            else:
                mixed = cache.attend(self.layer, queries, keys, values, scale=scale)
            heads = mixed @ up_values.mT
        else:
            if cache is not None:
                c, key = cache.update(self.layer, c, key)
            scores = torch.einsum("bnth,nhc,bsc->bnts", q, up_keys, c) + torch.einsum("bntr,bsr->bnts", turn, key)
            S = c.shape[1]
            scores = (scores * scale).masked_fill(~torch.ones(T, S, dtype=torch.bool).tril(S - T), -math.inf)
            heads = scores.softmax(-1) @ torch.einsum("nuc,bsc->bnsu", up_values, c)
        return self.out(heads.permute(0, 2, 1, 3).reshape(B, T, self.n_heads * U))


# %% helpers of the class
class MLA(nn.Module):
    def forward(self, x, cache=None, offset=0):
        q, q_rotary = self.queries(x, offset)
        latents, rotary_keys = self.shared(x, offset)
        ups = self.up_projections()
        if self.absorbs(x.shape[1], cache):
            attend = dot_product.attend

            if cache is not None:

                def attend(queries, keys, values, scale):
                    return cache.attend(self.layer, queries, keys, values, scale)

            heads = absorbed_attention(q, q_rotary, latents, rotary_keys, *ups, attend=attend)
        else:
            if cache is not None:
                latents, rotary_keys = cache.update(self.layer, latents, rotary_keys)
            heads = naive_attention(q, q_rotary, latents, rotary_keys, *ups)
        return self.out(torch.cat(heads.unbind(1), dim=-1))

    def queries(self, x, offset):
        q = self.q(x).reshape(x.shape[0], x.shape[1], self.n_heads, -1).transpose(1, 2)
        return q[..., : self.head_dim], apply_rope(q[..., self.head_dim :], offset, self.theta)

    def shared(self, x, offset):
        down = self.down(x)
        C = self.latent.kv_latent_dim
        rotary = apply_rope(down[:, None, :, C:], offset, self.theta)
        return self.norm(down[..., :C]), rotary[:, 0]


# %% one rotation of queries and keys together
class MLA(nn.Module):
    def forward(self, x, cache=None, offset=0):
        B, T, _ = x.shape
        N, H, R = self.n_heads, self.head_dim, self.latent.rotary_dim
        heads = torch.stack(self.q(x).split(H + R, dim=-1), dim=1)
        latents, rotary_keys = self.down(x).split([self.latent.kv_latent_dim, R], dim=-1)
        turned = apply_rope(torch.cat([heads[..., H:], rotary_keys.unsqueeze(1)], dim=1), offset, self.theta)
        q_rotary, rotary_keys = turned[:, :N], turned[:, N]
        latents, absorb = self.norm(latents), self.absorbs(T, cache)
        if cache is not None and not absorb:
            latents, rotary_keys = cache.update(self.layer, latents, rotary_keys)
        arguments = (heads[..., :H], q_rotary, latents, rotary_keys, *self.up_projections())
        if not absorb:
            mixed = naive_attention(*arguments)
        elif cache is None:
            mixed = absorbed_attention(*arguments)
        else:
            mixed = absorbed_attention(*arguments, attend=lambda *heads, scale: cache.attend(self.layer, *heads, scale))
        return self.out(mixed.movedim(1, 2).flatten(-2))
