"""Week 6, the plan of one pass."""

_A_SHORT_ONE = "        budget -= self._admit_a_short_one(plan, budget)\n"
_PROMPTS = (
    "        prompts = [request for request in self.running "
    "if not request.is_decoding and request not in plan.admitted]\n"
    "        for request, n in prompt_shares(prompts, budget, fair=self.max_overtakes > 0):\n"
    "            budget -= self._run(request, self._room(request, n), plan)\n"
)

# name, what stands there, what is planted, the test meant for it, a part of its message
_PLANTED = [
    (
        "a prompt before those that decode",
        "[request for request in self.running if request.is_decoding]:",
        "list(self.running):",
        "test_schedule_leaves_prompts_what_decoding_requests_do_not_need",
        "had to wait",
    ),
    (
        "a budget that those who decode do not lower",
        "                budget -= self._run(request, n, plan)\n",
        "                self._run(request, n, plan)\n",
        "test_schedule_leaves_prompts_what_decoding_requests_do_not_need",
        "is gone from the budget",
    ),
    (
        "a draft that runs beyond the budget",
        "self._make_room(request, min(request.n_pending, budget), plan)",
        "self._make_room(request, request.n_pending, plan)",
        "test_schedule_cuts_a_draft_that_the_budget_does_not_hold",
        "two of its four drafted ones",
    ),
    (
        "drafted tokens left out of the pass",
        "self._make_room(request, min(request.n_pending, budget), plan)",
        "self._make_room(request, min(1, budget), plan)",
        "test_schedule_runs_drafted_tokens_with_the_one_before_them",
        "n_pending counts the draft",
    ),
    (
        "a request preempted in this pass served in it",
        "if budget and request not in plan.preempted:",
        "if budget:",
        "test_schedule_preempts_the_last_where_a_decoding_request_needs_a_block",
        "pass it over",
    ),
    (
        "somebody preempted for a prompt",
        "self._run(request, self._room(request, n), plan)",
        "self._run(request, self._make_room(request, n, plan), plan)",
        "test_schedule_preempts_nobody_for_a_prompt",
        "a prompt runs as far as _room goes",
    ),
    (
        "shares in order although the scheduler is fair",
        "fair=self.max_overtakes > 0",
        "fair=False",
        "test_schedule_lets_prompt_shares_decide_where_the_scheduler_is_fair",
        "half for the oldest",
    ),
    (
        "prompts by turns although the scheduler is not fair",
        "fair=self.max_overtakes > 0",
        "fair=True",
        "test_schedule_runs_prompts_in_order_where_the_scheduler_is_not_fair",
        "as if it were not",
    ),
    (
        "a newcomer that gets its tokens twice",
        " and request not in plan.admitted]",
        "]",
        "test_schedule_runs_a_short_newcomer_once",
        "a share of a prompt too",
    ),
    (
        "newcomers asked in a pass that preempted",
        "        if not plan.preempted:\n            self.admit(plan, budget)",
        "        self.admit(plan, budget)",
        "test_schedule_admits_nobody_in_a_pass_that_preempted",
        "do not ask admit",
    ),
    (
        "the whole budget for newcomers",
        "            self.admit(plan, budget)\n        return plan if",
        "            self.admit(plan, self.max_tokens_per_step)\n        return plan if",
        "test_schedule_gives_newcomers_the_budget_that_is_left",
        "admit gets what is left",
    ),
    (
        "a pass in which nobody runs",
        "return plan if plan.work or not self.running else self._again(plan)",
        "return plan",
        "test_schedule_preempts_the_last_of_two_prompts_that_block_each_other",
        "an empty pass",
    ),
    (
        "copies that nobody is told of",
        "                budget -= self._run(request, n, plan)\n",
        "                if n:\n"
        "                    request.table.append(n)\n"
        "                    plan.work.append(Work(request, n))\n"
        "                    budget -= n\n",
        "test_schedule_hands_on_the_copies_that_shared_blocks_need",
        "table.append returns copies",
    ),
    (
        "a short newcomer never asked",
        "        budget -= self._admit_a_short_one(plan, budget)\n",
        "",
        "test_schedule_runs_a_short_newcomer_once",
        "step 2 was left out",
    ),
    (
        "a short newcomer asked after the prompts",
        _A_SHORT_ONE + _PROMPTS,
        _PROMPTS + _A_SHORT_ONE,
        "test_schedule_runs_a_short_newcomer_once",
        "step 2 comes before step 3",
    ),
    (
        "decoding requests once more as prompts",
        "if not request.is_decoding and request not in plan.admitted]",
        "if request not in plan.admitted]",
        "test_schedule_runs_one_token_of_each_request_that_decodes",
        "in the plan twice",
    ),
    (
        "schedule without a return",
        "        return plan if plan.work or not self.running else self._again(plan)",
        "        plan if plan.work or not self.running else self._again(plan)",
        "test_schedule_runs_one_token_of_each_request_that_decodes",
        "is a `return` missing?",
    ),
    (
        "places of a pass not reserved",
        "                n = self._make_room(request, min(request.n_pending, budget), plan)\n"
        "                budget -= self._run(request, n, plan)\n",
        "                n = self._make_room(request, min(request.n_pending, budget), plan)\n"
        "                plan.work += [Work(request, n)] if n else []\n"
        "                budget -= n\n",
        "test_schedule_runs_one_token_of_each_request_that_decodes",
        "reserve the positions of what runs",
    ),
    (
        "in the plan with no token",
        "            if budget and request not in plan.preempted:\n"
        "                n = self._make_room(request, min(request.n_pending, budget), plan)\n"
        "                budget -= self._run(request, n, plan)\n",
        "            if request not in plan.preempted:\n"
        "                n = self._make_room(request, min(request.n_pending, budget), plan)\n"
        "                plan.copies += request.table.append(n)\n"
        "                plan.work.append(Work(request, n))\n"
        "                budget -= n\n",
        "test_schedule_stops_at_the_budget_among_those_that_decode",
        "who has no token in a pass is not in it",
    ),
    (
        "those that decode from the last to the first",
        "for request in [request for request in self.running if request.is_decoding]:",
        "for request in [request for request in self.running if request.is_decoding][::-1]:",
        "test_schedule_runs_those_that_decode_in_order_of_admission",
        "they were admitted in the order b, c, a",
    ),
    (
        "a short newcomer that takes nothing from the budget",
        "        budget -= self._admit_a_short_one(plan, budget)\n",
        "        self._admit_a_short_one(plan, budget)\n",
        "test_schedule_runs_a_short_newcomer_once",
        "they are gone from the budget",
    ),
    (
        "planned once more with everybody where they were",
        "else self._again(plan)",
        "else self.schedule()",
        "test_schedule_preempts_the_last_of_two_prompts_that_block_each_other",
        "the same plan for ever",
    ),
]

MISTAKES = [
    {"name": name, "week": 6, "file": "engine/scheduler.py", "old": old, "new": new, "test": test, "says": says}
    for name, old, new, test, says in _PLANTED
]
