"""Grades `nanolm/attention/rope.py` against complex multiplication, one position at a time (by_hand.py)."""

import math

import pytest
import torch
from by_hand import close, name_the_mistake, random, rotate
from refusal import assert_refuses

from nanolm.attention import RotaryTable, Rotation, apply_rope

FORGOTTEN_OFFSET = "position offset: the new token was rotated as position 0"


CUT_AND_JOINED = (
    "position 0 changed the order of the numbers: 2i and 2i + 1 were paired, and put back at i and i + H/2 (they are "
    "the pair)"
)
JOINED_AND_CUT = (
    "position 0 changed the order of the numbers: i and i + H/2 were paired, and put back at 2i and 2i + 1 (their "
    "places are i and i + H/2)"
)


def alternately(x):
    """The numbers at even places before those at odd ones, as indices, and the way back."""
    H = x.shape[-1]
    order = [*range(0, H, 2), *range(1, H, 2)]
    return order, torch.tensor(order).argsort()


def mistakes(x, positions, theta=10_000.0):
    """What comes out under each common mistake."""
    interleaved, back = alternately(x)
    return {
        f"{FORGOTTEN_OFFSET}; its angle is (offset + t) · theta^(-2i/H)": rotate(x, range(len(positions)), theta),
        "every token was rotated as if it stood at the offset: token t stands at offset + t": rotate(
            x, [positions[0]] * len(positions), theta
        ),
        "the pairs turn the wrong way: the result is (a·cos - b·sin, b·cos + a·sin)": rotate(
            x, [-t for t in positions], theta
        ),
        "numbers 2i and 2i + 1 were paired: in the layout of Llama checkpoints i is paired with i + H/2": rotate(
            x[..., interleaved], positions, theta
        )[..., back],
        CUT_AND_JOINED: rotate(x[..., interleaved], positions, theta),
        JOINED_AND_CUT: rotate(x, positions, theta)[..., back],
        "theta was ignored: 10,000 is only its default": rotate(x, positions, 10_000.0),
        "position 0 was turned, by one position: do positions start at 1?": rotate(
            x, [t + 1 for t in positions], theta
        ),
        "a rotation changes no length: is a sign missing? (a·cos - b·sin, b·cos + a·sin)": torch.cat(
            [rotate(x, [sign * t for t in positions], theta).chunk(2, -1)[i] for i, sign in enumerate((-1, 1))], dim=-1
        ),
        "all pairs turn alike: pair i turns by position · theta^(-2i/H)": rotate(x, positions, 1.0),
        "the exponent is -i/H: it must be -2i/H, so that the slowest pair reaches 1/theta": rotate(
            x, positions, theta**0.5
        ),
    }


def check_rotation(actual, x, positions, theta=10_000.0, tolerance=1e-12):
    expected = rotate(x, positions, theta)
    assert actual.shape == x.shape, f"shape {tuple(x.shape)} went in and {tuple(actual.shape)} came out"
    assert actual.dtype == x.dtype, f"{x.dtype} went in and {actual.dtype} came out: the result has the dtype of x"
    otherwise = "the angles are not those of the formula"
    if close(actual.double(), expected, 0.1):
        otherwise = "nearly right: were the angles computed in float32? Positions, speeds and angles want float64"
    assert close(actual, expected, tolerance), name_the_mistake(actual, mistakes(x, positions, theta), otherwise)


@pytest.mark.exercise("apply_rope")
@pytest.mark.parametrize(("offset", "T"), [(0, 7), (3, 4), (6, 1), (1, 1), (40, 3)])
def test_apply_rope_turns_each_pair_as_complex_multiplication_does(impl, offset, T):
    x = random(2, 3, T, 8)
    check_rotation(impl.apply_rope(x.clone(), offset), x, range(offset, offset + T))


@pytest.mark.exercise("apply_rope")
@pytest.mark.parametrize("offset", [1, 3, 6])
def test_rope_offset_matches_slicing(impl, offset):
    x = random(2, 3, 7, 8)
    whole = impl.apply_rope(x.clone(), 0)
    rest = impl.apply_rope(x[:, :, offset:].clone(), offset)
    assert close(rest, whole[:, :, offset:]), name_the_mistake(
        rest,
        {FORGOTTEN_OFFSET: rotate(x[:, :, offset:], range(7 - offset))},
        f"rotating positions {offset} to 6 alone differs from rotating 0 to 6 and slicing: the offset is misread",
    )


@pytest.mark.exercise("apply_rope")
def test_apply_rope_turns_the_first_pair_by_one_radian_a_position(impl):
    # H = 4, theta = 10,000: pair 0 is (x0, x2) and turns by 1 radian a position, pair 1 is (x1, x3) and turns by
    # 10,000^(-2/4) = 1/100. cos 1 = 0.540302, sin 1 = 0.841471; cos 0.01 = 0.999950, sin 0.01 = 0.0099998.
    x = torch.tensor([1.0, 1.0, 0.0, 0.0], dtype=torch.float64).view(1, 1, 1, 4)
    expected = torch.tensor([0.540302, 0.999950, 0.841471, 0.0099998], dtype=torch.float64).view(1, 1, 1, 4)
    actual = impl.apply_rope(x.clone(), 1)
    assert close(actual, expected, 1e-6), name_the_mistake(actual, mistakes(x, [1]), f"got {actual.flatten().tolist()}")


@pytest.mark.exercise("apply_rope")
def test_apply_rope_leaves_position_zero_as_it_is(impl):
    x = random(1, 2, 1, 6)
    turned = impl.apply_rope(x.clone(), 0)
    order, back = alternately(x)
    assert close(turned, x), name_the_mistake(
        turned,
        {
            CUT_AND_JOINED: x[..., order],
            JOINED_AND_CUT: x[..., back],
            "the angle at position 0 is 0: nothing may turn (do positions start at 1?)": rotate(x, [1]),
        },
        "the angle at position 0 is 0: nothing may turn",
    )


@pytest.mark.exercise("apply_rope")
def test_apply_rope_uses_the_theta_it_is_given(impl):
    x = random(1, 2, 3, 8)
    check_rotation(impl.apply_rope(x.clone(), 5, theta=500_000.0), x, range(5, 8), theta=500_000.0)


@pytest.mark.exercise("apply_rope")
def test_apply_rope_keeps_the_length_of_every_vector(impl):
    x = random(2, 3, 5, 8)
    lengths = impl.apply_rope(x.clone(), 9).norm(dim=-1)
    assert close(lengths, x.norm(dim=-1), 1e-6), "a rotation changes no length: is a sign missing?"


@pytest.mark.exercise("apply_rope")
def test_apply_rope_makes_scores_depend_on_the_distance_alone(impl):
    q, k = random(1, 1, 1, 8, seed=1), random(1, 1, 1, 8, seed=2)
    near = (impl.apply_rope(q.clone(), 7) * impl.apply_rope(k.clone(), 4)).sum()
    far = (impl.apply_rope(q.clone(), 107) * impl.apply_rope(k.clone(), 104)).sum()
    assert close(near, far, 1e-4), (
        "query 7 with key 4 and query 107 with key 104 are 3 apart both: their scores must be equal"
    )


@pytest.mark.exercise("apply_rope")
@pytest.mark.parametrize("offset", [1021, 4095, 30_000])
def test_apply_rope_is_exact_at_far_positions(impl, offset):
    # 1e-9: the angle itself is rounded, and at position 30,000 by up to 4e-12.
    x = random(1, 1, 4, 8)
    check_rotation(impl.apply_rope(x.clone(), offset), x, range(offset, offset + 4), tolerance=1e-9)


@pytest.mark.exercise("apply_rope")
def test_apply_rope_takes_one_offset_per_row(impl):
    x = random(3, 2, 4, 6)
    actual = impl.apply_rope(x.clone(), torch.tensor([0, 5, 2]))
    expected = torch.cat([rotate(x[b : b + 1], range(o, o + 4)) for b, o in enumerate((0, 5, 2))])
    suspects = {"every row was rotated by the first row's offset": rotate(x, range(4))}
    assert close(actual, expected), name_the_mistake(
        actual,
        suspects,
        "row b's vectors stand at positions offset[b], offset[b] + 1, … (if an int offset fails too, mend that first)",
    )


@pytest.mark.exercise("apply_rope")
@pytest.mark.parametrize("positions", [[[4, 0, 9]], [[4, 0, 9], [1, 2, 30]]], ids=["rows alike", "each its own"])
def test_apply_rope_takes_every_position_by_itself(impl, positions):
    x = random(2, 3, 3, 6)
    actual = impl.apply_rope(x.clone(), torch.tensor(positions))
    rows = positions * 2 if len(positions) == 1 else positions
    expected = torch.cat([rotate(x[b : b + 1], row) for b, row in enumerate(rows)])
    firsts = [torch.cat([rotate(x[b : b + 1], range(row[0], row[0] + 3)) for b, row in enumerate(rows)])]
    assert close(actual, expected), name_the_mistake(
        actual,
        {"the first position was taken for an offset: (B, T) integers are the positions themselves": firsts[0]},
        "an offset of shape (B, T) or (1, T) holds every vector's own position (`positions_of` leaves it as it is)",
    )


@pytest.mark.exercise("apply_rope")
@pytest.mark.parametrize("rows", [1, 2], ids=["rows alike", "each its own"])
def test_apply_rope_uses_a_rotation_as_it_is(impl, rows):
    # cos and sin of angles that belong to no position, so that nobody can have computed them anew.
    x, angles = random(2, 3, 4, 6), random(rows, 1, 4, 3, seed=1)
    cos, sin = (part if rows == 2 else part[0, 0] for part in (angles.cos(), angles.sin()))
    a, b = x[..., :3], x[..., 3:]
    c, s = angles.cos(), angles.sin()
    expected = torch.cat([a * c - b * s, b * c + a * s], dim=-1)
    assert close(impl.apply_rope(x.clone(), Rotation(cos, sin)), expected), (
        "an offset that is a Rotation holds cos and sin already, looked up once for all layers: use them as they are"
    )


@pytest.mark.exercise("apply_rope")
def test_apply_rope_keeps_the_number_type(impl):
    for dtype in (torch.float32, torch.bfloat16):
        assert impl.apply_rope(random(1, 1, 2, 4).to(dtype), 3).dtype == dtype, "the result has the dtype of x"


@pytest.mark.exercise("apply_rope")
def test_apply_rope_leaves_its_argument_alone(impl):
    x = random(1, 2, 3, 4)
    before = x.clone()
    impl.apply_rope(x, 5)
    assert torch.equal(x, before), "x was changed in place: the keys would be rotated twice"


@pytest.mark.exercise("apply_rope")
def test_apply_rope_refuses_a_negative_offset(impl):
    assert_refuses("offset", impl.apply_rope, random(1, 1, 1, 4), -1)


def test_a_negative_offset_is_refused_with_its_value_and_what_is_allowed():
    with pytest.raises(ValueError, match=r"offset is -1; .* must be 0 or more"):
        apply_rope(random(1, 1, 1, 4), -1)


def test_float32_angles_are_accurate_at_far_positions():
    # float32 holds 30,000 radians to within 0.001 only: angles must be made in float64 and rounded as sin and cos.
    x = random(1, 1, 1, 8)
    actual = apply_rope(x.float(), 30_000).double()
    assert close(actual, rotate(x, [30_000]), 1e-6), "the angle was computed in float32: its error is 30,000 · 2^-24"


# --- RotaryTable -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "offset", [0, 3, 1020, torch.tensor([0, 5, 2]), torch.tensor([1020, 3, 1500]), torch.tensor([[7, 7, 0, 4095]])]
)
def test_a_table_gives_the_rotation_that_apply_rope_computes(offset):
    # 1,020 + 4 positions fill the first table of 1,024; 1,500 and 4,095 want larger ones.
    x = random(3, 2, 4, 6)
    longest = offset + 4 if isinstance(offset, int) else int(offset.max()) + 4
    rotation = RotaryTable(6, 500.0).rotation(offset, 4, longest, x)
    assert close(apply_rope(x, rotation), apply_rope(x, offset, 500.0), 1e-12)


def test_a_table_grows_with_the_text_and_keeps_what_it_has():
    table, x = RotaryTable(6, 10_000.0), random(1, 1, 1, 6)
    first = table.rotation(2, 1, 3, x).cos
    assert table.rotation(900, 1, 901, x).cos.data_ptr() > first.data_ptr(), "the same table serves up to 1,024"
    far = table.rotation(5000, 1, 5001, x)
    assert close(apply_rope(x, far), rotate(x, [5000]), 1e-9)
    assert close(table.rotation(2, 1, 3, x).cos, first)


def test_a_table_follows_the_dtype_of_the_model():
    table = RotaryTable(8, 10_000.0)
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        cos, sin = table.rotation(30_000, 1, 30_001, torch.zeros(1, dtype=dtype))
        assert cos.dtype == sin.dtype == dtype
    # Made in float64 whatever it is kept in: float32 would hold 30,000 radians to within 0.001 only.
    short = table.rotation(30_000, 1, 30_001, torch.zeros(1))
    assert close(short.cos.double(), cos, 1e-7) and close(short.sin.double(), sin, 1e-7)


def test_a_table_first_used_in_inference_can_be_trained_through():
    table, x = RotaryTable(4, 12_345.0), torch.ones(1, 1, 2, 4, requires_grad=True)
    with torch.inference_mode():
        table.rotation(0, 2, 2, x)
    apply_rope(x, table.rotation(0, 2, 2, x)).sum().backward()
    # d/da of a·cos + a·sin over both results, at positions 0 and 1 of the first pair: cos φ + sin φ.
    assert x.grad[0, 0, 1, 0].item() == pytest.approx(math.cos(1) + math.sin(1), abs=1e-6)
