"""Grades `simulation`: what a slot of the batch does in each step, with static and with continuous batching.

Small timelines are written out; the laws are checked against a reckoning of starts and ends that has no steps.
"""

import heapq
import random
import subprocess
import sys
from itertools import zip_longest

import pytest
from refusal import assert_refuses

from course.grading.seeds import fresh
from nanolm.workload import ServingRun

STATIC = pytest.mark.exercise("simulate_static_batching")
CONTINUOUS = pytest.mark.exercise("simulate_continuous_batching")
BOTH = [
    pytest.param("simulate_static_batching", marks=STATIC, id="simulate_static_batching"),
    pytest.param("simulate_continuous_batching", marks=CONTINUOUS, id="simulate_continuous_batching"),
]


def rows(run):
    """The timeline as text, a word a step: "0-" is request 0 in the first slot and nobody in the second."""
    return " ".join("".join("-" if request is None else str(request) for request in row) for row in run.timeline)


def assert_rows(run, expected):
    """Or a message about the first step that differs."""
    got, wanted = rows(run).split(), expected.split()
    for step, (here, there) in enumerate(zip_longest(got, wanted)):
        what = f"in step {step} the slots are {here}, and they should be {there}"
        if here is None:
            what = f"the run ends after {step} steps, and a step {there} should follow"
        elif there is None:
            idle = not here.strip("-")
            what = f"all have ended after {step} steps, and {'an idle step' if idle else f'a step {here}'} follows"
        assert here == there, f"{what}. Step by step: {rows(run)} for {expected}"


def assert_ends(got, expected, needs, n_slots, arrivals):
    case = f"needs {needs}, {n_slots} slots, arrivals {arrivals}"
    assert got == expected, f"{case}: the requests end at {expected}, here at {got}"


def assert_a_tuple(got):
    assert isinstance(got, tuple), f"return a tuple, a number for each request; got {got!r}"


def assert_steps(run, n_steps, why):
    assert run.n_steps == n_steps, f"{n_steps} steps, {why}; got {run.n_steps}"


def assert_goes_on_to_the_end(simulate):
    """Continuous batching must not end while somebody is at work: 1, or, harder to see, request 0 alone."""
    ends_with_the_line = rows(simulate([1, 3], 2)) == "01"
    assert not ends_with_the_line, "it ended when nobody waited any more, with a request still at work in its slot"
    assert rows(simulate([3], 1)) != "0", (
        "it ended while request 0 was at work: 0 was taken for an empty slot, as any(slots) does; compare with None"
    )


def mixed_loads(n=40):
    """Random (needs, n_slots, arrivals): many and few slots, rushes and lulls, now and then a request for nothing."""
    rng = random.Random(fresh(6))
    for _ in range(n):
        count = rng.randint(1, 14)
        needs = [rng.choice((0, 1, 1, 2, 3, 9)) for _ in range(count)]
        yield needs, rng.randint(1, 5), sorted(rng.randint(0, rng.choice((1, 30))) for _ in range(count))


def static_ends(needs, n_slots, arrivals):
    """When each request ends, batch by batch."""
    ends, line, now = list(arrivals), [i for i, need in enumerate(needs) if need], 0
    while line:
        now = max(now, arrivals[line[0]])
        batch = [i for i in line[:n_slots] if arrivals[i] <= now]
        line = line[len(batch) :]
        for i in batch:
            ends[i] = now + needs[i]
        now += max(needs[i] for i in batch)
    return tuple(ends)


def continuous_ends(needs, n_slots, arrivals):
    """When each request ends: it starts when it has arrived and the slot that is free first is free."""
    ends, free = list(arrivals), [0] * n_slots
    for i, need in enumerate(needs):
        if need:
            ends[i] = max(arrivals[i], free[0]) + need
            heapq.heapreplace(free, ends[i])
    return tuple(ends)


@STATIC
def test_simulate_static_batching_of_4_1_1_1_in_two_slots_takes_5_steps(impl):
    # First 0 and 1: four steps, for three of which the second slot is empty. Then 2 and 3: one. 7 of 10 slot-steps.
    run = impl.simulate_static_batching([4, 1, 1, 1], 2)
    assert rows(run) != "01 02 03 0-", "a slot was refilled while its batch still ran; that is continuous batching"
    assert not rows(run).startswith("32"), "the last of the line was served first"
    assert not rows(run).startswith("01 0- 0- 0- --"), "a step passed between two batches, and nobody was in it"
    assert run.n_steps != 2, "the batch ended with its shortest request; it runs until its longest has ended"
    assert rows(run) != "01 01 0- 0- 23", "request 1 works on after its one step; at work is who needs more than done"
    assert_rows(run, "01 0- 0- 0- 23")
    assert run.n_steps == 5
    assert run.utilisation == pytest.approx(0.7)


@CONTINUOUS
def test_simulate_continuous_batching_of_4_1_1_1_in_two_slots_takes_4_steps(impl):
    # 1, 2 and 3 pass through the second slot while 0 works in the first: 7 of 8 slot-steps.
    assert_goes_on_to_the_end(impl.simulate_continuous_batching)
    run = impl.simulate_continuous_batching([4, 1, 1, 1], 2)  # the last call, which is what `failing` shows
    assert not rows(run).startswith("01 23"), (
        "request 0 lost its slot to 2 after one step: 0 was taken for an empty slot, as `not slots[i]` does; compare "
        "with None"
    )
    assert not all(row == (None, None) for row in run.timeline), "all rows are one list; put a copy into the timeline"
    assert not rows(run).startswith("32"), "the last of the line was served first"
    assert not rows(run).startswith("10"), "the highest slot was taken first; the first of the line takes the lowest"
    assert rows(run) != "01 01 02 02 03 -3", "each works a step longer than it needs: it leaves when none is left"
    assert rows(run) != "01 0- 0- 0- 23", "the free slot waited for the whole batch; that is static batching"
    assert rows(run) != "01 0- 02 0- -3", "a slot stood empty for a step after its request had ended"
    assert_rows(run, "01 02 03 0-")
    assert run.n_steps == 4
    assert run.utilisation == pytest.approx(0.875)


@STATIC
def test_simulate_static_batching_spends_450_passes_on_one_long_request(impl):
    # 64 requests in one batch: after 50 steps 63 have ended, and the last one needs 500. Busy are
    # 500 + 63 · 50 = 3,650 of 500 · 64 = 32,000 slot-steps, 11.4 %.
    run = impl.simulate_static_batching([500] + 63 * [50], 64)
    alone = [row for row in run.timeline if sum(request is not None for request in row) == 1]
    assert_steps(run, 500, "the batch runs until the long request has ended")
    assert len(alone) == 450, f"alone for {len(alone)} passes; it is alone when the others have ended, 500 - 50"
    assert run.utilisation == pytest.approx(0.1140625)


@STATIC
def test_simulate_static_batching_with_8_slots_makes_56_requests_wait_for_one(impl):
    # The first batch takes 500 steps, the seven others 50 each: 850, of whose 6,800 slot-steps 3,650 are busy.
    run = impl.simulate_static_batching([500] + 63 * [50], 8)
    assert_steps(run, 850, "one batch of 500, the long request's, and seven of 50")
    assert run.utilisation == pytest.approx(0.5368, abs=1e-4)
    assert min(run.waited[8:]) == 500, "nobody joins a batch that runs"


@CONTINUOUS
def test_simulate_continuous_batching_with_8_slots_hides_one_long_request_behind_the_others(impl):
    # Seven slots share 63 requests of 50 steps, nine each: 450 steps, less than the long one's 500. 3,650 of 4,000.
    run = impl.simulate_continuous_batching([500] + 63 * [50], 8)
    assert_steps(run, 500, "the long request's; the others share the other seven slots meanwhile")
    assert run.utilisation == pytest.approx(0.9125)


@CONTINUOUS
def test_simulate_continuous_batching_gains_nothing_when_the_long_request_comes_last(impl):
    # Seven rounds of eight, 350 steps; then seven of 50 and the one of 500. First come first served cannot foresee it.
    run = impl.simulate_continuous_batching(63 * [50] + [500], 8)
    assert_steps(run, 850, "seven rounds of eight, and the long one's 500, which came last")


@STATIC
def test_simulate_static_batching_forms_a_batch_from_those_who_have_arrived(impl):
    # 1 comes while 0 runs and waits for its end; then 1 and 2 are there; 3 comes when nothing runs.
    run = impl.simulate_static_batching([3, 1, 2, 1], 2, arrivals=[0, 1, 2, 7])
    assert rows(run) not in ("01 0- 0- 23 2-", "01 0- 0- 23 2- --"), "a request ran before it had arrived"
    assert not rows(run).startswith("-0"), "the first slots stayed empty: a batch is in slots 0, 1, …"
    assert not rows(run).startswith("-- "), "0 waited for a full batch; the batch begins with whoever is there"
    assert not rows(run).endswith("12 -2"), "it ended before 3 had come; while nobody is there, empty steps pass"
    assert_rows(run, "0- 0- 0- 12 -2 -- -- 3-")
    assert run.waited == (0, 2, 1, 0)
    # 7 of 16 slot-steps: the steps in which nobody is there are idle time too.
    assert run.utilisation == pytest.approx(0.4375)


@STATIC
def test_simulate_static_batching_does_not_wait_for_a_full_batch(impl):
    run = impl.simulate_static_batching([2, 2], 2, arrivals=[0, 1])
    assert not rows(run).startswith("-- 01"), "0 waited for a full batch; the batch begins with whoever is there"
    assert_rows(run, "0- 0- 1- 1-")


@CONTINUOUS
def test_simulate_continuous_batching_lets_a_request_join_when_it_arrives(impl):
    run = impl.simulate_continuous_batching([3, 1, 2, 1], 2, arrivals=[0, 1, 2, 7])
    assert rows(run) != "01 02 02 3-", "a request ran before it had arrived"
    assert rows(run) != "0- 01 02 -2", "it ended before 3 had come; while nobody is there, empty steps pass"
    assert rows(run) != "0- 01 02 2- -- -- -- 3-", "2 moved when 0 left its slot; a request keeps its slot to its end"
    assert_rows(run, "0- 01 02 -2 -- -- -- 3-")
    assert run.waited == (0, 0, 0, 0)
    # 7 of 16 slot-steps: the steps in which nobody is there are idle time too.
    assert run.utilisation == pytest.approx(0.4375)


@pytest.mark.parametrize("simulate", BOTH)
def test_simulate_batching_serves_first_come_first_served(impl, simulate):
    run = getattr(impl, simulate)([1, 1, 1, 1, 1], 2)
    assert rows(run) != "43 21 0-", "the last of the line was served first"
    assert_rows(run, "01 23 4-")


@STATIC
def test_simulate_static_batching_ends_a_request_for_nothing_when_it_arrives(impl):
    # 0 works and 1 needs nothing: 2 is the second of the batch. 3 needs nothing when nobody else is there.
    run = impl.simulate_static_batching([1, 0, 1, 0], 2, [0, 0, 0, 5])
    took_a_slot = rows(run).startswith("0- 2-")
    assert not took_a_slot, "a request that needs no step took a slot of the batch, and 2 waited for the next one"
    assert_rows(run, "02")
    assert run.finished_at == (1, 0, 1, 5), f"request 1 ends at 0 and request 3 at 5; all end at {run.finished_at}"
    assert run.waited == (0, 0, 0, 0), f"nobody waits; {run.waited}"


@CONTINUOUS
def test_simulate_continuous_batching_ends_a_request_for_nothing_when_it_arrives(impl):
    run = impl.simulate_continuous_batching([0, 1, 0, 1], 1, [0, 0, 1, 1])
    assert not {"0", "2"} & set(rows(run)), "a request that needs no step takes no slot, not even for a moment"
    assert_rows(run, "1 3")
    assert run.finished_at == (0, 1, 1, 2), f"they end at 0, 1, 1 and 2; here at {run.finished_at}"
    assert run.waited == (0, 0, 0, 0), f"nobody waits; {run.waited}"


@pytest.mark.parametrize("simulate", BOTH)
def test_simulate_batching_gives_a_request_one_slot_until_it_has_its_tokens(impl, simulate):
    for needs, n_slots, arrivals in mixed_loads():
        run = getattr(impl, simulate)(needs, n_slots, arrivals)
        for request, need in enumerate(needs):
            places = [(step, row.index(request)) for step, row in enumerate(run.timeline) if request in row]
            case = f"request {request} of needs {needs}, arrivals {arrivals}, {n_slots} slots"
            assert need or not places, f"{case}: a request that needs no step takes no slot, not even for a moment"
            assert len(places) == need, f"{case}: it ran {len(places)} steps and needs {need}"
            if need:
                first, slot = places[0]
                assert first >= arrivals[request], f"{case}: it ran at step {first}, before it had arrived"
                assert places == [(first + i, slot) for i in range(need)], f"{case}: it stopped or changed its slot"
        assert not run.timeline or any(request is not None for request in run.timeline[-1]), "an idle step at the end"


@STATIC
def test_simulate_static_batching_ends_each_request_when_a_reckoning_by_batches_does(impl):
    for needs, n_slots, arrivals in mixed_loads():
        got = impl.simulate_static_batching(needs, n_slots, arrivals).finished_at
        assert_ends(got, static_ends(needs, n_slots, arrivals), needs, n_slots, arrivals)


@CONTINUOUS
def test_simulate_continuous_batching_ends_each_request_when_a_queue_with_several_clerks_does(impl):
    for needs, n_slots, arrivals in mixed_loads():
        got = impl.simulate_continuous_batching(needs, n_slots, arrivals).finished_at
        assert_ends(got, continuous_ends(needs, n_slots, arrivals), needs, n_slots, arrivals)


@CONTINUOUS
def test_simulate_continuous_batching_refills_the_lowest_free_slot_first(impl):
    # 0 and 2 end together after the first step: 3 takes slot 0, 4 slot 2.
    got = rows(impl.simulate_continuous_batching([1, 2, 1, 1, 1], 3))
    assert got != "012 134", "1 moved when 0 left its slot; a request keeps its slot to its end"
    assert got != "012 413", "the first of the line takes the lowest free slot"
    assert got == "012 314", f"012, then 314 was expected; got {got}"


@pytest.mark.parametrize("simulate", BOTH)
def test_simulate_batching_of_no_requests_takes_no_step(impl, simulate):
    run = getattr(impl, simulate)([], 3)
    assert run.n_steps == 0, f"no request takes no step, and here are {run.n_steps}"
    assert (run.utilisation, run.finished_at, run.mean_latency) == (0.0, (), 0.0)


def run_of(simulate, *arguments):
    """The run, or a message about rows that are too short."""
    try:
        return simulate(*arguments)
    except ValueError as error:
        if "n_slots" in str(error):
            n_slots = arguments[1]
            pytest.fail(f"every row has an entry for each of the {n_slots} slots, None where nobody works ({error})")
        raise


@STATIC
def test_simulate_static_batching_leaves_slots_empty_that_no_request_needs(impl):
    run = run_of(impl.simulate_static_batching, [2, 1], 4)
    ends_with_its_shortest = rows(impl.simulate_static_batching([3, 2], 2)) == "01 01"
    assert not ends_with_its_shortest, "the batch ended with its shortest request; it runs until its longest has ended"
    assert rows(run) != "01-- 01--", "request 1 works on after its one step"
    assert not rows(run).startswith("--"), "the first slots stayed empty: a batch is in slots 0, 1, …"
    assert_rows(run, "01-- 0---")


@CONTINUOUS
def test_simulate_continuous_batching_leaves_slots_empty_that_no_request_needs(impl):
    run = run_of(impl.simulate_continuous_batching, [2, 1], 4)
    assert_goes_on_to_the_end(impl.simulate_continuous_batching)
    assert rows(run) != "01-- 01--", "request 1 works on after its one step"
    assert rows(run) != "--10 ---0", "the highest slot was taken first; the first of the line takes the lowest"
    assert_rows(run, "01-- 0---")


@pytest.mark.parametrize("simulate", BOTH)
def test_simulate_batching_leaves_its_arguments_as_they_were(impl, simulate):
    needs, arrivals = [2, 1, 3], [0, 0, 1]
    getattr(impl, simulate)(needs, 2, arrivals)
    assert (needs, arrivals) == ([2, 1, 3], [0, 0, 1]), "count down in a copy of needs"


BAD_INPUT = [
    ("n_slots", [1], 0, None),
    ("n_slots", [1], -1, None),
    ("n_slots", [1], 1.5, None),
    ("needs", [1, -1], 2, None),
    ("needs", [1.5], 2, None),
    ("arrivals", [1, 1], 2, [0]),
    ("arrivals", [1, 1], 2, [0, 0, 0]),
    ("arrivals", [1, 1], 2, [1, 0]),
    ("arrivals", [1], 2, [-1]),
    ("arrivals", [1], 2, [0.5]),
]


@STATIC
@pytest.mark.parametrize(("blamed", "needs", "n_slots", "arrivals"), BAD_INPUT)
def test_simulate_static_batching_refuses_bad_input(impl, blamed, needs, n_slots, arrivals):
    assert_refuses(blamed, impl.simulate_static_batching, needs, n_slots, arrivals)


@CONTINUOUS
@pytest.mark.parametrize(("blamed", "needs", "n_slots", "arrivals"), BAD_INPUT)
def test_simulate_continuous_batching_refuses_bad_input(impl, blamed, needs, n_slots, arrivals):
    assert_refuses(blamed, impl.simulate_continuous_batching, needs, n_slots, arrivals)


@pytest.mark.exercise("ServingRun.utilisation")
def test_utilisation_is_slots_at_work_over_steps_times_slots(impl):
    # Request 0 is a request like any other. 3 of 8; without the steps in which nothing runs 3 of 4.
    run = impl.ServingRun(((0, None), (0, 1), (None, None), (None, None)), 2, (0, 1))
    assert run.utilisation != pytest.approx(1 / 8), "request 0 was taken for an empty slot; compare with None"
    assert run.utilisation != pytest.approx(0.75), "a step in which nothing runs counts too"
    assert run.utilisation != pytest.approx(0.625), "the empty slots were counted, not those at work"
    assert run.utilisation != pytest.approx(37.5), "a share from 0 to 1, not per cent"
    assert run.utilisation == pytest.approx(0.375), f"3 of 8 places are taken: 0.375, not {run.utilisation}"
    try:
        empty = impl.ServingRun((), 2, ()).utilisation
    except ZeroDivisionError:
        pytest.fail("a run without a step has 0 seats, by which nothing can be divided; its utilisation is 0.0")
    assert empty == 0.0


@pytest.mark.exercise("ServingRun.finished_at")
def test_finished_at_counts_the_step_in_which_a_request_ends(impl):
    # Request 1 has its last token after steps 0, 1 and 2: three steps.
    run = impl.ServingRun(((None,), (0,), (1,)), 1, (0, 1))
    assert_a_tuple(run.finished_at)
    assert run.finished_at != (1, 2), "its last step is over when the next one begins: one more"
    assert run.finished_at != (2, 2), "less the arrival, that is the latency; steps are counted from step 0 here"
    assert run.finished_at != (1, 1), "the steps at work are counted; the end is the number of steps run until then"
    assert run.finished_at == (2, 3), f"request 0 ends when 2 steps have been run and 1 after 3; got {run.finished_at}"


# Request 1 arrives at step 1 and needs no token, so it is in no row.
NEVER_RAN = (((0,), (0,)), 1, (0, 1))


@pytest.mark.exercise("ServingRun.finished_at")
def test_finished_at_of_a_request_that_needs_no_step_is_its_arrival(impl):
    try:
        got = impl.ServingRun(*NEVER_RAN).finished_at
    except KeyError:
        pytest.fail("request 1 never ran, so it is not in _steps_at_work: use get, with a default")
    assert_a_tuple(got)
    assert got != (2, 0), "request 1 never ran and arrived at step 1; it ended then, and not at 0"
    assert got != (2, 2), "request 1 never ran; it had ended when it arrived, not a step later"
    assert got[:1] == (2,), f"request 0's last step is number 1, so 2 steps had been run when it ended, not {got[:1]}"
    assert got == (2, 1), f"request 1 never ran; it ended when it arrived, at 1, not at {got[1:]}"


@pytest.mark.exercise("ServingRun.waited")
def test_waited_counts_from_a_request_s_own_arrival(impl):
    run = impl.ServingRun(((None,), (0,), (None,), (1,)), 1, (1, 2))
    assert_a_tuple(run.waited)
    assert run.waited != (1, 3), "counted from step 0, not from the arrival"
    assert run.waited != (1, 2), "its first step was counted as waiting too"
    assert run.waited != (0, -1), "the arrival less the first step: the other way round"
    assert run.waited == (0, 1), f"request 0 starts as it arrives, 1 a step after; got {run.waited}"


@pytest.mark.exercise("ServingRun.waited")
def test_waited_of_a_request_that_needs_no_step_is_nothing(impl):
    try:
        got = impl.ServingRun(*NEVER_RAN).waited
    except KeyError:
        pytest.fail("request 1 never ran, so it is not in _steps_at_work: use get, with a default")
    assert got != (0, -1), "request 1 never ran: with 0 for its start it waited -1 steps; take its arrival"
    assert got == (0, 0), "request 1 needs no step, so it has waited for none"


@pytest.mark.exercise("ServingRun.latencies")
def test_latencies_are_what_a_request_waited_and_what_it_ran(impl):
    # Request 0 has a pause: it works at steps 1 and 4. From its arrival at 1 to its end at 5 are 4 steps.
    run = impl.ServingRun(((None,), (0,), (1,), (None,), (0,)), 1, (1, 0))
    assert_a_tuple(run.latencies)
    assert run.latencies != (5, 3), "counted from step 0, not from the arrival"
    assert run.latencies != (5, 1), "the end less the wait; it is the end less the arrival"
    assert run.latencies != (5, 4), "one step too many: the end is the number of steps run, and no step more"
    assert run.latencies != (2, 3), "what it waited before its first step and what it worked, without the pause between"
    assert run.latencies != (2, 1), "steps at work alone; those that it waited count too"
    assert run.latencies != (0, 2), "the wait alone; the steps at work count too"
    assert run.latencies == (4, 3), f"from arrival to end, 4 steps and 3; got {run.latencies}"
    assert run.mean_latency == 3.5


def test_continuous_batching_of_the_worked_example_has_the_lower_mean_latency():
    # Ends, all arrived at 0: static 4, 1, 5, 5, mean 3.75; continuous 4, 1, 2, 3, mean 2.5.
    static = ServingRun(((0, 1), (0, None), (0, None), (0, None), (2, 3)), 2, (0,) * 4)
    continuous = ServingRun(((0, 1), (0, 2), (0, 3), (0, None)), 2, (0,) * 4)
    assert (static.mean_latency, continuous.mean_latency) == (3.75, 2.5)


def test_a_timeline_that_does_not_have_the_slots_is_refused():
    with pytest.raises(ValueError, match=r"timeline\[1\] has 1 entries; it must have n_slots, 2"):
        ServingRun(((0, None), (0,)), 2, (0,))


def test_simulators_and_traces_do_without_torch():
    code = "import sys, nanolm.workload.simulation, nanolm.workload.trace; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
