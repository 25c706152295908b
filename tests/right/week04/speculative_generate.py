# %% a list of new tokens apart from the prompt
def speculative_generate(target, draft, prompt, max_new_tokens, gamma, rng, end_tokens=(), on_round=None):
    check_request(prompt, max_new_tokens, gamma)
    stats, answer = SpecDecodeStats(), []
    while len(answer) < max_new_tokens:
        left = max_new_tokens - len(answer)
        done = speculative_round(target, draft, [*prompt, *answer], min(gamma, left - 1), rng)
        if on_round:
            on_round(done)
        new = up_to_end(done.tokens, end_tokens)
        stats.count(done, len(new))
        answer.extend(new)
        if answer[-1] in end_tokens:
            return answer, stats
    return answer, stats


# %% token by token, with a flag
def speculative_generate(target, draft, prompt, max_new_tokens, gamma, rng, end_tokens=(), on_round=None):
    if len(prompt) == 0:
        raise ValueError("the prompt is empty")
    if max_new_tokens < 0 or gamma < 0:
        raise ValueError(f"max_new_tokens is {max_new_tokens} and gamma {gamma}: both are 0 or more")
    text, stats, ended, ends = list(prompt), SpecDecodeStats(), False, set(end_tokens)
    n = max_new_tokens
    while n > 0 and not ended:
        done = speculative_round(target=target, draft=draft, text=text, gamma=min(gamma, n - 1), rng=rng)
        written = 0
        for token in done.tokens:
            text.append(token)
            written += 1
            if token in ends:
                ended = True
                break
        n -= written
        stats.count(done, written)
        if on_round is not None:
            on_round(done)
    return text[len(prompt) :], stats


# %% rounds from a generator of its own
def speculative_generate(target, draft, prompt, max_new_tokens, gamma, rng, end_tokens=(), on_round=None):
    check_request(prompt, max_new_tokens, gamma)
    stats, new = SpecDecodeStats(), []
    for done, tokens in _rounds(target, draft, list(prompt), max_new_tokens, gamma, rng, end_tokens):
        (on_round or (lambda _: None))(done)
        stats.count(done, written=len(tokens))
        new = new + tokens
    return new, stats


def _rounds(target, draft, text, left, gamma, rng, ends):
    while left > 0:
        done = speculative_round(target, draft, text, min(gamma, left - 1), rng)
        first = [i for i, token in enumerate(done.tokens) if token in ends][:1]
        tokens = done.tokens[: first[0] + 1] if first else list(done.tokens)
        yield done, tokens
        text, left = text + tokens, left - len(tokens)
        if first:
            return


# %% the counts kept by hand
def speculative_generate(target, draft, prompt, max_new_tokens, gamma, rng, end_tokens=(), on_round=None):
    check_request(prompt, max_new_tokens, gamma)
    written, passes, drafted, examined, accepted = [], 0, 0, 0, 0
    while len(written) != max_new_tokens and not (written and written[-1] in end_tokens):
        room = max_new_tokens - len(written) - 1
        done = speculative_round(target, draft, list(prompt) + written, gamma if gamma < room else room, rng)
        if on_round is not None:
            on_round(done)
        written += up_to_end(done.tokens, end_tokens)
        passes, drafted = passes + 1, drafted + len(done.drafted)
        examined += min(len(done.drafted), len(done.tokens))
        accepted += len(done.tokens) - 1
    return written, SpecDecodeStats(len(written), passes, drafted, examined, accepted)
