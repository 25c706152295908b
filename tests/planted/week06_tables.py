"""Week 6, a request's table of blocks."""

_APPEND = "test_append_allocates_a_block_when_the_last_one_is_full_and_not_earlier"
_COPY = "test_append_into_a_shared_block_copies_it_first"
_FORK = "test_fork_shares_every_block_and_copies_none"
_SLOTS = "test_slot_mapping_of_a_scattered_table"
_TRUNCATE = "test_truncate_gives_back_the_blocks_that_no_position_needs"

# name, what stands there, what is planted, the test meant for it, a part of its message
_PLANTED = [
    (
        "// and % swapped in the slot",
        "blocks[p // size] * size + p % size",
        "blocks[p % size] * size + p // size",
        _SLOTS,
        "// and % are swapped",
    ),
    (
        "the place before the block",
        "blocks[p // size] * size + p % size",
        "blocks[p // size] + p % size * size",
        _SLOTS,
        "times block_size",
    ),
    (
        "positions taken for slots",
        "blocks[p // size] * size + p % size",
        "p",
        _SLOTS,
        "a position is not a slot",
    ),
    (
        "a block one position early",
        "while len(self.blocks) * self.block_size < self.length:",
        "while len(self.blocks) * self.block_size <= self.length:",
        _APPEND,
        "one position early",
    ),
    (
        "blocks taken before all are known to be there",
        "        needed = self.blocks_needed(n)\n        if needed > self.allocator.n_free:",
        "        needed = 0\n        if needed > self.allocator.n_free:",
        "test_append_that_does_not_fit_changes_nothing",
        "ask first",
    ),
    (
        "copy on write forgotten",
        "        if self._must_copy(n):\n",
        "        if False:\n",
        _COPY,
        "copy on write",
    ),
    (
        "the copy the wrong way round",
        "copies.append((shared, own))",
        "copies.append((own, shared))",
        _COPY,
        "the wrong way round",
    ),
    (
        "the copy of a third block the wrong way round",
        "copies.append((shared, own))",
        "copies.append((own, shared))",
        "test_append_into_a_shared_third_block_copies_the_last_one",
        "the wrong way round",
    ),
    (
        "the last free block kept back",
        "if needed > self.allocator.n_free:",
        "if needed >= self.allocator.n_free:",
        "test_append_takes_the_last_free_blocks",
        "That is room enough",
    ),
    (
        "a room check without the copy",
        "if needed > self.allocator.n_free:",
        "if needed - self._must_copy(n) > self.allocator.n_free:",
        "test_append_counts_the_copy_among_the_blocks_it_needs",
        "count the copy too",
    ),
    (
        "a copy that keeps its reference to the shared block",
        "            self.allocator.free(shared)\n",
        "",
        _COPY,
        "gives its reference back",
    ),
    (
        "a copy that nobody makes",
        "copies.append((shared, own))",
        "pass",
        _COPY,
        "the content has to be copied",
    ),
    (
        "a copy behind a full block",
        "        if self._must_copy(n):\n",
        "        if n > 0 and self.blocks and self.allocator.references(self.blocks[-1]) > 1:\n",
        "test_append_behind_a_full_shared_block_copies_nothing",
        "it is not written to",
    ),
    (
        "a fork that does not count",
        "            self.allocator.share(block)\n        twin",
        "            pass\n        twin",
        _FORK,
        "one more holder",
    ),
    (
        "a fork with new blocks",
        "twin.blocks, twin.length = list(self.blocks), self.length",
        "twin.blocks, twin.length = [self.allocator.allocate() for _ in self.blocks], self.length",
        _FORK,
        "reads the same blocks",
    ),
    (
        "one list for both forks",
        "twin.blocks, twin.length = list(self.blocks), self.length",
        "twin.blocks, twin.length = self.blocks, self.length",
        "test_fork_has_a_list_of_its_own",
        "one list for both",
    ),
    (
        "truncate keeps a block too many",
        "keep = blocks_for(length, self.block_size)",
        "keep = length // self.block_size + 1",
        _TRUNCATE,
        "a block too many was kept",
    ),
    (
        "truncate frees a block too many",
        "keep = blocks_for(length, self.block_size)",
        "keep = length // self.block_size",
        _TRUNCATE,
        "round up",
    ),
    (
        "stop among the positions",
        "for p in range(start, stop)]",
        "for p in range(start, stop + 1)]",
        _SLOTS,
        "stop is not included",
    ),
    (
        "a fork with a pool of its own",
        "twin = BlockTable(self.allocator, self.block_size)",
        'twin = BlockTable(__import__("copy").deepcopy(self.allocator), self.block_size)',
        _FORK,
        "has a pool of its own",
    ),
    (
        "a fork without a length",
        "twin.blocks, twin.length = list(self.blocks), self.length",
        "twin.blocks = list(self.blocks)",
        _FORK,
        "its length is 6, not 0",
    ),
    (
        "a place for a position that is not reserved",
        'if not 0 <= start <= stop <= self.length:\n            raise ValueError(f"positions',
        'if not 0 <= start <= stop <= len(self.blocks) * self.block_size:\n            raise ValueError(f"positions',
        "test_slot_mapping_refuses_positions_that_are_not_reserved",
        "10 positions are reserved and 11 got a place",
    ),
    (
        "stop before start answered",
        'if not 0 <= start <= stop <= self.length:\n            raise ValueError(f"positions',
        'if not 0 <= start <= self.length or stop > self.length:\n            raise ValueError(f"positions',
        "test_slot_mapping_refuses_positions_that_are_not_reserved",
        "stop lies before start",
    ),
    (
        "positions from 0 on whatever start is",
        "for p in range(start, stop)]",
        "for p in range(stop)]",
        _SLOTS,
        "start was ignored",
    ),
    (
        "a negative number of positions appended",
        "        require_count(0, n=n)\n        needed",
        "        needed",
        "test_append_refuses_a_negative_number",
        "-1 positions were appended",
    ),
    (
        "a copy for no position",
        "        if self._must_copy(n):\n",
        "        if self._must_copy(1):\n",
        "test_append_of_nothing_copies_nothing",
        "so nobody needs a copy",
    ),
    (
        "a length that forgets what was there",
        "self.length += n",
        "self.length = n",
        "test_append_of_many_positions_takes_as_many_blocks_as_they_fill",
        "more than it had",
    ),
    (
        "new blocks for all new positions",
        "        while len(self.blocks) * self.block_size < self.length:\n"
        "            self.blocks.append(self.allocator.allocate())\n",
        "        self.blocks += [self.allocator.allocate() for _ in range(blocks_for(n, self.block_size))]\n",
        "test_append_of_many_positions_takes_as_many_blocks_as_they_fill",
        "partly filled last one is used up first",
    ),
    (
        "every shared block copied",
        "            self.allocator.free(shared)\n",
        "            self.allocator.free(shared)\n"
        "            for i, block in enumerate(self.blocks[:-1]):\n"
        "                if self.allocator.references(block) > 1:\n"
        "                    copies.append((block, self.allocator.allocate()))\n"
        "                    self.blocks[i] = copies[-1][1]\n"
        "                    self.allocator.free(block)\n",
        _COPY,
        "one copy is enough",
    ),
    (
        "places in the table copied in place of blocks",
        "            copies.append((shared, own))",
        "            copies.append((len(self.blocks) - 1, own))",
        _COPY,
        "numbers of blocks, not their places",
    ),
]

MISTAKES = [
    {"name": name, "week": 6, "file": "paging/blocks.py", "old": old, "new": new, "test": test, "says": says}
    for name, old, new, test, says in _PLANTED
]
