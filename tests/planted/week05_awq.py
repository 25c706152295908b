"""Week 5, scales for channels, and scales that are shrunken."""

_FILE = "quantization/awq_rounding.py"
_LEAST = "test_channel_scales_are_those_with_the_smallest_output_error"
_UP_TO_ONE = "test_channel_scales_try_every_alpha_up_to_one"
_BEST = "test_shrunken_scales_are_the_best_of_eleven_for_each_group"
_HALF = "test_shrunken_scales_go_down_to_one_half_and_no_further"
_STAY = "test_shrunken_scales_stay_at_absmax_where_that_is_best"
_STORED = "test_shrunken_scales_compare_scales_as_they_are_stored"
_MEAN = "    magnitude = inputs.double().abs().mean(dim=0)\n"
_HELD = "    magnitude = magnitude.clamp(min=SMALLEST_SHARE * magnitude.max().item() or 1.0)\n"
_ALPHA = "c = magnitude ** (step / ALPHA_STEPS)"
_AROUND_ONE = "c = (c / (c.max() * c.min()).sqrt()).to(weights.dtype)"
_E = "E = (dequantize(*quantize(weights * c, bits, group_size)) / c - weights).double()"
_KEEP = "candidates.append(((E @ M * E).sum().item(), c))"
_MIN = "return min(candidates, key=lambda candidate: candidate[0])[1]"
_EINSUM = 'torch.einsum("ogi,gij,ogj->og", E, M, E)'
_STEPS = "range(SHRINK_STEPS, SHRINK_STEPS // 2 - 1, -1)"

_TO_END = """scales = (full * (step / SHRINK_STEPS)).to(dtype)
        E = round_to_codes(groups, scales, bits).double() * scales.double() - groups.double()
        error = torch.einsum("ogi,gij,ogj->og", E, M, E)
        best = torch.where((error < least)[..., None], scales, best)
        least = torch.minimum(error, least)
    return best.squeeze(-1)"""

# name, what stands there, what is planted, the test meant for it, a part of its message
_PLANTED = [
    ("channel scales upside down", _ALPHA, "c = magnitude ** -(step / ALPHA_STEPS)", _LEAST, "upside down"),
    (
        "channel scales of the best α upside down",
        _MIN,
        "return 1 / " + _MIN.removeprefix("return "),
        _LEAST,
        "upside down",
    ),
    ("channel scales not searched for", _MIN, "return candidates[-1][1]", _LEAST, "not all 21 were compared"),
    ("no channel scales at all", _MIN, "return candidates[0][1]", _LEAST, "not all 21 were compared"),
    ("the α with the largest error", _MIN, _MIN.replace("min(", "max("), _LEAST, "the largest error was taken"),
    (
        "channels by the error of the weights",
        _KEEP,
        "candidates.append(((E * E).sum().item(), c))",
        _LEAST,
        "the error of the weights was compared",
    ),
    (
        "the largest input of a channel",
        _MEAN,
        "    magnitude = inputs.double().abs().amax(dim=0)\n",
        _LEAST,
        "it is their mean",
    ),
    (
        "the root of a channel's mean square",
        _MEAN,
        "    magnitude = (inputs.double() ** 2).mean(dim=0).sqrt()\n",
        _LEAST,
        "the root of the mean square",
    ),
    (
        "the mean of a channel with its signs",
        _MEAN,
        "    magnitude = inputs.double().mean(dim=0).abs()\n",
        _LEAST,
        "take their absolute values",
    ),
    ("scales not around 1", _AROUND_ONE, "c = c.to(weights.dtype)", _LEAST, "the scales lie around 1"),
    (
        "scales divided by the product",
        _AROUND_ONE,
        "c = (c / (c.max() * c.min())).to(weights.dtype)",
        _LEAST,
        "its root is missing",
    ),
    (
        "channel scales left in Ŵ",
        _E,
        _E.replace(" / c - weights", " - weights"),
        _LEAST,
        "Ŵ was not divided by c",
    ),
    ("α up to 0.95", "in range(ALPHA_STEPS + 1)", "in range(ALPHA_STEPS)", _UP_TO_ONE, "α = 1 is better"),
    (
        "eleven α in place of 21",
        "in range(ALPHA_STEPS + 1)",
        "in range(0, ALPHA_STEPS + 1, 2)",
        "test_channel_scales_try_every_twentieth",
        "all 21",
    ),
    (
        "the last α among equals",
        _MIN,
        "return min(reversed(candidates), key=lambda candidate: candidate[0])[1]",
        "test_channel_scales_are_the_first_among_equals",
        "is taken among equals",
    ),
    (
        "a dead input gets the channel scale 0",
        _HELD,
        "",
        "test_channel_scales_of_dead_inputs_can_be_divided_by",
        "by which nothing can be divided",
    ),
    (
        "a smallest mean of its own",
        _HELD,
        "    magnitude = magnitude.clamp(min=1e-5 * magnitude.max().item() or 1.0)\n",
        "test_channel_scales_count_a_tiny_mean_as_a_thousandth_of_the_largest",
        "counts as a thousandth",
    ),
    (
        "inputs of another width taken",
        "    check_inputs(weights, inputs)\n    magnitude",
        "    inputs = torch.nn.functional.pad(inputs, (0, weights.shape[1] - inputs.shape[1]))\n    magnitude",
        "test_channel_scales_refuse_what_cannot_be_rounded",
        "impossible because of inputs",
    ),
    (
        "scales shrunken without a look at the inputs",
        _EINSUM,
        "(E * E).sum(-1)",
        _BEST,
        "weigh it by the inputs",
    ),
    (
        "all scales shrunken alike",
        _EINSUM,
        _EINSUM + ".sum().expand(E.shape[:2])",
        _BEST,
        "by the same ratio",
    ),
    (
        "ratios down to 0.55",
        _STEPS,
        "range(SHRINK_STEPS, SHRINK_STEPS // 2, -1)",
        _HALF,
        "the last of eleven, is better",
    ),
    ("ratios down to 0.05", _STEPS, "range(SHRINK_STEPS, 0, -1)", _HALF, "the smallest that is tried is 0.5"),
    ("every second ratio", _STEPS, "range(SHRINK_STEPS, SHRINK_STEPS // 2 - 1, -2)", _BEST, "every second ratio"),
    ("absmax itself", _STEPS, "range(SHRINK_STEPS, SHRINK_STEPS - 1, -1)", _BEST, "these are the absmax scales"),
    (
        "the ratio with the largest error",
        _EINSUM,
        "-" + _EINSUM,
        _BEST,
        "the ratio with the *largest* error",
    ),
    (
        "outputs that cancel before they are squared",
        "M, full = X.transpose(1, 2) @ X, absmax",
        "M, full = X.sum(1)[:, :, None] * X.sum(1)[:, None], absmax",
        _BEST,
        "square the outputs before they are summed",
    ),
    ("the smaller scale among equals", "(error < least)", "(error <= least)", _STAY, "the *larger* among"),
    (
        "scale_dtype not used for shrunken scales",
        "    dtype = scale_dtype or full.dtype\n",
        "    dtype = full.dtype\n",
        _STORED,
        "are asked for in bfloat16",
    ),
    (
        "scales stored after they were compared",
        _TO_END,
        _TO_END.replace(".to(dtype)", "").replace("best.squeeze", "best.to(dtype).squeeze"),
        _STORED,
        "rounded to their dtype after",
    ),
    (
        "shrunken scales in 16 bits always",
        "    dtype = scale_dtype or full.dtype\n",
        "    dtype = scale_dtype or torch.bfloat16\n",
        _BEST,
        "the result holds torch.bfloat16",
    ),
    (
        "groups of shrunken scales that do not divide",
        "    groups = split_groups(weights, group_size)  # (out, G, size)\n    X",
        "    fits = group_size and weights.shape[1] % group_size == 0\n"
        "    groups = split_groups(weights, group_size if fits else None)\n    X",
        "test_shrunken_scales_refuse_what_cannot_be_rounded",
        "impossible because of group_size",
    ),
]

MISTAKES = [
    {
        "name": name,
        "week": 5,
        "file": "quantization/awq_rounding.py",
        "old": old,
        "new": new,
        "test": test,
        "says": says,
    }
    for name, old, new, test, says in _PLANTED
]
