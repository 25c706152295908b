"""Week 9, what a newcomer's wrong answers to attention in tiles got full points for, or were told wrongly."""

SPLIT = "    states = []\n    for first in range(0, S, size):\n"
RANGES_ALIKE = "return reduce(merge, states).result().view(B, N, 1, H).to(q.dtype)"
FLASH = "test_flash_attention_equals_attention_one_query_at_a_time"
OWN = "test_split_k_attention_sees_each_row_s_own_positions"
EACH_ROW = "the maximum is each row's own: one for all rows makes the others underflow"

# (name, old, new, test, what its message says)
_MISTAKES = [
    (
        "one maximum for all rows of scores",
        "torch.maximum(state.maximum, scores.amax(dim=-1, keepdim=True))",
        "torch.maximum(state.maximum, scores.amax()).amax().expand_as(state.maximum)",
        "test_online_softmax_keeps_a_maximum_for_each_row",
        EACH_ROW,
    ),
    (
        "one maximum for all rows of two states",
        "maximum = torch.maximum(one.maximum, other.maximum)",
        "maximum = torch.maximum(one.maximum, other.maximum).amax().expand_as(one.maximum)",
        "test_merge_keeps_a_maximum_for_each_row",
        EACH_ROW,
    ),
    (
        "the correction upside down, from a key on",
        "(state.maximum - shift).exp(), (scores - shift).exp()",
        "(shift - state.maximum).exp(), (scores - shift).exp()",
        "test_online_softmax_rescales_what_it_has_when_the_maximum_grows",
        "the rescaling is upside down",
    ),
    (
        "the correction upside down, from nothing on",
        "(state.maximum - shift).exp(), (scores - shift).exp()",
        "(shift - state.maximum).exp(), (scores - shift).exp()",
        "test_online_softmax_begins_with_a_state_that_has_met_no_key",
        "the correction is e^(old - new)",
    ),
    (
        "tiles of keys behind what is seen",
        "for first in range(0, start + t, tile):\n            last = min(first + tile, start + t)",
        "for first in range(0, S, tile):\n            last = min(first + tile, S)",
        "test_flash_attention_reads_no_key_behind_what_a_tile_sees",
        "every tile of queries reads keys that none of its queries may see",
    ),
    (
        "all keys widened at once",
        "grouped, out = q.reshape(B, K, G, T, H)",
        "k, v = k.to(wide), v.to(wide)\n    grouped, out = q.reshape(B, K, G, T, H)",
        "test_flash_attention_widens_a_tile_at_a_time",
        "copied in 32 bits at once",
    ),
    (
        "positions of a tile repeated one by one",
        ".repeat(G)[:, None]",
        ".repeat_interleave(G)[:, None]",
        FLASH,
        "not each by itself (repeat_interleave)",
    ),
    (
        "groups of heads taken the wrong way round",
        "grouped, out = q.reshape(B, K, G, T, H)",
        "grouped, out = q.reshape(B, G, K, T, H).transpose(1, 2)",
        FLASH,
        "the N heads are K groups of G",
    ),
    (
        "a tile that hides each query's own key",
        "> positions\n",
        ">= positions\n",
        FLASH,
        "the current token is left out",
    ),
    (
        "a range of all keys",
        SPLIT,
        "    size = S\n" + SPLIT,
        "test_split_k_attention_meets_each_range_of_keys_by_itself",
        "each of the 4 ranges yields a state of its own",
    ),
    (
        "states of ranges in 16 bits",
        "wide, size = torch.promote_types(q.dtype, torch.float32)",
        "wide, size = q.dtype",
        "test_split_k_attention_of_16_bit_heads_adds_up_in_32",
        "75 states merged in 16 bits",
    ),
    (
        "a mean of the means of ranges",
        RANGES_ALIKE,
        "return (sum(s.result() for s in states) / len(states)).view(B, N, 1, H).to(q.dtype)",
        OWN,
        "a mean of means",
    ),
    (
        "no scale for one new token",
        "rows = q.reshape(B, K, N // K, H).to(wide) / math.sqrt(H)",
        "rows = q.reshape(B, K, N // K, H).to(wide)",
        OWN,
        "the scale is forgotten",
    ),
    (
        "groups of one new token dealt out in turn",
        "rows = q.reshape(B, K, N // K, H).to(wide) / math.sqrt(H)",
        "rows = q.reshape(B, N // K, K, H).transpose(1, 2).contiguous().to(wide) / math.sqrt(H)",
        OWN,
        "the N heads are K groups of G",
    ),
    (
        "a row's length overrun by one",
        ">= filled[:, None, None, None]",
        "> filled[:, None, None, None]",
        OWN,
        "row 1: it sees more or less than its own 4 positions",
    ),
    (
        "a merge upside down",
        "first, second = (one.maximum - shift).exp(), (other.maximum - shift).exp()",
        "first, second = (shift - one.maximum).exp(), (shift - other.maximum).exp()",
        "test_merge_brings_both_states_to_the_larger_maximum",
        "the rescaling is upside down",
    ),
    (
        "a merge to the smaller maximum",
        "maximum = torch.maximum(one.maximum, other.maximum)",
        "maximum = torch.minimum(one.maximum, other.maximum)",
        "test_merge_brings_both_states_to_the_larger_maximum",
        "the smaller maximum was taken",
    ),
    (
        "bytes of scores that are no whole number",
        "return math.ceil(batch_size * n_heads * n_tokens**2 * bits / 8)",
        "return batch_size * n_heads * n_tokens**2 * bits / 8",
        "test_score_matrix_bytes_are_whole_and_rounded_up",
        "a number of bytes is whole",
    ),
    (
        "bytes of scores rounded down",
        "return math.ceil(batch_size * n_heads * n_tokens**2 * bits / 8)",
        "return int(batch_size * n_heads * n_tokens**2 * bits // 8)",
        "test_score_matrix_bytes_are_whole_and_rounded_up",
        "round up, not down",
    ),
]
MISTAKES = [
    {
        "name": f"flash, {name}",
        "week": 9,
        "file": "attention/flash.py",
        "old": old,
        "new": new,
        "test": test,
        "says": says,
    }
    for name, old, new, test, says in _MISTAKES
]
