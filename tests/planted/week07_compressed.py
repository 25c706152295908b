"""Week 7, a radix tree whose nodes are runs of blocks: found, cut and inserted."""

_CUT = "test_split_cuts_a_run_and_hangs_the_rest_behind_the_front"
_MIDDLE = "test_path_cuts_the_run_that_a_text_leaves_in_the_middle"
_ONE_RUN = "test_insert_makes_one_run_of_all_that_is_new"
_KEEPS = "test_insert_keeps_the_blocks_that_the_tree_has"

# name, what stands there, what is planted, the test meant for it, a part of its message
_PLANTED = [
    (
        "a front that its parent does not know",
        "        run.parent.children[front.keys[0]] = front\n",
        "",
        _CUT,
        "enter it at the parent",
    ),
    (
        "a rest that stands where the whole run stood",
        "= run.keys[n:], run.blocks[n:], front\n",
        "= run.keys[n:], run.blocks[n:], run.parent\n",
        _CUT,
        "say so in its parent",
    ),
    (
        "the rest entered under the key of the front",
        "front.children[run.keys[0]] = run",
        "front.children[front.keys[0]] = run",
        _CUT,
        "entered under its first key that is left",
    ),
    (
        "what stood behind the run hung behind the front",
        "        front.children[run.keys[0]] = run\n",
        "        front.children, run.children = {**run.children, run.keys[0]: run}, {}\n",
        _CUT,
        "the run is the front's only child",
    ),
    (
        "a cut that counts as use",
        "run.parent, run.last_used)",
        "run.parent, next(self._clock))",
        _CUT,
        "to cut is not to use",
    ),
    (
        "a run found whole by part of it",
        "            if n < len(node.keys):\n                node = self.split(node, n)\n",
        "",
        _MIDDLE,
        "has to be cut there",
    ),
    (
        "a run that is left in the middle given up",
        "                node = self.split(node, n)\n",
        "                break\n",
        _MIDDLE,
        "its front belongs to the path",
    ),
    (
        "what is behind the cut counted as used",
        "            node.last_used = now\n",
        "            node.last_used = now\n            for child in node.children.values():\n"
        "                child.last_used = now\n",
        "test_path_counts_as_used_what_it_found_and_nothing_behind_the_cut",
        "must not be put off",
    ),
    (
        "a path that is not used",
        "            node.last_used = now\n",
        "",
        "test_path_counts_as_used_what_it_found_and_nothing_behind_the_cut",
        "every run on the path was used now",
    ),
    (
        "a run for each block",
        "            run = Run(keys[len(kept) :], new, parent, now)\n"
        "            parent.children[run.keys[0]] = run\n"
        "            self.leaves.add(run)\n",
        "            for key, block in zip(keys[len(kept) :], new, strict=True):\n"
        "                run = Run([key], [block], parent, now)\n"
        "                parent.children[key] = run\n"
        "                parent = run\n"
        "            self.leaves.add(run)\n",
        _ONE_RUN,
        "a run for each block",
    ),
    (
        "new blocks without a reference",
        "            for block in new:\n                self.blocks.share(block)\n",
        "",
        _ONE_RUN,
        "the tree took no reference",
    ),
    (
        "the caller's blocks returned",
        "        return [*kept, *new]\n",
        "        return list(blocks[: len(keys)])\n",
        _KEEPS,
        "one prefix has one block",
    ),
    (
        "duplicates shared as well",
        "            for block in new:\n                self.blocks.share(block)\n",
        "            for block in blocks[: len(keys)]:\n                self.blocks.share(block)\n",
        _KEEPS,
        "take what is new only",
    ),
    (
        "a new run that waits nowhere",
        "            self.leaves.add(run)\n            self.n_blocks",
        "            self.n_blocks",
        "test_insert_puts_the_new_run_among_the_leaves",
        "nothing can ever be evicted",
    ),
    (
        "the rest returned",
        "        return front\n",
        "        return run\n",
        _CUT,
        "the run was returned",
    ),
    (
        "the run made the front",
        "        front = Run(run.keys[:n], run.blocks[:n], run.parent, run.last_used)\n"
        "        run.parent.children[front.keys[0]] = front\n"
        "        run.keys, run.blocks, run.parent = run.keys[n:], run.blocks[n:], front\n"
        "        front.children[run.keys[0]] = run\n"
        "        return front\n",
        "        rest = Run(run.keys[n:], run.blocks[n:], run, run.last_used, run.children)\n"
        "        for child in rest.children.values():\n"
        "            child.parent = rest\n"
        "        run.keys, run.blocks, run.children = run.keys[:n], run.blocks[:n], {rest.keys[0]: rest}\n"
        "        return Run(run.keys, run.blocks, run.parent, run.last_used, run.children)\n",
        _CUT,
        "the run has become the front",
    ),
    (
        "a cut one block too far",
        "        assert run.parent is not None  # the root has nothing to cut\n",
        "        n = n + 1\n",
        _CUT,
        "one block too many in the front",
    ),
    (
        "a path upside down",
        "            found.append(node)\n",
        "            found.insert(0, node)\n",
        "test_path_goes_down_whole_runs",
        "the path is upside down",
    ),
    (
        "half a block in a run",
        "        new = list(blocks[len(kept) : len(keys)])\n",
        "        new = list(blocks[len(kept) :])\n",
        "test_insert_leaves_out_a_block_that_is_not_full",
        "the second block is half full",
    ),
    (
        "a run of nothing",
        "        if new:\n",
        "        if True:\n",
        "test_insert_of_what_is_known_makes_no_run",
        "where nothing is new there is no new run",
    ),
    (
        "two times for one insert",
        "path = self.path(tokens, now)",
        "path = self.path(tokens, next(self._clock))",
        "test_insert_counts_path_and_new_run_as_used_now",
        "one insert is one `next(self._clock)`",
    ),
    (
        "a new run that was never used",
        "run = Run(keys[len(kept) :], new, parent, now)",
        "run = Run(keys[len(kept) :], new, parent)",
        "test_insert_counts_path_and_new_run_as_used_now",
        "counts as older than what was there before",
    ),
    (
        "more keys than blocks",
        "        if len(blocks) < len(keys):\n",
        "        if False:\n",
        "test_insert_refuses_fewer_blocks_than_the_tokens_fill",
        "a run with more keys than blocks",
    ),
]

MISTAKES = [
    {"name": name, "week": 7, "file": "paging/compressed_tree.py", "old": old, "new": new, "test": test, "says": says}
    for name, old, new, test, says in _PLANTED
]
