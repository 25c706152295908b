# %% step by step, under names
def speculative_round(target, draft, text, gamma, rng):
    if gamma < 0:
        raise ValueError(f"gamma must be 0 or more, not {gamma}")
    proposal, q = draft.propose(text, gamma, rng)
    unread = list(text)[target.length :]
    unread.extend(proposal)
    p = target.feed(tokens=unread, last=len(proposal) + 1)
    new = verify_draft(target_probs=p, draft_probs=q, drafted=proposal, rng=rng)
    n_read = len(text) + len(new) - 1
    for model in (target, draft):
        if model.length > n_read:
            model.truncate(n_read)
    return Round(drafted=proposal, tokens=new)


# %% the decisions written out, asking whether to reject
def speculative_round(target, draft, text, gamma, rng):
    check_alpha_gamma(0.5, gamma)
    drafted, q = draft.propose(list(text), gamma, rng)
    n = len(drafted)
    p = target.feed([*text[target.length :], *drafted], n + 1)
    new = []
    for i, x in enumerate(drafted):
        if rng.bernoulli(1 - (p[i, x] / q[i, x]).item()):
            new.append(rng.categorical(residual(p[i], q[i])))
            break
        new.append(x)
    else:
        new.append(rng.categorical(p[n]))
    keep = len(text) + len(new) - 1
    target.truncate(keep)
    draft.truncate(min(draft.length, keep))
    return Round(drafted, new)


def residual(p, q):
    left = torch.relu(p - q)
    return left / left.sum()


# %% every row asked for, and the last of them used
def speculative_round(target, draft, text, gamma, rng):
    check_alpha_gamma(1.0, gamma)
    drafted, draft_probs = draft.propose(text, gamma, rng)
    unread = [*text, *drafted][target.length :]
    rows = target.feed(unread, len(unread))[-(len(drafted) + 1) :]
    new = verify_draft(rows, draft_probs, drafted, rng)
    n_kept = len(new) - 1
    target.truncate(len(text) + n_kept)
    if draft.length > len(text) + n_kept:
        draft.truncate(len(text) + n_kept)
    return Round(list(drafted), list(new))


# %% all decisions first, and what is kept counted from the end
def speculative_round(target, draft, text, gamma, rng):
    check_alpha_gamma(alpha=0.0, gamma=gamma)
    before = len(text)
    drafted, q = draft.propose(tuple(text), gamma, rng)
    p = target.feed(list(text[target.length :]) + drafted, last=1 + len(drafted))
    kept = 0
    decisions = [rng.bernoulli(min(1.0, (p[i, x] / q[i, x]).item())) for i, x in enumerate(drafted)]
    for yes in decisions:
        if not yes:
            break
        kept += 1
    last = p[kept] if kept == len(drafted) else residual_distribution(p[kept], q[kept])
    new = drafted[:kept] + [rng.categorical(last)]
    print(f"kept {kept} of {len(drafted)}")
    target.truncate(target.length - (len(drafted) - kept))
    draft.truncate(min(before + kept, draft.length))
    return Round(drafted, new)


def residual_distribution(p, q):
    left = (p - q).clamp(min=0)
    return left / left.sum()
