"""Week 6, who is admitted and who is preempted."""

_ORDER = "test_admit_takes_requests_in_order_of_arrival"
_PREEMPT = "test_preempt_takes_the_blocks_and_keeps_the_tokens"
_COMES_BACK = "test_the_last_admitted_is_preempted_and_comes_back_before_the_others"

# name, what stands there, what is planted, the test meant for it, a part of its message
_PLANTED = [
    (
        "the last one waiting admitted first",
        "request = self.waiting[0]",
        "self.waiting.reverse()\n            request = self.waiting[0]",
        _ORDER,
        "the last of the line was served first",
    ),
    (
        "a newcomer without its positions",
        "            request.table.append(n)\n            plan.work.append(Work(request, n))\n            budget -= n",
        "            plan.work.append(Work(request, n))\n            budget -= n",
        _ORDER,
        "have to be reserved",
    ),
    (
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
        "room for a chunk only",
        "self.can_begin(request, request.n_pending)",
        "self.can_begin(request, min(request.n_pending, budget))",
        "test_admit_asks_for_room_for_the_whole_prompt_and_not_for_a_chunk",
        "only its first chunk fits",
    ),
    (
        "room kept back",
        "self.can_begin(request, request.n_pending)",
        "self.can_begin(request, request.n_pending + 1)",
        "test_admit_fills_the_room_to_the_last_block",
        "exactly",
    ),
    (
        "a budget for each newcomer",
        "            plan.work.append(Work(request, n))\n            budget -= n",
        "            plan.work.append(Work(request, n))",
        "test_admit_runs_no_more_tokens_than_the_budget",
        "for all newcomers together",
    ),
    (
        "max_running counts newcomers alone",
        "len(self.running) < self.max_running and",
        "len(plan.admitted) < self.max_running and",
        "test_admit_counts_those_who_run_already",
        "r runs already",
    ),
    (
        "preempt loses what was written",
        "        request.draft = []\n        request.n_preemptions += 1",
        "        del request.tokens[request.n_computed or 1 :]\n"
        "        request.draft = []\n        request.n_preemptions += 1",
        _PREEMPT,
        "what it has written is kept",
    ),
    (
        "preempt keeps n_computed",
        "        self.running.remove(request)\n        self._forget_blocks(request)",
        "        self.running.remove(request)\n        request.table.release()",
        _PREEMPT,
        "all of it has to run again",
    ),
    (
        "preempt keeps the blocks",
        "        self.running.remove(request)\n        self._forget_blocks(request)",
        "        self.running.remove(request)\n        request.n_computed = 0",
        _PREEMPT,
        "holds no block",
    ),
    (
        "preempted to the end of the line",
        "self.waiting.appendleft(request)",
        "self.waiting.append(request)",
        "test_preempt_puts_the_request_before_everybody_who_waits",
        "first come first served",
    ),
    (
        "a draft kept through a preemption",
        "        request.draft = []\n        request.n_preemptions += 1",
        "        request.n_preemptions += 1",
        "test_preempt_drops_the_draft",
        "drafted tokens are no part of the text",
    ),
    (
        "the first one preempted",
        "victim = self.running[-1]",
        "victim = self.running[0]",
        _COMES_BACK,
        "the first was preempted",
    ),
    (
        "a refused draft keeps its block",
        "        request.table.truncate(n_computed)\n",
        "",
        "test_a_draft_runs_with_the_pass_and_what_was_refused_gives_its_blocks_back",
        "refused drafted tokens are held still",
    ),
    (
        "a draft that remembers refused tokens",
        "        request.n_draft_computed = min(request.n_draft_computed, n_computed)\n",
        "",
        "test_a_draft_goes_on_behind_what_was_kept",
        "what was refused",
    ),
    (
        "a newcomer missing among the admitted",
        "            plan.admitted.append(request)\n",
        "",
        _ORDER,
        "is entered in plan.admitted",
    ),
    (
        "newcomers without a budget",
        "self.max_running and budget > 0:",
        "self.max_running and (budget > 0 or not self.running):",
        "test_admit_without_budget_admits_nobody",
        "so nobody is admitted",
    ),
    (
        "one newcomer a pass",
        "            plan.work.append(Work(request, n))\n            budget -= n\n",
        "            plan.work.append(Work(request, n))\n            budget -= n\n            return\n",
        _ORDER,
        "one newcomer came in",
    ),
    (
        "a preemption that forgets those before",
        "request.n_preemptions += 1",
        "request.n_preemptions = 1",
        _PREEMPT,
        "it was preempted 3 times before",
    ),
    (
        "a preemption that is not counted",
        "        request.n_preemptions += 1\n",
        "",
        _PREEMPT,
        "it was preempted 3 times before",
    ),
    (
        "a preempted request that the prefix cache knows still",
        "        self.running.remove(request)\n        self._forget_blocks(request)",
        "        self.running.remove(request)\n        request.table.release()\n        request.n_computed = 0",
        _PREEMPT,
        "_forget_blocks sees to all of it",
    ),
    (
        "preempted and running still",
        "        self.running.remove(request)\n        self._forget_blocks(request)",
        "        self._forget_blocks(request)",
        _PREEMPT,
        "it would run without a block",
    ),
]

MISTAKES = [
    {"name": name, "week": 6, "file": "engine/scheduler.py", "old": old, "new": new, "test": test, "says": says}
    for name, old, new, test, says in _PLANTED
]
