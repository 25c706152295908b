"""Speculative decoding: a cheap draft proposes, the target verifies in one pass, and the distribution stays exact."""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "acceptance": [
        "accept_or_resample",
        "acceptance_rate",
        "check_distributions",
        "residual_distribution",
        "verify_draft",
    ],
    "adaptive": [
        "AdaptiveGamma",
        "PassTimes",
    ],
    "drafts": [
        "ModelDraft",
        "PromptLookupDraft",
        "prompt_lookup",
        "speculate",
    ],
    "generate": [
        "Draft",
        "Round",
        "SpecDecodeStats",
        "TargetModel",
        "baseline_generate",
        "check_draft",
        "check_request",
        "speculative_generate",
        "speculative_round",
        "up_to_end",
    ],
    "ngram_index": [
        "NgramIndex",
    ],
    "session": [
        "Session",
    ],
    "speedup": [
        "best_gamma",
        "check_alpha_gamma",
        "expected_tokens_per_round",
        "speculative_speedup",
    ],
    "tree": [
        "check_tree",
        "sample_siblings",
        "verify_tree",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .acceptance import accept_or_resample as accept_or_resample
    from .acceptance import acceptance_rate as acceptance_rate
    from .acceptance import check_distributions as check_distributions
    from .acceptance import residual_distribution as residual_distribution
    from .acceptance import verify_draft as verify_draft
    from .adaptive import AdaptiveGamma as AdaptiveGamma
    from .adaptive import PassTimes as PassTimes
    from .drafts import ModelDraft as ModelDraft
    from .drafts import PromptLookupDraft as PromptLookupDraft
    from .drafts import prompt_lookup as prompt_lookup
    from .drafts import speculate as speculate
    from .generate import Draft as Draft
    from .generate import Round as Round
    from .generate import SpecDecodeStats as SpecDecodeStats
    from .generate import TargetModel as TargetModel
    from .generate import baseline_generate as baseline_generate
    from .generate import check_draft as check_draft
    from .generate import check_request as check_request
    from .generate import speculative_generate as speculative_generate
    from .generate import speculative_round as speculative_round
    from .generate import up_to_end as up_to_end
    from .ngram_index import NgramIndex as NgramIndex
    from .session import Session as Session
    from .speedup import best_gamma as best_gamma
    from .speedup import check_alpha_gamma as check_alpha_gamma
    from .speedup import expected_tokens_per_round as expected_tokens_per_round
    from .speedup import speculative_speedup as speculative_speedup
    from .tree import check_tree as check_tree
    from .tree import sample_siblings as sample_siblings
    from .tree import verify_tree as verify_tree
