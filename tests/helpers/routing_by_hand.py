"""The routing of a mixture of experts, one position at a time, from its definition."""

import math


def softmax(scores):
    powers = [math.exp(score - max(scores)) for score in scores]
    return [power / sum(powers) for power in powers]


def route_by_hand(scores, k):
    """(experts, shares) of one position: the largest scores first, of equal ones the lower id."""
    experts = sorted(range(len(scores)), key=lambda expert: (-scores[expert], expert))[:k]
    return experts, softmax([scores[expert] for expert in experts])
