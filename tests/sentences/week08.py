"""Week 8: each sentence of a docstring, and the planted mistake that breaks it."""

_TEACHES = "- explains why, or names a source"
_NAMES = "- names an argument; what is done with it stands in the sentences above"

SENTENCES = {
    "route": {
        "Return the k experts with the largest logits": "the weakest experts instead of the strongest",
        "The shares are the softmax over the k chosen": "softmax before top-k without renormalising",
        "Of equal logits the expert with the lower id": "a sort that does not keep the order of equal logits",
        "logits: the router's logits": "shares over positions",
        "k: experts per token": "all experts refused",
        "ValueError: k outside 1 … E": "an infinite logit let through",
    },
    "mix_experts": {
        "Return for each of P positions": "the shares multiplied into x before the expert",
        "Each expert that is chosen at all runs once": "a run of an expert for every position",
        "The others are left alone": "experts run that nobody chose",
        "Nothing is done position by position": "outputs added up position by position",
        "x: one row a position": "the outputs added to the caller's x",
        "experts: the ids of the experts": "rows of other positions given to an expert",
        "shares: what each counts": "the shares in the order of the experts",
        "run: run(expert, rows)": "a tensor for an expert's id",
    },
    "MoE.forward": {
        "Return the feed-forward output": "positions of different texts mixed up",
        "`self.router` scores the experts": "the experts run for each text",
        "Others are left alone": "every expert run over everything",
    },
    "parameter_counts": {
        "Return a mixture's parameters": "total and active swapped",
        "Memory is bought for the total": "only active parameters counted as memory",
        "Arithmetic is done with the active ones": "a share of all parameters active",
        "shared_params: parameters that every token": "shared parameters left out of the active ones",
        "expert_params: parameters of one expert": "shared parameters once an expert",
        "n_experts: experts to choose from": "used experts added to all of them",
        "k: experts per token": "one expert active",
        "ValueError: shared_params or expert_params below 0": "a mixture of a negative number of parameters",
        "Source: Fedus": _TEACHES,
    },
    "expected_unused_experts": {
        "Return how many of E experts": "used experts returned as the unused",
        "Each position chooses k different experts": "a position's experts drawn with repetition",
        "The pass reads the weights of the other": _TEACHES,
        "ValueError: n_positions not a whole number": "unused experts of a negative batch",
    },
    "load_imbalance": {
        "Return how many times its even share": "idle experts left out of the mean load",
        "Where every expert has a device of its own": _TEACHES,
        "counts: for each expert": "the caller's counts sorted",
        "ValueError: no counts": "counts of nothing let through",
    },
    "expected_unused_given": {
        "Return the same for a router that is not balanced": "used experts for the unused, by chances",
        "Positions still choose independently": "chances of positions added up",
        "With every chance k/E this is": "the chance that some position passes an expert by",
        "ValueError: a chance outside 0 to 1": "a chance above 1",
    },
}
