"""Week 7, a radix tree whose nodes are runs of blocks: what is given up."""

_END = "test_evict_takes_blocks_from_the_end_of_a_run_and_no_more_than_asked"
_PINNED = "test_evict_stops_at_a_pinned_block_and_takes_another_leaf"
_EMPTY = "test_evict_takes_an_empty_run_out_and_goes_on_with_what_it_stood_on"

# name, what stands there, what is planted, the test meant for it, a part of its message
_PLANTED = [
    (
        "a whole run evicted for one block",
        "while leaf.blocks and n_freed < n and self.blocks.references",
        "while leaf.blocks and self.blocks.references",
        _END,
        "take no more of a run",
    ),
    (
        "a run evicted from its beginning",
        "                self.blocks.free(leaf.blocks.pop())\n                leaf.keys.pop()\n",
        "                self.blocks.free(leaf.blocks.pop(0))\n                key = leaf.keys.pop(0)\n"
        "                if leaf.keys:\n"
        "                    leaf.parent.children[leaf.keys[0]] = leaf.parent.children.pop(key)\n"
        "                    first = leaf.keys[0]\n",
        _END,
        "without its beginning",
    ),
    (
        "the rest of a leaf never evicted again",
        "        for leaf in left:\n            self.leaves.add(leaf)\n",
        "",
        _END,
        "put it back",
    ),
    (
        "a pinned block of a run evicted",
        "self.blocks.references(leaf.blocks[-1]) == 1:",
        "self.blocks.references(leaf.blocks[-1]) >= 1:",
        _PINNED,
        "2 is pinned, and it was evicted",
    ),
    (
        "a run with a pinned block left whole",
        "            while leaf.blocks and n_freed < n and self.blocks.references(leaf.blocks[-1]) == 1:",
        "            if any(self.blocks.references(block) > 1 for block in leaf.blocks):\n"
        "                left.append(leaf)\n                continue\n"
        "            while leaf.blocks and n_freed < n:",
        _PINNED,
        "stands behind the pinned 2 and can go",
    ),
    (
        "an empty run left in the tree",
        "            del leaf.parent.children[first]\n",
        "",
        _EMPTY,
        "take it out",
    ),
    (
        "a run that is never a leaf again",
        "            self.leaves.add(leaf.parent)\n",
        "",
        _EMPTY,
        "1 2 is a leaf once",
    ),
    (
        "more blocks counted as freed than were",
        "        self.n_blocks -= n_freed\n        return n_freed\n",
        "        self.n_blocks -= n_freed\n        return n\n",
        "test_evict_keeps_count_and_refuses_less_than_nothing",
        "not five",
    ),
    (
        "the newest leaf first",
        "(leaf := self.leaves.pop()) is not None:",
        "(leaf := self.leaves.pop()) is not None:\n"
        "            if (later := self.leaves.pop()) is not None:\n"
        "                self.leaves.add(leaf)\n"
        "                leaf = later",
        "test_evict_frees_the_least_recently_used_leaf_first",
        "was used longest ago",
    ),
    (
        "fewer than no block of a run evicted",
        "        require_count(0, n=n)\n        n_freed, left",
        "        n_freed, left",
        "test_evict_keeps_count_and_refuses_less_than_nothing",
        "blocks cannot be freed",
    ),
]

MISTAKES = [
    {"name": name, "week": 7, "file": "paging/compressed_tree.py", "old": old, "new": new, "test": test, "says": says}
    for name, old, new, test, says in _PLANTED
]
