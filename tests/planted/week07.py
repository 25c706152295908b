"""Week 7, the tree of the prefix cache."""

# name, what stands there, what is planted, the test meant for it, a part of its message
_PLANTED = [
    (
        "found blocks not pinned",
        "            self.blocks.share(node.block)\n            node.last_used = now\n            found",
        "            node.last_used = now\n            found",
        "test_match_pins_every_block_once_for_the_caller",
        "the blocks found are not shared",
    ),
    (
        "a match does not count as use",
        "            self.blocks.share(node.block)\n            node.last_used = now\n            found",
        "            self.blocks.share(node.block)\n            found",
        "test_match_counts_what_it_finds_as_used_now",
        "match must set last_used",
    ),
    (
        "the limit of a match ignored",
        "in whole_blocks(tokens[:limit], self.block_size):",
        "in whole_blocks(tokens, self.block_size):",
        "test_match_finds_no_more_tokens_than_the_limit",
        "limit ignored",
    ),
    (
        "the end of a prompt matched by part of a block",
        "        for key in whole_blocks(tokens[:limit], self.block_size):\n"
        "            node = node.children.get(key)\n",
        "        for start in range(0, min(limit, len(tokens)), self.block_size):\n"
        "            key = tuple(tokens[start : start + self.block_size])\n"
        "            node = next((c for k, c in node.children.items() if k[: len(key)] == key), None)\n",
        "test_match_finds_the_longest_cached_prefix_of_whole_blocks",
        "only whole blocks are shared",
    ),
    (
        "off-loaded blocks not brought back",
        "if node is None or not self._bring_back(node):",
        "if node is None or node.block is None:",
        "test_match_brings_back_what_was_off_loaded",
        "bring them back",
    ),
    (
        "the tree holds no reference of its own",
        "                self.blocks.share(block)\n                self._place(node, block)",
        "                self._place(node, block)",
        "test_insert_takes_one_reference_of_every_whole_block",
        "the tree took no reference",
    ),
    (
        "a block that is not full kept",
        "in zip(whole_blocks(tokens, self.block_size), blocks, strict=False):",
        "in zip(whole_blocks([*tokens, 0], self.block_size), blocks, strict=False):",
        "test_insert_takes_one_reference_of_every_whole_block",
        "a block that is not full was kept",
    ),
    (
        "the caller's duplicates returned",
        "            path.append(node.block)",
        "            path.append(block)",
        "test_insert_keeps_the_block_that_the_tree_has",
        "one prefix has one block",
    ),
    (
        "an insertion does not count as use",
        "            node.last_used = now\n            if node.block is None:",
        "            if node.block is None:",
        "test_insert_counts_the_whole_path_as_used_now",
        "insert must set last_used",
    ),
    (
        "blocks shared without the prefix before them",
        "            node = node.children.setdefault(key, Node(key, node))",
        "            node = self.root.children.setdefault(key, Node(key, self.root))",
        "test_insert_branches_where_texts_part",
        "is another block than",
    ),
    (
        "pinned blocks evicted",
        "            if self.blocks.references(leaf.block) > 1:\n                pinned",
        "            if self.blocks.references(leaf.block) > 10:\n                pinned",
        "test_evict_leaves_pinned_blocks_alone_until_they_are_released",
        "a pinned block was evicted",
    ),
    (
        "a pinned block never evicted again",
        "        for leaf in pinned:\n            self._device_leaves.add(leaf)\n",
        "",
        "test_evict_leaves_pinned_blocks_alone_until_they_are_released",
        "pinned once is not pinned for ever",
    ),
    (
        "the most recently used evicted",
        "(leaf := self._device_leaves.pop()) is not None:",
        "(leaf := max((x for x in self._on_device if x.is_device_leaf and x not in pinned), "
        "key=lambda x: x.last_used, default=None)):",
        "test_evict_frees_the_least_recently_used_first",
        "least recently used goes first",
    ),
    (
        "the oldest evicted, however recently it was used",
        "(leaf := self._device_leaves.pop()) is not None:",
        "(leaf := next((x for x in self._on_device if x.is_device_leaf and x not in pinned), None)):",
        "test_evict_frees_the_least_recently_used_first",
        "not the one that was used longest ago",
    ),
    (
        "a stem evicted before its leaves",
        "(leaf := self._device_leaves.pop()) is not None:",
        "(leaf := min((x for x in self._on_device if x not in pinned), key=lambda x: x.last_used, default=None)):",
        "test_evict_frees_leaves_before_what_they_stand_on",
        "on which others stand",
    ),
    (
        "a search through all blocks for each one freed",
        "(leaf := self._device_leaves.pop()) is not None:",
        "(leaf := min((x for x in self._on_device if x.is_device_leaf and "
        "self.blocks.references(x.block) == 1), key=lambda x: x.last_used, default=None)):",
        "test_evict_does_not_search_all_blocks_for_each_one_it_frees",
        "keep the leaves in order",
    ),
    (
        "what was asked for returned, not what was freed",
        "        return n_freed\n",
        "        return n\n",
        "test_evict_frees_as_many_as_asked_and_says_how_many",
        "one block was left to free",
    ),
    (
        "pinned when all are found",
        "            if node is None or not self._bring_back(node):\n"
        "                break\n"
        "            assert node.block is not None  # it is on the device now\n"
        "            self.blocks.share(node.block)\n"
        "            node.last_used = now\n"
        "            found.append(node.block)\n",
        "            if node is None or not self._bring_back(node):\n"
        "                break\n"
        "            node.last_used = now\n"
        "            found.append(node)\n"
        "        for node in found:\n"
        "            self.blocks.share(node.block)\n"
        "        found = [node.block for node in found]\n",
        "test_match_pins_a_block_before_it_makes_room_for_the_next",
        "share each as soon as it is found",
    ),
    (
        "a block that could not be brought back",
        "            if node is None or not self._bring_back(node):\n"
        "                break\n"
        "            assert node.block is not None  # it is on the device now\n",
        "            if node is None:\n                break\n            self._bring_back(node)\n",
        "test_match_ends_where_no_block_is_free_to_bring_back",
        "Where it could not be brought back",
    ),
    (
        "hits counted in blocks",
        "len(found) * self.block_size",
        "len(found)",
        "test_match_keeps_statistics_of_tokens",
        "hits were counted in blocks",
    ),
    (
        "only what may be found counted as looked up",
        "self.statistics.n_looked_up_tokens += len(tokens)",
        "self.statistics.n_looked_up_tokens += min(limit, len(tokens))",
        "test_match_keeps_statistics_of_tokens",
        "the tokens behind the limit were left out",
    ),
    (
        "a limit of nothing taken for none",
        "limit = len(tokens) if limit is None else limit",
        "limit = limit or len(tokens)",
        "test_match_finds_no_more_tokens_than_the_limit",
        "a limit of 0 is a limit",
    ),
    (
        "a limit counted from the end",
        "        require_count(0, limit=limit)\n",
        "",
        "test_match_refuses_a_negative_limit",
        "a slice would count it from the end",
    ),
    (
        "a newer block in the place of the tree's",
        "            if node.block is None:\n                self.blocks.share(block)",
        "            if node.block != block:\n                self.blocks.share(block)",
        "test_insert_keeps_the_block_that_the_tree_has",
        "of which it has blocks already",
    ),
    (
        "fewer blocks than tokens remembered",
        "        if len(blocks) < n_whole:\n",
        "        if False:\n",
        "test_insert_refuses_fewer_blocks_than_the_tokens_fill",
        "part of the text would be remembered",
    ),
    (
        "a block more than asked",
        "        while n_freed < n and (leaf := self._device_leaves.pop()) is not None:\n",
        "        while n_freed <= n and (leaf := self._device_leaves.pop()) is not None:\n",
        "test_evict_frees_as_many_as_asked_and_says_how_many",
        "blocks were asked for",
    ),
    (
        "leaves listed once at the start",
        "        while n_freed < n and (leaf := self._device_leaves.pop()) is not None:\n",
        '        first = sorted((x for x in self._on_device if x.is_device_leaf), key=attrgetter("last_used"))\n'
        "        for leaf in first:\n"
        "            if n_freed == n:\n"
        "                break\n",
        "test_evict_frees_leaves_before_what_they_stand_on",
        "in the same call",
    ),
    (
        "a block freed without the books",
        "            self._move_out(leaf)\n            n_freed",
        "            self.blocks.free(leaf.block)\n            n_freed",
        "test_evict_frees_as_many_as_asked_and_says_how_many",
        "_move_out keeps books",
    ),
    (
        "fewer than none evicted",
        "        require_count(0, n=n)\n        n_freed, pinned",
        "        n_freed, pinned",
        "test_evict_refuses_a_negative_number",
        "blocks cannot be freed",
    ),
    (
        "match takes a time for each node",
        "            node.last_used = now\n            found.append",
        "            node.last_used = next(self._clock)\n            found.append",
        "test_match_takes_one_time_whatever_it_finds",
        "each call takes one `next(self._clock)`",
    ),
    (
        "insert counted as a look-up",
        "        now, node, path = next(self._clock), self.root, []\n",
        "        self.statistics.n_lookups += 1\n        now, node, path = next(self._clock), self.root, []\n",
        "test_insert_takes_one_time_and_counts_no_look_up",
        "an insert looks nothing up",
    ),
    (
        "last_used set after the block is placed",
        (
            "            node.last_used = now\n            if node.block is None:\n"
            "                self.blocks.share(block)\n                self._place(node, block)\n"
        ),
        (
            "            if node.block is None:\n                self.blocks.share(block)\n"
            "                self._place(node, block)\n            node.last_used = now\n"
        ),
        "test_insert_says_when_a_node_was_used_before_it_places_its_block",
        "so that is set before",
    ),
]

MISTAKES = [
    {"name": name, "week": 7, "file": "paging/radix_cache.py", "old": old, "new": new, "test": test, "says": says}
    for name, old, new, test, says in _PLANTED
]
