# %% vectors of one dimension, softmax by hand
class TinyDecoder:
    def forward_step(self, token, cache):
        place = cache.length
        x = self.embed([token], place)
        for layer in range(self.n_layers):
            q, k, v = self.project(layer, x)
            cache.keys[layer, place] = k[0]
            cache.values[layer, place] = v[0]
            scores = cache.keys[layer, : place + 1] @ q[0] / math.sqrt(self.d_model)
            weights = np.exp(scores - scores.max())
            weights /= weights.sum()
            x = x + weights @ cache.values[layer, : place + 1] @ self.wo[layer]
        cache.length += 1
        return x[0] @ self.head

    def generate(self, prompt, n_new_tokens, use_cache=True):
        if len(prompt) == 0:
            raise ValueError("prompt is empty")
        if n_new_tokens != int(n_new_tokens) or n_new_tokens < 0:
            raise ValueError("n_new_tokens must be a whole number, 0 or more")
        self.work = Work()
        tokens, logits = [], np.empty((n_new_tokens, self.vocab_size))
        cache = self.new_cache()
        for i in range(n_new_tokens):
            if not use_cache:
                row = self.forward_full(list(prompt) + tokens)[-1]
            elif i == 0:
                row = self.forward_full(prompt, cache)[-1]
            else:
                row = self.forward_step(tokens[-1], cache)
            logits[i] = row
            tokens.append(int(np.argmax(row)))
        return Generation(tokens, logits, self.work.passes, self.work.positions_run, self.work.kv_projections)


# %% einsum, and recursion over the tokens
class TinyDecoder:
    def forward_step(self, token, cache):
        S = cache.length + 1
        x = self.embed([token], offset=cache.length)
        for layer, wo in enumerate(self.wo):
            q, k, v = self.project(layer, x)
            cache.keys[layer, S - 1 : S] = k
            cache.values[layer, S - 1 : S] = v
            scores = np.einsum("td,sd->ts", q, cache.keys[layer, :S]) * self.d_model**-0.5
            weights = np.exp(scores - scores.max(1, keepdims=True))
            seen = np.einsum("ts,sd->td", weights / weights.sum(1, keepdims=True), cache.values[layer, :S])
            x = x + np.einsum("td,de->te", seen, wo)
        cache.length = S
        return np.einsum("td,dv->tv", x, self.head).reshape(-1)

    def generate(self, prompt, n_new_tokens, use_cache=True):
        require_count(1, prompt=len(prompt))
        require_count(0, n_new_tokens=n_new_tokens)
        self.work = Work()
        cache = self.new_cache() if use_cache else None
        tokens, rows = self.written(tuple(prompt), n_new_tokens, cache)
        logits = np.reshape(rows, (n_new_tokens, self.vocab_size))
        return Generation(list(tokens), logits, self.work.passes, self.work.positions_run, self.work.kv_projections)

    def written(self, text, left, cache):
        if left == 0:
            return (), ()
        if cache is None or cache.length == 0:
            row = self.forward_full(text, cache)[-1]
        else:
            row = self.forward_step(text[-1], cache)
        token = int(row.argmax())
        tokens, rows = self.written((*text, token), left - 1, cache)
        return (token, *tokens), (row, *rows)


# %% keys joined outside the cache, two loops
class TinyDecoder:
    def forward_step(self, token, cache):
        n = cache.length
        stream = self.embed([token], n)
        for layer in range(self.n_layers):
            query, key, value = self.project(layer, stream)
            keys = np.concatenate([cache.keys[layer, :n], key])
            values = np.concatenate([cache.values[layer, :n], value])
            stream = stream + causal_attention(q=query, k=keys, v=values) @ self.wo[layer]
            np.copyto(cache.keys[layer, n : n + 1], key)
            np.copyto(cache.values[layer, n : n + 1], value)
        cache.length = n + 1
        return (stream @ self.head).squeeze(0)

    def generate(self, prompt, n_new_tokens, use_cache=True):
        require_count(1, n_prompt_tokens=len(prompt))
        require_count(0, n_new_tokens=n_new_tokens)
        self.work = Work()
        if n_new_tokens == 0:
            return Generation([], np.zeros((0, self.vocab_size)), 0, 0, 0)
        text, rows = [*prompt], []
        if use_cache:
            cache = self.new_cache()
            rows.append(self.forward_full(text, cache)[-1])
            text.append(int(np.argmax(rows[-1])))
            for _ in range(n_new_tokens - 1):
                rows.append(self.forward_step(text[-1], cache))
                text.append(int(np.argmax(rows[-1])))
        else:
            for _ in range(n_new_tokens):
                rows.append(self.forward_full(text)[-1])
                text.append(int(np.argmax(rows[-1])))
        work = self.work
        return Generation(
            tokens=text[len(prompt) :],
            logits=np.stack(rows),
            passes=work.passes,
            positions_run=work.positions_run,
            kv_projections=work.kv_projections,
        )


# %% plain Python sums
def _weighted(weights, vectors):
    return [sum(w * vector[i] for w, vector in zip(weights, vectors)) for i in range(len(vectors[0]))]


class TinyDecoder:
    def forward_step(self, token, cache):
        x = self.embed([token], cache.length)
        for layer in range(self.n_layers):
            q, k, v = self.project(layer, x)
            cache.keys[layer, cache.length], cache.values[layer, cache.length] = k[0], v[0]
            seen = range(cache.length + 1)
            scores = [sum(a * b for a, b in zip(q[0], cache.keys[layer, s])) / len(q[0]) ** 0.5 for s in seen]
            powers = [math.exp(score - max(scores)) for score in scores]
            mixed = _weighted([p / sum(powers) for p in powers], [cache.values[layer, s] for s in seen])
            x = x + np.array([_weighted(mixed, self.wo[layer])])
        cache.length += 1
        return np.array(_weighted(x[0], self.head))

    def generate(self, prompt, n_new_tokens, use_cache=True):
        require_count(1, prompt=len(prompt))
        require_count(0, n_new_tokens=n_new_tokens)
        self.work = Work()
        tokens, rows, cache = [], [], self.new_cache() if use_cache else None
        while len(tokens) < n_new_tokens:
            if tokens and use_cache:
                row = self.forward_step(tokens[-1], cache)
            else:
                row = self.forward_full([*prompt, *tokens], cache)[-1]
            rows.append(row)
            tokens.append(max(range(self.vocab_size), key=lambda i: row[i]))
        logits = np.array(rows) if rows else np.empty((0, self.vocab_size))
        return Generation(tokens, logits, **vars(self.work))
