# %% keys first, values after
class Int8KVCache(KVCache):
    def update(self, layer, k, v):
        end = self._end_of(k, v)
        places = self._places(k.shape[2])
        key_codes, key_scales = quantize(k.detach(), 8, scale_dtype=SCALE_DTYPE)
        value_codes, value_scales = quantize(v.detach(), 8, scale_dtype=SCALE_DTYPE)
        self.keys[layer][places] = key_codes
        self.key_scales[layer][places] = key_scales
        self.values[layer][places] = value_codes
        self.value_scales[layer][places] = value_scales
        keys = dequantize(self.keys[layer][:, :, :end], self.key_scales[layer][:, :, :end])
        values = dequantize(self.values[layer][:, :, :end], self.value_scales[layer][:, :, :end])
        return keys.to(self.dtype), values.to(self.dtype)


# %% a method of its own for one of the two
class Int8KVCache(KVCache):
    def _through_codes(self, new, codes, scales, places, end):
        codes[places], scales[places] = quantize(new, bits=8, scale_dtype=SCALE_DTYPE)
        return dequantize(codes[:, :, :end], scales[:, :, :end]).to(self.dtype)

    @torch.no_grad()
    def update(self, layer, k, v):
        end, places = self._end_of(k, v), self._places(k.size(2))
        return (
            self._through_codes(k, self.keys[layer], self.key_scales[layer], places, end),
            self._through_codes(v, self.values[layer], self.value_scales[layer], places, end),
        )


# %% index_put_ and a product by hand, a list returned
class Int8KVCache(KVCache):
    def update(self, layer, k, v):
        end, places = self._end_of(k, v), self._places(k.shape[2])
        back = []
        for new, codes, scales in (
            (k.detach(), self.keys[layer], self.key_scales[layer]),
            (v.detach(), self.values[layer], self.value_scales[layer]),
        ):
            check_finite(new)
            s = absmax_scales(new, 8).to(SCALE_DTYPE)
            codes[places] = round_to_codes(new, s, 8)
            scales[places] = s
            back.append((codes[:, :, :end].float() * scales[:, :, :end].float()).to(self.dtype))
        return back


# %% keys and values in one piece
class Int8KVCache(KVCache):
    def update(self, layer, k, v):
        end, places = self._end_of(k, v), self._places(k.shape[2])
        both = torch.stack((k.detach(), v.detach()))
        codes, scales = quantize(both, 8, None, SCALE_DTYPE)
        stores = (self.keys, self.key_scales), (self.values, self.value_scales)
        for (all_codes, all_scales), c, s in zip(stores, codes, scales):
            all_codes[layer][places] = c
            all_scales[layer][places] = s
        return tuple(
            dequantize(all_codes[layer].narrow(2, 0, end), all_scales[layer].narrow(2, 0, end)).to(self.dtype)
            for all_codes, all_scales in stores
        )
