"""Grades `scheduler`: small schedules worked out by hand ("a5 b1": a runs 5 of its pending tokens, b one)."""

import subprocess
import sys

import pytest
from refusal import assert_refuses
from schedules import Named, made, running, shown, step, steps, waiting, with_tree

from course.paths import ROOT
from nanolm.engine import Plan
from nanolm.engine import scheduler as reference

ADMIT = pytest.mark.exercise("Scheduler.admit")
PREEMPT = pytest.mark.exercise("Scheduler.preempt")


# --- Scheduler.admit ---------------------------------------------------------------------------------------------


@ADMIT
def test_admit_takes_requests_in_order_of_arrival(impl):
    scheduler, plan = made(impl, max_running=2), Plan()
    a, b, c = waiting(scheduler, Named("a", 3), Named("b", 2), Named("c", 1))
    scheduler.admit(plan, 100)
    assert scheduler.running[:1] != [c], "the last of the line was served first"
    assert scheduler.running != [a], "one newcomer came in and there is room for b: go on while there is"
    assert scheduler.running == [a, b], f"a, then b, and no more than max_running, 2: {scheduler.running} run"
    assert plan.admitted == [a, b], f"whoever is admitted is entered in plan.admitted; it has {plan.admitted}"
    assert list(scheduler.waiting) == [c]
    assert shown(plan) == "a3 b2", "a newcomer runs its pending tokens in this very pass"
    assert (a.table.length, b.table.length) == (3, 2), "the positions of this pass have to be reserved"
    assert scheduler.allocator.n_used == 2


@ADMIT
def test_admit_lets_nobody_overtake_one_that_does_not_fit(impl):
    # 4 blocks of 4, 2 of them held: a needs 3, b would fit into 1.
    scheduler, plan = made(impl, n_blocks=4), Plan()
    running(scheduler, "r", 8)
    a, b = waiting(scheduler, Named("a", 12), Named("b", 3))
    scheduler.admit(plan, 100)
    assert b not in scheduler.running, (
        "b overtook a: if the first does not fit, nobody behind it is admitted, or long requests would wait for ever"
    )
    assert a not in scheduler.running, "a needs 3 blocks and 2 are free; there is no room for it"
    assert list(scheduler.waiting) == [a, b], (
        f"a does not fit, so a and b wait on, in this order; waiting are {list(scheduler.waiting)}: ask `can_begin` "
        "before anybody is taken out of the queue"
    )
    assert (plan.work, plan.admitted, scheduler.allocator.n_used) == ([], [], 2), "nobody was admitted, and it shows"


@ADMIT
def test_admit_asks_for_room_for_the_whole_prompt_and_not_for_a_chunk(impl):
    # 12 tokens need 3 blocks; 2 are free, and the chunk of 4 alone would fit.
    scheduler, plan = made(impl, n_blocks=4), Plan()
    running(scheduler, "r", 8)
    (a,) = waiting(scheduler, Named("a", 12))
    scheduler.admit(plan, 4)
    assert plan.work == [] and list(scheduler.waiting) == [a], (
        "a was let in although only its first chunk fits: it would be preempted in the middle of its prompt"
    )


@ADMIT
def test_admit_fills_the_room_to_the_last_block(impl):
    scheduler, plan = made(impl, n_blocks=4), Plan()
    running(scheduler, "r", 8)
    (a,) = waiting(scheduler, Named("a", 8))
    scheduler.admit(plan, 100)
    assert scheduler.running[-1] is a, "8 tokens fit into the 2 free blocks exactly"
    assert scheduler.allocator.n_free == 0


@ADMIT
def test_admit_counts_blocks_that_others_have_taken_in_this_pass(impl):
    scheduler, plan = made(impl, n_blocks=3), Plan()
    waiting(scheduler, Named("a", 8), Named("b", 8))
    scheduler.admit(plan, 100)
    assert shown(plan) == "a8", "after a, one of 3 blocks is left: none for b"


@ADMIT
def test_admit_runs_no_more_tokens_than_the_budget(impl):
    scheduler, plan = made(impl), Plan()
    _, b, c = waiting(scheduler, Named("a", 4), Named("b", 5), Named("c", 1))
    scheduler.admit(plan, 6)
    assert not shown(plan).startswith("a4 b5"), "the budget of 6 is for all newcomers together"
    assert shown(plan) == "a4 b2", "what is left of the budget is a first chunk of b"
    assert (b.table.length, b.n_pending) == (2, 5), "only this pass's positions are reserved, and none has run yet"
    assert list(scheduler.waiting) == [c], "without budget nobody is admitted"


@ADMIT
@pytest.mark.parametrize("budget", [0, -2])
def test_admit_without_budget_admits_nobody(impl, budget):
    scheduler, plan = made(impl), Plan()
    (a,) = waiting(scheduler, Named("a", 4))
    scheduler.admit(plan, budget)
    assert list(scheduler.waiting) == [a], f"the budget of newcomers is {budget}, so nobody is admitted, a neither"
    assert (plan.work, scheduler.allocator.n_used) == ([], 0), f"with a budget of {budget} nothing runs"


@ADMIT
def test_admit_uses_the_budget_to_its_last_token(impl):
    scheduler, plan = made(impl), Plan()
    waiting(scheduler, Named("a", 4), Named("b", 5))
    scheduler.admit(plan, 5)
    assert shown(plan) == "a4 b1", "a takes 4 of the 5 tokens, and the one that is left is a first chunk of b"


@ADMIT
def test_admit_counts_those_who_run_already(impl):
    scheduler, plan = made(impl, max_running=2), Plan()
    running(scheduler, "r", 2)
    waiting(scheduler, Named("a", 1), Named("b", 1))
    scheduler.admit(plan, 100)
    assert shown(plan) == "a1", "max_running is 2, and r runs already"


@ADMIT
def test_admit_adds_to_the_plan_and_takes_nothing_from_it(impl):
    scheduler = made(impl)
    r = running(scheduler, "r", 2)
    plan = Plan([reference.Work(r, 1)])
    waiting(scheduler, Named("a", 2))
    scheduler.admit(plan, 100)
    assert shown(plan) == "r1 a2"


# --- Scheduler.preempt -------------------------------------------------------------------------------------------


@PREEMPT
def test_preempt_takes_the_blocks_and_keeps_the_tokens(impl):
    scheduler = made(impl)
    a, b = running(scheduler, "a", 5), running(scheduler, "b", 9)
    b.tokens += [77, 78]
    b.n_remembered, b.n_draft_computed, b.n_preemptions = 2, 9, 3
    before = list(b.tokens)
    scheduler.preempt(b)
    assert b.tokens == before, "what it has written is kept; only keys and values are lost, and can be computed again"
    assert b not in scheduler.running, "b waits now and is in `running` still: it would run without a block"
    assert (scheduler.running, list(scheduler.waiting)) == ([a], [b]), "b waits and a runs"
    assert (b.table.blocks, b.table.length) == ([], 0), "a request that waits holds no block"
    assert scheduler.allocator.n_used == 2, "b's blocks have to be free for the others"
    assert b.n_computed == 0, (
        f"n_computed is {b.n_computed}: nothing of b is in the cache any more, and all of it has to run again"
    )
    assert (b.n_remembered, b.n_draft_computed) == (0, 0), (
        f"n_remembered is {b.n_remembered} and n_draft_computed is {b.n_draft_computed}: of blocks that b holds no "
        "more, nothing is known to the prefix cache or to the draft model; _forget_blocks sees to all of it"
    )
    assert b.n_preemptions == 4, f"it was preempted 3 times before and once now; n_preemptions is {b.n_preemptions}"


@PREEMPT
def test_preempt_puts_the_request_before_everybody_who_waits(impl):
    scheduler = made(impl)
    b, c = running(scheduler, "b", 2), running(scheduler, "c", 2)
    (d,) = waiting(scheduler, Named("d", 1))
    scheduler.preempt(c)
    scheduler.preempt(b)
    assert list(scheduler.waiting) != [d, c, b], "it came before d, so it waits before d: first come first served"
    assert list(scheduler.waiting) == [b, c, d]


@PREEMPT
def test_preempt_drops_the_draft(impl):
    scheduler = made(impl)
    a = running(scheduler, "a", 3)
    a.draft = [1, 2]
    scheduler.preempt(a)
    assert a.draft == [], "drafted tokens are no part of the text; kept, they would run as if they were the next ones"
    assert a.n_pending == 4, (
        f"a has 4 tokens, and none of them counts as computed any more: 4 are pending, not {a.n_pending}"
    )


@PREEMPT
def test_preempt_leaves_shared_blocks_to_the_others(impl):
    scheduler = made(impl)
    a, twin = running(scheduler, "a", 6), Named("a", 7)
    scheduler.fork(a, twin)
    scheduler.preempt(twin)
    assert (scheduler.allocator.n_used, len(a.table.blocks), a.n_computed) == (2, 2, 6)


def test_a_preempted_request_takes_from_the_prefix_cache_what_is_left_there():
    # 9 tokens and the one it wrote: two full blocks are in the tree, so 8 of 10 tokens are spared and 2 run.
    scheduler = with_tree()
    (a,) = waiting(scheduler, Named("a", 9))
    assert step(scheduler)[0] == "a9"
    scheduler.preempt(a)
    assert scheduler.allocator.n_used == scheduler.prefix.n_blocks == 2
    assert step(scheduler)[0] == "a2"
    assert (a.n_prefix_tokens, a.n_preemptions, a.n_computed, len(a.tokens)) == (8, 1, 10, 11)


# --- whole schedules ---------------------------------------------------------------------------------------------


def test_a_prompt_runs_at_once_and_then_a_token_a_pass():
    scheduler = made()
    (a,) = waiting(scheduler, Named("a", 5))
    said, plan = step(scheduler)
    assert (said, plan.admitted, len(a.table.blocks)) == ("a5", [a], 2)
    assert steps(scheduler, 4) == ["a1"] * 4
    # 5 tokens of prompt and 5 written, the last of which nobody has run: 9 positions.
    assert (len(a.tokens), a.n_computed, a.table.length, len(a.table.blocks)) == (10, 9, 9, 3)


def test_long_prompts_run_in_chunks_and_the_next_one_fills_up_the_pass():
    # a 10 and b 3 tokens, 4 a pass. Pass 3: a's last 2, and 2 are left for b. Pass 4: a writes, b runs its last one.
    scheduler = made(max_tokens_per_step=4)
    waiting(scheduler, Named("a", 10), Named("b", 3))
    assert steps(scheduler, 5) == ["a4", "a4", "a2 b2", "a1 b1", "a1 b1"]


def test_a_budget_of_8_gives_two_prompts_their_first_tokens_after_one_pass_and_two():
    # a 5 and b 9 tokens of prompt, three new ones each. The last token of a text is written and never run, so a takes
    # 5 + 2 = 7 positions. Pass 1: a's prompt and b's first 3. Pass 2: a writes, b's other 6. a ends with pass 3.
    scheduler = made(max_tokens_per_step=8)
    a, _ = waiting(scheduler, Named("a", 5), Named("b", 9))
    assert steps(scheduler, 3) == ["a5 b3", "a1 b6", "a1 b1"]
    assert (len(a.tokens), a.table.length) == (8, 7)
    scheduler.remove(a)
    assert step(scheduler)[0] == "b1"


def test_decoding_requests_never_wait_for_a_prompt():
    # a decodes, p is in the middle of its prompt, a's fork t came after it. Of 4 tokens a pass, 2 are a's and t's.
    scheduler = made(max_tokens_per_step=4)
    a, t = running(scheduler, "a", 3), Named("t", 0)
    waiting(scheduler, Named("p", 12))
    assert step(scheduler)[0] == "a1 p3"
    t.tokens = list(a.tokens)
    scheduler.fork(a, t)
    said = step(scheduler)[0]
    assert said != "a1 p3", "p's prompt took the whole budget and t, which is decoding, had to wait"
    assert said == "a1 t1 p2"


def test_a_full_pass_of_decoding_requests_leaves_nothing_to_prompts():
    scheduler = made(max_tokens_per_step=2)
    for name in "abc":
        running(scheduler, name, 2)
    waiting(scheduler, Named("d", 1))
    assert step(scheduler)[0] == "a1 b1", "2 tokens a pass, in order of admission; d is not admitted"
    assert len(scheduler.waiting) == 1


def test_the_last_admitted_is_preempted_and_comes_back_before_the_others():
    # 4 blocks of 4: a and b take two each, full after 8 positions. In pass 3 a needs a third one: b, the last, is
    # preempted. There is a block for c (1 token) then, but b is before it and needs ⌈9/4⌉ = 3.
    scheduler = made(n_blocks=4)
    a, b = waiting(scheduler, Named("a", 7), Named("b", 7))
    assert steps(scheduler, 2) == ["a7 b7", "a1 b1"]
    (c,) = waiting(scheduler, Named("c", 1))
    said, plan = step(scheduler)
    assert plan.preempted != [a], "the first was preempted; take from the last admitted, so that somebody always ends"
    assert (said, plan.preempted, plan.admitted) == ("a1", [b], []), "nobody is admitted in a pass that took blocks"
    assert list(scheduler.waiting) == [b, c]
    assert step(scheduler)[0] == "a1", "b needs 3 blocks and 1 is free; c must not overtake it"
    scheduler.remove(a)
    # b runs its 7 tokens of prompt and the 2 it had written again; c finds a block too.
    assert step(scheduler)[0] == "b9 c1"
    assert (len(b.tokens), b.n_preemptions) == (10, 1)


def test_the_last_one_is_preempted_itself():
    # a has room in its second block, b's two are full and none is free.
    scheduler = made(n_blocks=4)
    a, b = running(scheduler, "a", 5), running(scheduler, "b", 8)
    said, plan = step(scheduler)
    assert (said, plan.preempted) == ("a1", [b])
    assert scheduler.running == [a]


def test_a_pass_serves_somebody_even_if_all_that_decode_were_preempted():
    # One token a pass, which is d's, as it decodes; but d is the last, and there is no block for it. Its two are free
    # then, and p runs a token of its prompt.
    scheduler = made(n_blocks=3, max_tokens_per_step=1)
    waiting(scheduler, Named("p", 4))
    assert step(scheduler)[0] == "p1"
    d = running(scheduler, "d", 8)
    said, plan = step(scheduler)
    assert said != "", "a pass without work: whoever waits for its result waits for nothing"
    assert (said, plan.preempted, list(scheduler.waiting)) == ("p1", [d], [d])


def test_as_many_are_preempted_as_needed_and_keep_their_order():
    # b and its fork t share two blocks: taking them from t frees none, so b is preempted as well.
    scheduler = made(n_blocks=4)
    a, b, t = running(scheduler, "a", 8), running(scheduler, "b", 7), Named("b", 8)
    scheduler.fork(b, t)
    said, plan = step(scheduler)
    assert (said, plan.preempted) == ("a1", [t, b])
    assert list(scheduler.waiting) == [b, t] and scheduler.running == [a]


def test_what_only_the_prefix_cache_holds_goes_before_anybody_is_preempted():
    # z has ended and left a full block in the tree; 4 blocks: z's, a's two, b's one. a needs another.
    scheduler = with_tree(n_blocks=4)
    (z,) = waiting(scheduler, Named("z", 4))
    step(scheduler)
    scheduler.remove(z)
    a, b = running(scheduler, "a", 8), running(scheduler, "b", 2)
    said, plan = step(scheduler)
    assert (said, plan.preempted) == ("a1 b1", []), "somebody was preempted although a block could be evicted"
    assert scheduler.running == [a, b]


def test_a_pool_of_one_block_serves_one_after_the_other():
    scheduler = made(n_blocks=1)
    a, b = waiting(scheduler, Named("a", 2), Named("b", 1))
    assert steps(scheduler, 3) == ["a2", "a1", "a1"]  # 4 positions, all there are
    assert list(scheduler.waiting) == [b]
    scheduler.remove(a)
    assert step(scheduler)[0] == "b1"


def test_equal_prompts_are_computed_once_though_they_come_together():
    # b waits for the one pass in which a's prompt runs, and finds its two full blocks in the tree then: of 9 tokens,
    # 1 is left to run. The third, partial block is each one's own.
    scheduler = with_tree()
    a, b = waiting(scheduler, Named("a", 9, first=0), Named("b", 9, first=0))
    said = step(scheduler)[0]
    assert said != "a9 b9", "the same 9 tokens were run twice side by side"
    assert said == "a9"
    assert step(scheduler)[0] == "a1 b1"
    assert a.table.blocks[:2] == b.table.blocks[:2] and a.table.blocks[2] != b.table.blocks[2]
    assert (scheduler.allocator.n_used, scheduler.prefix.n_blocks, b.n_prefix_tokens) == (4, 2, 8)
    for request in (a, b):
        scheduler.remove(request)
    assert scheduler.allocator.n_used == scheduler.prefix.n_blocks == 2


def test_equal_prompts_run_side_by_side_where_nothing_remembers_them():
    scheduler = made()
    waiting(scheduler, Named("a", 9, first=0), Named("b", 9, first=0))
    assert step(scheduler)[0] == "a9 b9"


def test_a_prompt_that_begins_like_another_shares_its_whole_blocks_only():
    # Tokens 0-8 and 0-5, 90, …: the first block is equal, the second is not.
    scheduler = with_tree()
    waiting(scheduler, Named("a", 9, first=0))
    step(scheduler)
    b = Named("b", 9, first=0)
    b.tokens[6:] = [90, 91, 92]
    waiting(scheduler, b)
    assert step(scheduler)[0] == "a1 b5"


def test_a_fork_shares_until_somebody_writes():
    # 5 positions in blocks 0 and 1. a writes position 5 first and gets a copy of block 1; t keeps the old one.
    scheduler = made()
    (a,) = waiting(scheduler, Named("a", 5))
    step(scheduler)
    t = Named("t", 0)
    t.tokens = list(a.tokens)
    scheduler.fork(a, t)
    assert (scheduler.running, scheduler.allocator.n_used, t.n_computed) == ([a, t], 2, 5)
    said, plan = step(scheduler)
    assert (said, plan.copies) == ("a1 t1", [(1, 2)])
    assert (a.table.blocks, t.table.blocks, scheduler.allocator.n_used) == ([0, 2], [0, 1], 3)
    scheduler.remove(a)
    assert scheduler.allocator.n_used == 2
    assert step(scheduler)[1].copies == [], "t is alone now and writes in place"


def test_a_draft_is_dropped_before_anybody_is_preempted_for_it():
    # Four blocks: a holds two with 8 positions, b one. a's next token takes the last; with 4 drafted it would need two.
    scheduler = made(n_blocks=4)
    a, b = running(scheduler, "a", 8), running(scheduler, "b", 3)
    a.draft = [1, 2, 3, 4]
    plan = scheduler.schedule()
    assert (shown(plan), plan.preempted, a.draft) == ("a1 b1", [], [])
    assert scheduler.running == [a, b]


def test_a_request_that_cannot_fit_is_not_looked_up_in_the_prefix_cache_pass_after_pass():
    scheduler = with_tree()
    n_free = scheduler.allocator.n_free
    a = running(scheduler, "a", 4 * n_free - 8)
    looked_up = scheduler.prefix.statistics.n_lookups
    waiting(scheduler, Named("b", 12))
    steps(scheduler, 3)
    assert list(scheduler.waiting) and scheduler.running == [a]
    assert scheduler.prefix.statistics.n_lookups == looked_up, "the hit rate would count the same request many times"


def test_a_draft_runs_with_the_pass_and_what_was_refused_gives_its_blocks_back():
    # 7 positions, the next token and 4 drafted ones: 12, three blocks. One of them is right, so tokens 7 and 8 are
    # cached: 9 positions.
    scheduler = made()
    a = running(scheduler, "a", 7)
    a.draft = [1, 2, 3, 4]
    plan = scheduler.schedule()
    assert (shown(plan), a.table.length, len(a.table.blocks)) == ("a5", 12, 3)
    a.tokens += [1, 50]
    scheduler.complete(a, 9)
    assert a.table.length == 9, "the places of refused drafted tokens are held still"
    assert (a.draft, a.n_pending, len(a.table.blocks)) == ([], 1, 3)
    a.draft = [5, 6, 7, 8]
    scheduler.schedule()
    a.tokens += [60]
    scheduler.complete(a, 10)
    assert (a.table.length, scheduler.allocator.n_used) == (10, 3), "the block of a refused drafted token is held still"


def test_drafted_tokens_count_as_tokens_of_the_pass():
    scheduler = made(max_tokens_per_step=6)
    a = running(scheduler, "a", 7)
    a.draft = [1, 2, 3]
    waiting(scheduler, Named("b", 5))
    assert shown(scheduler.schedule()) == "a4 b2"


@pytest.mark.parametrize("first", [True, False])
def test_remove_dismisses_a_request_that_runs_and_one_that_waits(first):
    scheduler = made(max_running=1)
    a, b = waiting(scheduler, Named("a", 5), Named("b", 5))
    step(scheduler)
    scheduler.remove(a if first else b)
    assert step(scheduler)[0] == ("b5" if first else "a1")
    assert (len(scheduler.running), len(scheduler.waiting), scheduler.allocator.n_used) == (1, 0, 2)


def test_remove_tells_equal_requests_apart():
    scheduler = made()
    a, b = waiting(scheduler, Named("a", 5, first=0), Named("b", 5, first=0))
    scheduler.remove(b)
    assert list(scheduler.waiting) == [a]


def test_nothing_to_do_is_an_empty_plan():
    assert made().schedule() == Plan()


def test_a_scheduler_and_its_requests_need_no_torch():
    code = "import sys, nanolm.engine.scheduler, nanolm.engine.request; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0, "decisions made without a tensor"


# --- refusals ----------------------------------------------------------------------------------------------------


def test_a_request_longer_than_the_whole_pool_is_refused_and_the_others_go_on():
    scheduler = made(n_blocks=2)
    waiting(scheduler, Named("a", 8))
    assert_refuses("9 token", scheduler.add, Named("b", 9))
    assert step(scheduler)[0] == "a8"
    assert not scheduler.waiting


def test_fork_refuses_what_cannot_be_shared():
    scheduler = made(max_running=2)
    a, other = running(scheduler, "a", 3), Named("b", 4)
    (w,) = waiting(scheduler, Named("w", 3))
    assert_refuses("running", scheduler.fork, w, Named("w", 3))
    assert_refuses("token", scheduler.fork, a, other)
    running(scheduler, "c", 3)
    assert_refuses("max_running", scheduler.fork, a, Named("a", 4))
    assert scheduler.allocator.n_used == 2, "a fork that is refused holds nothing"


@pytest.mark.parametrize(("name", "value"), [("max_running", 0), ("max_tokens_per_step", 0), ("max_running", 1.5)])
def test_a_scheduler_that_could_run_nothing_is_refused(name, value):
    assert_refuses(name, lambda: made(**{name: value}))
