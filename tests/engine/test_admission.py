"""Tests `admission`: who comes in, who first, and how long anybody waits at most. No model, no clock: passes count."""

import random
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st
from schedules import Named, in_its_prompt, made, running, shown, step, steps, waiting, with_tree

from nanolm.engine import Request
from nanolm.engine.admission import let_a_short_one_pass, n_shared, prompt_shares


def fair(n_blocks=1000, max_overtakes=4, **limits):
    return made(n_blocks=n_blocks, max_overtakes=max_overtakes, **limits)


def shares(*lengths, budget, fair):
    prompts = [Named(chr(ord("a") + i), n) for i, n in enumerate(lengths)]
    return " ".join(f"{request}{n}" for request, n in sorted(prompt_shares(prompts, budget, fair), key=str))


# --- prompts that share a pass -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lengths", "budget", "in_order", "by_turns"),
    [
        ((100,), 16, "a16", "a16"),
        ((100, 100), 16, "a16", "a16"),  # half is the oldest's, and of two that are equally short a is the first
        ((100, 99), 16, "a16", "a8 b8"),
        ((100, 4), 16, "a16", "a12 b4"),  # what the short one leaves is the oldest's again
        ((100, 60, 4), 16, "a16", "a8 b4 c4"),  # the shortest first, then the next
        ((4, 100), 16, "a4 b12", "a4 b12"),
        ((3, 100), 1, "a1", "a1"),  # half of 1, rounded up: the oldest always advances
        ((100, 100), 0, "", ""),
    ],
)
def test_prompts_share_what_a_pass_has_for_them(lengths, budget, in_order, by_turns):
    assert shares(*lengths, budget=budget, fair=False) == in_order
    assert shares(*lengths, budget=budget, fair=True) == by_turns


@given(st.lists(st.integers(1, 50), max_size=8), st.integers(0, 60), st.booleans())
def test_shares_use_the_budget_up_and_give_nobody_more_than_is_pending(lengths, budget, fair):
    prompts = [Named("p", n) for n in lengths]
    given_out = prompt_shares(prompts, budget, fair)
    assert sum(n for _, n in given_out) == min(budget, sum(lengths))
    assert all(0 < n <= request.n_pending for request, n in given_out)
    if prompts and fair:
        assert dict(given_out).get(prompts[0], 0) >= min(lengths[0], -(-budget // 2)), "the oldest has half"


def test_the_oldest_prompt_takes_no_more_than_twice_as_long_as_in_order_of_arrival():
    # 1,000 tokens at 100 a pass are 10 passes; with a new short prompt in every pass half of each is left, 20 passes.
    scheduler = fair(max_tokens_per_step=100)
    (long,) = waiting(scheduler, Named("a", 1000))
    passes = 0
    while not long.is_decoding:
        waiting(scheduler, Named("b", 60, first=passes))
        step(scheduler)
        passes += 1
        for request in [r for r in scheduler.running if r.is_decoding and r is not long]:
            scheduler.remove(request)
    assert 10 < passes <= 20


def test_a_short_prompt_runs_at_once_behind_many_long_ones():
    # 31 prompts of 1,500 tokens at 512 a pass: the short one would come after 91 passes.
    scheduler = fair(n_blocks=20_000, max_tokens_per_step=512)
    waiting(scheduler, *(Named("a", 1500, first=10_000 * i) for i in range(31)))
    steps(scheduler, 2)
    (short,) = waiting(scheduler, Named("s", 20))
    steps(scheduler, 2)
    assert short.is_decoding, "20 tokens wait for 46,500"


# --- the queue ---------------------------------------------------------------------------------------------------


def queue(*lengths):
    return deque(Named(chr(ord("a") + i), n) for i, n in enumerate(lengths))


def order(waiting):
    return "".join(request.name for request in waiting)


def test_a_short_request_goes_before_a_long_one():
    line = queue(40, 30, 10, 9)
    let_a_short_one_pass(line, 4)
    assert order(line) == "dabc", "9 is the shortest, and no more than a quarter of 40"
    assert [request.n_overtaken for request in line] == [0, 1, 1, 1], "all that it passed are counted"


def test_one_that_is_not_short_keeps_its_place():
    line = queue(40, 11)  # a quarter of 40 is 10
    let_a_short_one_pass(line, 4)
    assert order(line) == "ab" and line[0].n_overtaken == 0


def test_among_equally_short_ones_the_first_goes():
    line = queue(40, 5, 5)
    let_a_short_one_pass(line, 4)
    assert order(line) == "bac"


def test_nobody_is_overtaken_more_often_than_allowed_wherever_it_stands():
    line = queue(100, 80, 1, 1, 1, 1)
    for _ in range(10):
        let_a_short_one_pass(line, 3)
        if line[0].name in "cdef":
            line.popleft()  # admitted
    assert order(line)[:2] == "ab" and [request.n_overtaken for request in line][:2] == [3, 3]
    behind = queue(10, 100, 1)
    behind[1].n_overtaken = 3
    let_a_short_one_pass(behind, 3)
    assert order(behind) == "abc", "c would have to pass b, who has let enough pass"


def test_without_overtaking_the_queue_stays_as_it_is():
    line = queue(100, 1)
    let_a_short_one_pass(line, 0)
    assert order(line) == "ab"


@given(st.integers(0, 10_000))
def test_whoever_comes_a_request_waits_for_its_elders_and_a_few_short_ones(seed):
    # A stream of short requests at a server that can run one at a time: the long one's turn comes after max_overtakes.
    chance = random.Random(seed)
    scheduler = fair(max_running=1, max_overtakes=3)
    waiting(scheduler, Named("f", chance.randint(1, 8)))
    step(scheduler)
    (long,) = waiting(scheduler, Named("l", 40))
    served = 0
    while long in scheduler.waiting:
        waiting(scheduler, Named("s", chance.randint(1, 9), first=served))
        scheduler.remove(scheduler.running[0])
        step(scheduler)
        served += scheduler.running[0] is not long
        assert served <= 3, "the long one has been overtaken too often"


# --- room --------------------------------------------------------------------------------------------------------


def answering(scheduler, name, n_computed, n_left):
    """A decoding request that may still write n_left tokens."""
    request = running(scheduler, name, n_computed)
    request.n_prompt, request.max_new_tokens = n_computed, n_left + 1
    return request


def test_newcomers_leave_the_reserve_to_the_answers_of_those_who_run():
    # 10 blocks of 4. r holds 2 and may write 12 more tokens: 3 blocks. With 3 in reserve 5 are left to newcomers.
    for n_prompt, fits in ((20, True), (21, False)):
        scheduler = made(n_blocks=10, reserve=3)
        answering(scheduler, "r", 8, 12)
        (a,) = waiting(scheduler, Named("a", n_prompt))
        step(scheduler)
        assert (a in scheduler.running) is fits, f"{n_prompt} tokens beside 2 blocks held and 3 in reserve"


def test_no_more_is_kept_back_than_the_answers_can_need():
    # r may write 1 more token, for which its second block has room; the reserve of 5 is nobody's need.
    scheduler = made(n_blocks=10, reserve=5)
    answering(scheduler, "r", 7, 1)
    (a,) = waiting(scheduler, Named("a", 32))
    step(scheduler)
    assert a in scheduler.running, "8 blocks are free and nobody will ever ask for them"


def test_the_reserve_keeps_nobody_out_of_an_empty_house():
    scheduler = made(n_blocks=4, reserve=3)
    waiting(scheduler, Named("a", 16))
    assert step(scheduler)[0] == "a16"


def test_what_a_prompt_in_chunks_still_needs_is_not_given_to_newcomers():
    # 6 blocks of 4, 8 tokens a pass. a's 16 tokens need 4 blocks, of which the first pass takes 2; c's 12 need 3.
    scheduler = made(n_blocks=6, max_tokens_per_step=8)
    waiting(scheduler, Named("a", 16), Named("c", 12))
    assert steps(scheduler, 2) == ["a8", "a8"], "c took the blocks that the rest of a's prompt needs"


def test_a_prompt_preempts_nobody_and_waits_for_blocks():
    # 5 blocks of 4, 8 tokens a pass: after its first chunk p holds 2, r 2, and r's growth takes the last one.
    scheduler = made(n_blocks=5, max_tokens_per_step=8)
    waiting(scheduler, Named("p", 12))
    step(scheduler)
    r = running(scheduler, "r", 8)
    said, plan = step(scheduler)
    assert (said, plan.preempted) == ("r1", []), "r decodes; p has to wait for r's blocks"
    scheduler.remove(r)
    assert step(scheduler)[0] == "p4"


def test_a_prompt_runs_as_far_as_the_blocks_go():
    scheduler = made(n_blocks=5, max_tokens_per_step=8)
    waiting(scheduler, Named("p", 16))
    step(scheduler)
    running(scheduler, "r", 7)  # 2 blocks held, the second with one place left: 1 block of 5 is free
    assert step(scheduler)[0] == "r1 p4"


def test_of_two_prompts_that_block_each_other_the_last_is_preempted():
    # Both in the middle of their prompts, no block free, nobody decodes: somebody has to give way, and it is not a.
    scheduler = made(n_blocks=4, max_tokens_per_step=8)
    _, b = in_its_prompt(scheduler, "a", 12, 8), in_its_prompt(scheduler, "b", 12, 8)
    said, plan = step(scheduler)
    assert (said, plan.preempted) == ("a4", [b])


# --- equal beginnings ---------------------------------------------------------------------------------------------


def test_eight_equal_prompts_run_64_tokens_and_hold_16_blocks_for_512():
    # 64 tokens in blocks of 4: 16 blocks. The other seven find 15 of them (one token has to run, so all of the last
    # block does): 7 · 4 tokens, and then the tree's 16th block in place of their own.
    scheduler = with_tree(n_blocks=200)
    waiting(scheduler, *(Named("p", 64, first=0) for _ in range(8)))
    assert steps(scheduler, 2) == ["p64", " ".join(["p1"] + ["p4"] * 7)]
    assert scheduler.allocator.n_used == 16 + 1, "the first one's next token is in a 17th"


def test_a_prompt_waits_only_while_the_other_computes_what_it_shares():
    # b shares 8 tokens of a's 32, at 8 a pass: after the first pass there is nothing to wait for.
    scheduler = with_tree(n_blocks=40, max_tokens_per_step=8)
    a, b = Named("a", 32, first=0), Named("b", 12, first=0)
    b.tokens[8:] = [90, 91, 92, 93]
    waiting(scheduler, a, b)
    assert steps(scheduler, 4) == ["a8"] * 4  # the budget is a's, in order of admission
    assert step(scheduler)[0] == "a1 b4"


@pytest.mark.parametrize("common", [0, 3])
def test_prompts_that_share_no_whole_block_run_side_by_side(common):
    scheduler = with_tree(n_blocks=40)
    a, b = Named("a", 9, first=0), Named("b", 9, first=0)
    b.tokens[common:] = range(90, 99 - common)
    waiting(scheduler, a, b)
    assert step(scheduler)[0] == "a9 b9"


def test_a_prompt_that_waits_for_another_is_admitted_when_that_is_called_off():
    scheduler = with_tree(n_blocks=40, max_tokens_per_step=4)
    a, _ = waiting(scheduler, Named("a", 12, first=0), Named("b", 12, first=0))
    step(scheduler)
    scheduler.remove(a)
    assert step(scheduler)[0] == "b4"


@given(st.lists(st.integers(0, 2), max_size=9), st.lists(st.integers(0, 2), max_size=9))
def test_n_shared_counts_the_equal_tokens_at_the_beginning(one, other):
    by_hand = 0
    while by_hand < min(len(one), len(other)) and one[by_hand] == other[by_hand]:
        by_hand += 1
    assert n_shared(one, other) == by_hand


# --- honest counts ------------------------------------------------------------------------------------------------


def test_what_a_preempted_request_finds_again_is_no_hit():
    scheduler = with_tree(n_blocks=40)
    (a,) = waiting(scheduler, Named("a", 9))
    step(scheduler)
    scheduler.preempt(a)
    step(scheduler)
    assert (scheduler.prefix.statistics.n_hit_tokens, scheduler.prefix.resumed_statistics.n_hit_tokens) == (0, 8)
    assert scheduler.prefix.statistics.hit_rate == 0.0, "nothing was shared; its own 8 tokens were found again"


# --- a pass that fails --------------------------------------------------------------------------------------------


def test_a_pass_taken_back_counts_for_nothing_and_can_be_planned_again():
    scheduler = with_tree(n_blocks=40)
    running(scheduler, "r", 6)
    waiting(scheduler, Named("a", 9))
    plan = scheduler.schedule()
    said = shown(plan)
    scheduler.cancel(plan)
    assert [(request.table.length, request.n_computed) for request in scheduler.running] == [(6, 6), (0, 0)]
    assert shown(scheduler.schedule()) == said


def test_who_was_promised_a_copy_that_was_never_made_begins_anew():
    # a and its fork t share a block that is half full; a's next token goes into a copy of it.
    scheduler = made()
    a, t = running(scheduler, "a", 6), Request([])
    t.tokens = list(a.tokens)
    scheduler.fork(a, t)
    plan = scheduler.schedule()
    assert plan.copies
    scheduler.cancel_copies(plan)
    scheduler.cancel(plan)
    assert (a.table.blocks, a.n_computed, list(scheduler.waiting)) == ([], 0, [a]), "its block never got its contents"
    assert (t.table.length, t.n_computed, scheduler.running) == (6, 6, [t]), "t's keys and values are where they were"
