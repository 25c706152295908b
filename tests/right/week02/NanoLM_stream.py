# %% a while loop, tokens kept in a list
class NanoLM(nn.Module):
    @with_adjusted_logits
    @torch.inference_mode()
    def stream(self, prompts, max_new_tokens, sampling=None, rng=None, cache_kind="float"):
        check_prompts(prompts, max_new_tokens, self.config)
        if max_new_tokens == 0:
            return
        if sampling is None:
            sampling = SamplingParams(temperature=0.0)
        if rng is None:
            rng = Rng()
        stops = set(sampling.ends(self.config.eos_token_ids))
        lengths = list(map(len, prompts))
        unequal = len(set(lengths)) > 1
        cache = self.new_cache(
            batch_size=len(prompts), capacity=max(lengths) + max_new_tokens - 1, ragged=unequal, cache_kind=cache_kind
        )
        last = torch.tensor([[length - 1] for length in lengths], device=self.device)
        logits = self(right_padded(prompts, self.device), cache, last=last)
        cache.advance(lengths if unequal else lengths[0])
        done, n = [False] * len(prompts), 0
        while True:
            drawn = sample_next(logits[:, 0], sampling, rng)
            step = []
            for row, token in enumerate(drawn.tolist()):
                step.append(None if done[row] else token)
                done[row] |= token in stops
            yield step
            n += 1
            if n == max_new_tokens or all(done):
                return
            logits = self(drawn.unsqueeze(-1), cache, 1)
            cache.advance(1)


# %% always a ragged cache, and a mask of rows in NumPy
class NanoLM(nn.Module):
    @with_adjusted_logits
    @torch.inference_mode()
    def stream(self, prompts, max_new_tokens, sampling=None, rng=None, cache_kind="float"):
        sampling = SamplingParams(temperature=0.0) if sampling is None else sampling
        rng = Rng() if rng is None else rng
        check_prompts(prompts, max_new_tokens, self.config)
        lengths = [len(p) for p in prompts]
        cache = self.new_cache(len(prompts), max(lengths) + max_new_tokens, True, cache_kind)
        ends = np.array(sorted(sampling.ends(self.config.eos_token_ids)), dtype=int)
        running = np.ones(len(prompts), dtype=bool)
        text = right_padded(prompts, self.device)
        for step in range(max_new_tokens):
            if step == 0:
                scores = self(text, cache, torch.tensor(lengths, device=self.device) - 1)
                cache.advance(lengths)
            else:
                scores = self(text, cache)
                cache.advance([1] * len(prompts))
            text = sample_next(scores[:, -1], sampling, rng).view(-1, 1)
            tokens = text.flatten().tolist()
            yield [token if runs else None for token, runs in zip(tokens, running)]
            running &= ~np.isin(tokens, ends)
            if not running.any():
                break


# %% prefill and decode as generators of their own
def _draws(model, logits, cache, sampling, rng, n):
    for left in range(n, 0, -1):
        tokens = sample_next(logits, sampling, rng)
        yield tokens
        if left > 1:
            logits = model(tokens[:, None], cache)[:, -1, :]
            cache.advance(1)


class NanoLM(nn.Module):
    @with_adjusted_logits
    @torch.inference_mode()
    def stream(self, prompts, max_new_tokens, sampling=None, rng=None, cache_kind="float"):
        check_prompts(prompts, max_new_tokens, self.config)
        sampling, rng = sampling or SamplingParams(temperature=0), rng or Rng()
        lengths = [len(prompt) for prompt in prompts]
        same = min(lengths) == max(lengths)
        cache = self.new_cache(len(prompts), max(lengths) + max_new_tokens, not same, cache_kind)
        if same:
            logits = self(torch.tensor(prompts, device=self.device), cache, 1)[:, -1]
            cache.advance(lengths[0])
        else:
            logits = self(right_padded(prompts, self.device), cache, torch.tensor([n - 1 for n in lengths]))[:, -1]
            cache.advance(lengths)
        ended = set()
        for tokens in _draws(self, logits, cache, sampling, rng, max_new_tokens):
            row_tokens = [int(token) for token in tokens]
            yield [None if row in ended else token for row, token in enumerate(row_tokens)]
            ends = sampling.ends(self.config.eos_token_ids)
            ended |= {row for row, token in enumerate(row_tokens) if token in ends}
            if len(ended) == len(prompts):
                return


# %% the whole context as capacity, padding by hand, a print
class NanoLM(nn.Module):
    @with_adjusted_logits
    @torch.inference_mode()
    def stream(self, prompts, max_new_tokens, sampling=None, rng=None, cache_kind="float"):
        check_prompts(prompts=prompts, max_new_tokens=max_new_tokens, config=self.config)
        greedy = SamplingParams(temperature=0.0)
        sampling, rng = sampling or greedy, rng or Rng()
        ends = sampling.ends(self.config.eos_token_ids)
        longest = max(len(prompt) for prompt in prompts)
        ragged = any(len(prompt) != longest for prompt in prompts)
        cache = self.new_cache(batch_size=len(prompts), ragged=ragged, cache_kind=cache_kind)
        print("prefill of", longest)
        padded = [list(prompt) + [0] * (longest - len(prompt)) for prompt in prompts]
        tokens = torch.tensor(padded, device=self.device)
        ended = [False for _ in prompts]
        for step in range(max_new_tokens):
            if step:
                logits = self(tokens, cache, last=1)[:, 0]
                cache.advance(1)
            else:
                where = torch.tensor([len(prompt) for prompt in prompts], device=self.device) - 1
                logits = self(tokens, cache, last=where)[:, 0]
                cache.advance([len(prompt) for prompt in prompts] if ragged else longest)
            tokens = sample_next(logits, sampling, rng).reshape(len(prompts), 1)
            out = []
            for row in range(len(prompts)):
                token = int(tokens[row, 0])
                out.append(None if ended[row] else token)
                ended[row] = ended[row] or token in ends
            yield out
            if all(ended):
                break
