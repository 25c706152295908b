"""Week 6, paging, scheduling and serving."""

_ALLOCATE = "test_allocate_gives_every_block_once_and_then_says_that_none_is_left"
_APPEND = "test_append_allocates_a_block_when_the_last_one_is_full_and_not_earlier"
_COPY = "test_append_into_a_shared_block_copies_it_first"
_FORK = "test_fork_shares_every_block_and_copies_none"
_SLOTS = "test_slot_mapping_of_a_scattered_table"
_TRUNCATE = "test_truncate_gives_back_the_blocks_that_no_position_needs"
_ORDER = "test_admit_takes_requests_in_order_of_arrival"
_PREEMPT = "test_preempt_takes_the_blocks_and_keeps_the_tokens"
_COMES_BACK = "test_the_last_admitted_is_preempted_and_comes_back_before_the_others"
_EQUALLY_LONG = "test_rows_of_unequal_length_do_not_see_each_other_s_positions"

# file, name, what stands there, what is planted, the test meant for it, a part of its message
_PLANTED = [
    (
        "paging/blocks.py",
        "an allocated block stays on the free list",
        "block = self._free.pop()",
        "block = self._free[-1]",
        _ALLOCATE,
        "given out twice",
    ),
    (
        "paging/blocks.py",
        "an allocated block without a holder",
        "self._references[block] = 1",
        "self._references[block] = 0",
        "test_allocate_gives_a_block_one_holder",
        "has one holder",
    ),
    (
        "paging/blocks.py",
        "blocks taken from the other end",
        "block = self._free.pop()",
        "block = self._free.pop(0)",
        "test_allocate_takes_the_block_freed_last",
        "the free blocks are a stack",
    ),
    (
        "paging/blocks.py",
        "a block freed twice unnoticed",
        'raise ValueError(f"block {block} is free already; freed twice, it would be given to two requests")',
        "self._references[block] = 1",
        "test_free_refuses_a_block_that_is_free",
        "freed twice unnoticed",
    ),
    (
        "paging/blocks.py",
        "share without a count",
        "self._references[block] += 1",
        "pass",
        "test_share_counts_one_more_holder",
        "count the second",
    ),
    (
        "paging/blocks.py",
        "free although others hold the block",
        "if not self._references[block]:",
        "if True:",
        "test_free_keeps_a_block_that_others_hold",
        "although somebody holds it",
    ),
    (
        "paging/blocks.py",
        "// and % swapped in the slot",
        "blocks[p // size] * size + p % size",
        "blocks[p % size] * size + p // size",
        _SLOTS,
        "// and % are swapped",
    ),
    (
        "paging/blocks.py",
        "the place before the block",
        "blocks[p // size] * size + p % size",
        "blocks[p // size] + p % size * size",
        _SLOTS,
        "times block_size",
    ),
    (
        "paging/blocks.py",
        "positions taken for slots",
        "blocks[p // size] * size + p % size",
        "p",
        _SLOTS,
        "a position is not a slot",
    ),
    (
        "paging/blocks.py",
        "a block one position early",
        "while len(self.blocks) * self.block_size < self.length:",
        "while len(self.blocks) * self.block_size <= self.length:",
        _APPEND,
        "one position early",
    ),
    (
        "paging/blocks.py",
        "blocks taken before all are known to be there",
        "        needed = self.blocks_needed(n)\n        if needed > self.allocator.n_free:",
        "        needed = 0\n        if needed > self.allocator.n_free:",
        "test_append_that_does_not_fit_changes_nothing",
        "ask first",
    ),
    (
        "paging/blocks.py",
        "copy on write forgotten",
        "        if self._must_copy(n):\n",
        "        if False:\n",
        _COPY,
        "copy on write",
    ),
    (
        "paging/blocks.py",
        "the copy the wrong way round",
        "copies.append((shared, own))",
        "copies.append((own, shared))",
        _COPY,
        "the wrong way round",
    ),
    (
        "paging/blocks.py",
        "an empty free list popped",
        "        if not self._free:\n",
        "        if False:\n",
        _ALLOCATE,
        "raise OutOfBlocks, which says so",
    ),
    (
        "paging/blocks.py",
        "a copy that keeps its reference to the shared block",
        "            self.allocator.free(shared)\n",
        "",
        _COPY,
        "gives its reference back",
    ),
    (
        "paging/blocks.py",
        "a copy that nobody makes",
        "copies.append((shared, own))",
        "pass",
        _COPY,
        "the content has to be copied",
    ),
    (
        "paging/blocks.py",
        "a copy behind a full block",
        "return n > 0 and self.length % self.block_size > 0 and self.allocator",
        "return n > 0 and self.length > 0 and self.allocator",
        "test_append_behind_a_full_shared_block_copies_nothing",
        "begins a new block",
    ),
    (
        "paging/blocks.py",
        "a fork that does not count",
        "            self.allocator.share(block)\n        twin",
        "            pass\n        twin",
        _FORK,
        "one more holder",
    ),
    (
        "paging/blocks.py",
        "a fork with new blocks",
        "twin.blocks, twin.length = list(self.blocks), self.length",
        "twin.blocks, twin.length = [self.allocator.allocate() for _ in self.blocks], self.length",
        _FORK,
        "reads the same blocks",
    ),
    (
        "paging/blocks.py",
        "one list for both forks",
        "twin.blocks, twin.length = list(self.blocks), self.length",
        "twin.blocks, twin.length = self.blocks, self.length",
        "test_fork_has_a_list_of_its_own",
        "one list for both",
    ),
    (
        "paging/blocks.py",
        "truncate keeps a block too many",
        "keep = blocks_for(length, self.block_size)",
        "keep = length // self.block_size + 1",
        _TRUNCATE,
        "a block too many was kept",
    ),
    (
        "paging/blocks.py",
        "truncate frees a block too many",
        "keep = blocks_for(length, self.block_size)",
        "keep = length // self.block_size",
        _TRUNCATE,
        "round up",
    ),
    (
        "engine/scheduler.py",
        "the last one waiting admitted first",
        "request = self.waiting[0]",
        "self.waiting.reverse()\n            request = self.waiting[0]",
        _ORDER,
        "the last of the line was served first",
    ),
    (
        "engine/scheduler.py",
        "a newcomer without its positions",
        "            request.table.append(n)\n            plan.work.append(Work(request, n))\n            budget -= n",
        "            plan.work.append(Work(request, n))\n            budget -= n",
        _ORDER,
        "have to be reserved",
    ),
    (
        "engine/scheduler.py",
        "a request that overtakes",
        "            if not self.can_begin(request, request.n_pending):\n                return\n",
        "            if not self.can_begin(request, request.n_pending):\n"
        "                self.waiting.popleft()\n"
        "                self.admit(plan, budget)\n"
        "                self.waiting.appendleft(request)\n"
        "                return\n",
        "test_admit_lets_nobody_overtake_one_that_does_not_fit",
        "overtook",
    ),
    (
        "engine/scheduler.py",
        "room for a chunk only",
        "self.can_begin(request, request.n_pending)",
        "self.can_begin(request, min(request.n_pending, budget))",
        "test_admit_asks_for_room_for_the_whole_prompt_and_not_for_a_chunk",
        "only its first chunk fits",
    ),
    (
        "engine/scheduler.py",
        "room kept back",
        "self.can_begin(request, request.n_pending)",
        "self.can_begin(request, request.n_pending + 1)",
        "test_admit_fills_the_room_to_the_last_block",
        "exactly",
    ),
    (
        "engine/scheduler.py",
        "a budget for each newcomer",
        "            plan.work.append(Work(request, n))\n            budget -= n",
        "            plan.work.append(Work(request, n))",
        "test_admit_runs_no_more_tokens_than_the_budget",
        "for all newcomers together",
    ),
    (
        "engine/scheduler.py",
        "max_running counts newcomers alone",
        "len(self.running) < self.max_running and",
        "len(plan.admitted) < self.max_running and",
        "test_admit_counts_those_who_run_already",
        "r runs already",
    ),
    (
        "engine/scheduler.py",
        "preempt loses what was written",
        "        request.draft = []\n        request.n_preemptions += 1",
        "        del request.tokens[request.n_computed or 1 :]\n"
        "        request.draft = []\n        request.n_preemptions += 1",
        _PREEMPT,
        "what it has written is kept",
    ),
    (
        "engine/scheduler.py",
        "preempt keeps n_computed",
        "        self.running.remove(request)\n        self._forget_blocks(request)",
        "        self.running.remove(request)\n        request.table.release()",
        _PREEMPT,
        "all of it has to run again",
    ),
    (
        "engine/scheduler.py",
        "preempt keeps the blocks",
        "        self.running.remove(request)\n        self._forget_blocks(request)",
        "        self.running.remove(request)\n        request.n_computed = 0",
        _PREEMPT,
        "holds no block",
    ),
    (
        "engine/scheduler.py",
        "preempted to the end of the line",
        "self.waiting.appendleft(request)",
        "self.waiting.append(request)",
        "test_preempt_puts_the_request_before_everybody_who_waits",
        "first come first served",
    ),
    (
        "engine/scheduler.py",
        "a draft kept through a preemption",
        "        request.draft = []\n        request.n_preemptions += 1",
        "        request.n_preemptions += 1",
        "test_preempt_drops_the_draft",
        "drafted tokens are no part of the text",
    ),
    (
        "engine/scheduler.py",
        "the first one preempted",
        "victim = self.running[-1]",
        "victim = self.running[0]",
        _COMES_BACK,
        "the first was preempted",
    ),
    (
        "engine/scheduler.py",
        "a refused draft keeps its block",
        "        request.table.truncate(n_computed)\n",
        "",
        "test_a_draft_runs_with_the_pass_and_what_was_refused_gives_its_blocks_back",
        "refused drafted tokens are held still",
    ),
    (
        "varlen/paged_rows.py",
        "the mask hides a position too many",
        "positions > last_seen",
        "positions >= last_seen",
        _EQUALLY_LONG,
        "one position too many",
    ),
    (
        "varlen/paged_rows.py",
        "the mask hides a position too few",
        "positions > last_seen",
        "positions > last_seen + 1",
        _EQUALLY_LONG,
        "length off by one in the mask",
    ),
    (
        "varlen/varlen_batch.py",
        "wrong group's table",
        "        self._sizes = [",
        "        first = self._rows[0][0].tables\n"
        "        for rows in self._rows[0]:\n"
        "            if first.shape[1] >= rows.tables.shape[1]:\n"
        "                rows.tables = first[:1].expand(rows.batch_size, -1)\n"
        "        self._sizes = [",
        "test_groups_read_their_own_tables",
        "wrong group's table",
    ),
    (
        "varlen/paged_rows.py",
        "filled up with block 0",
        "*row[-1:] * (n_blocks",
        "*[0] * (n_blocks",
        "test_a_request_that_holds_nan_does_not_reach_its_neighbours",
        "filled up with another's block",
    ),
    (
        "engine/intake.py",
        "one seed for all requests",
        "= Rng(seed), seed is not None",
        "= Rng(1), seed is not None",
        "test_requests_with_other_rules_are_served_in_one_pass",
        "is its rng",
    ),
    (
        "engine/engine.py",
        "blocks counted when those that ended have given theirs back",
        "        record = _record(outcomes, plan, self.scheduler, started, model_seconds)\n"
        "        outputs = self._postprocess(outcomes)\n",
        "        outputs = self._postprocess(outcomes)\n"
        "        record = _record(outcomes, plan, self.scheduler, started, model_seconds)\n",
        "test_times_of_requests_and_passes",
        "had given their blocks back",
    ),
    (
        "engine/model_runner.py",
        "NaN of a chunk into the prefix cache",
        "if not all(finite[start:stop]):",
        "if request.n_drafted_in(n) >= 0 and not all(finite[start:stop]):",
        "test_a_request_whose_logits_are_nan_ends_with_an_error_and_the_others_are_served",
        "hold NaN or infinity",
    ),
    (
        "engine/scheduler.py",
        "a draft that remembers refused tokens",
        "        request.n_draft_computed = min(request.n_draft_computed, n_computed)\n",
        "",
        "test_a_draft_goes_on_behind_what_was_kept",
        "what was refused",
    ),
]

MISTAKES = [
    {"name": name, "week": 6, "file": file, "old": old, "new": new, "test": test, "says": says}
    for file, name, old, new, test, says in _PLANTED
]
