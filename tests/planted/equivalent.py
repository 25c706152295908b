"""Mutants of the reference that no test can tell from it, each with the reason (`course audit --mutate`)."""

EQUIVALENT = {
    "NanoLM.stream: longest, ragged = (max(lengths), min(lengths) < max(lengths)) -> longest, ragged = (max(lengths), min(lengths) <= max(lengths))": (
        "a ragged cache serves rows of one length too, at some speed: the texts are equal"
    ),
    "NanoLM.stream: last = torch.tensor(lengths, device=self.device) - 1 -> last = torch.tensor(lengths) - 1": (
        "on a CPU, where answers are graded, tensors are made where the arguments are"
    ),
    "NanoLM.stream: yield [None if end else token for token, end in zip(drawn, ended, strict=True)] -> yield [None if end else token for token, end in zip(drawn, ended)]": (
        "the two are equally long wherever the arguments keep their contract; strict only says so"
    ),
    "NanoLM.stream: yield [None if end else token for token, end in zip(drawn, ended, strict=True)] -> yield [None if end else token for token, end in zip(drawn, ended, strict=False)]": (
        "the two are equally long wherever the arguments keep their contract; strict only says so"
    ),
    "NanoLM.stream: ended = [end or token in ends for token, end in zip(drawn, ended, strict=True)] -> ended = [end or token in ends for token, end in zip(drawn, ended)]": (
        "the two are equally long wherever the arguments keep their contract; strict only says so"
    ),
    "NanoLM.stream: ended = [end or token in ends for token, end in zip(drawn, ended, strict=True)] -> ended = [end or token in ends for token, end in zip(drawn, ended, strict=False)]": (
        "the two are equally long wherever the arguments keep their contract; strict only says so"
    ),
    "max_concurrent_requests: return max(0, int((memory_bytes - weight_bytes - reserved_bytes) // kv_bytes)) -> return max(0, int((memory_bytes - weight_bytes - reserved_bytes) / kv_bytes))": (
        "int() cuts the quotient off too, and it is not negative"
    ),
    "max_context: return max(0, int(free_bytes // (batch_size * kv_bytes_per_token))) -> return max(0, int(free_bytes / (batch_size * kv_bytes_per_token)))": (
        "int() cuts the quotient off too, and it is not negative"
    ),
    "top_k_filter: if k >= probs.shape[-1]: -> if k > probs.shape[-1]:": (
        "with k = V nothing lies behind place k: all tokens stay either way"
    ),
    "top_k_filter: order = probs.argsort(dim=-1, descending=True, stable=True) -> order = probs.argsort(descending=True, stable=True)": (
        "the last dimension is what torch sorts along anyway"
    ),
    "top_p_filter: ordered, order = probs.sort(dim=-1, descending=True, stable=True) -> ordered, order = probs.sort(descending=True, stable=True)": (
        "the last dimension is what torch sorts along anyway"
    ),
    "top_p_filter: dropped = before >= p - rounding_tolerance(probs) -> dropped = before > p - rounding_tolerance(probs)": (
        "only a sum that is p less the allowance to the last bit would show it"
    ),
    "sample_next: largest, tokens = logits.max(dim=-1) -> largest, tokens = logits.max(dim=1)": (
        "logits are (B, V): dimension 1 is the last"
    ),
    "sample_next: return torch.tensor([rng.categorical(row) for row in probs.cpu()], device=logits.device) -> return torch.tensor([rng.categorical(row) for row in probs.cpu()])": (
        "on a CPU, where answers are graded, tensors are made where the arguments are"
    ),
    "float32_sum: total = torch.zeros((), dtype=torch.float32) -> total = torch.zeros(())": (
        "float32 is torch's default for numbers"
    ),
    "float32_sum: total = total + torch.tensor(values[index], dtype=torch.float32) -> total = total + torch.tensor(values[index])": (
        "float32 is torch's default for numbers"
    ),
    "verify_draft: for p, q, guess in zip(target_probs, draft_probs, drafted, strict=False): -> for p, q, guess in zip(target_probs, draft_probs, drafted):": (
        "the two are equally long wherever the arguments keep their contract; strict only says so"
    ),
    "prompt_lookup: for n in range(min(max_ngram, len(text) - 1), 0, -1): -> for n in range(min(max_ngram, len(text) + 1), 0, -1):": (
        "a longer n-gram than the text has is found nowhere"
    ),
    "quantize: scales = scales.to(scale_dtype or scales.dtype) -> scales = scales.to(scale_dtype)": (
        "to(None) keeps the dtype, like the scales' own"
    ),
    "plain_matmul: n_rows = max(1, DECODED_AT_ONCE // x.shape[-1]) -> n_rows = max(2, DECODED_AT_ONCE // x.shape[-1])": (
        "how many rows are decoded at a time; more in matrices with rows of 200,000 numbers, or in texts of several positions"
    ),
    "plain_matmul: n_rows = max(1, DECODED_AT_ONCE // x.shape[-1]) -> n_rows = max(1, DECODED_AT_ONCE // x.shape[1])": (
        "how many rows are decoded at a time; more in matrices with rows of 200,000 numbers, or in texts of several positions"
    ),
    "plain_matmul: for block, block_scales in zip(codes.split(n_rows), scales.split(n_rows), strict=True): -> for block, block_scales in zip(codes.split(n_rows), scales.split(n_rows)):": (
        "the two are equally long wherever the arguments keep their contract; strict only says so"
    ),
    "plain_matmul: for block, block_scales in zip(codes.split(n_rows), scales.split(n_rows), strict=True): -> for block, block_scales in zip(codes.split(n_rows), scales.split(n_rows), strict=False):": (
        "the two are equally long wherever the arguments keep their contract; strict only says so"
    ),
    "gptq: codes, scales, size = (torch.empty(W.shape, dtype=torch.int8, device=W.device), [], group_size or W.shape[1]) -> codes, scales, size = (torch.empty(W.shape, dtype=torch.int8), [], group_size or W.shape[1])": (
        "on a CPU, where answers are graded, tensors are made where the arguments are"
    ),
    "gptq: scales.append(scale.to(scale_dtype or scale.dtype)) -> scales.append(scale.to(scale_dtype))": (
        "to(None) keeps the dtype, like the scales' own"
    ),
    "gptq: codes[:, j:j + 1] = round_to_codes(column, scales[-1], bits) -> codes[:, j:] = round_to_codes(column, scales[-1], bits)": (
        "what stands behind column j is written over when its turn comes"
    ),
    "gptq: codes[:, j:j + 1] = round_to_codes(column, scales[-1], bits) -> codes[:, j:j + 2] = round_to_codes(column, scales[-1], bits)": (
        "what stands behind column j is written over when its turn comes"
    ),
    "channel_scales: magnitude = magnitude.clamp(min=SMALLEST_SHARE * magnitude.max().item() or 1.0) -> magnitude = magnitude.clamp(min=SMALLEST_SHARE * magnitude.max().item() or 2.0)": (
        "in place of the 0 of a layer that is never reached: any positive number does"
    ),
    "shrunken_scales: X = inputs.double().unflatten(-1, groups.shape[1:]).transpose(0, 1) -> X = inputs.double().unflatten(1, groups.shape[1:]).transpose(0, 1)": (
        "inputs are (n, D): dimension 1 is the last"
    ),
    "ServingRun.latencies: return tuple((end - arrival for end, arrival in zip(self.finished_at, self.arrivals, strict=True))) -> return tuple((end - arrival for end, arrival in zip(self.finished_at, self.arrivals)))": (
        "the two are equally long wherever the arguments keep their contract; strict only says so"
    ),
    "ServingRun.latencies: return tuple((end - arrival for end, arrival in zip(self.finished_at, self.arrivals, strict=True))) -> return tuple((end - arrival for end, arrival in zip(self.finished_at, self.arrivals, strict=False)))": (
        "the two are equally long wherever the arguments keep their contract; strict only says so"
    ),
    "Scheduler.schedule: if budget and request not in plan.preempted: -> if request not in plan.preempted:": (
        "with a budget of 0 a request runs no token, and is not put into the plan"
    ),
    "reusable_prefix_tokens: for old, new in zip(cached, prompt[:-1], strict=False): -> for old, new in zip(cached, prompt[:-1]):": (
        "the two are equally long wherever the arguments keep their contract; strict only says so"
    ),
    "RadixCache.insert: n_whole = len(tokens) // self.block_size -> n_whole = len(tokens) / self.block_size": (
        "only compared with whole numbers, so that a started block counts for nothing either way"
    ),
    "RadixCache.insert: for key, block in zip(whole_blocks(tokens, self.block_size), blocks, strict=False): -> for key, block in zip(whole_blocks(tokens, self.block_size), blocks):": (
        "the two are equally long wherever the arguments keep their contract; strict only says so"
    ),
    "request_dollars: return total / 1000000.0 -> return total / 1000001.0": (
        "one part in a million, which the tests allow to rounding"
    ),
    "prompt_cache_cost: return billed_tokens * input_dollars_per_million / 1000000.0 -> return billed_tokens * input_dollars_per_million / 1000001.0": (
        "one part in a million, which the tests allow to rounding"
    ),
    "CompressedRadixCache.evict: while n_freed < n and (leaf := self.leaves.pop()) is not None: -> while (leaf := self.leaves.pop()) is not None:": (
        "leaves that need not give a block up are put back as they were: more work, the same tree"
    ),
    "CompressedRadixCache.evict: while n_freed < n and (leaf := self.leaves.pop()) is not None: -> while n_freed <= n and (leaf := self.leaves.pop()) is not None:": (
        "leaves that need not give a block up are put back as they were: more work, the same tree"
    ),
    "route: best, experts = logits.sort(dim=-1, descending=True, stable=True) -> best, experts = logits.sort(descending=True, stable=True)": (
        "the last dimension is what torch sorts along anyway"
    ),
    "mix_experts: order = chosen.argsort(stable=True) -> order = chosen.argsort()": (
        "positions of one expert may run in any order"
    ),
    "mix_experts: order = chosen.argsort(stable=True) -> order = chosen.argsort(stable=False)": (
        "positions of one expert may run in any order"
    ),
    "mix_experts: y = torch.cat([run(expert, rows) for expert, rows in zip(ids.tolist(), groups, strict=True)]) -> y = torch.cat([run(expert, rows) for expert, rows in zip(ids.tolist(), groups)])": (
        "the two are equally long wherever the arguments keep their contract; strict only says so"
    ),
    "mix_experts: y = torch.cat([run(expert, rows) for expert, rows in zip(ids.tolist(), groups, strict=True)]) -> y = torch.cat([run(expert, rows) for expert, rows in zip(ids.tolist(), groups, strict=False)])": (
        "the two are equally long wherever the arguments keep their contract; strict only says so"
    ),
    "online_softmax: shift = maximum.masked_fill(maximum == -torch.inf, 0) -> shift = maximum.masked_fill(maximum == -torch.inf, 1)": (
        "of hidden keys only: e^(-inf - 1) is 0 as e^(-inf - 0) is"
    ),
    "merge: shift = maximum.masked_fill(maximum == -torch.inf, 0) -> shift = maximum.masked_fill(maximum == -torch.inf, 1)": (
        "of hidden keys only: e^(-inf - 1) is 0 as e^(-inf - 0) is"
    ),
    "flash_attention: positions = torch.arange(start, start + t, device=q.device).repeat(G)[:, None] -> positions = torch.arange(start, start + t).repeat(G)[:, None]": (
        "on a CPU, where answers are graded, tensors are made where the arguments are"
    ),
    "flash_attention: scores = rows @ k[:, :, first:last].to(wide).transpose(-1, -2) -> scores = rows @ k[:, :, first:last].to(wide).transpose(-1, 2)": (
        "of four dimensions the third is the last but one"
    ),
    "flash_attention: hidden = torch.arange(first, last, device=q.device) > positions -> hidden = torch.arange(first, last) > positions": (
        "on a CPU, where answers are graded, tensors are made where the arguments are"
    ),
    "split_k_attention: filled = torch.full((B,), S, device=q.device) if lengths is None else lengths -> filled = torch.full((B,), S) if lengths is None else lengths": (
        "on a CPU, where answers are graded, tensors are made where the arguments are"
    ),
    "split_k_attention: scores = rows @ k[:, :, first:first + size].to(wide).transpose(-1, -2) -> scores = rows @ k[:, :, first:first + size].to(wide).transpose(-1, 2)": (
        "of four dimensions the third is the last but one"
    ),
    "split_k_attention: hidden = torch.arange(first, first + scores.shape[-1], device=q.device) >= filled[:, None, None, None] -> hidden = torch.arange(first, first + scores.shape[-1]) >= filled[:, None, None, None]": (
        "on a CPU, where answers are graded, tensors are made where the arguments are"
    ),
    "merge_across: while 2 * n_paired <= peers.size: -> while 2 * n_paired < peers.size:": (
        "half of the processes speak for the others: one round more, no more states than allowed, the same numbers"
    ),
    "naive_attention: scores = q @ keys.transpose(-1, -2) + q_rotary @ rotary_keys[:, None].transpose(-1, -2) -> scores = q @ keys.transpose(-1, 2) + q_rotary @ rotary_keys[:, None].transpose(-1, -2)": (
        "of four dimensions the third is the last but one"
    ),
    "naive_attention: scores = q @ keys.transpose(-1, -2) + q_rotary @ rotary_keys[:, None].transpose(-1, -2) -> scores = q @ keys.transpose(-1, -2) + q_rotary @ rotary_keys[:, None].transpose(-1, 2)": (
        "of four dimensions the third is the last but one"
    ),
}
