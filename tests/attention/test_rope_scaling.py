"""`nanolm/attention/rope_scaling.py`: what each way does to the fastest pair, to the slowest, and to a long text."""

import math

import pytest
import torch
from by_hand import close

from nanolm.attention import ScaledRotaryTable, apply_rope, rotary_table, scaled_speeds
from nanolm.rope_scaling import RopeScaling

H, THETA = 64, 10_000.0
PLAIN = torch.tensor([THETA ** (-2 * i / H) for i in range(H // 2)], dtype=torch.float64)


def scaling(kind, original=128, max_positions=512, **values):
    return RopeScaling(kind, original, tuple(sorted(values.items())), max_positions)


def speeds(n_positions=10, **values):
    return scaled_speeds(H, THETA, scaling(**values), n_positions)


def test_linear_presses_all_positions_together():
    found, factor = speeds(kind="linear", factor=4.0)
    assert close(found, PLAIN / 4) and factor == 1


def test_llama3_leaves_fast_pairs_and_presses_slow_ones_together():
    found, _ = speeds(kind="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)
    turns = 128 * PLAIN / (2 * math.pi)  # in the original context
    assert close(found[turns > 4], PLAIN[turns > 4]) and close(found[turns < 1], PLAIN[turns < 1] / 8)
    between = (turns > 1) & (turns < 4)
    assert between.any() and ((found < PLAIN) & (found > PLAIN / 8))[between].all()


def test_yarn_leaves_fast_pairs_presses_slow_ones_together_and_raises_scores():
    found, factor = speeds(kind="yarn", factor=4.0)
    assert close(found[:1], PLAIN[:1]) and close(found[-1:], PLAIN[-1:] / 4)
    assert (found[1:] < found[:-1]).all(), "no pair overtakes another"
    assert math.isclose(factor, 0.1 * math.log(4) + 1)  # Peng 2023, equation 22


def test_yarn_without_a_factor_takes_the_ratio_of_the_contexts():
    assert close(speeds(kind="yarn")[0], speeds(kind="yarn", factor=4.0)[0])


def test_dynamic_changes_nothing_within_the_context_and_slows_down_beyond():
    assert close(speeds(kind="dynamic", factor=4.0, n_positions=128)[0], PLAIN)
    longer, longest = (speeds(kind="dynamic", factor=4.0, n_positions=n)[0] for n in (256, 512))
    assert longer[0] == 1 and (longest[1:] < longer[1:]).all() and (longer[1:] < PLAIN[1:]).all()


def test_longrope_takes_other_factors_for_longer_texts():
    factors = dict(short_factor=(1.0,) * (H // 2), long_factor=tuple(range(1, H // 2 + 1)))
    within, beyond = (speeds(kind="longrope", n_positions=n, **factors) for n in (128, 129))
    assert close(within[0], PLAIN) and close(beyond[0], PLAIN / torch.arange(1, H // 2 + 1))
    assert math.isclose(within[1], math.sqrt(1 + math.log(4) / math.log(128)))


def test_proportional_turns_the_first_pairs_alone():
    found, _ = speeds(kind="proportional", partial_rotary_factor=0.25)
    assert close(found[:8], PLAIN[:8]) and not found[8:].any()


@pytest.mark.parametrize("offset", [0, 5, torch.tensor([0, 3])])
def test_a_table_turns_by_the_scaled_angles(offset):
    table, x = ScaledRotaryTable(H, THETA, scaling("linear", factor=4.0)), torch.randn(2, 1, 4, H).double()
    quarter = torch.tensor([[float(o)] for o in (offset if isinstance(offset, torch.Tensor) else [offset])])
    angles = (quarter + torch.arange(4))[:, None, :, None].double() / 4 * PLAIN
    a, b = x.chunk(2, dim=-1)
    expected = torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], dim=-1)
    assert close(apply_rope(x, table.rotation(offset, 4, 12, x)), expected)


def test_a_table_whose_angles_follow_the_length_forgets_those_of_another_length():
    table, like = rotary_table(H, THETA, scaling("dynamic", factor=4.0)), torch.zeros(1).double()
    short = table.rotation(0, 128, 128, like).cos
    long = table.rotation(0, 128, 400, like).cos
    assert not torch.equal(short, long) and torch.equal(short, table.rotation(0, 128, 100, like).cos[:128])
