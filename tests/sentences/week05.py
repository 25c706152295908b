"""Week 5: the sentences of its docstrings, and the planted mistake that breaks each."""

_NAMES = "- names an argument, whose part in the result other sentences say"

SENTENCES = {
    "largest_code": {
        "Return q, the largest code": "one code too many, 2^(bits-1)",
        "The codes are -q": "all 2^bits patterns counted as positive codes",
        "One more negative number": "- explains why; what holds is in the first sentence",
        "ValueError: bits is not": "any number of bits above 8",
    },
    "absmax_scales": {
        "Return the scale of each row": "the largest number in place of the largest absolute value",
        "A row is the last dimension": "the last dimension gone",
        "A row of zeros gets scale 1": "a smallest scale in the place of 1",
        "The result is float32": "a scale in the weights' own 16 bits",
        "ValueError: bits outside": "NaN taken for a weight",
    },
    "round_to_codes": {
        "Return the codes of the weights": "rounding by cutting off the fraction",
        "q is largest_code(bits).": "codes clamped to -7 … 7 always",
        "Exactly between two whole numbers": "halves rounded up",
        "The quotient is computed in float32": "codes divided in 16 bits",
        "weights: rows of D numbers.": _NAMES,
        "scales: one a row": "scales laid out as one for each row",
        "ValueError: bits outside": "codes of any number of bits",
    },
    "dequantize": {
        "Return the weights that": "the scale not applied",
        "A row of D codes has G scales": "the scale of the wrong group",
        "G = 1 is one scale a row": "scales that need a row of their own",
        "The result is float32": "a product in 16 bits",
        "ValueError: G does not divide D.": "scales that do not share out evenly taken",
    },
    "quantize": {
        "Return (codes, scales)": "a scale for the whole tensor, in quantize",
        "Every group of": "a scale of the group's columns",
        "Group g of a row are its weights": "groups of strangers in place of neighbours",
        "An error is at most half the scale.": "codes cut off in quantize",
        "weights: rows of D numbers": _NAMES,
        "scale_dtype: the dtype": "codes chosen for another scale than the stored one",
        "None keeps those": "scales in float32 where none is asked for",
        "ValueError: bits outside": "groups that do not fill the row padded",
    },
    "quantize_tensor": {
        "Return (codes, scales)": "a scale a row in place of one",
        "ValueError: as for": "NaN taken for one of all weights",
    },
    "quantization_error": {
        "Return how far": "relative to the approximation",
        "‖·‖ is the square root": "an error taken in the weights' own type",
        "Equal tensors give 0": "no error where nothing was",
        "ValueError: shapes that differ": "shapes broadcast",
    },
    "bits_per_weight": {
        "Return the bits": "the bits of the scale forgotten",
        "group_size: weights that share a scale": "a scale for every weight",
        "scale_bits: bits of a stored scale.": "scales of 16 bits always",
        "ValueError: bits outside": "groups of nothing",
    },
    "pack_nibbles": {
        "Return 4-bit codes two a byte": "a byte a code",
        "Each code is stored as code + 8": "no offset when packing",
        "Codes 0, 2, 4": "nibble order swapped when packing",
        "ValueError: D is odd": "codes of 8 taken",
    },
    "unpack_nibbles": {"Return the 4-bit codes that": "nibble order swapped when unpacking"},
}
