# %% a loop over tokens
def residual_distribution(target_probs, draft_probs):
    left = [max(p - q, 0.0) for p, q in zip(target_probs.tolist(), draft_probs.tolist(), strict=True)]
    total = sum(left)
    if total == 0:
        raise ValueError("target_probs and draft_probs are equal: nothing is left over")
    return torch.tensor([part / total for part in left], dtype=target_probs.dtype)
