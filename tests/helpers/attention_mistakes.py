"""What softmax attention gives under each common mistake, for the tests of `attend` and of the cache that attends."""

from by_hand import attention

SEES_ONE_KEY = (
    "is_causal=True at T = 1: the mask is aligned top-left, so the new token sees only the first key "
    "(a single new token needs no mask: is_causal = T > 1)"
)
TOP_LEFT = (
    "is_causal=True with a past: the mask is aligned top-left, so query t sees keys 0 … t instead of 0 … S - T + t "
    "(make the mask explicit)"
)
WITHOUT_ITSELF = "the current token is left out: position t sees the keys 0 … t, its own among them"


def repeated(heads, G, interleaved=True):
    """(B, K, S, H) → (B, N, S, H)."""
    return heads.repeat_interleave(G, dim=1) if interleaved else heads.repeat(1, G, 1, 1)


def attention_mistakes(q, k, v):
    """What softmax attention gives under each common mistake."""
    T, S, G = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    suspects = {
        SEES_ONE_KEY if T == 1 else TOP_LEFT: attention(q, k, v, lambda t: range(t + 1)),
        "no mask: a position looks at the future": attention(q, k, v, lambda t: range(S)),
        "repeat instead of repeat_interleave: query head n reads key/value head n // G, not n % K": attention(
            q, repeated(k, G, interleaved=False), repeated(v, G, interleaved=False)
        ),
    }
    if T < S:
        suspects[WITHOUT_ITSELF] = attention(q, k, v, lambda t: range(S - T + t))
        suspects["the new tokens see the past only: the current token is left out"] = attention(
            q, k, v, lambda t: range(S - T)
        )
        suspects["the new tokens see each other only: the cache is written but not read"] = attention(
            q, k[:, :, -T:], v[:, :, -T:]
        )
    return suspects
