"""Week 9, attention in tiles: one mistake for each promise that no other mistake breaks."""

SCORES = "return math.ceil(batch_size * n_heads * n_tokens**2 * bits / 8)"
LONG = "test_score_matrix_bytes_of_a_long_prompt"
TILED = "    grouped, out = q.reshape(B, K, G, T, H), q.new_empty(B, K, G, T, H)\n"
SIZE = "size = torch.promote_types(q.dtype, torch.float32), math.ceil(S / n_splits)"
STEP = "for first in range(0, S, size):"
TILE_CHECKS = "    require_count(1, tile=tile)\n    require_heads(q, k, v)\n"
SPLIT_CHECKS = "    require_count(1, n_splits=n_splits)\n    require_heads(q, k, v)\n"

# (name, old, new, test, what its message says)
_MISTAKES = [
    ("scores in bits", SCORES, SCORES.replace(" / 8", ""), LONG, "bits are taken for bytes"),
    ("a score a token", SCORES, SCORES.replace("n_tokens**2", "n_tokens"), LONG, "one score a token"),
    ("one matrix for all heads", SCORES, SCORES.replace(" * n_heads", ""), LONG, "each of the 32 heads"),
    ("one matrix for all sequences", SCORES, SCORES.replace("batch_size * ", ""), LONG, "each sequence has"),
    ("16 bits a score", SCORES, SCORES.replace("bits / 8", "2"), LONG, "32 take twice what 16 do"),
    (
        "a prompt of nothing",
        "    require_count(1, n_tokens=n_tokens, n_heads=n_heads, batch_size=batch_size)\n",
        "",
        "test_score_matrix_bytes_refuses_what_is_no_size",
        "because of n_tokens",
    ),
    (
        "keys copied for every query head",
        "scores = rows @ k[:, :, first:last].to(wide).transpose(-1, -2)  # (B, K, G·t, last - first)",
        "copies = k[:, :, first:last].repeat_interleave(G, dim=1).to(wide)\n"
        "            scores = (rows.view(B, N, t, H) @ copies.mT).view(B, K, G * t, -1)",
        "test_flash_attention_reads_a_tile_of_keys_once_for_a_whole_group",
        "copied for each of the 8 query heads",
    ),
    (
        "only whole tiles of queries",
        "for first_query in range(0, T, tile):",
        "out.zero_()\n    for first_query in range(0, T - tile + 1, tile):",
        "test_flash_attention_gives_every_query_its_result_where_tiles_do_not_fit",
        "is the last tile shorter?",
    ),
    (
        "a result in 32 bits",
        TILED,
        TILED.replace("T, H)\n", "T, H, dtype=wide)\n"),
        "test_flash_attention_of_16_bit_heads_adds_up_in_32",
        "the result has the dtype of q",
    ),
    (
        "any tile",
        TILE_CHECKS,
        "    tile = max(1, int(tile))\n    require_heads(q, k, v)\n",
        "test_flash_attention_refuses_what_does_not_fit",
        "because of tile",
    ),
    (
        "keys behind the last whole range left out",
        STEP,
        "for first in range(0, S - size + 1, size):",
        "test_split_k_attention_makes_no_empty_range",
        "are the last keys left out",
    ),
    (
        "as many ranges as asked for",
        STEP,
        "for first in range(0, n_splits * size, size):",
        "test_split_k_attention_makes_no_empty_range",
        "is one of them empty?",
    ),
    (
        "two ranges at most",
        SIZE,
        SIZE.replace("n_splits", "min(n_splits, 2)"),
        "test_split_k_attention_meets_each_range_of_keys_by_itself",
        "one softmax met 48 of 96 keys",
    ),
    (
        "any number of ranges",
        SPLIT_CHECKS,
        "    n_splits = max(1, int(n_splits))\n    require_heads(q, k, v)\n",
        "test_split_k_attention_refuses_what_does_not_fit",
        "because of n_splits",
    ),
    (
        "an empty state that has a say",
        "total = one.total * first + other.total * second",
        "total = torch.where(other.total == 0, one.total + 1, one.total * first + other.total * second)",
        "test_merge_with_a_state_that_has_met_no_key_changes_nothing",
        "an empty range changed the result",
    ),
    (
        "no lengths read as no positions",
        "filled = torch.full((B,), S, device=q.device) if lengths is None else lengths",
        "filled = torch.full((B,), S - 1, device=q.device) if lengths is None else lengths",
        "test_split_k_attention_makes_no_empty_range",
        "are the last keys left out",
    ),
    (
        "each head's score matrix rounded up",
        "math.ceil(batch_size * n_heads * n_tokens**2 * bits / 8)",
        "batch_size * n_heads * math.ceil(n_tokens**2 * bits / 8)",
        "test_score_matrix_bytes_are_rounded_once_for_everything",
        "each head's bytes were rounded up",
    ),
    (
        "each sequence's score matrices rounded up",
        "math.ceil(batch_size * n_heads * n_tokens**2 * bits / 8)",
        "batch_size * math.ceil(n_heads * n_tokens**2 * bits / 8)",
        "test_score_matrix_bytes_are_rounded_once_for_everything",
        "each sequence's bytes were rounded up",
    ),
    (
        "bits of a score rounded up",
        "math.ceil(batch_size * n_heads * n_tokens**2 * bits / 8)",
        "math.ceil(batch_size * n_heads * n_tokens**2 * math.ceil(bits) / 8)",
        "test_score_matrix_bytes_of_bits_that_are_not_whole",
        "bits were rounded up to 5",
    ),
    (
        "bits that are not whole refused",
        "    require_positive(bits=bits)\n",
        "    require_count(1, bits=bits)\n",
        "test_score_matrix_bytes_of_bits_that_are_not_whole",
        "bits = 4.5 was refused",
    ),
    (
        "a smallest maximum of -10,000",
        "    maximum = torch.maximum(state.maximum, scores.amax(dim=-1, keepdim=True))\n",
        "    maximum = torch.maximum(state.maximum, scores.amax(dim=-1, keepdim=True)).clamp(min=-1e4)\n",
        "test_online_softmax_meets_keys_whose_scores_are_all_very_low",
        "and the maximum is -10000",
    ),
    (
        "a smallest maximum of -1e30 in place of minus infinity",
        "    maximum = torch.maximum(state.maximum, scores.amax(dim=-1, keepdim=True))\n",
        "    maximum = torch.maximum(state.maximum, scores.amax(dim=-1, keepdim=True)).clamp(min=-1e30)\n",
        "test_online_softmax_keeps_a_maximum_of_minus_infinity_where_all_keys_are_hidden",
        "keeps a maximum of -inf",
    ),
    (
        "a range for every key",
        "math.ceil(S / n_splits)",
        "1",
        "test_split_k_attention_makes_no_more_ranges_than_it_is_told",
        "so there are more ranges than n_splits",
    ),
    (
        "ranges rounded down, and so one too many",
        "math.ceil(S / n_splits)",
        "max(1, S // n_splits)",
        "test_split_k_attention_makes_no_more_ranges_than_it_is_told",
        "so there are more ranges than n_splits",
    ),
]
MISTAKES = [
    {
        "name": f"promise, {name}",
        "week": 9,
        "file": "attention/flash.py",
        "old": old,
        "new": new,
        "test": test,
        "says": says,
    }
    for name, old, new, test, says in _MISTAKES
]
