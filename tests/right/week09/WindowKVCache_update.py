# %% the window put together, then scattered
class WindowKVCache(KVCache):
    def update(self, layer, k, v):
        T = self._new_positions(k, v)
        self._need_past(self.length, self._written[layer])
        self._written[layer] = self.length + T
        W = self.window
        first = max(0, self.length - (W - 1))
        past = [p % W for p in range(first, self.length)]
        back = []
        for store, new in ((self.keys[layer], k.detach()), (self.values[layer], v.detach())):
            visible = torch.cat([store[:, :, past], new], dim=2)
            newest = range(max(self.length, self.length + T - W), self.length + T)
            store.index_copy_(2, torch.tensor([p % W for p in newest]), new[:, :, -len(newest) :])
            back.append(store[:, :, : min(self.length + 1, W)] if T == 1 else visible)
        return tuple(back)


# %% position by position
class WindowKVCache(KVCache):
    def update(self, layer, k, v):
        T = self._new_positions(k, v)
        self._need_past(self.length, self._written[layer])
        self._written[layer] = self.length + T
        seen_k, seen_v = [], []
        if T > 1:
            for p in range(max(0, self.length + 1 - self.window), self.length):
                seen_k.append(self.keys[layer][:, :, p % self.window].clone())
                seen_v.append(self.values[layer][:, :, p % self.window].clone())
        for t in range(T):
            new_k, new_v = k.detach()[:, :, t], v.detach()[:, :, t]
            self.keys[layer][:, :, (self.length + t) % self.window] = new_k
            self.values[layer][:, :, (self.length + t) % self.window] = new_v
            seen_k.append(new_k)
            seen_v.append(new_v)
        if T == 1:
            n = min(self.length + 1, self.window)
            return self.keys[layer][:, :, :n], self.values[layer][:, :, :n]
        return torch.stack(seen_k, dim=2), torch.stack(seen_v, dim=2)


# %% the ring rolled into the order of the text
class WindowKVCache(KVCache):
    def update(self, layer, k, v):
        T = self._new_positions(k, v)
        self._need_past(self.length, self._written[layer])
        self._written[layer] = end = self.length + T
        keys = self._turned(self.keys[layer], k.detach())
        values = self._turned(self.values[layer], v.detach())
        if T == 1:
            return self.keys[layer][:, :, :end], self.values[layer][:, :, :end]
        return keys, values

    def _turned(self, store, new):
        window, length, T = self.window, self.length, new.shape[2]
        n = min(length, window - 1)
        in_order = torch.roll(store, -(length % window), dims=2)
        visible = torch.cat([in_order[:, :, window - n :], new], dim=2)
        kept = new[:, :, -window:]
        places = torch.arange(length + T - kept.shape[2], length + T).remainder(window)
        store[:, :, places] = kept
        return visible


# %% a mask of places, one cell for every length of pass
class WindowKVCache(KVCache):
    @torch.no_grad()
    def update(self, layer, k, v):
        T = self._new_positions(k, v)
        self._need_past(length=self.length, written=self._written[layer])
        self._written[layer] = self.length + T
        positions = torch.arange(max(0, self.length - self.window + 1), self.length + T)
        old, new = positions[positions < self.length], positions[positions >= self.length][-self.window :]
        result = [
            torch.cat([store.index_select(2, old % self.window), x], dim=2)
            for store, x in ((self.keys[layer], k), (self.values[layer], v))
        ]
        for store, x in ((self.keys[layer], k), (self.values[layer], v)):
            store[:, :, new % self.window] = x[:, :, new - self.length].to(store.dtype)
        if T > 1:
            return result[0], result[1]
        n = min(self.window, self.length + 1)
        return self.keys[layer].narrow(2, 0, n), self.values[layer].narrow(2, 0, n)
