# %% row numbers in a loop
def plain_matmul(x, codes, scales, bits):
    rows_at_once = max(1, DECODED_AT_ONCE // x.shape[-1])
    parts = []
    for start in range(0, len(codes), rows_at_once):
        block = codes[start : start + rows_at_once]
        if bits < 8:
            block = unpack_bits(block, bits)
        w = dequantize(block, scales[start : start + rows_at_once]).to(x.dtype)
        parts.append(tile_linear(x, w) if x.device.type == "cpu" else F.linear(x, w))
    return torch.cat(parts, dim=-1)


# %% written into a result made before
def plain_matmul(x, codes, scales, bits):
    D, out = x.shape[-1], codes.shape[0]
    n = DECODED_AT_ONCE // D or 1
    y = x.new_empty(*x.shape[:-1], out)
    for a in range(0, out, n):
        b = min(a + n, out)
        w = codes[a:b] if bits == 8 else unpack_bits(codes[a:b], bits=bits)
        y[..., a:b] = tile_linear(x, dequantize(w, scales[a:b]).type_as(x))
    return y


# %% a generator, and a helper with a name that the engine has
def unpacked(block, bits):
    return block if bits == 8 else unpack_bits(block, bits)


def blocks(codes, scales, n):
    for c, s in zip(torch.split(codes, n), torch.split(scales, n)):
        yield c, s


def plain_matmul(x, codes, scales, bits):
    n = max(DECODED_AT_ONCE // x.shape[-1], 1)
    linear = tile_linear if x.is_cpu else F.linear
    return torch.cat([linear(x, dequantize(unpacked(c, bits), s).to(x.dtype)) for c, s in blocks(codes, scales, n)], -1)


# %% recursion by halves
def plain_matmul(x, codes, scales, bits):
    if len(codes) > 1 and len(codes) * x.shape[-1] > DECODED_AT_ONCE:
        half = len(codes) // 2
        first, second = (plain_matmul(x, codes[part], scales[part], bits) for part in (slice(half), slice(half, None)))
        return torch.cat((first, second), dim=-1)
    w = dequantize(codes if bits == 8 else unpack_bits(codes, bits), scales)
    return tile_linear(x, w.to(x.dtype))


# %% one position after the other, by sums of products
def plain_matmul(x, codes, scales, bits):
    n, flat = max(1, DECODED_AT_ONCE // x.shape[-1]), x.reshape(-1, x.shape[-1])
    columns = []
    for c, s in zip(codes.split(n), scales.split(n)):
        w = dequantize(c if bits == 8 else unpack_bits(c, bits), s).to(x.dtype)
        columns.append(torch.stack([(w * row).sum(dim=-1) for row in flat]))
    return torch.cat(columns, dim=-1).reshape(*x.shape[:-1], -1)
