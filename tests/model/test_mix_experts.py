"""Grades `mix_experts` of `nanolm/model/moe.py` against a loop over positions, and by the work that it does."""

from numbers import Integral

import pytest
import torch
from by_hand import close, name_the_mistake, random
from hypothesis import given, settings
from hypothesis import strategies as st
from operations import Operations

law = settings(max_examples=60)
WRONG_ROWS = "an expert's outputs went to the wrong rows: undo the sort by expert"
NO_SHARES = "shares not applied: an expert's output counts as much as its share"
WRONG_SHARES = "the shares went to the wrong experts: sort them as the rows were sorted"
BEFORE = "the shares were multiplied into x before the expert: they weigh its output, and an expert is not linear"
ONE = "only one expert of each position counts: add up all k of them (+=, not =)"


def run(expert, rows):
    """An expert that can be told from the others by what it does; like a real one it is not linear in its rows."""
    return torch.tanh(rows) * (expert + 1) + expert * rows.flip(-1) ** 2


def choice(n_positions, n_experts, k, seed=0):
    """Random rows, experts and shares; only two thirds of the experts are ever chosen, if k allows."""
    used = max(k, 2 * n_experts // 3)
    experts = random(n_positions, used, seed=seed).argsort(dim=-1)[:, :k]
    return random(n_positions, 4, seed=seed + 1), experts, random(n_positions, k, seed=seed + 2).softmax(dim=-1)


def mixed_by_hand(x, experts, shares):
    """Position after position, choice after choice."""
    rows = torch.zeros_like(x)
    for p in range(len(x)):
        for expert, share in zip(experts[p].tolist(), shares[p].tolist(), strict=True):
            rows[p] += share * run(expert, x[p : p + 1])[0]
    return rows


def mix_mistakes(x, experts, shares):
    k, order = experts.shape[1], experts.flatten().argsort(stable=True)
    y = torch.stack([run(e, x[p // k]) for p, e in enumerate(experts.flatten().tolist())])  # one row a choice
    flat = shares.flatten()[:, None]
    scaled = torch.stack([run(e, x[p // k] * flat[p]) for p, e in enumerate(experts.flatten().tolist())])
    foreign = torch.stack([run(e, x[p % len(x)]) for p, e in enumerate(experts.flatten().tolist())])
    places = torch.arange(len(x))
    weighed = (y * flat).unflatten(0, (-1, k))
    return {
        WRONG_ROWS: (y[order] * flat).unflatten(0, (-1, k)).sum(1),
        f"{WRONG_ROWS}, shares too": (y * flat)[order].unflatten(0, (-1, k)).sum(1),
        f"{WRONG_ROWS}; the same sort a second time does not": (y[order][order] * flat).unflatten(0, (-1, k)).sum(1),
        WRONG_SHARES: (y * flat[order]).unflatten(0, (-1, k)).sum(1),
        BEFORE: scaled.unflatten(0, (-1, k)).sum(1),
        NO_SHARES: y.unflatten(0, (-1, k)).sum(1),
        f"{NO_SHARES}, not 1/k": y.unflatten(0, (-1, k)).mean(1),
        f"{ONE}: the one with the highest id": weighed[places, experts.argmax(1)],
        f"{ONE}: the one with the lowest id": weighed[places, experts.argmin(1)],
        f"{ONE}: the first": weighed[:, 0],
        f"{ONE}: the last": weighed[:, -1],
        "an expert got the rows of other positions: choice i belongs to position i // k": (foreign * flat)
        .unflatten(0, (-1, k))
        .sum(1),
    }


def assert_mixed(actual, x, experts, shares):
    assert actual.shape == x.shape, f"one row a position, {tuple(x.shape)}, not {tuple(actual.shape)}"
    assert actual.dtype == x.dtype, (
        f"x is {x.dtype} and the result {actual.dtype}: begin it with torch.zeros_like(x), which has x's dtype"
    )
    assert close(actual, mixed_by_hand(x, experts, shares), 1e-9), name_the_mistake(
        actual, mix_mistakes(x, experts, shares), "not the sum of share · output over the experts of each position"
    )


# Three positions and three experts, where each mistake gives another result.
FIXED = torch.tensor([[2, 0], [0, 1], [1, 2]]), torch.tensor([[0.7, 0.3], [0.6, 0.4], [0.9, 0.1]], dtype=torch.float64)


def test_the_mistakes_of_a_mixture_differ_from_the_right_answer():
    x = random(3, 4)
    assert not any(close(wrong, mixed_by_hand(x, *FIXED), 1e-3) for wrong in mix_mistakes(x, *FIXED).values())


@pytest.mark.exercise("mix_experts")
def test_mix_experts_gives_an_expert_ids_as_plain_numbers(impl):
    x, seen = random(3, 4), []
    impl.mix_experts(x, *FIXED, lambda expert, rows: seen.append(expert) or run(int(expert), rows))
    wrong = [expert for expert in seen if not isinstance(expert, Integral)]
    assert not wrong, (
        f"run got {wrong[0]!r}, a {type(wrong[0]).__name__}, for an expert's id: run gets an int, since a list of "
        "experts is indexed with it"
    )


@pytest.mark.exercise("mix_experts")
@pytest.mark.parametrize("n_positions", [1, 2, 50])
def test_mix_experts_runs_each_chosen_expert_once_and_no_other(impl, n_positions):
    x, experts, shares = choice(n_positions, 6, 2)
    experts = experts * 2  # ids 0, 2, 4, …: those between are chosen by nobody
    calls = []

    def counted_run(expert, rows):
        calls.append((int(expert), len(rows)))  # what kind of number an id is, another test asks
        return run(expert, rows)

    impl.mix_experts(x, experts, shares, counted_run)
    ran = [expert for expert, _ in calls]
    assert len(ran) == len(set(ran)), (
        f"an expert ran {max(map(ran.count, ran))} times: its weights are read once for all of its positions"
    )
    others = set(ran) - set(experts.flatten().tolist())
    assert not others, f"experts {sorted(others)} ran and nobody chose them: run the chosen, and no other"
    assert set(ran) == set(experts.flatten().tolist()), (
        f"experts {sorted(set(experts.flatten().tolist()) - set(ran))} were chosen and did not run"
    )
    counted = {expert: int((experts == expert).sum()) for expert in ran}
    assert dict(calls) == counted, (
        f"an expert gets the rows that chose it, and no other: {counted} rows, by expert; it got {dict(calls)}"
    )


@pytest.mark.exercise("mix_experts")
def test_mix_experts_of_three_positions_is_the_sum_of_share_times_output(impl):
    x = random(3, 4)
    assert_mixed(impl.mix_experts(x, *FIXED, run), x, *FIXED)


@pytest.mark.exercise("mix_experts")
@pytest.mark.parametrize(("n_positions", "n_experts", "k"), [(7, 5, 2), (1, 5, 2), (1, 3, 1), (4, 6, 6), (20, 9, 3)])
def test_mix_experts_equals_a_loop_over_positions(impl, n_positions, n_experts, k):
    x, experts, shares = choice(n_positions, n_experts, k)
    assert_mixed(impl.mix_experts(x, experts, shares, run), x, experts, shares)


@pytest.mark.exercise("mix_experts")
@law
@given(st.integers(1, 12), st.integers(1, 8), st.data())
def test_mix_experts_equals_a_loop_over_positions_in_every_shape(impl, n_positions, n_experts, data):
    k, seed = data.draw(st.integers(1, n_experts)), data.draw(st.integers(0, 99))
    x, experts, shares = choice(n_positions, n_experts, k, seed)
    assert_mixed(impl.mix_experts(x, experts, shares, run), x, experts, shares)


@pytest.mark.exercise("mix_experts")
def test_mix_experts_does_nothing_position_by_position(impl):
    ran = {}
    for n_positions in (6, 300):
        experts, shares = (each.repeat(n_positions // 3, 1) for each in FIXED)
        with Operations() as operations:
            impl.mix_experts(random(n_positions, 4), experts, shares, run)
        ran[n_positions] = operations.n
    assert ran[300] <= ran[6] + 30, (
        f"{ran[6]} operations of torch at 6 positions and {ran[300]} at 300, with the same three experts: something is "
        "done position by position, and should be done for all rows of an expert at once"
    )
