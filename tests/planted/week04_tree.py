"""Week 4, trees of drafted tokens."""

_TWO = "test_verify_tree_with_two_siblings_has_output_distribution_p"
_OWED = "            owed = residual_distribution(owed, q)\n"

MISTAKES = [
    {
        "name": "a second sibling held against p",
        "week": 4,
        "file": "speculative/tree.py",
        "old": _OWED + "        if kept is None:\n            return [*new, rng.categorical(owed)]\n",
        "new": "            last = residual_distribution(owed, q)\n"
        "        if kept is None:\n            return [*new, rng.categorical(last if place in parents else owed)]\n",
        "test": _TWO,
        "says": "the second sibling is held against p again",
    },
    {
        "name": "drawing from p when all siblings are refused",
        "week": 4,
        "file": "speculative/tree.py",
        "old": "return [*new, rng.categorical(owed)]",
        "new": "return [*new, rng.categorical(target_probs[place + 1])]",
        "test": _TWO,
        "says": "after the last rejection it draws from p",
    },
    {
        "name": "every residual taken of p",
        "week": 4,
        "file": "speculative/tree.py",
        "old": "owed = residual_distribution(owed, q)",
        "new": "owed = residual_distribution(target_probs[place + 1], q)",
        "test": _TWO,
        "says": "each rejection changes what is owed",
    },
    {
        "name": "siblings held against the first one's row",
        "week": 4,
        "file": "speculative/tree.py",
        "old": "token, q = drafted[child], draft_probs[child]",
        "new": "token, q = drafted[child], draft_probs[list(parents).index(place)].clamp(min=1e-9)",
        "test": "test_verify_tree_holds_each_sibling_against_its_own_row",
        "says": "each sibling has a row of draft_probs of its own",
    },
    {
        "name": "the row in front of the kept token",
        "week": 4,
        "file": "speculative/tree.py",
        "old": "owed, kept = target_probs[place + 1], None",
        "new": "owed, kept = target_probs[max(place, 0)], None",
        "test": "test_verify_tree_reads_the_row_behind_the_token_that_was_kept",
        "says": "row i + 1 behind drafted[i]",
    },
    {
        "name": "no bonus token behind a leaf",
        "week": 4,
        "file": "speculative/tree.py",
        "old": "        if kept is None:\n",
        "new": "        if place not in parents and new:\n            return new\n        if kept is None:\n",
        "test": "test_verify_tree_draws_a_bonus_token_behind_a_leaf",
        "says": "no bonus token",
    },
    {
        "name": "children of a refused sibling tried",
        "week": 4,
        "file": "speculative/tree.py",
        "old": "(i for i, parent in enumerate(parents) if parent == place)",
        "new": "(i for i, parent in enumerate(parents) if parent == place or parent == place - 1 >= 0)",
        "test": "test_verify_tree_goes_down_from_the_sibling_that_was_kept",
        "says": "only children of the kept one are tried",
    },
    {
        "name": "the next sibling asked after one is kept",
        "week": 4,
        "file": "speculative/tree.py",
        "old": "                kept = child\n                break\n",
        "new": "                kept = child\n                continue\n",
        "test": "test_verify_tree_keeps_one_sibling_of_a_place",
        "says": "one bernoulli for the kept sibling",
    },
    {
        "name": "the ratio of a sibling upside down",
        "week": 4,
        "file": "speculative/tree.py",
        "old": "rng.bernoulli(owed[token].item() / q[token].item())",
        "new": "rng.bernoulli(q[token].item() / max(owed[token].item(), 1e-9))",
        "test": "test_verify_tree_of_a_line_is_verify_draft",
        "says": "a tree without branches is a line",
    },
]
