"""Week 2, the cache and the layer: where numbers are written, what is counted, what is refused."""

CACHE = "cache/contiguous.py"
LAYER = "model/attention.py"
REFUSES = "test_attend_refuses_what_update_refuses"
UPDATE = "keys, values = self.update(layer, k, v)"
RETURNED = "return keys[:, :, :end], values[:, :, :end]"
KEYS = "keys[:, :, self.length : end] = k.detach()"
END = "end = self._end_of(k, v)"
SPLIT = "q, k, v = rotated[:, :N], rotated[:, N:], heads[:, N + K :]"
TURNED = "rotated = apply_rope(heads[:, : N + K], offset, self.theta)"
PAST = "test_update_returns_the_past_followed_by_the_new_positions"
HANDED = "test_forward_hands_the_cache_queries_and_keys_turned_by_their_positions"

# (name, file, old, new, test, what its message says)
_MISTAKES = [
    ("the whole capacity returned", CACHE, RETURNED, "return keys, values", PAST, "the whole capacity came back"),
    ("only the new ones returned", CACHE, RETURNED, "return k, v", PAST, "only the new positions came back"),
    (
        "keys and values swapped",
        CACHE,
        RETURNED,
        "return values[:, :, :end], keys[:, :, :end]",
        PAST,
        "keys and values are swapped",
    ),
    (
        "written from place 0 on",
        CACHE,
        KEYS,
        "keys[:, :, : end - self.length] = k.detach()",
        PAST,
        "over the past",
    ),
    (
        "the tensors joined anew",
        CACHE,
        RETURNED,
        "return tuple(torch.cat([x[:, :, : self.length], new.detach()], dim=2) for x, new in ((keys, k), (values, v)))",
        "test_update_takes_no_new_memory",
        "the cache was copied",
    ),
    (
        "shapes not checked",
        CACHE,
        END,
        "end = self.length + k.shape[2]\n        self._need_room(end)",
        "test_update_refuses_heads_of_another_shape",
        "because of k",
    ),
    (
        "written before it is refused",
        CACHE,
        END,
        "end = min(self.length + k.shape[2], self.capacity)\n"
        "        self.keys[layer][:, :, self.length : end] = k[:, :, : end - self.length]\n"
        "        end = self._end_of(k, v)",
        "test_update_takes_exactly_as_many_positions_as_there_is_room_for",
        "must not write anything",
    ),
    (
        "the last place unused",
        CACHE,
        END,
        END + "\n        if end == self.capacity:\n            raise ValueError('the cache is full')",
        "test_update_takes_exactly_as_many_positions_as_there_is_room_for",
        "the last place of the capacity is usable",
    ),
    (
        "one position a pass",
        CACHE,
        "self.length += n\n",
        "self.length += 1\n",
        "test_advance_counts_the_positions_of_each_pass",
        "advance(n) counts n positions, not one",
    ),
    (
        "a negative advance",
        CACHE,
        "if n < 0:",
        "if False:",
        "test_advance_refuses_a_negative_count",
        "because of n",
    ),
    (
        "an advance beyond the capacity",
        CACHE,
        "        self._need_room(self.length + n)\n",
        "",
        "test_advance_refuses_more_than_the_capacity",
        "2 more positions after 3 do not fit",
    ),
    (
        "a pass cut to the room",
        CACHE,
        UPDATE,
        "room = self.capacity - self.length; " + UPDATE.replace("k, v)", "k[:, :, :room], v[:, :, :room])"),
        REFUSES,
        "2 more positions after 7 do not fit",
    ),
    (
        "keys come first",
        LAYER,
        SPLIT,
        "q, k, v = rotated[:, K:], rotated[:, :K], heads[:, N + K :]",
        HANDED,
        "in the order queries, keys, values",
    ),
    ("theta not handed on", LAYER, TURNED, TURNED.replace(", self.theta", ""), HANDED, "rotate by self.theta"),
    (
        "heads before positions",
        LAYER,
        "view(B, T, N + 2 * K, self.head_dim).transpose(1, 2)",
        "view(B, N + 2 * K, T, self.head_dim)",
        HANDED,
        "view it as (B, T, heads, H), then transpose",
    ),
    (
        "the first row's offset for all",
        LAYER,
        TURNED,
        "import torch; offset = int(offset.flatten()[0]) if torch.is_tensor(offset) else offset\n        " + TURNED,
        "test_forward_takes_one_offset_per_row",
        "the first row's offset was used for every row",
    ),
    (
        "out forgotten",
        LAYER,
        "return self.out(attended.transpose(1, 2).reshape(B, T, -1))",
        "return attended.transpose(1, 2).reshape(B, T, -1)",
        "test_forward_puts_what_the_cache_returns_through_out",
        "`out` is missing",
    ),
]
MISTAKES = [
    {"name": f"cache, {name}", "week": 2, "file": file, "old": old, "new": new, "test": test, "says": says}
    for name, file, old, new, test, says in _MISTAKES
]
