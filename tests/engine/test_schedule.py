"""Grades `Scheduler.schedule`: one pass at a time, chunked prefill beside decoding ("a5 b1": a runs 5 tokens, b one).

Everything else of the scheduler is the reference's: `admit`, `_make_room`, `prompt_shares`.
"""

import pytest
from schedules import Named, in_its_prompt, made, running, shown, waiting, with_tree

from nanolm.engine import Plan

pytestmark = pytest.mark.exercise("Scheduler.schedule")


def twice(plan):
    """Who is in the plan more than once."""
    names = [str(work.request) for work in plan.work]
    return {name for name in names if names.count(name) > 1}


def test_schedule_runs_one_token_of_each_request_that_decodes(impl):
    scheduler = made(impl)
    a, b = running(scheduler, "a", 3), running(scheduler, "b", 5)
    plan = scheduler.schedule()
    assert not twice(plan), f"a is in the plan twice, {shown(plan)}: does it, which decodes, run as a prompt too?"
    assert sorted(shown(plan).split()) == ["a1", "b1"], "each has one token pending: the one it has just written"
    assert (a.table.length, b.table.length) == (4, 6), "reserve the positions of what runs: table.append"


def test_schedule_runs_those_that_decode_in_order_of_admission(impl):
    scheduler = made(impl)
    for name in "bca":
        running(scheduler, name, 3)
    said = shown(scheduler.schedule())
    assert said == "b1 c1 a1", f"they were admitted in the order b, c, a, and run in the order {said}"


def test_schedule_runs_drafted_tokens_with_the_one_before_them(impl):
    scheduler = made(impl)
    a = running(scheduler, "a", 3)
    a.draft = [1, 2, 3]
    assert shown(scheduler.schedule()) == "a4", "n_pending counts the draft: one token, and three behind it to check"


def test_schedule_leaves_prompts_what_decoding_requests_do_not_need(impl):
    scheduler = made(impl, max_tokens_per_step=6)
    in_its_prompt(scheduler, "p", 20, 4)
    running(scheduler, "a", 3), running(scheduler, "b", 3)
    said = shown(scheduler.schedule())
    assert not said.startswith("p6"), "p's prompt took the whole pass, and a and b, who decode, had to wait for it"
    assert said != "a1 b1 p6", "6 tokens a pass in all: what a and b run is gone from the budget"
    assert said == "a1 b1 p4", "a decoding request comes before every prompt, whoever was admitted first"


def test_schedule_runs_a_chunk_of_a_prompt_and_no_more_than_the_budget(impl):
    scheduler = made(impl, max_tokens_per_step=5)
    p = in_its_prompt(scheduler, "p", 20, 4)
    assert shown(scheduler.schedule()) == "p5"
    assert p.table.length == 9


def test_schedule_stops_at_the_budget_among_those_that_decode(impl):
    scheduler = made(impl, max_tokens_per_step=2)
    for name in "abc":
        running(scheduler, name, 3)
    said = shown(scheduler.schedule())
    assert "0" not in said, f"{said}: who has no token in a pass is not in it"
    assert said == "a1 b1", "2 tokens a pass, in order of admission, and nobody with none"


def test_schedule_cuts_a_draft_that_the_budget_does_not_hold(impl):
    scheduler = made(impl, max_tokens_per_step=3)
    running(scheduler, "a", 3).draft = [1, 2, 3, 4]
    assert shown(scheduler.schedule()) == "a3", "a's token and two of its four drafted ones are 3"


def test_schedule_shares_what_is_left_among_prompts_in_order(impl):
    scheduler = made(impl, max_tokens_per_step=10)
    in_its_prompt(scheduler, "p", 8, 2), in_its_prompt(scheduler, "q", 12, 4)
    assert shown(scheduler.schedule()) == "p6 q4", "prompt_shares says how many tokens each may run"


def test_schedule_runs_prompts_in_order_where_the_scheduler_is_not_fair(impl):
    # p has 18 tokens left, q 8. By turns it would be p5 q5.
    scheduler = made(impl, n_blocks=30, max_tokens_per_step=10)
    in_its_prompt(scheduler, "p", 20, 2), in_its_prompt(scheduler, "q", 12, 4)
    said = shown(scheduler.schedule())
    assert sorted(said.split()) != ["p5", "q5"], "max_overtakes is 0, and the prompts shared as if it were not: fair=…"
    assert said == "p10", "max_overtakes is 0, so prompts run in order of admission"


def test_schedule_lets_prompt_shares_decide_where_the_scheduler_is_fair(impl):
    scheduler = made(impl, n_blocks=30, max_tokens_per_step=8, max_overtakes=4)
    in_its_prompt(scheduler, "p", 40, 2), in_its_prompt(scheduler, "q", 6, 3)
    assert sorted(shown(scheduler.schedule()).split()) == ["p5", "q3"], "fair: half for the oldest, then the shortest"
    scheduler = made(impl, n_blocks=30, max_tokens_per_step=8, max_overtakes=1)
    in_its_prompt(scheduler, "p", 40, 2), in_its_prompt(scheduler, "q", 6, 3)
    said = sorted(shown(scheduler.schedule()).split())
    assert said == ["p5", "q3"], "fair wherever max_overtakes is above 0, so also where it is 1"


def test_schedule_admits_newcomers_with_what_is_left(impl):
    scheduler = made(impl, max_tokens_per_step=6)
    running(scheduler, "a", 3)
    waiting(scheduler, Named("n", 3), Named("m", 9))
    plan = scheduler.schedule()
    said = shown(plan)
    assert said != "a1 n3 m3", "6 tokens a pass in all, of which a runs 1: admit gets what is left, 5"
    assert said == "a1 n3 m2", "5 tokens are left for newcomers"
    assert [request.name for request in plan.admitted] == ["n", "m"]


def test_schedule_hands_on_the_copies_that_shared_blocks_need(impl):
    # a and its fork share a block with room in it: whoever writes first gets a copy.
    scheduler = made(impl)
    a, t = running(scheduler, "a", 6), Named("t", 0)
    t.tokens = list(a.tokens)
    scheduler.fork(a, t)
    before = a.table.blocks[-1]
    plan = scheduler.schedule()
    assert plan.copies == [(before, a.table.blocks[-1])], "table.append returns copies that have to be made first"


def test_schedule_preempts_the_last_where_a_decoding_request_needs_a_block(impl):
    # 4 blocks of 4, all held: a's two are full.
    scheduler = made(impl, n_blocks=4)
    a, b = running(scheduler, "a", 8), running(scheduler, "b", 8)
    plan = scheduler.schedule()
    assert a not in plan.preempted, "b was preempted in this very pass and planned all the same: pass it over"
    assert plan.preempted == [b], "ask _make_room, which preempts from the end of `running`"
    assert shown(plan) == "a1", "b was preempted in this very pass: it runs nothing, pass it over"


def test_schedule_admits_nobody_in_a_pass_that_preempted(impl):
    scheduler, asked = made(impl, n_blocks=4), []
    running(scheduler, "a", 8), running(scheduler, "b", 8)
    waiting(scheduler, Named("n", 1))
    scheduler.admit = lambda plan, budget: asked.append(budget)
    scheduler.schedule()
    assert asked == [], "blocks were taken in this pass, so there is no room for newcomers: do not ask admit"


def test_schedule_gives_newcomers_the_budget_that_is_left(impl):
    scheduler, asked = made(impl, max_tokens_per_step=9), []
    running(scheduler, "a", 3), in_its_prompt(scheduler, "p", 8, 2)
    waiting(scheduler, Named("n", 5))
    scheduler.admit = lambda plan, budget: asked.append(budget)
    scheduler.schedule()
    assert asked == [2], "9 tokens a pass, of which a runs 1 and p 6: admit gets what is left, and is asked once"


def test_schedule_runs_a_short_newcomer_once(impl):
    # Fair: n is shorter than what p has left, so it is admitted before p runs. It is no prompt to share with then.
    scheduler = made(impl, n_blocks=30, max_tokens_per_step=8, max_overtakes=4)
    in_its_prompt(scheduler, "p", 40, 2)
    waiting(scheduler, Named("n", 3))
    short_one, asked = scheduler._admit_a_short_one, []
    scheduler._admit_a_short_one = lambda plan, budget: asked.append(budget) or short_one(plan, budget)
    said = shown(scheduler.schedule())
    assert asked, "step 2 was left out: _admit_a_short_one lets n, which is shorter than p, run before it"
    assert asked == [8], f"step 2 comes before step 3: _admit_a_short_one was asked with {asked[0]} of 8 tokens left"
    assert said != "n3 p8", "8 tokens in all: how many n runs, _admit_a_short_one says; they are gone from the budget"
    assert said.count("n") < 2, "n was admitted in this pass with its tokens, and got a share of a prompt too"
    assert said == "n3 p5", "_admit_a_short_one comes before the prompts and says how many tokens that took"


def test_schedule_drops_a_draft_before_it_preempts(impl):
    scheduler = made(impl, n_blocks=4)
    a, _ = running(scheduler, "a", 8), running(scheduler, "b", 3)
    a.draft = [1, 2, 3, 4]
    plan = scheduler.schedule()
    assert (shown(plan), plan.preempted) == ("a1 b1", []), "_make_room says how many tokens can run: 1 of 5"


def test_schedule_preempts_nobody_for_a_prompt(impl):
    # p needs a third block for its chunk, and r holds the last two.
    scheduler = made(impl, n_blocks=4)
    in_its_prompt(scheduler, "p", 12, 8)
    running(scheduler, "r", 6)
    plan = scheduler.schedule()
    assert (shown(plan), plan.preempted) == ("r1", []), "a prompt runs as far as _room goes, here not at all"


def test_schedule_runs_as_much_of_a_prompt_as_there_are_blocks_for(impl):
    scheduler = made(impl, n_blocks=5)
    in_its_prompt(scheduler, "p", 16, 7)
    running(scheduler, "r", 6)
    assert shown(scheduler.schedule()) == "r1 p5", "one place in p's second block, and the one free block"


def test_schedule_serves_somebody_when_all_that_decode_were_preempted(impl):
    # One token a pass. d decodes, is the last, and finds no block: it is preempted, and then p can run.
    scheduler = made(impl, n_blocks=3, max_tokens_per_step=1)
    in_its_prompt(scheduler, "p", 4, 1)
    d = running(scheduler, "d", 8)
    plan = scheduler.schedule()
    assert shown(plan) == "p1", "an empty pass: whoever waits for its result waits for nothing"
    assert d in plan.preempted, "those preempted on the way belong to the plan as well"
    assert plan.preempted == [d], "d was preempted, once"


def test_schedule_preempts_the_last_of_two_prompts_that_block_each_other(impl):
    scheduler = made(impl, n_blocks=4)
    in_its_prompt(scheduler, "p", 12, 8)
    q = in_its_prompt(scheduler, "q", 12, 8)
    try:
        plan = scheduler.schedule()
    except RecursionError:
        pytest.fail("planned once more with everybody where they were: it is the same plan for ever; _again makes room")
    assert shown(plan), "an empty pass: nobody decodes and nobody has room, and so it would stay for ever"
    assert (shown(plan), plan.preempted) == ("p4", [q]), "nobody decodes and nobody has room: the last makes way"


def test_schedule_without_requests_is_an_empty_plan(impl):
    assert made(impl).schedule() == Plan()


def test_schedule_evicts_from_the_prefix_cache_before_it_preempts(impl):
    # z has ended and left a full block in the tree; 4 blocks: z's, a's two, b's one.
    scheduler = with_tree(n_blocks=4, impl=impl)
    (z,) = waiting(scheduler, Named("z", 4))
    scheduler.schedule()
    scheduler.complete(z, 4)
    scheduler.remove(z)
    running(scheduler, "a", 8), running(scheduler, "b", 2)
    plan = scheduler.schedule()
    assert (shown(plan), plan.preempted) == ("a1 b1", [])
