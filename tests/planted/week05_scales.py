"""Week 5, the scale of a row and its codes."""

_LARGEST = "test_largest_code_is_two_to_the_bits_less_one_less_one"
_BITS = "test_largest_code_refuses_what_is_not_a_whole_number_from_2_to_8"
_SCALES = "test_absmax_scales_are_the_largest_absolute_value_of_each_row_over_q"
_SIXTEEN = "test_absmax_scales_of_sixteen_bit_weights_are_float32"
_ZEROS = "test_absmax_scales_of_a_row_of_zeros_is_one"
_NEAREST = "test_round_to_codes_takes_the_nearest_whole_number"
_RANGE = "test_round_to_codes_stays_within_the_symmetric_range"
_Q = "return 2 ** (int(bits) - 1) - 1"
_ABSMAX = "at_least_float32(weights).abs().amax(dim=-1, keepdim=True) / largest_code(bits)"
_CODES = "(at_least_float32(weights) / scales).round().clamp(-q, q).to(torch.int8)"

# name, what stands there, what is planted, the test meant for it, a part of its message
_PLANTED = [
    ("one code too many, 2^(bits-1)", _Q, "return 2 ** (int(bits) - 1)", _LARGEST, "one code too many"),
    ("all 2^bits patterns counted as positive codes", _Q, "return 2 ** int(bits) - 1", _LARGEST, "counts all patterns"),
    ("^ for a power", _Q, "return 2 ^ (int(bits) - 1) - 1", _LARGEST, "the exclusive or"),
    ("two bits for the sign", _Q, "return 2 ** (int(bits) - 2) - 1", _LARGEST, "only the sign costs a bit"),
    ("a largest code that is a float", _Q, "return 2.0 ** (int(bits) - 1) - 1", _LARGEST, "is a whole number, int"),
    ("any number of bits above 8", "    if bits > 8:", "    if bits > 80:", _BITS, "impossible because of bits"),
    (
        "a single bit taken",
        "    require_count(2, bits=bits)",
        "    require_count(1, bits=bits)",
        _BITS,
        "impossible because of bits",
    ),
    (
        "bits cut off to a whole number",
        "    require_count(2, bits=bits)",
        "    bits = int(bits or 0)\n    require_count(2, bits=bits)",
        _BITS,
        "impossible because of bits",
    ),
    (
        "a per-tensor scale used for rows",
        _ABSMAX,
        "at_least_float32(weights).abs().amax().expand(*weights.shape[:-1], 1) / largest_code(bits)",
        _SCALES,
        "one scale for the whole tensor",
    ),
    (
        "the largest number in place of the largest absolute value",
        ".abs().amax(dim=-1, keepdim=True)",
        ".amax(dim=-1, keepdim=True)",
        _SCALES,
        "not from the largest absolute value",
    ),
    (
        "a scale for each column",
        ".abs().amax(dim=-1, keepdim=True)",
        ".abs().amax(dim=0, keepdim=True)",
        _SCALES,
        "take the largest over the last dimension alone",
    ),
    (
        "the last dimension gone",
        ".abs().amax(dim=-1, keepdim=True)",
        ".abs().amax(dim=-1)",
        _SCALES,
        "keep the last dimension",
    ),
    ("128 in place of 127", "/ largest_code(bits)\n", "/ (largest_code(bits) + 1)\n", _SCALES, "not 128"),
    ("the largest weight for a scale", " / largest_code(bits)\n", "\n", _SCALES, "divide it by 127"),
    (
        "float32 for float64 weights",
        "at_least_float32(weights).abs()",
        "weights.float().abs()",
        _SCALES,
        "scales of float64 weights are float64",
    ),
    (
        "a scale in the weights' own 16 bits",
        "at_least_float32(weights).abs()",
        "weights.abs()",
        _SIXTEEN,
        "have float32 scales",
    ),
    (
        "the largest weight divided in 16 bits, then widened",
        _ABSMAX,
        "at_least_float32(weights.abs().amax(dim=-1, keepdim=True) / largest_code(bits))",
        _SIXTEEN,
        "16 bits are too coarse",
    ),
    (
        "the scale of a row of zeros is 0",
        "return torch.where(scales > 0, scales, 1.0)",
        "return scales",
        _ZEROS,
        "0 / 0, NaN",
    ),
    (
        "a smallest scale in the place of 1",
        "return torch.where(scales > 0, scales, 1.0)",
        "return scales.clamp(min=1e-8)",
        _ZEROS,
        "a smallest scale is not asked for",
    ),
    (
        "NaN taken for a weight",
        "    check_finite(weights)\n    scales",
        "    scales",
        "test_absmax_scales_refuse_weights_that_are_not_finite",
        "impossible because of weights",
    ),
    (
        "q computed without a look at bits",
        "/ largest_code(bits)\n",
        "/ (2 ** (bits - 1) - 1 or 1)\n",
        "test_absmax_scales_refuse_bits_outside_two_to_eight",
        "impossible because of bits",
    ),
    ("rounding by cutting off the fraction", ".round().clamp(-q, q)", ".clamp(-q, q)", _NEAREST, "truncated"),
    ("rounding down", ".round().clamp(-q, q)", ".floor().clamp(-q, q)", _NEAREST, "floored"),
    ("rounding up", ".round().clamp(-q, q)", ".ceil().clamp(-q, q)", _NEAREST, "rounded up"),
    (
        "weights times scale",
        "weights) / scales).round",
        "weights) * scales).round",
        _NEAREST,
        "multiplied by the scale",
    ),
    (
        "weights again in the place of codes",
        _CODES,
        "(at_least_float32(weights) / scales).round().clamp(-q, q) * scales",
        _NEAREST,
        "these are weights again",
    ),
    ("codes kept as floats", ".clamp(-q, q).to(torch.int8)", ".clamp(-q, q)", _NEAREST, "codes are int8"),
    ("codes clamped to -8 … 7", ".clamp(-q, q)", ".clamp(-q - 1, q)", _RANGE, "clamped to -8 … 7"),
    ("codes not clamped", ".round().clamp(-q, q)", ".round()", _RANGE, "no clamp"),
    ("codes clamped to -7 … 7 always", ".clamp(-q, q)", ".clamp(-7, 7)", _RANGE, "whatever the bits"),
    (
        "bytes before the clamp",
        ".round().clamp(-q, q).to(torch.int8)",
        ".round().to(torch.int8).clamp(-q, q)",
        _RANGE,
        "a byte would wrap around",
    ),
    (
        "halves rounded up",
        ".round().clamp(-q, q)",
        ".add(0.5).floor().clamp(-q, q)",
        "test_round_to_codes_takes_the_even_neighbour_of_a_half",
        "the even neighbour is taken",
    ),
    (
        "codes divided in 16 bits",
        "(at_least_float32(weights) / scales)",
        "(weights / scales)",
        "test_round_to_codes_of_sixteen_bit_weights_is_as_exact_as_of_others",
        "divide in float32",
    ),
    (
        "the first row's scale for all",
        "(at_least_float32(weights) / scales)",
        "(at_least_float32(weights) / scales.flatten()[0])",
        "test_round_to_codes_divides_each_row_by_its_own_scale",
        "the scale of row 0 was used for row 1",
    ),
    (
        "scales laid out as one for each row",
        "(at_least_float32(weights) / scales)",
        "(at_least_float32(weights) / scales.expand(*weights.shape[:-1], scales.shape[-1]).contiguous()"
        ".reshape(len(scales), *[1] * (weights.ndim - 1)))",
        "test_round_to_codes_takes_scales_of_any_shape_that_fits",
        "must not be laid out anew",
    ),
    (
        "codes of any number of bits",
        "    q = largest_code(bits)\n    return (at",
        "    q = 2 ** (bits - 1) - 1\n    return (at",
        "test_round_to_codes_refuses_bits_outside_two_to_eight",
        "impossible because of bits",
    ),
    (
        "a scale below 1e-8 taken for that of zeros",
        "return torch.where(scales > 0, scales, 1.0)",
        "return torch.where(scales > 1e-8, scales, 1.0)",
        "test_absmax_scales_of_tiny_weights_are_tiny",
        "only a row of zeros is a case of its own",
    ),
    (
        "a smallest scale of 1e-12 beside the 1 of zeros",
        "return torch.where(scales > 0, scales, 1.0)",
        "return torch.where(scales > 0, scales.clamp(min=1e-12), 1.0)",
        "test_absmax_scales_of_tiny_weights_are_tiny",
        "only a row of zeros is a case of its own",
    ),
    (
        "absolute value before the floats",
        "at_least_float32(weights).abs().amax",
        "at_least_float32(weights.abs()).amax",
        "test_absmax_scales_of_whole_numbers_reach_the_least_of_them",
        "make floats of the weights before abs()",
    ),
]

MISTAKES = [
    {"name": name, "week": 5, "file": "quantization/absmax.py", "old": old, "new": new, "test": test, "says": says}
    for name, old, new, test, says in _PLANTED
]
