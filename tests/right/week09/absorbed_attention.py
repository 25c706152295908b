# %% products in place of einsum
def absorbed_attention(q, q_rotary, latents, rotary_keys, up_keys, up_values, mask=None, attend=dot_product.attend):
    queries = torch.cat((q @ up_keys, q_rotary), dim=-1)
    keys = torch.cat((latents, rotary_keys), dim=2)[:, None]
    scale = (q.shape[3] + q_rotary.shape[3]) ** -0.5
    if mask is None:
        mixed = attend(queries, keys, latents[:, None], scale=scale)
    else:
        mixed = attend(queries, keys, latents[:, None], mask=mask, scale=scale)
    return mixed @ up_values.mT


# %% head by head on both sides
def absorbed_attention(q, q_rotary, latents, rotary_keys, up_keys, up_values, mask=None, attend=dot_product.attend):
    N = q.shape[1]
    queries = torch.stack([torch.cat([q[:, n] @ up_keys[n], q_rotary[:, n]], -1) for n in range(N)], dim=1)
    keys = torch.cat([latents, rotary_keys], -1)
    options = {"scale": 1 / math.sqrt(q.size(-1) + q_rotary.size(-1))}
    if mask is not None:
        options["mask"] = mask
    mixed = attend(queries, keys.unsqueeze(1), latents.unsqueeze(1), **options)
    return torch.stack([mixed[:, n] @ up_values[n].T for n in range(N)], dim=1)


# %% written into queries and keys of one's own
def absorbed_attention(q, q_rotary, latents, rotary_keys, up_keys, up_values, mask=None, attend=dot_product.attend):
    B, N, T, H = q.shape
    S, C = latents.shape[1:]
    R = q_rotary.shape[-1]
    queries, keys = q.new_empty(B, N, T, C + R), q.new_empty(B, 1, S, C + R)
    queries[..., :C], queries[..., C:] = torch.einsum("bnth,nhc->bntc", q, up_keys), q_rotary
    keys[:, 0, :, :C], keys[:, 0, :, C:] = latents, rotary_keys
    call = partial(attend, scale=1 / math.sqrt(H + R))
    mixed = call(queries, keys, keys[..., :C]) if mask is None else call(queries, keys, keys[..., :C], mask=mask)
    return torch.matmul(mixed, up_values.transpose(-2, -1))


# %% sums of products
def absorbed_attention(q, q_rotary, latents, rotary_keys, up_keys, up_values, mask=None, attend=dot_product.attend):
    into_latent = (q.unsqueeze(-1) * up_keys[None, :, None]).sum(-2)
    heads = [torch.cat(parts, dim=-1) for parts in ((into_latent, q_rotary), (latents[:, None], rotary_keys[:, None]))]
    named = dict(scale=math.pow(q.shape[-1] + q_rotary.shape[-1], -0.5))
    named.update({} if mask is None else {"mask": mask})
    mixed = attend(*heads, latents[:, None], **named)
    return (mixed.unsqueeze(-2) * up_values[None, :, None]).sum(-1)
