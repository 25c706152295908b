"""Week 6, serving: the pass of many requests, and what lies around it."""

_EQUALLY_LONG = "test_rows_of_unequal_length_do_not_see_each_other_s_positions"

# file, name, what stands there, what is planted, the test meant for it, a part of its message
_PLANTED = [
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
]

MISTAKES = [
    {"name": name, "week": 6, "file": file, "old": old, "new": new, "test": test, "says": says}
    for file, name, old, new, test, says in _PLANTED
]
