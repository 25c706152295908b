"""Speculative decoding: a cheap draft proposes γ tokens, the target checks them all in one pass.

The output is distributed exactly as the target's own: a drafted token x is kept with probability min(1, p(x)/q(x)), and
where one is not kept, the token comes from the residual max(p - q, 0) instead (Leviathan et al. 2022, algorithm 1
and appendix A.1; Chen et al. 2023, theorem 1).

p is the target and q the draft, here `target_probs` and `draft_probs`; some papers swap the letters. Temperature,
top-k and top-p are already in both. This file knows distributions and sessions; it knows no model.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from ..sampling.rng import Rng

from course import NotYetWritten


def residual_distribution(target_probs: Float[Tensor, "V"], draft_probs: Float[Tensor, "V"]) -> Float[Tensor, "V"]:
    """Return the distribution to draw from when a drafted token was not kept: max(p - q, 0), scaled to sum 1.

    It holds what the target gives beyond the draft, so tokens that the draft overrated get 0.

    Args:
        target_probs: p, the target's distribution of this token, (V,).
        draft_probs: q, the draft's, (V,).

    Raises:
        ValueError: p = q, where nothing is left over (such a draft is always kept, so nobody needs this).
    """
    raise NotYetWritten(
        "exercise 4.1 residual_distribution is not written yet: read "
        "notebooks/week04_speculative/week04_speculative.ipynb, write it in exercises/speculative/acceptance.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/speculative/test_acceptance.py --exercise "
        "residual_distribution"
    )


def accept_or_resample(
    target_probs: Float[Tensor, "V"], draft_probs: Float[Tensor, "V"], draft_token: int, rng: Rng
) -> tuple[int, bool]:
    """Return (token, accepted) for one drafted token.

    With probability min(1, p(x)/q(x)) the drafted token x is kept: (x, True). Otherwise a token is drawn from the
    residual distribution: (that token, False). When x was drawn from q, the returned token is distributed as p.

    Args:
        target_probs: p, (V,).
        draft_probs: q, the distribution that draft_token was drawn from, (V,).
        draft_token: x, a token id with q(x) > 0.
        rng: where every chance comes from: `bernoulli` whether to keep, `categorical` which token of the residual.

    Raises:
        ValueError: probabilities that are negative, NaN or do not sum to 1; shapes that differ; q(x) = 0.
    """
    raise NotYetWritten(
        "exercise 4.2 accept_or_resample is not written yet: read "
        "notebooks/week04_speculative/week04_speculative.ipynb, write it in exercises/speculative/acceptance.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/speculative/test_acceptance.py --exercise "
        "accept_or_resample"
    )


def acceptance_rate(target_probs: Float[Tensor, "... V"], draft_probs: Float[Tensor, "... V"]) -> Float[Tensor, "..."]:
    """Return α, the probability that one drafted token is kept: the sum over tokens of min(p, q).

    It is 1 for equal distributions and 0 for distributions that share no token (Leviathan et al. 2022, section 3.2).
    Leading dimensions are kept: (…, V) gives (…).
    """
    raise NotYetWritten(
        "exercise 4.3 acceptance_rate is not written yet: read "
        "notebooks/week04_speculative/week04_speculative.ipynb, write it in exercises/speculative/acceptance.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/speculative/test_acceptance_rate.py --exercise "
        "acceptance_rate"
    )


def verify_draft(
    target_probs: Float[Tensor, "n_plus_1 V"], draft_probs: Float[Tensor, "n V"], drafted: Sequence[int], rng: Rng
) -> list[int]:
    """Return the new tokens of a round, 1 to n + 1 of them.

    The drafted tokens are taken in order. Each goes through `accept_or_resample`; at the first that is not kept,
    the token drawn in its place is the last of the round, for what was drafted behind it continued another text.
    If all n are kept, the target pass has one more distribution to offer, and a bonus token is drawn from it.

    Args:
        target_probs: row i is the target's distribution given the text and the first i drafted tokens, (n + 1, V).
        draft_probs: row i is the distribution that drafted[i] was drawn from, (n, V).
        drafted: the n drafted tokens; with none, the one new token is drawn from target_probs[0].
    """
    raise NotYetWritten(
        "exercise 4.7 verify_draft is not written yet: read notebooks/week04_speculative/week04_speculative.ipynb, "
        "write it in exercises/speculative/acceptance.py, then run: NANOLM_IMPL=exercises python -m pytest "
        "tests/speculative/test_verify_draft.py --exercise verify_draft"
    )


def check_distributions(target_probs: Tensor, draft_probs: Tensor) -> None:
    """Raise a ValueError unless both are distributions over the same vocabulary, (V,)."""
    if target_probs.shape != draft_probs.shape or target_probs.ndim != 1:
        raise ValueError(
            f"target_probs has shape {tuple(target_probs.shape)} and draft_probs {tuple(draft_probs.shape)}; "
            "both must be (V,), over one vocabulary"
        )
    for name, probs in (("target_probs", target_probs), ("draft_probs", draft_probs)):
        total, least = probs.sum().item(), probs.min().item()
        if not abs(total - 1) < 1e-4 or not least >= 0:  # written so that NaN fails too
            raise ValueError(
                f"{name} sums to {total:.6g} with least entry {least:.6g}; probabilities are 0 or more and sum to 1"
            )
