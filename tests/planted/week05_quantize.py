"""Week 5, rows and groups: codes and scales of a matrix, and back."""

_WORKED = "test_quantize_gives_the_int8_codes_of_the_worked_example"
_ROWS = "test_quantize_gives_each_row_its_own_scale"
_GROUPS = "test_quantize_gives_each_group_its_own_scale"
_STORED = "test_quantize_chooses_codes_for_the_scales_as_stored"
_TENSOR = "test_quantize_tensor_shares_one_scale"
_SHAPES = "test_quantize_tensor_takes_bits_and_shapes_as_they_come"
_BACK = "test_dequantize_multiplies_codes_by_their_scale"
_BACK_GROUPS = "test_dequantize_gives_each_group_its_scale"
_RETURN = "return round_to_codes(groups, scales, bits).flatten(-2), scales.squeeze(-1)"
_GROUP_SCALES = "scales = absmax_scales(groups, bits)  # (…, G, 1)"
_STORE = "    scales = scales.to(scale_dtype or scales.dtype)\n"
_ONE_ROW = "    codes, scales = quantize(weights.flatten(), bits)\n    return codes.view(weights.shape), scales"
_PRODUCT = "(groups.float() * scales.unsqueeze(-1)).flatten(-2)"

# name, what stands there, what is planted, the test meant for it, a part of its message
_PLANTED = [
    (
        "scales first, then codes",
        _RETURN,
        "return scales.squeeze(-1), round_to_codes(groups, scales, bits).flatten(-2)",
        _WORKED,
        "(codes, scales) in this order",
    ),
    ("scales with all ones squeezed out", "scales.squeeze(-1)\n", "scales.squeeze()\n", _WORKED, "squeeze(-1) takes"),
    ("codes left in groups", "bits).flatten(-2), scales", "bits), scales", _WORKED, "the groups undone"),
    (
        "a scale for the whole tensor, in quantize",
        _GROUP_SCALES,
        "scales = absmax_scales(groups.flatten(), bits).expand(*groups.shape[:-1], 1)",
        _ROWS,
        "one scale for the whole tensor",
    ),
    (
        "group_size not used",
        "split_groups(weights, group_size)  #",
        "split_groups(weights, None)  #",
        _GROUPS,
        "a row:",
    ),
    (
        "groups of strangers in place of neighbours",
        "return weights.unflatten(-1, (-1, int(group_size)))",
        "return weights.unflatten(-1, (int(group_size), -1)).transpose(-1, -2)",
        _GROUPS,
        "a group is made of neighbours",
    ),
    (
        "a scale of the group's columns",
        _GROUP_SCALES,
        "by_column = group_size and groups.shape[-1] == groups.shape[-2]\n"
        "    scales = absmax_scales(groups.transpose(-1, -2) if by_column else groups, bits)",
        _GROUPS,
        "a group is made of neighbours",
    ),
    (
        "codes chosen for another scale than the stored one",
        _RETURN,
        "return round_to_codes(groups, absmax_scales(groups, bits), bits).flatten(-2), scales.squeeze(-1)",
        _STORED,
        "then the weights by *that* scale",
    ),
    ("scale_dtype not used", _STORE, "", _STORED, "are asked for in torch.bfloat16".replace("torch.", "")),
    (
        "scales in float32 where none is asked for",
        _STORE,
        "    scales = scales.to(scale_dtype or torch.float32)\n",
        "test_quantize_keeps_the_scales_of_absmax_scales_where_no_dtype_is_asked_for",
        "they stay as absmax_scales gives them",
    ),
    (
        "codes cut off in quantize",
        _RETURN,
        "return (groups / scales).to(torch.int8).flatten(-2), scales.squeeze(-1)",
        "test_quantize_gives_the_int4_codes_of_the_worked_examples",
        "was cut off to 2",
    ),
    (
        "groups that do not fill the row padded",
        "    groups = split_groups(weights, group_size)  #",
        "    if group_size and weights.shape[-1] % int(group_size or 1):\n"
        "        weights = torch.nn.functional.pad(weights, (0, -weights.shape[-1] % int(group_size)))\n"
        "    groups = split_groups(weights, group_size)  #",
        "test_quantize_refuses_what_it_cannot_do",
        "impossible because of group_size",
    ),
    (
        "zeros with a smallest scale, in quantize",
        _GROUP_SCALES,
        "scales = (groups.abs().amax(-1, keepdim=True) / largest_code(bits)).clamp(min=1e-5)",
        "test_quantize_of_a_row_of_zeros_gives_zeros_and_no_nan",
        "zeros have scale 1",
    ),
    ("a scale a row in place of one", _ONE_ROW, "    return quantize(weights, bits)", _TENSOR, "one for all weights"),
    (
        "codes left in one long row",
        "return codes.view(weights.shape), scales",
        "return codes, scales",
        _TENSOR,
        "they lie as the weights do",
    ),
    (
        "the one scale without a dimension",
        "return codes.view(weights.shape), scales",
        "return codes.view(weights.shape), scales.squeeze()",
        _TENSOR,
        "has shape (1,)",
    ),
    (
        "the largest number of all",
        _ONE_ROW,
        "    scales = (weights.amax() / largest_code(bits)).view(1)\n"
        "    return round_to_codes(weights, scales, bits), scales",
        _TENSOR,
        "not from the largest absolute value",
    ),
    (
        "the mean of the rows' scales",
        _ONE_ROW,
        "    scales = absmax_scales(weights, bits).mean().view(1)\n"
        "    return round_to_codes(weights, scales, bits), scales",
        _TENSOR,
        "the mean of the rows' scales",
    ),
    (
        "eight bits for a tensor always",
        "quantize(weights.flatten(), bits)",
        "quantize(weights.flatten(), 8)",
        _SHAPES,
        "bits is not used",
    ),
    (
        "matrices only",
        "return codes.view(weights.shape), scales",
        "return codes.view(len(weights), -1), scales",
        _SHAPES,
        "for weights of shape",
    ),
    (
        "NaN taken for one of all weights",
        _ONE_ROW,
        "    scales = (weights.abs().amax() / largest_code(bits)).view(1)\n"
        "    return round_to_codes(weights, scales, bits), scales",
        "test_quantize_tensor_refuses_what_quantize_refuses",
        "impossible because of weights",
    ),
    ("the scale not applied", _PRODUCT, "groups.to(scales.dtype).flatten(-2)", _BACK, "the scale is not applied"),
    (
        "codes divided by their scale",
        "groups.float() * scales.unsqueeze(-1)",
        "groups.float() / scales.unsqueeze(-1)",
        _BACK,
        "divided by the scale",
    ),
    (
        "float32 for float64 scales",
        "groups.float() * scales.unsqueeze(-1)",
        "groups.float() * scales.float().unsqueeze(-1)",
        _BACK,
        "float64 for float64 scales",
    ),
    (
        "weights left in groups",
        "scales.unsqueeze(-1)).flatten(-2)",
        "scales.unsqueeze(-1))",
        _BACK,
        "the groups undone",
    ),
    (
        "the scale of the first row for all",
        _PRODUCT,
        "(groups.float() * scales.reshape(-1, G)[0].view(G, 1)).flatten(-2)",
        "test_dequantize_gives_each_row_its_scale",
        "row 1 has the scale of row 0",
    ),
    (
        "the scale of the wrong group",
        _PRODUCT,
        "codes * scales.repeat(*[1] * (scales.ndim - 1), D // G)",
        _BACK_GROUPS,
        "the wrong group",
    ),
    (
        "the first scale of a row for all its groups",
        _PRODUCT,
        "codes * scales[..., :1]",
        _BACK_GROUPS,
        "each row's first scale serves all",
    ),
    (
        "scales that need a row of their own",
        "scales.unsqueeze(-1)).flatten(-2)",
        "scales[:, :, None] if codes.ndim > 1 else groups.float() * scales.unsqueeze(-1)).flatten(-2)",
        "test_dequantize_with_one_scale_for_the_whole_tensor",
        "are one for the whole tensor",
    ),
    (
        "a product in 16 bits",
        "groups.float() * scales.unsqueeze(-1)",
        "groups.to(scales.dtype) * scales.unsqueeze(-1)",
        "test_dequantize_is_exact_for_scales_of_two_bytes",
        "the result is float32",
    ),
    (
        "scales that do not share out evenly taken",
        "    if not G or D % G:",
        "    if not G:",
        "test_dequantize_refuses_scales_that_do_not_share_out_evenly",
        "impossible because of scales",
    ),
]

MISTAKES = [
    {"name": name, "week": 5, "file": "quantization/absmax.py", "old": old, "new": new, "test": test, "says": says}
    for name, old, new, test, says in _PLANTED
]
