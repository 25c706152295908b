"""Week 4, the best number of drafted tokens."""

MISTAKES = [
    {
        "name": "max_gamma not tried",
        "week": 4,
        "file": "speculative/speedup.py",
        "old": "return max(range(max_gamma + 1), key=lambda gamma: (speculative_speedup(alpha, gamma, "
        "draft_cost), -gamma))",
        "new": "return max(range(max(max_gamma, 1)), key=lambda gamma: (speculative_speedup(alpha, "
        "gamma, draft_cost), -gamma))",
        "test": "test_best_gamma_tries_max_gamma_too",
        "says": "itself is allowed",
    },
    {
        "name": "no drafting not tried",
        "week": 4,
        "file": "speculative/speedup.py",
        "old": "return max(range(max_gamma + 1), key=lambda gamma: (speculative_speedup(alpha, gamma, "
        "draft_cost), -gamma))",
        "new": "return max(range(1, max_gamma + 1), key=lambda gamma: (speculative_speedup(alpha, "
        "gamma, draft_cost), -gamma))",
        "test": "test_best_gamma_takes_the_smallest_among_equals",
        "says": "γ = 0 too, and it was not tried",
    },
    {
        "name": "the largest among equals",
        "week": 4,
        "file": "speculative/speedup.py",
        "old": "return max(range(max_gamma + 1), key=lambda gamma: (speculative_speedup(alpha, gamma, "
        "draft_cost), -gamma))",
        "new": "return max(range(max_gamma + 1), key=lambda gamma: (speculative_speedup(alpha, gamma, "
        "draft_cost), gamma))",
        "test": "test_best_gamma_takes_the_smallest_among_equals",
        "says": "the smallest, 0, is the answer, not 32",
    },
    {
        "name": "most tokens in the place of the largest speed-up",
        "week": 4,
        "file": "speculative/speedup.py",
        "old": "return max(range(max_gamma + 1), key=lambda gamma: (speculative_speedup(alpha, gamma, "
        "draft_cost), -gamma))",
        "new": "return max(range(max_gamma + 1), key=lambda gamma: (expected_tokens_per_round(alpha, gamma), -gamma))",
        "test": "test_best_gamma_grows_with_the_acceptance_rate",
        "says": "the most tokens a round are not the largest speed-up",
    },
    {
        "name": "the speed-up in the place of the best number",
        "week": 4,
        "file": "speculative/speedup.py",
        "old": "return max(range(max_gamma + 1), key=lambda gamma: (speculative_speedup(alpha, gamma, "
        "draft_cost), -gamma))",
        "new": "return max(speculative_speedup(alpha, gamma, draft_cost) for gamma in range(max_gamma + 1))",
        "test": "test_best_gamma_grows_with_the_acceptance_rate",
        "says": "asked for is the γ that gives it",
    },
    {
        "name": "max_gamma ignored",
        "week": 4,
        "file": "speculative/speedup.py",
        "old": "return max(range(max_gamma + 1), key=lambda gamma: (speculative_speedup(alpha, gamma, "
        "draft_cost), -gamma))",
        "new": "return max(range(33), key=lambda gamma: (speculative_speedup(alpha, gamma, draft_cost), -gamma))",
        "test": "test_best_gamma_tries_max_gamma_too",
        "says": "max_gamma is the limit",
    },
    {
        "name": "drafting wherever it pays at all",
        "week": 4,
        "file": "speculative/speedup.py",
        "old": "return max(range(max_gamma + 1), key=lambda gamma: (speculative_speedup(alpha, gamma, "
        "draft_cost), -gamma))",
        "new": "return next((gamma for gamma in range(1, max_gamma + 1) if speculative_speedup(alpha, "
        "gamma, draft_cost) > 1), 0)",
        "test": "test_best_gamma_grows_with_the_acceptance_rate",
        "says": "the speed-up is largest at γ = 4 (1.92), not at 1",
    },
    {
        "name": "best of a negative limit",
        "week": 4,
        "file": "speculative/speedup.py",
        "old": "    check_alpha_gamma(alpha, max_gamma)\n",
        "new": "    if max_gamma < 0:\n        return 0\n",
        "test": "test_best_gamma_refuses_impossible_arguments",
        "says": "impossible because of gamma",
    },
    {
        "name": "at most 16 drafted tokens by default",
        "week": 4,
        "file": "speculative/speedup.py",
        "old": "max_gamma: int = 32",
        "new": "max_gamma: int = 16",
        "test": "test_best_gamma_tries_up_to_32_where_nothing_is_said",
        "says": "max_gamma is 32 where it is not given",
    },
    {
        "name": "at most 64 drafted tokens by default",
        "week": 4,
        "file": "speculative/speedup.py",
        "old": "max_gamma: int = 32",
        "new": "max_gamma: int = 64",
        "test": "test_best_gamma_tries_up_to_32_where_nothing_is_said",
        "says": "max_gamma is 32 where it is not given",
    },
    {
        "name": "max_gamma of 0 refused",
        "week": 4,
        "file": "speculative/speedup.py",
        "old": "    check_alpha_gamma(alpha, max_gamma)\n",
        "new": "    check_alpha_gamma(alpha, max_gamma - 1)\n",
        "test": "test_best_gamma_may_be_told_not_to_speculate",
        "says": "max_gamma = 0 was refused",
    },
    {
        "name": "speed-ups rounded before they are compared",
        "week": 4,
        "file": "speculative/speedup.py",
        "old": "(speculative_speedup(alpha, gamma, draft_cost), -gamma)",
        "new": "(round(speculative_speedup(alpha, gamma, draft_cost), 3), -gamma)",
        "test": "test_best_gamma_takes_as_equal_only_what_is_equal",
        "says": "speed-ups that differ by little are not equal",
    },
]
