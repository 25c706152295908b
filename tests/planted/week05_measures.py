"""Week 5, what rounding loses, and what it costs in bits."""

_ERROR = "test_quantization_error_is_the_distance_relative_to_the_size"
_WHOLE = "test_quantization_error_takes_a_matrix_as_one_whole"
_ZEROS = "test_quantization_error_of_zeros"
_SHARE = "test_bits_per_weight_adds_the_share_of_the_scale"
_REFUSES = "test_bits_per_weight_refuses_what_cannot_be"
_SIZE = "    size = weights.double().norm().item()\n"
_DISTANCE = "    distance = (weights.double() - approximation.double()).norm().item()\n"
_RETURN = 'return distance / size if size else 0.0 if not distance else float("inf")'
_BITS = "return bits + scale_bits / group_size"

# name, what stands there, what is planted, the test meant for it, a part of its message
_PLANTED = [
    (
        "relative to the approximation",
        _SIZE,
        "    size = approximation.double().norm().item()\n",
        _ERROR,
        "relative to the approximation",
    ),
    (
        "squares without a root",
        _RETURN,
        _RETURN.replace("/ size if", "* distance / size**2 if"),
        _ERROR,
        "these are squares",
    ),
    (
        "sums of absolute values",
        _SIZE + _DISTANCE,
        "    size = weights.double().abs().sum().item()\n"
        "    distance = (weights.double() - approximation.double()).abs().sum().item()\n",
        _ERROR,
        "sums of absolute values",
    ),
    (
        "the largest difference",
        _SIZE + _DISTANCE,
        "    size = weights.double().abs().max().item()\n"
        "    distance = (weights.double() - approximation.double()).abs().max().item()\n",
        _ERROR,
        "the largest difference",
    ),
    ("the distance alone", _RETURN, _RETURN.replace("distance / size if", "distance if"), _ERROR, "the distance alone"),
    (
        "an error that is a tensor",
        _SIZE + _DISTANCE,
        "    size = weights.double().norm()\n    distance = (weights.double() - approximation.double()).norm()\n",
        _ERROR,
        "a float, not a Tensor",
    ),
    (
        "the mean of the rows' errors",
        _RETURN,
        "return ((weights - approximation).double().norm(dim=-1) / weights.double().norm(dim=-1)).mean().item() "
        "if size and weights.ndim > 1 else " + _RETURN.removeprefix("return "),
        _WHOLE,
        "the mean of the rows' errors",
    ),
    (
        "errors that cancel",
        _DISTANCE,
        "    distance = (weights.double() - approximation.double()).sum().abs().item()\n",
        "test_quantization_error_grows_by_signs_in_neither_direction",
        "do not cancel",
    ),
    (
        "an error taken in the weights' own type",
        _SIZE + _DISTANCE,
        "    size = weights.norm().item()\n    distance = (weights - approximation).norm().item()\n",
        "test_quantization_error_is_taken_in_float64",
        "take it in float64",
    ),
    ("weights of size 0 divided by", _RETURN, "return distance / size", _ZEROS, "0 / 0 or 1 / 0"),
    ("no error where nothing was", _RETURN, "return distance / size if size else 0.0", _ZEROS, "infinitely far off"),
    (
        "infinitely far off though equal",
        _RETURN,
        'return distance / size if size else float("inf")',
        _ZEROS,
        "zeros kept as zeros",
    ),
    (
        "shapes broadcast",
        "    if weights.shape != approximation.shape:",
        "    if weights.shape[-1:] != approximation.shape[-1:]:",
        "test_quantization_error_refuses_shapes_that_differ",
        "impossible because of weights and approximation",
    ),
    ("the bits of the scale forgotten", _BITS, "return bits", _SHARE, "the scale is forgotten"),
    ("the share of the scale cut off", _BITS, "return bits + scale_bits // group_size", _SHARE, "cut off (//)"),
    ("a scale for every weight", _BITS, "return bits + scale_bits", _SHARE, "not paid by every weight"),
    ("the scale in bytes", _BITS, "return bits + scale_bits / 8 / group_size", _SHARE, "has 16 bits"),
    (
        "the scale times the group",
        _BITS,
        "return bits + scale_bits * group_size",
        _SHARE,
        "multiplied by the group size",
    ),
    ("the code shared too", _BITS, "return (bits + scale_bits) / group_size", _SHARE, "only the scale is"),
    (
        "scales of 16 bits always",
        _BITS,
        "return bits + 16 / group_size",
        "test_bits_per_weight_with_scales_of_other_sizes",
        "scale_bits is not used",
    ),
    (
        "any bits a weight",
        "    largest_code(bits)\n    require_count(1, group_size=group_size)",
        "    require_count(1, group_size=group_size)",
        _REFUSES,
        "impossible because of bits",
    ),
    (
        "groups of nothing",
        "    require_count(1, group_size=group_size)\n    require_count(0, s",
        "    require_count(0, s",
        _REFUSES,
        "impossible because of group_size",
    ),
    (
        "scales of less than no bits",
        "    require_count(0, scale_bits=scale_bits)\n",
        "",
        _REFUSES,
        "impossible because of scale_bits",
    ),
]

MISTAKES = [
    {"name": name, "week": 5, "file": "quantization/absmax.py", "old": old, "new": new, "test": test, "says": says}
    for name, old, new, test, says in _PLANTED
]
