# %% index_copy_ and narrow
class MLACache(KVCache):
    def update(self, layer, latents, rotary_keys):
        B, T = latents.shape[:2]
        C, R = self.latents[layer].shape[2], self.rotary_keys[layer].shape[2]
        if latents.shape != (B, T, C) or B != self.batch_size:
            raise ValueError(f"latents has shape {tuple(latents.shape)}")
        if rotary_keys.shape != (B, T, R):
            raise ValueError(f"rotary_keys has shape {tuple(rotary_keys.shape)}")
        self._need_room(self.length + T)
        places = torch.arange(self.length, self.length + T)
        for store, new in ((self.latents, latents), (self.rotary_keys, rotary_keys)):
            store[layer].index_copy_(1, places, new.detach())
        return tuple(store[layer].narrow(1, 0, self.length + T) for store in (self.latents, self.rotary_keys))


# %% both joined, and written into keys
class MLACache(KVCache):
    def update(self, layer, latents, rotary_keys):
        B, _, capacity, width = self.keys[layer].shape
        C = self.latents[layer].shape[-1]
        end = self.length + latents.shape[1]
        if latents.ndim != 3 or latents.shape[0] != B or latents.shape[2] != C:
            raise ValueError("latents must be (B, T, C)")
        if rotary_keys.shape != (B, latents.shape[1], width - C):
            raise ValueError("rotary_keys must be (B, T, R)")
        if end > capacity:
            raise ValueError(f"latents: {end} positions in a capacity of {capacity}")
        with torch.no_grad():
            self.keys[layer][:, 0, self.length : end] = torch.cat([latents, rotary_keys], dim=-1)
        everything = self.keys[layer][:, 0, :end]
        return everything[..., :C], everything[..., C:]


# %% position by position
class MLACache(KVCache):
    def update(self, layer, latents, rotary_keys):
        self._check("latents", latents, self.latents[layer])
        self._check("rotary_keys", rotary_keys, self.rotary_keys[layer])
        if latents.shape[1] != rotary_keys.shape[1]:
            raise ValueError("latents and rotary_keys have different T")
        for t, (latent, key) in enumerate(zip(latents.detach().unbind(1), rotary_keys.detach().unbind(1))):
            self.latents[layer][:, self.length + t].copy_(latent)
            self.rotary_keys[layer][:, self.length + t].copy_(key)
        n = self.length + latents.shape[1]
        return self.latents[layer][:, 0:n, :], self.rotary_keys[layer][:, 0:n, :]

    def _check(self, name, new, store):
        if new.dim() != 3 or new.shape[0] != store.shape[0] or new.shape[2] != store.shape[2]:
            raise ValueError(f"{name} has shape {tuple(new.shape)}")
        self._need_room(self.length + new.shape[1])


# %% a slice of places, a print, a pair as a list
class MLACache(KVCache):
    def update(self, layer, latents, rotary_keys):
        T = latents.shape[1]
        new = slice(self.length, self.length + T)
        pairs = {"latents": (latents, self.latents[layer]), "rotary_keys": (rotary_keys, self.rotary_keys[layer])}
        for name, (x, store) in pairs.items():
            if list(x.shape) != [store.shape[0], T, store.shape[2]]:
                raise ValueError(f"{name}: {list(x.shape)}")
        self._need_room(new.stop)
        print("positions", new)
        back = []
        for x, store in pairs.values():
            store[:, new] = x.detach()
            back.append(store[:, : new.stop])
        return back
