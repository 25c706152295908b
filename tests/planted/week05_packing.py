"""Week 5, two codes a byte."""

_PACK = "test_pack_nibbles_puts_two_codes_into_a_byte"
_PAIRS = "test_pack_nibbles_of_every_pair_of_codes"
_REFUSES = "test_pack_nibbles_refuses_an_odd_row_and_codes_that_do_not_fit"
_UNPACK = "test_unpack_nibbles_gives_the_codes_back_in_order"
_EVERY = "test_unpack_nibbles_of_every_byte"
_EVEN_ODD = "even, odd = (codes + 8).to(torch.uint8).unflatten(-1, (-1, 2)).unbind(-1)"
_STACK = "torch.stack([packed & 15, packed >> 4], dim=-1)"
_BACK = _STACK + ".flatten(-2).to(torch.int8) - 8"

# name, what stands there, what is planted, the test meant for it, a part of its message
_PLANTED = [
    ("nibble order swapped when packing", "even | odd << 4", "odd | even << 4", _PACK, "nibble order swapped"),
    ("no offset when packing", "(codes + 8).to(torch.uint8)", "(codes & 15).to(torch.uint8)", _PACK, "no offset"),
    ("offset 7", "(codes + 8).to(torch.uint8)", "(codes + 7).to(torch.uint8)", _PACK, "offset 7 in place of 8"),
    (
        "the halves of the row paired",
        _EVEN_ODD,
        _EVEN_ODD.replace("(-1, 2)).unbind(-1)", "(2, -1)).unbind(-2)"),
        _PACK,
        "the two halves of the row are paired",
    ),
    (
        "a byte a code",
        "return even | odd << 4",
        "return (codes + 8).to(torch.uint8)",
        _PACK,
        "two 4-bit codes share a byte",
    ),
    ("the second code left out", "return even | odd << 4", "return even", _PACK, "only one of the two codes"),
    (
        "bytes of eight bytes",
        "return even | odd << 4",
        "return (even | odd << 4).long()",
        _PACK,
        "bytes are uint8",
    ),
    ("the caller's codes moved up", "(codes + 8).to", "codes.add_(8).to", _PACK, "changed its argument codes"),
    (
        "rows paired in place of neighbours",
        _EVEN_ODD,
        _EVEN_ODD.replace("unflatten(-1, (-1, 2)).unbind(-1)", "unflatten(0, (-1, 2)).unbind(1)"),
        _PAIRS,
        "rows stay, their length is halved",
    ),
    (
        "odd rows and large codes packed",
        "    check_codes(codes, 4)\n    even",
        "    if codes.shape[-1] % 2:\n        codes = torch.nn.functional.pad(codes, (0, 1))\n    even",
        _REFUSES,
        "impossible because of codes",
    ),
    (
        "codes of 8 taken",
        "    check_codes(codes, 4)\n    even",
        "    check_codes(codes.clamp(-8, 7), 4)\n    even",
        _REFUSES,
        "impossible because of codes",
    ),
    (
        "nibble order swapped when unpacking",
        _STACK,
        "torch.stack([packed >> 4, packed & 15], dim=-1)",
        _UNPACK,
        "nibble order swapped",
    ),
    (
        "all low halves before all high ones",
        _STACK + ".flatten(-2)",
        "torch.cat([packed & 15, packed >> 4], dim=-1)",
        _UNPACK,
        "put each pair side by side",
    ),
    ("the offset left in", _BACK, _BACK.removesuffix(" - 8"), _UNPACK, "the offset stays in"),
    ("7 subtracted", _BACK, _BACK.removesuffix(" - 8") + " - 7", _UNPACK, "the offset is 8"),
    ("8 subtracted from bytes", _BACK, _STACK + ".flatten(-2) - 8", _UNPACK, "1 - 8 wraps around to 249"),
    (
        "read as numbers with a sign",
        _BACK,
        "(" + _STACK + ".flatten(-2).to(torch.int8) ^ 8) - 8",
        _UNPACK,
        "read as a number with a sign",
    ),
    (
        "the low half not cut out",
        "torch.stack([packed & 15, packed >> 4]",
        "torch.stack([packed, packed >> 4]",
        _UNPACK,
        "the high code is still in the low one",
    ),
    (
        "the high half not brought down",
        "torch.stack([packed & 15, packed >> 4]",
        "torch.stack([packed & 15, packed & 240]",
        _UNPACK,
        "the high halves were not brought down",
    ),
    ("codes of four bytes", _BACK, _BACK.replace("torch.int8", "torch.int32"), _UNPACK, "codes are int8"),
    ("one long row of codes", _BACK, _BACK.replace(".flatten(-2)", ".flatten()"), _EVERY, "rows stay"),
]

MISTAKES = [
    {"name": name, "week": 5, "file": "quantization/packing.py", "old": old, "new": new, "test": test, "says": says}
    for name, old, new, test, says in _PLANTED
]
