"""Week 5, the error of outputs, and columns that make up for each other."""

_FILE = "quantization/gptq_rounding.py"
_ERROR = "test_output_error_weighs_each_column_by_its_inputs"
_INVERSE = "test_inverse_factor_times_itself_is_the_inverse_of_the_damped_products"
_SOLVED = "test_gptq_equals_solving_for_the_columns_left_at_every_step"
_STORED = "test_gptq_chooses_codes_for_the_scales_as_stored"
_REFUSES = "test_gptq_refuses_what_it_cannot_do"
_SIZE = "    size = (X @ W.T).norm().item()\n"
_MOVED = "return (X @ (W - approximation.double()).T).norm().item() / size"
_M = "    M = inputs.double().T @ inputs.double()\n"
_ADD = "M.diagonal().add_(damping * M.diagonal().mean().item() or 1.0)"
_FACTOR = "return torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(M)), upper=True)"
_SCALE = "            scale = absmax_scales(W[:, j : j + size], bits)\n"
_TAKEN_OUT = "        W[:, j + 1 :] -= error * U[j, j + 1 :]\n"

_STORE_TO_END = """scales.append(scale.to(scale_dtype or scale.dtype))
        column = W[:, j : j + 1]
        codes[:, j : j + 1] = round_to_codes(column, scales[-1], bits)
        error = (column - codes[:, j : j + 1].double() * scales[-1].double()) / U[j, j]
        W[:, j + 1 :] -= error * U[j, j + 1 :]
    return codes, torch.cat(scales, dim=1)"""

# name, what stands there, what is planted, the test meant for it, a part of its message
_PLANTED = [
    (
        "the error of the weights in place of the outputs'",
        _MOVED,
        "return ((W - approximation.double()).norm() / W.norm()).item()",
        _ERROR,
        "that is the error of the weights",
    ),
    (
        "relative to the approximation's outputs",
        _SIZE,
        "    size = (X @ approximation.double().T).norm().item() or (X @ W.T).norm().item()\n",
        _ERROR,
        "relative to the approximation's outputs",
    ),
    (
        "squares of outputs without a root",
        _MOVED,
        _MOVED.replace("() / size", "() ** 2 / size**2"),
        _ERROR,
        "the root is missing",
    ),
    ("how far the outputs move alone", _MOVED, _MOVED.removesuffix(" / size"), _ERROR, "the distance alone"),
    (
        "sums of the outputs' absolute values",
        _MOVED,
        "return ((X @ (W - approximation.double()).T).abs().sum() / (X @ W.T).abs().sum()).item()",
        _ERROR,
        "sums of absolute values",
    ),
    (
        "the largest output",
        _MOVED,
        "return ((X @ (W - approximation.double()).T).abs().max() / (X @ W.T).abs().max()).item()",
        _ERROR,
        "the largest difference",
    ),
    ("an output error that is a tensor", _MOVED, _MOVED.replace(".item() / size", " / size"), _ERROR, "a float, not a"),
    (
        "outputs in float32",
        _MOVED,
        "return (X.float() @ (W - approximation.double()).T.float()).norm().item() / size",
        "test_output_error_is_taken_in_float64",
        "take everything in float64",
    ),
    (
        "outputs that cancel",
        _MOVED,
        "return (X @ (W - approximation.double()).T).sum().abs().item() / size",
        "test_output_error_equals_its_definition",
        "do not cancel",
    ),
    (
        "outputs of zero divided by",
        '    if not size:\n        raise ValueError("the outputs',
        '    if False:\n        raise ValueError("the outputs',
        "test_output_error_refuses_outputs_of_zero",
        "impossible because of outputs and weights and inputs",
    ),
    ("the factor of M itself", _FACTOR, "return torch.linalg.cholesky(M, upper=True)", _INVERSE, "UᵀU is M"),
    (
        "the lower factor",
        _FACTOR,
        "return torch.linalg.cholesky(torch.cholesky_inverse(torch.linalg.cholesky(M)))",
        _INVERSE,
        "the lower factor",
    ),
    ("the inverse itself", _FACTOR, "return torch.linalg.inv(M)", _INVERSE, "M's inverse itself"),
    ("no damping of M", _ADD, "M.diagonal().add_(1e-14 if M.any() else 1.0)", _INVERSE, "no damping"),
    (
        "damping not scaled",
        _ADD,
        "M.diagonal().add_(damping if M.any() else 1.0)",
        _INVERSE,
        "damping itself was added",
    ),
    ("damping by the largest", _ADD, _ADD.replace("mean()", "max()"), _INVERSE, "the largest of the diagonal"),
    ("damping by the sum", _ADD, _ADD.replace("mean()", "sum()"), _INVERSE, "the sum of the diagonal"),
    ("damping of 0.01 always", _ADD, _ADD.replace("damping *", "0.01 *"), _INVERSE, "0.01 was taken"),
    (
        "damping all over M",
        _ADD,
        "M.add_(damping * M.diagonal().mean()) if M.any() else M.diagonal().add_(1.0)",
        _INVERSE,
        "only to its diagonal",
    ),
    (
        "inputs of zero not thought of",
        _ADD,
        _ADD.replace(" or 1.0", ""),
        "test_inverse_factor_of_zeros_is_the_identity",
        "inputs of zero",
    ),
    (
        "products in the inputs' own type",
        _M,
        "    M = (inputs.T @ inputs).double()\n",
        "test_inverse_factor_works_in_float64_whatever_its_inputs_are",
        "float32 has too few digits",
    ),
    (
        "any damping taken",
        "    if not damping > 0:",
        "    if False:",
        "test_inverse_factor_refuses_damping_that_is_not_above_zero",
        "impossible because of damping",
    ),
    (
        "NaN for a damping",
        "    if not damping > 0:",
        "    if damping <= 0:",
        "test_inverse_factor_refuses_damping_that_is_not_above_zero",
        "impossible because of damping",
    ),
    ("no error compensation", _TAKEN_OUT, "", _SOLVED, "that is plain rounding"),
    ("errors added in place of taken out", "+ 1 :] -= error", "+ 1 :] += error", _SOLVED, "errors are added"),
    ("the error not divided by the diagonal", ".double()) / U[j, j]", ".double())", _SOLVED, "not divided by U[j, j]"),
    (
        "columns cut off to codes",
        "= round_to_codes(column, scales[-1], bits)",
        "= (column / scales[-1]).to(torch.int8)",
        _SOLVED,
        "cut off to codes",
    ),
    ("the error divided twice", ".double()) / U[j, j]", ".double()) / U[j, j] ** 2", _SOLVED, "squared"),
    (
        "the next column alone",
        _TAKEN_OUT,
        "        W[:, j + 1 : j + 2] -= error * U[j, j + 1 : j + 2]\n",
        _SOLVED,
        "all columns left do",
    ),
    (
        "the lower factor in gptq",
        "    U, W = inverse_factor(inputs, damping), weights",
        "    U, W = inverse_factor(inputs, damping), weights.double().clone()\n"
        "    U, W = torch.linalg.cholesky(U.T @ U), weights",
        _SOLVED,
        "with the lower ",
    ),
    (
        "the factor of M in place of its inverse's",
        "    U, W = inverse_factor(inputs, damping), weights",
        "    M = inputs.double().T @ inputs.double()\n"
        "    M += damping * (M.diagonal().mean().item() or 1 / damping) * torch.eye(len(M), dtype=M.dtype)\n"
        "    U, W = torch.linalg.cholesky(M, upper=True), weights",
        _SOLVED,
        "must be that of M's inverse",
    ),
    (
        "the group's scales from the original weights",
        "absmax_scales(W[:, j : j + size], bits)",
        "absmax_scales(weights[:, j : j + size], bits)",
        "test_gptq_takes_a_group_s_scales_when_it_is_reached",
        "when it is reached",
    ),
    (
        "the first group's scale for all",
        "        if j % size == 0:",
        "        if j % W.shape[1] == 0:",
        "test_gptq_takes_a_group_s_scales_when_it_is_reached",
        "one scale for each group",
    ),
    (
        "damping left at its default",
        "inverse_factor(inputs, damping), weights",
        "inverse_factor(inputs), weights",
        "test_gptq_uses_the_damping_that_it_is_given",
        "damping is not used",
    ),
    (
        "scale_dtype not used in gptq",
        "scale.to(scale_dtype or scale.dtype)",
        "scale",
        _STORED,
        "are asked for in bfloat16",
    ),
    (
        "the scales rounded after the codes",
        _STORE_TO_END,
        _STORE_TO_END.replace(".to(scale_dtype or scale.dtype)", "").replace(
            "dim=1)", "dim=1).to(scale_dtype or W.dtype)"
        ),
        _STORED,
        "codes belong to the scale before it was rounded",
    ),
    (
        "an error by the scale that is not stored",
        "codes[:, j : j + 1].double() * scales[-1].double())",
        "codes[:, j : j + 1].double() * scale)",
        "test_gptq_makes_up_for_the_error_that_the_stored_scale_leaves",
        "by the scale *as stored*",
    ),
    (
        "the caller's weights worked on",
        "weights.double().clone()",
        "weights.double()",
        "test_gptq_leaves_its_arguments_as_they_were",
        "changed its argument weights",
    ),
    (
        "groups that do not divide taken",
        "    split_groups(weights, group_size)  # for its errors\n",
        "",
        _REFUSES,
        "impossible because of group_size",
    ),
]

MISTAKES = [
    {
        "name": name,
        "week": 5,
        "file": "quantization/gptq_rounding.py",
        "old": old,
        "new": new,
        "test": test,
        "says": says,
    }
    for name, old, new, test, says in _PLANTED
]
