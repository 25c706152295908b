"""Grades `attention/across.py`: processes are played by threads (talking.py); the oracle is one softmax of all keys."""

import math

import pytest
import torch
from by_hand import close, random
from hypothesis import given, settings
from hypothesis import strategies as st
from talking import Stuck, talk

from nanolm.attention import SoftmaxState

law = settings(max_examples=25)
LN2 = math.log(2)


def state_of(scores, values):
    """Straight from the definition, all keys at once; without a key the empty state."""
    if not scores.shape[-1]:
        return SoftmaxState.empty(values.new_zeros(*scores.shape[:-1], values.shape[-1]))
    maximum = scores.amax(-1, keepdim=True)
    weights = (scores - maximum).exp()
    return SoftmaxState(maximum, weights.sum(-1, keepdim=True), weights @ values)


def row(*numbers):
    return torch.tensor([numbers], dtype=torch.float64)


def merged(impl, states):
    """What all processes return; what they send and nobody receives, or wait for in vain, fails the test."""
    try:
        done = talk(impl.merge_across, states)
    except Stuck as stuck:
        pytest.fail(f"{stuck}. Whom a process sends to must wait for it, and both partners send before they receive")
    assert not done.unread, "process {} sent a state to process {}, which never received it".format(*done.unread[0])
    return done


@pytest.mark.exercise("merge_across")
def test_merge_across_two_processes_by_hand(impl):
    # Scores 0 and ln 2 in one, ln 4 in the other; values 3, 6 and 12. Relative to ln 4: total 1/4 + 1/2 + 1 = 1.75,
    # weighted 3/4 + 3 + 12 = 15.75, mean 9.
    states = [state_of(row(0, LN2), row(3, 6).T), state_of(row(2 * LN2), row(12).T)]
    for rank, state in enumerate(merged(impl, states).results):
        found = (round(state.total.item(), 9), round(state.weighted.item(), 9))
        assert found != (2.5, 19.5), "no rescaling: a state's sums are relative to its own maximum; `merge` knows that"
        assert not close(state.result(), row(8.5)), "the mean of two means: 5 stands for two keys and 12 for one"
        assert found == (1.75, 15.75), f"process {rank}: total and weighted must be 1.75 and 15.75; got {found}"
        assert math.isclose(state.maximum.item(), 2 * LN2)


@pytest.mark.exercise("merge_across")
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7, 8, 13])
def test_merge_across_counts_every_process_s_keys_once(impl, size):
    # Process r has one key of score 0 and as its value 1 at place r: `weighted` says how often each was counted.
    states = [state_of(row(0), torch.eye(size, dtype=torch.float64)[[rank]]) for rank in range(size)]
    for rank, state in enumerate(merged(impl, states).results):
        counts = [round(count) for count in state.weighted[0].tolist()]
        for other, count in enumerate(counts):
            assert count, f"of {size} processes, {rank} misses the keys of process {other}"
            assert count == 1, f"of {size} processes, {rank} counts the keys of process {other} {count} times"


@pytest.mark.exercise("merge_across")
@pytest.mark.parametrize("size", [3, 4, 7, 8, 12])
def test_merge_across_gives_every_process_the_same_bits(impl, size):
    states = [
        state_of(random(4, 5, seed=rank).float() * 3, random(5, 6, seed=rank + 50).float()) for rank in range(size)
    ]
    first, *others = merged(impl, states).results
    for rank, state in enumerate(others, start=1):
        assert all(map(torch.equal, state, first)), (
            f"process {rank} of {size} differs from process 0 in the last bits: added up in another order. Two that "
            "sample with one seed would some day write different tokens"
        )


@pytest.mark.exercise("merge_across")
@pytest.mark.parametrize(("size", "most"), [(2, 2), (3, 2), (4, 3), (16, 5), (33, 6), (64, 7)])
def test_merge_across_sends_about_as_many_states_as_the_number_of_processes_has_digits(impl, size, most):
    # ⌊log₂ 33⌋ + 1 = 6. Round a circle it would be 32.
    sent = max(merged(impl, [state_of(row(0), row(1))] * size).n_sent)
    assert sent <= most, f"{size} processes, and one sent {sent} states; {most} are enough if each round doubles"


@pytest.mark.exercise("merge_across")
@law
@given(sizes=st.lists(st.integers(0, 5), min_size=1, max_size=9), seed=st.integers(0, 99))
def test_merge_across_any_ranges_is_one_softmax(impl, sizes, seed):
    scores, values = random(3, sum(sizes) + 1, seed=seed) * 20, random(sum(sizes) + 1, 4, seed=seed + 1)
    sizes = [*sizes, 1]  # one key at least
    states = [state_of(s, v) for s, v in zip(scores.split(sizes, -1), values.split(sizes, -2), strict=True)]
    for state in merged(impl, states).results:
        assert close(state.result(), torch.softmax(scores, -1) @ values), f"ranges of {sizes} keys"


@pytest.mark.exercise("merge_across")
@pytest.mark.parametrize("without", [0, 1, 2])
def test_merge_across_takes_part_without_a_key_too(impl, without):
    states = [state_of(row(0), row(3)) for _ in range(3)]
    states[without] = SoftmaxState.empty(row(0))
    for rank, state in enumerate(merged(impl, states).results):
        found = (state.total.item(), state.weighted.item())
        assert found == (2, 6), f"process {without} has met no key, the others one each; process {rank} found {found}"


@pytest.mark.exercise("merge_across")
def test_merge_across_of_processes_without_a_key_gives_0(impl):
    for state in merged(impl, [SoftmaxState.empty(row(0, 0)) for _ in range(3)]).results:
        assert state.result().tolist() == [[0, 0]], "no process has met a key: the result is 0, not NaN"


@pytest.mark.exercise("merge_across")
def test_merge_across_leaves_the_state_it_got_as_it_was(impl):
    states = [state_of(row(rank), row(rank + 1)) for rank in range(3)]
    before = [[part.clone() for part in state] for state in states]
    merged(impl, states)
    for state, parts in zip(states, before, strict=True):
        assert all(map(torch.equal, state, parts)), "a state handed in was changed in place"
