"""Week 2, the rotation: angles, signs, and who stands where."""

ANGLES = "speeds = theta ** (-torch.arange(0, H, 2, dtype=torch.float64) / H)"
POSITIONS = "positions = positions_of(offset, T).cpu()"
COS_SIN = "cos, sin = angles.cos().to(x), angles.sin().to(x)"
JOINED = "return torch.cat([first, second], dim=-1)"
COMPLEX = "test_apply_rope_turns_each_pair_as_complex_multiplication_does"

# (name, old, new, test, what its message says)
_MISTAKES = [
    (
        "theta ignored",
        ANGLES,
        ANGLES.replace("theta **", "10_000.0 **"),
        "test_apply_rope_uses_the_theta_it_is_given",
        "theta was ignored",
    ),
    (
        "angles in float32",
        ANGLES,
        ANGLES.replace("float64", "float32"),
        "test_apply_rope_is_exact_at_far_positions",
        "were the angles computed in float32?",
    ),
    ("exponent -i/H", ANGLES, ANGLES.replace("/ H)", "/ (2 * H))"), COMPLEX, "the exponent is -i/H"),
    ("all pairs alike", ANGLES, "speeds = torch.ones(H // 2, dtype=torch.float64)", COMPLEX, "all pairs turn alike"),
    ("the wrong way", COS_SIN, COS_SIN.replace("angles.sin()", "-angles.sin()"), COMPLEX, "turn the wrong way"),
    (
        "every token at the offset",
        POSITIONS,
        POSITIONS + "; positions = positions - torch.arange(T)",
        COMPLEX,
        "as if it stood at the offset",
    ),
    (
        "positions from 1",
        POSITIONS,
        POSITIONS + " + 1",
        "test_apply_rope_leaves_position_zero_as_it_is",
        "do positions start at 1?",
    ),
    (
        "a sign missing",
        "torch.addcmul(a * cos, b, sin, value=-1)",
        "torch.addcmul(a * cos, b, sin)",
        "test_apply_rope_keeps_the_length_of_every_vector",
        "is a sign missing?",
    ),
    (
        "a result in float64",
        COS_SIN,
        "cos, sin = angles.cos(), angles.sin()\n        x = x.double()",
        "test_apply_rope_keeps_the_number_type",
        "the result has the dtype of x",
    ),
    ("a result in float32", JOINED, JOINED + ".float()", COMPLEX, "the result has the dtype of x"),
    (
        "x turned in place",
        JOINED,
        "return x.copy_(torch.cat([first, second], dim=-1))",
        "test_apply_rope_leaves_its_argument_alone",
        "changed its argument x",
    ),
    (
        "the first row's offset for all",
        POSITIONS,
        "offset = offset[:1] if torch.is_tensor(offset) and offset.ndim == 1 else offset\n        " + POSITIONS,
        "test_apply_rope_takes_one_offset_per_row",
        "by the first row's offset",
    ),
    (
        "positions taken for offsets",
        POSITIONS,
        "offset = offset[:, 0] if torch.is_tensor(offset) and offset.ndim == 2 else offset\n        " + POSITIONS,
        "test_apply_rope_takes_every_position_by_itself",
        "the first position was taken for an offset",
    ),
    (
        "a negative offset allowed",
        POSITIONS,
        "positions = positions_of(offset, T) if torch.is_tensor(offset) else torch.arange(offset, offset + T)",
        "test_apply_rope_refuses_a_negative_offset",
        "because of offset",
    ),
]
MISTAKES = [
    {
        "name": f"rotation, {name}",
        "week": 2,
        "file": "attention/rope.py",
        "old": old,
        "new": new,
        "test": test,
        "says": says,
    }
    for name, old, new, test, says in _MISTAKES
]
