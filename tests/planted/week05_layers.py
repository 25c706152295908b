"""Week 5, layers that multiply with codes, and a cache that keeps them."""

_MEANT = "test_plain_matmul_multiplies_by_the_weights_that_the_codes_stand_for"
_BLOCKS = "test_plain_matmul_puts_the_outputs_of_its_blocks_side_by_side"
_AT_A_TIME = "test_plain_matmul_decodes_a_block_of_rows_at_a_time"
_PAST = "test_update_of_an_int8_cache_returns_the_past_and_the_new_positions"
_SCALES = "test_update_of_an_int8_cache_gives_each_head_of_each_position_a_scale"
_STORES = "test_update_of_an_int8_cache_stores_codes_and_touches_nothing_else"
_N_ROWS = "n_rows = max(1, DECODED_AT_ONCE // x.shape[-1])"
_LOOP = (
    "    outputs = []\n    for block, block_scales in zip(codes.split(n_rows), scales.split(n_rows), strict=True):\n"
)
_PRODUCT = "multiply(x, dequantize(block, block_scales).to(x.dtype))"
_CAT = "return torch.cat(outputs, dim=-1)"
_QUANTIZE = "quantize(new.detach(), 8, scale_dtype=SCALE_DTYPE)"
_STORE = "codes[places], scales[places] = new_codes, new_scales"
_BACK = "back.append(dequantize(codes[:, :, :end], scales[:, :, :end]).to(self.dtype))"

# name, what stands there, what is planted, the test meant for it, a part of its message
_MATMUL = [
    (
        "the scale not applied in a layer",
        _PRODUCT,
        "multiply(x, block.to(x.dtype))",
        _MEANT,
        "the scale is not applied",
    ),
    (
        "the result in float32",
        _PRODUCT,
        "multiply(x.float(), dequantize(block, block_scales).float())",
        _MEANT,
        "and the result torch.float32",
    ),
    (
        "bytes of 8 bits unpacked too",
        "block if bits == 8 else unpack_bits(block, bits)",
        "unpack_bits(block.view(torch.uint8), min(bits, 4))",
        _MEANT,
        "codes of 8 bits are not packed",
    ),
    (
        "codes of few bits not unpacked",
        "block if bits == 8 else unpack_bits(block, bits)",
        "block",
        _MEANT,
        "packed, for unpack_bits(block, bits)",
    ),
    (
        "weights that keep their own type",
        _PRODUCT,
        "multiply(x, dequantize(block, block_scales))",
        "test_plain_matmul_answers_in_the_number_type_of_its_input",
        "weights take x's dtype",
    ),
    ("blocks one below the other", _CAT, "return torch.cat(outputs, dim=0)", _BLOCKS, "stand side by side"),
    ("the last block alone", _CAT, "return outputs[-1]", _BLOCKS, "only the last block came back"),
    (
        "the first scales for all blocks",
        _PRODUCT,
        "multiply(x, dequantize(block, scales[: len(block)]).to(x.dtype))",
        _BLOCKS,
        "all blocks have the scales of the first",
    ),
    ("all of the weights decoded at once", _N_ROWS, "n_rows = len(codes)", _AT_A_TIME, "and not the whole of Ŵ"),
    (
        "rows counted by packed bytes",
        _N_ROWS,
        "n_rows = max(1, DECODED_AT_ONCE // codes.shape[-1])",
        _AT_A_TIME,
        "and not from the bytes of a packed row",
    ),
    (
        "all weights dequantized, then multiplied in blocks",
        _LOOP,
        "    whole = dequantize(codes if bits == 8 else unpack_bits(codes, bits), scales).to(x.dtype)\n"
        "    return torch.cat([multiply(x, block) for block in whole.split(n_rows)], dim=-1)\n" + _LOOP,
        _AT_A_TIME,
        "and not the whole of Ŵ",
    ),
    (
        "a product whose bits depend on the batch",
        "    multiply = tile_linear if x.is_cpu else F.linear",
        "    multiply = F.linear",
        "test_plain_matmul_gives_a_row_the_same_bits_in_any_batch",
        "tile_linear does not",
    ),
]
_LINEAR = [
    (
        "channel scales multiplied into the input",
        "            x = x / self.channel_scales.to(x.dtype)\n        y = quantized_matmul(x, self.codes",
        "            x = x * self.channel_scales.to(x.dtype)\n        y = quantized_matmul(x, self.codes",
        "test_a_quantized_layer_divides_its_inputs_by_the_channel_scales",
        "inputs are divided",
    ),
]
_CACHE = [
    (
        "one cache scale for all heads",
        _QUANTIZE,
        "(lambda s: ((new / s).round().clamp(-127, 127).char(), s.expand(*new.shape[:3], 1).to(SCALE_DTYPE)))"
        "((new.abs().amax() / 127).to(SCALE_DTYPE))",
        _SCALES,
        "drowns the small ones",
    ),
    (
        "the past read with the newest scale",
        _BACK,
        "back.append(dequantize(codes[:, :, :end], scales[:, :, end - 1 : end]).to(self.dtype))",
        _PAST,
        "their scales must be stored with them",
    ),
    ("scales of the past not stored", _STORE, "codes[places] = new_codes", _PAST, "is each code times its scale"),
    (
        "keys and values swapped",
        "return back[0], back[1]",
        "return back[1], back[0]",
        _PAST,
        "keys and values are swapped",
    ),
    (
        "keys returned twice",
        "return back[0], back[1]",
        "return back[0], back[0]",
        _PAST,
        "the values are the keys again",
    ),
    (
        "only the new positions returned",
        _BACK,
        "back.append(dequantize(new_codes, new_scales).to(self.dtype))",
        _PAST,
        "came back for 3 cached and 1 new",
    ),
    ("float32 whatever the cache's dtype", ").to(self.dtype))", ").float())", _PAST, "in the cache's dtype"),
    (
        "the new positions returned as they came",
        _BACK,
        "past = dequantize(codes[:, :, : self.length], scales[:, :, : self.length]).to(self.dtype)\n"
        "            back.append(torch.cat([past, new.detach()], dim=2))",
        "test_update_of_an_int8_cache_returns_what_its_codes_stand_for",
        "came back as they went in",
    ),
    (
        "codes for a scale that is not stored",
        _QUANTIZE,
        "(lambda c, s: (c, s.to(SCALE_DTYPE)))(*quantize(new.detach(), 8))",
        "test_update_of_an_int8_cache_chooses_codes_for_the_scales_as_stored",
        "the scale before it was stored",
    ),
    (
        "positions counted from 0",
        _STORE,
        "T = new.shape[2]\n            codes[:, :, :T], scales[:, :, :T] = new_codes, new_scales",
        _PAST,
        "lie at positions length",
    ),
    (
        "the past quantized again",
        _STORE,
        "codes[places], scales[places] = new_codes, new_scales\n"
        "            whole = dequantize(codes[:, :, :end], scales[:, :, :end])\n"
        "            codes[:, :, :end], scales[:, :, :end] = quantize(whole, 8, scale_dtype=SCALE_DTYPE)",
        _STORES,
        "quantize only new ones",
    ),
    (
        "the length moved on by each layer",
        "        return back[0], back[1]",
        "        self.length = end\n        return back[0], back[1]",
        _STORES,
        "the length is advance's",
    ),
    (
        "all layers in the first",
        "codes, scales = all_codes[layer], all_scales[layer]",
        "codes, scales = all_codes[0], all_scales[0]",
        _STORES,
        "nothing was written at positions 3 and 4 of layer 1",
    ),
    (
        "a gradient let into the cache",
        "quantize(new.detach(), 8",
        "quantize(new, 8",
        "test_update_of_an_int8_cache_lets_no_gradient_in",
        "detach what goes into it",
    ),
    (
        "slices in place of the cache's own places",
        "self._places(k.shape[2])",
        "(slice(None), slice(None), slice(self.length, self.length + k.shape[2]))",
        "test_update_of_an_int8_cache_writes_where_its_places_are",
        "is not its second",
    ),
    (
        "NaN kept as 0",
        "quantize(new.detach(), 8",
        "quantize(new.detach().nan_to_num(), 8",
        "test_update_of_an_int8_cache_refuses_what_does_not_fit",
        "have no scale",
    ),
    (
        "no look at what fits",
        "end, places = self._end_of(k, v), self._places(k.shape[2])",
        "end, places = self.length + k.shape[2], self._places(k.shape[2])",
        "test_update_of_an_int8_cache_refuses_what_does_not_fit",
        "do not fit into a c",
    ),
]

_FILES = {"quantization/matmul.py": _MATMUL, "quantization/linear.py": _LINEAR, "cache/quantized.py": _CACHE}
MISTAKES = [
    {"name": name, "week": 5, "file": file, "old": old, "new": new, "test": test, "says": says}
    for file, planted in _FILES.items()
    for name, old, new, test, says in planted
]
