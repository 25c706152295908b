"""Grades `attention/flash.py` against one softmax of all keys, attention one query at a time (by_hand.py) and torch."""

import math
from functools import reduce

import pytest
import torch
from by_hand import attention, close, name_the_mistake, random
from hypothesis import given, settings
from hypothesis import strategies as st
from keys_met import KeysMet
from largest_tensor import LargestTensor
from refusal import assert_refuses
from torch.utils.flop_counter import FlopCounterMode

from nanolm.attention import SoftmaxState

# The fixture gives the same module to every example.
law = settings(max_examples=60)
INFINITY, NAN = math.inf, math.nan
LN2 = math.log(2)
ONE_MAXIMUM = "the maximum is each row's own: one for all rows makes the others underflow"
IN_GROUPS = "the N heads are K groups of G, (K, G), not (G, K): query head n reads key/value head n // G"


def column(*numbers):
    """One row of scores, or one number for each of several keys."""
    return torch.tensor([numbers], dtype=torch.float64)


def values_of(*numbers):
    """(C, 1): each key's value is one number."""
    return torch.tensor(numbers, dtype=torch.float64)[:, None]


def fold(online_softmax, scores, values, cuts):
    """The state after the keys in pieces that end at `cuts` and at the end."""
    state = SoftmaxState.empty(values.new_zeros(*scores.shape[:-1], values.shape[-1]))
    for first, last in zip([0, *cuts], [*cuts, scores.shape[-1]], strict=True):
        state = online_softmax(state, scores[..., first:last], values[..., first:last, :])
    return state


# --- online_softmax ----------------------------------------------------------------------------------------------


UPSIDE_DOWN = (3.0, 12.0)  # as below, but the old sums 1 and 3 doubled where they should be halved


def two_keys(impl):
    """The state after score 0 and value 3, made by hand, then score ln 2 and value 6; its total and weighted."""
    met = SoftmaxState(column(0.0), column(1.0), column(3.0))
    state = impl.online_softmax(met, column(LN2), values_of(6.0))
    return state, tuple(round(part.item(), 9) for part in (state.total, state.weighted))


def hidden_makes_nan(impl):
    """Where the NaN of a hidden key comes from: a difference of maxima, or a division that is `result`'s."""
    divides = two_keys(impl)[1] == (1.5, 5.0)
    return "its total is 0, and 0 / 0 is NaN: do not divide" if divides else "-inf - -inf is NaN: subtract 0 instead"


@pytest.mark.exercise("online_softmax")
def test_online_softmax_rescales_what_it_has_when_the_maximum_grows(impl):
    # Scores 0, then ln 2; values 3 and 6. Relative to ln 2 the weights are 1/2 and 1: total 1.5, weighted
    # 1.5 + 6 = 7.5, and the mean 7.5 / 1.5 = 5 (= 1/3 · 3 + 2/3 · 6).
    # The first key is met already, by hand: what an empty state turns into is another test's.
    state, found = two_keys(impl)
    assert found != (2.0, 9.0), (
        "no rescaling when the maximum grows: the old total and the old sum belong to the old maximum"
    )
    assert found != (2.0, 7.5), "the denominator is not rescaled when the maximum grows: `total` belongs to it as well"
    assert found != (1.5, 9.0), "the numerator is not rescaled when the maximum grows: `weighted` belongs to it as well"
    assert found != UPSIDE_DOWN, (
        "the rescaling is upside down: old sums shrink by exp(old - new), they do not grow by exp(new - old)"
    )
    assert found != (1.5, 5.0), "`weighted` was divided already: it stays a sum, and `result` divides once, at the end"
    assert found != (3.0, 15.0), "exp overflows unless the maximum is subtracted: sums are relative to it"
    assert math.isclose(state.maximum.item(), LN2), f"the largest score is ln 2 = 0.693; got {state.maximum.item()}"
    assert found == (1.5, 7.5), f"total and weighted must be 1.5 and 7.5; got {found}"
    assert math.isclose(state.result().item(), 5.0)


@pytest.mark.exercise("online_softmax")
def test_online_softmax_begins_with_a_state_that_has_met_no_key(impl):
    state = impl.online_softmax(SoftmaxState.empty(column(0)), column(0.0), values_of(3.0))
    found = (state.total.item(), state.weighted.item())
    why = "its sums are 0"
    if two_keys(impl)[1] == UPSIDE_DOWN:
        why = "e^(new - old) of it is ∞, and ∞ · 0 is NaN: the correction is e^(old - new), which is 0"
    assert not any(map(math.isnan, found)), f"an empty state, whose maximum is -inf, became NaN with a key: {why}"
    assert found == (1, 3), f"after one key with score 0 and value 3, total and weighted are 1 and 3; got {found}"


@pytest.mark.exercise("online_softmax")
def test_online_softmax_keeps_a_maximum_for_each_row(impl):
    # Row 0 far above row 1, and row 2, whose first key is hidden; the larger score has all the weight.
    scores = torch.tensor([[1000.0, 900.0], [0.0, -100.0], [-INFINITY, 3.0]], dtype=torch.float64)
    state = fold(impl.online_softmax, scores, values_of(5.0, 7.0), [1])
    assert state.maximum.any(), "the maximum of each row is 0: it is the largest score met"
    assert state.maximum.unique().numel() > 1, ONE_MAXIMUM
    result = state.result()[:, 0].tolist()
    assert not math.isnan(result[2]), f"row 2's first key is hidden: {hidden_makes_nan(impl)}"
    assert result == [5, 5, 7], f"three rows far apart attend to values 5, 5 and 7; got {result}"


@pytest.mark.exercise("online_softmax")
def test_online_softmax_keeps_the_maximum_when_the_next_scores_are_smaller(impl):
    # The same two keys in the other order, hence the same state.
    state = fold(impl.online_softmax, column(LN2, 0), values_of(6.0, 3.0), [1])
    assert math.isclose(state.maximum.item(), LN2), (
        f"the maximum is that of all keys met, ln 2 = 0.693, not the last piece's: {state.maximum.item()}"
    )
    found = (round(state.total.item(), 9), round(state.weighted.item(), 9))
    assert found == (1.5, 7.5), f"total and weighted must be 1.5 and 7.5; got {found}"


@pytest.mark.exercise("online_softmax")
@law
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    spread=st.sampled_from([0.1, 3.0, 50.0]),
    seed=st.integers(0, 99),
)
def test_online_softmax_in_pieces_of_any_size_is_one_softmax(impl, sizes, spread, seed):
    C = sum(sizes)
    scores, values = random(2, 3, C, seed=seed) * spread, random(2, C, 4, seed=seed + 1)
    cuts = [sum(sizes[:i]) for i in range(1, len(sizes))]
    actual = fold(impl.online_softmax, scores, values, cuts).result()
    expected = torch.softmax(scores, dim=-1) @ values
    assert close(actual, expected), f"pieces of {sizes} keys: off by {(actual - expected).abs().max():.2g}"


@pytest.mark.exercise("online_softmax")
def test_online_softmax_does_not_overflow(impl):
    # exp(1000) is more than a float holds. Weights 1/3 and 2/3 as above.
    result = fold(impl.online_softmax, column(1000, 1000 + LN2), values_of(3.0, 6.0), [1]).result()
    assert result.isfinite().all(), "exp overflows unless the maximum is subtracted: exp(1000) is no float"
    assert close(result, column(5.0), 1e-9), f"scores of 1,000: got {result.item()}, expected 5"


@pytest.mark.exercise("online_softmax")
def test_online_softmax_of_hidden_keys_only_is_no_nan(impl):
    hidden = column(-INFINITY, -INFINITY)
    state = impl.online_softmax(SoftmaxState.empty(column(0)), hidden, values_of(3.0, 6.0))
    assert not torch.isnan(torch.cat(state)).any(), f"every key is hidden: {hidden_makes_nan(impl)}"
    assert state.result().item() == 0, "a query that has met no key gives 0"
    state = impl.online_softmax(state, column(7.0), values_of(3.0))
    assert state.result().item() == 3, f"one visible key after hidden ones has all the weight; got {state.result()}"


@pytest.mark.exercise("online_softmax")
@pytest.mark.parametrize("lowest", [-20_000.0, -1e35])
def test_online_softmax_meets_keys_whose_scores_are_all_very_low(impl, lowest):
    # Equal scores share the weight, wherever they lie; the maximum is the score itself.
    state = fold(impl.online_softmax, column(lowest, lowest), values_of(3.0, 5.0), [1])
    assert state.maximum.item() == lowest, (
        f"the largest score met is {lowest:g}, and the maximum is {state.maximum.item():g}: only -inf, no score, "
        "is a case of its own"
    )
    result = state.result().item()
    assert result == 4, f"two equal scores of {lowest:g}: 3 and 5 weigh the same, so 4, not {result}"


@pytest.mark.exercise("online_softmax")
def test_online_softmax_keeps_a_maximum_of_minus_infinity_where_all_keys_are_hidden(impl):
    state = impl.online_softmax(SoftmaxState.empty(column(0)), column(-INFINITY, -INFINITY), values_of(3.0, 6.0))
    assert state.maximum.item() == -INFINITY, (
        f"a query that has met hidden keys only keeps a maximum of -inf, not {state.maximum.item():g}: lower "
        "scores may come"
    )


@pytest.mark.exercise("online_softmax")
@pytest.mark.parametrize("broken", [NAN, INFINITY])
def test_online_softmax_gives_a_hidden_value_no_say(impl, broken):
    scores = torch.tensor([[0.0, -INFINITY], [0.0, 0.0]], dtype=torch.float64)  # the first row does not see key 1
    state = impl.online_softmax(
        SoftmaxState.empty(torch.zeros(2, 1, dtype=torch.float64)), scores, values_of(3, broken)
    )
    seen = state.result()[:, 0].tolist()
    assert seen[0] == 3, f"a hidden value of {broken} leaked: 0 · {broken} is NaN (`weighted_sum` keeps it out)"
    assert not math.isfinite(seen[1]), "a row that does see the broken value must show it"  # ∞ may stay ∞


@pytest.mark.exercise("online_softmax")
def test_online_softmax_leaves_the_state_it_got_as_it_was(impl):
    state = impl.online_softmax(SoftmaxState.empty(column(0)), column(0.0), values_of(3.0))
    before = [part.clone() for part in state]
    impl.online_softmax(state, column(5.0), values_of(1.0))
    assert all(map(torch.equal, state, before)), "the old state was changed in place: a split may still need it"


# --- merge -------------------------------------------------------------------------------------------------------


def state_of(scores, values):
    """Straight from the definition, all keys at once."""
    maximum = scores.amax(-1, keepdim=True)
    weights = (scores - maximum).exp()
    return SoftmaxState(maximum, weights.sum(-1, keepdim=True), weights @ values)


@pytest.mark.exercise("merge")
@pytest.mark.parametrize("larger_first", [False, True])
def test_merge_brings_both_states_to_the_larger_maximum(impl, larger_first):
    # As for online_softmax: keys with scores 0 and ln 2, values 3 and 6; together total 1.5 and weighted 7.5.
    parts = [state_of(column(0.0), values_of(3.0)), state_of(column(LN2), values_of(6.0))]
    state = impl.merge(*(parts[::-1] if larger_first else parts))
    found = (round(state.total.item(), 9), round(state.weighted.item(), 9))
    assert found != (2.0, 9.0), (
        "no rescaling: whichever state has the smaller maximum, first or second, shrinks by exp(its - the larger)"
    )
    assert found != (2.0, 7.5), "the denominator is not rescaled: `total` belongs to the maximum as well"
    assert found != (1.5, 9.0), "the numerator is not rescaled: `weighted` belongs to the maximum as well"
    assert found != (3.0, 12.0), (
        "the rescaling is upside down: sums shrink by exp(their maximum - the larger), they do not grow"
    )
    assert found != (3.0, 15.0), (
        "the smaller maximum was taken: relative to it the weights grow, and those of large scores overflow"
    )
    assert found == (1.5, 7.5), f"total and weighted must be 1.5 and 7.5; got {found}"
    assert math.isclose(state.maximum.item(), LN2), f"the larger maximum is ln 2 = 0.693; got {state.maximum.item()}"


@pytest.mark.exercise("merge")
def test_merge_keeps_a_maximum_for_each_row(impl):
    # As for online_softmax: row 0 far above row 1, and row 2, of which one state has met no key.
    rows = torch.tensor([[1000.0, 900.0], [0.0, -100.0], [-INFINITY, 3.0]], dtype=torch.float64)
    totals = (rows > -INFINITY).double()
    one, other = (
        SoftmaxState(rows[:, [i]], totals[:, [i]], totals[:, [i]] * value) for i, value in enumerate((5.0, 7.0))
    )
    state = impl.merge(one, other)
    assert state.maximum.unique().numel() > 1, ONE_MAXIMUM
    result = state.result()[:, 0].tolist()
    assert result == [5, 5, 7], f"three rows far apart attend to values 5, 5 and 7; got {result}"


@pytest.mark.exercise("merge")
@law
@given(sizes=st.lists(st.integers(1, 5), min_size=2, max_size=5), order=st.randoms(), seed=st.integers(0, 99))
def test_merge_of_parts_in_any_order_is_one_softmax(impl, sizes, order, seed):
    C = sum(sizes)
    scores, values = random(3, C, seed=seed) * 20, random(C, 4, seed=seed + 1)
    states = [state_of(s, v) for s, v in zip(scores.split(sizes, -1), values.split(sizes, -2), strict=True)]
    order.shuffle(states)
    off = (reduce(impl.merge, states).result() - torch.softmax(scores, -1) @ values).abs().max().item()
    assert off <= 1e-12, f"parts of {sizes} keys, merged pair by pair in some order: off by {off:.2g}"


@pytest.mark.exercise("merge")
def test_merge_with_a_state_that_has_met_no_key_changes_nothing(impl):
    nothing, some = SoftmaxState.empty(column(0)), state_of(column(0.0, LN2), values_of(3.0, 6.0))
    for pair in ((nothing, some), (some, nothing)):
        merged = impl.merge(*pair)
        assert all(map(close, merged, some)), f"an empty range changed the result to {merged.result().item()}"
    assert impl.merge(nothing, nothing).result().item() == 0, "two empty states: -inf - -inf is NaN; the result is 0"


# --- flash_attention ---------------------------------------------------------------------------------------------


def heads(B, N, K, T, S, H=6, seed=0):
    return random(B, N, T, H, seed=seed), random(B, K, S, H, seed=seed + 1), random(B, K, S, H, seed=seed + 2)


def explicit_sdpa(q, k, v):
    """torch's attention with everything spelled out: each head its own copy of the keys, and a full mask."""
    T, S, G = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    mask = torch.tensor([[s <= S - T + t for s in range(S)] for t in range(T)])
    k, v = k.repeat_interleave(G, dim=1), v.repeat_interleave(G, dim=1)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def flash_mistakes(q, k, v, tile):
    T, S, H = q.shape[2], k.shape[2], q.shape[3]
    K, G = k.shape[1], q.shape[1] // k.shape[1]
    without_own = attention(q, k, v, lambda t: range(max(1, S - T + t)))
    without_own[:, :, : max(0, T - S + 1)] = 0  # the first position of all sees nothing
    left_out = (
        "the current token is left out"
        if S > 1
        else "the only query got nothing: it sees its own key, and a tile may be short"
    )
    other_groups = attention(q, k.repeat(1, G, 1, 1), v.repeat(1, G, 1, 1))
    return {
        "the scale is forgotten: scores are divided by √H": attention(q * math.sqrt(H), k, v),
        "the scale is applied twice: scores are divided by √H once": attention(q / math.sqrt(H), k, v),
        left_out: without_own,
        "no mask inside the last tile: a position looks at the future": attention(
            q, k, v, lambda t: range(S - T + min(T, (t // tile + 1) * tile))
        ),
        "causal, but aligned top-left: query t stands at position S - T + t, not t": attention(
            q, k, v, lambda t: range(t + 1)
        ),
        "no mask: a position looks at the future": attention(q, k, v, lambda t: range(S)),
        "query head n reads key/value head n // G, not n % K": other_groups,
        IN_GROUPS: other_groups.unflatten(1, (G, K)).transpose(1, 2).flatten(1, 2),
        "the G·t rows of a tile are G times its t queries: their positions repeat as a whole (repeat), not each by "
        "itself (repeat_interleave)": interleaved(q, k, v, tile),
    }


def interleaved(q, k, v, tile):
    """What comes out where row r of the G·t rows of a tile is taken for query r // G of it."""
    T, S, G = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]

    def sees(t, g):
        first = t // tile * tile
        n_queries = min(tile, T - first)
        last = first + n_queries - 1  # no key behind the tile's last query is read
        return range(S - T + min(last, first + (g * n_queries + t - first) // G) + 1)

    return torch.cat(
        [
            attention(q[:, [n]], k[:, [n // G]], v[:, [n // G]], lambda t, n=n: sees(t, n % G))
            for n in range(q.shape[1])
        ],
        dim=1,
    )


@pytest.mark.exercise("flash_attention")
@pytest.mark.parametrize(("T", "S"), [(1, 1), (5, 5), (1, 6), (3, 7), (6, 8), (8, 8)])
@pytest.mark.parametrize(("N", "K"), [(4, 4), (6, 2), (4, 1)])
def test_flash_attention_equals_attention_one_query_at_a_time(impl, N, K, T, S):
    q, k, v = heads(2, N, K, T, S)
    actual = impl.flash_attention(q, k, v, tile=4)
    assert actual.shape == q.shape, f"the result has the shape of q, {tuple(q.shape)}, not {tuple(actual.shape)}"
    assert close(actual, attention(q, k, v)), name_the_mistake(
        actual, flash_mistakes(q, k, v, 4), f"{T} queries over {S} keys in tiles of 4: not softmax attention"
    )


@pytest.mark.exercise("flash_attention")
@law
@given(
    T=st.integers(1, 20),
    past=st.integers(0, 20),
    tile=st.integers(1, 24),
    K=st.integers(1, 3),
    G=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_flash_attention_with_any_tile_equals_torch_with_a_full_mask(impl, T, past, tile, K, G, seed):
    q, k, v = heads(1, K * G, K, T, past + T, H=4, seed=seed)
    actual = impl.flash_attention(q, k, v, tile)
    off = (actual - explicit_sdpa(q, k, v)).abs().max().item()
    assert off < 1e-12, f"T = {T} after {past}, tiles of {tile}, {G} heads a group: off by {off:.2g}"


@pytest.mark.exercise("flash_attention")
def test_flash_attention_stays_exact_where_scores_are_large(impl):
    q, k, v = heads(1, 2, 1, 9, 12)
    actual = impl.flash_attention(400 * q, k, v, tile=5)  # exp(score) would overflow
    # 1e-9: a score of 2,000 is rounded by 2e-13, and where two are nearly equal their weights are off by as much.
    assert actual.isfinite().all(), "large scores: is the running maximum subtracted?"
    assert close(actual, explicit_sdpa(400 * q, k, v), 1e-9), "wrong with large scores (mend small ones first)"


@pytest.mark.exercise("flash_attention")
@pytest.mark.parametrize("broken", [NAN, INFINITY])
def test_flash_attention_shows_no_query_a_broken_future(impl, broken):
    q, k, v = heads(1, 2, 1, 6, 8)
    q = q.abs()  # the score is ∞ then; a query of six negative numbers has -∞, which is a hidden key's
    expected = attention(q, k, v)
    # The queries stand at positions 2 to 7. The first tile has 2 to 5: of its keys 2 and 3 must not see 4 and 5.
    k[:, :, 4:], v[:, :, 4:] = broken, broken
    actual = impl.flash_attention(q, k, v, tile=4)
    assert actual[:, :, :2].isfinite().all(), f"{broken} in keys and values that are hidden leaked"
    assert close(actual[:, :, :2], expected[:, :, :2]), "wrong before a broken key (mend whole ones first)"
    assert not actual[:, :, 2:].isfinite().any(), "queries that see the broken key must show it"


@pytest.mark.exercise("flash_attention")
def test_flash_attention_takes_heads_that_are_views_of_one_projection(impl):
    joined = random(2, 5, 8, 6).transpose(1, 2)  # (B, N + 2K, T, H), not contiguous
    q, k, v = joined[:, :4], joined[:, 4:6], joined[:, 6:]
    before = joined.clone()
    actual = impl.flash_attention(q, k, v, 2)
    assert close(actual, attention(q, k, v)), "wrong where q, k and v are views of one tensor, not contiguous"
    assert torch.equal(joined, before), "the input was changed in place"


@pytest.mark.exercise("flash_attention")
def test_flash_attention_of_16_bit_heads_adds_up_in_32(impl):
    q, k, v = (x.bfloat16() for x in heads(1, 2, 1, 3, 600))
    actual = impl.flash_attention(q, k, v, tile=8)
    assert actual.dtype == torch.bfloat16, f"the result has the dtype of q, not {actual.dtype}"
    exact = explicit_sdpa(q.double(), k.double(), v.double())
    # 8 binary digits: rounding the exact result once is off by at most 1/256 of it. Sums kept in 16 bits lose far more.
    off = ((actual.double() - exact).abs() / exact.abs().clamp(min=0.01)).max().item()
    assert off < 1 / 128, f"off by {off:.2%}: 75 tiles added up in 16 bits lose digits; keep the state in 32"


@pytest.mark.exercise("flash_attention")
def test_flash_attention_makes_no_matrix_of_scores(impl):
    # 8,192² scores of 4 bytes: 268,435,456 B. Tiles of 512: 512² · 4 = 1,048,576 B; q itself 262,144 B.
    q, k, v = (torch.zeros(1, 1, 8192, 8) for _ in range(3))
    with LargestTensor() as largest:
        impl.flash_attention(q, k, v, tile=512)
    assert largest.nbytes < 268_435_456, "the T × T matrix was made: no tensor may have both T and S as dimensions"
    assert largest.nbytes <= 2 * 1_048_576, (
        f"the largest tensor takes {largest.nbytes:,} B; a tile of scores takes 1,048,576, and nothing need be larger"
    )


@pytest.mark.exercise("flash_attention")
def test_flash_attention_reads_no_key_behind_what_a_tile_sees(impl):
    # 64 queries and keys in tiles of 8: the 8 rows of tiles meet 1 + 2 + … + 8 = 36 tiles of keys, of 64 that there
    # are. A tile takes 8 · 8 · 8 multiplications for scores, as many for the mixture, and two FLOPs each: 2,048.
    q, k, v = heads(1, 1, 1, 64, 64, H=8)
    with FlopCounterMode(display=False) as counter:
        impl.flash_attention(q, k, v, tile=8)
    assert counter.get_total_flops() < 55 * 2048, (
        "every tile of queries reads keys that none of its queries may see: 36 of the 64 pairs of tiles are needed, "
        f"and the work is that of {counter.get_total_flops() / 2048:.0f}"
    )


@pytest.mark.exercise("flash_attention")
def test_flash_attention_widens_a_tile_at_a_time(impl):
    # 4,096 keys of 64 numbers: 524,288 B in 16 bits, 1,048,576 in 32. A tile of 64: 16,384.
    q, k, v = torch.zeros(1, 1, 8, 64).bfloat16(), *(torch.zeros(1, 1, 4096, 64).bfloat16() for _ in range(2))
    with LargestTensor() as largest:
        impl.flash_attention(q, k, v, tile=64)
    assert largest.nbytes < 1_048_576, "all keys or values were copied in 32 bits at once: widen a tile as it is read"


@pytest.mark.exercise("flash_attention")
def test_flash_attention_reads_a_tile_of_keys_once_for_a_whole_group(impl):
    # 8 query heads, one key head: 64 keys of 64 numbers take 16,384 B, as do the 8 · 8 rows and their 64 scores each.
    q, k, v = torch.zeros(1, 8, 8, 64), *(torch.zeros(1, 1, 64, 64) for _ in range(2))
    with LargestTensor() as largest:
        impl.flash_attention(q, k, v, tile=64)
    assert largest.nbytes < 8 * 16_384, (
        f"keys or values were copied for each of the 8 query heads, {largest.nbytes:,} B: the heads of a group are "
        "rows of one matrix, which meets a tile once"
    )


@pytest.mark.exercise("flash_attention")
@pytest.mark.parametrize("tile", [1, 3, 5])
def test_flash_attention_gives_every_query_its_result_where_tiles_do_not_fit(impl, tile):
    q, k, v = heads(1, 2, 1, 7, 11)
    off = (impl.flash_attention(q, k, v, tile) - explicit_sdpa(q, k, v)).abs().amax((0, 1, 3))
    wrong = [t for t, difference in enumerate(off.tolist()) if not difference < 1e-12]  # NaN is wrong
    assert not wrong, f"7 queries over 11 keys in tiles of {tile}: queries {wrong} are wrong; is the last tile shorter?"


@pytest.mark.exercise("flash_attention")
def test_flash_attention_refuses_what_does_not_fit(impl):
    q, k, v = heads(1, 4, 2, 3, 5)
    assert_refuses("tile", impl.flash_attention, q, k, v, 0)
    assert_refuses("tile", impl.flash_attention, q, k, v, 1.5)
    assert_refuses("k", impl.flash_attention, q, k[:, :, :2], v[:, :, :2])  # fewer keys than queries
    assert_refuses("N|q|k|K", impl.flash_attention, q[:, :3], k, v)  # 3 query heads for 2 key heads
    assert_refuses("v", impl.flash_attention, q, k, v[:, :, :4])


# --- split_k_attention -------------------------------------------------------------------------------------------


@pytest.mark.exercise("split_k_attention")
@pytest.mark.parametrize("n_splits", [1, 3, 9])
def test_split_k_attention_sees_each_row_s_own_positions(impl, n_splits):
    q, k, v = heads(4, 4, 2, 1, 9)
    lengths = [9, 4, 1, 0]
    for b, length in enumerate(lengths):
        k[b, :, length:], v[b, :, length:] = NAN, INFINITY  # whatever memory holds behind a row's end
    actual = impl.split_k_attention(q, k, v, n_splits, torch.tensor(lengths))
    for b, length in enumerate(lengths[:3]):
        alone = q[[b]], k[[b], :, :length], v[[b], :, :length]
        why = "not softmax attention" if length == 9 else f"it sees more or less than its own {length} positions"
        assert close(actual[[b]], attention(*alone)), name_the_mistake(
            actual[[b]], split_mistakes(*alone, 9, n_splits), f"row {b}: {why}"
        )
    assert close(actual[3], torch.zeros(4, 1, 6, dtype=torch.float64)), "a row without any position gives 0"


@pytest.mark.exercise("split_k_attention")
@pytest.mark.parametrize(("S", "n_splits"), [(5, 4), (3, 7), (1, 2)])
def test_split_k_attention_makes_no_empty_range(impl, S, n_splits):
    # 5 keys in 4 ranges are 2, 2 and 1, or 2, 1, 1, 1; a range without a key has no maximum.
    q, k, v = heads(1, 2, 1, 1, S)
    try:
        actual = impl.split_k_attention(q, k, v, n_splits)
    except NotImplementedError:  # nobody has written it yet
        raise
    except (IndexError, RuntimeError) as error:
        pytest.fail(f"{S} keys in {n_splits} ranges: is one of them empty? There are fewer ranges then ({error})")
    off = (actual - explicit_sdpa(q, k, v)).abs().max().item()
    assert off < 1e-12, f"{S} keys in {n_splits} ranges: are the last keys left out, or a range empty? Off by {off:.2g}"


@pytest.mark.exercise("split_k_attention")
@law
@given(
    S=st.integers(1, 20),
    n_splits=st.integers(1, 24),
    K=st.integers(1, 3),
    G=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_split_k_attention_in_any_number_of_ranges_equals_torch(impl, S, n_splits, K, G, seed):
    q, k, v = heads(2, K * G, K, 1, S, H=4, seed=seed)
    actual = impl.split_k_attention(q, k, v, n_splits)
    off = (actual - explicit_sdpa(q, k, v)).abs().max().item()
    assert off < 1e-12, f"{S} keys in {n_splits} ranges: off by {off:.2g}"


def split_mistakes(q, k, v, S, n_splits):
    """One row and its own keys, of S places that are cut into ranges."""
    length, K, G, size = k.shape[2], k.shape[1], q.shape[1] // k.shape[1], math.ceil(S / n_splits)
    other_groups = attention(q, k.repeat(1, G, 1, 1), v.repeat(1, G, 1, 1))
    ranges = [slice(first, first + size) for first in range(0, length, size)]
    means = [attention(q, k[:, :, part], v[:, :, part]) for part in ranges]
    return {
        "the scale is forgotten: scores are divided by √H": attention(q * math.sqrt(q.shape[3]), k, v),
        "the scale is applied twice: scores are divided by √H once": attention(q / math.sqrt(q.shape[3]), k, v),
        "query head n reads key/value head n // G, not n % K": other_groups,
        IN_GROUPS: other_groups.unflatten(1, (G, K)).transpose(1, 2).flatten(1, 2),
        "a mean of means: a range counts as much as its keys weigh, so states are merged before they are divided": (
            sum(means) / len(means)
        ),
    }


@pytest.mark.exercise("split_k_attention")
def test_split_k_attention_meets_each_range_of_keys_by_itself(impl):
    q, k, v = heads(1, 2, 1, 1, 96, H=4)
    with KeysMet() as met:
        impl.split_k_attention(q, k, v, 4)
    assert met.most < 48, (
        f"one softmax met {met.most} of 96 keys: each of the 4 ranges yields a state of its own, which needs nothing "
        "of the others, and `merge` makes one of them"
    )


@pytest.mark.exercise("split_k_attention")
@pytest.mark.parametrize(("S", "n_splits"), [(95, 4), (101, 3), (40, 1)])
def test_split_k_attention_makes_no_more_ranges_than_it_is_told(impl, S, n_splits):
    # Of at most n_splits ranges one has S / n_splits keys or more, whoever cuts them.
    q, k, v = heads(1, 2, 1, 1, S, H=4)
    with KeysMet() as met:
        impl.split_k_attention(q, k, v, n_splits)
    assert met.most >= S / n_splits, (
        f"no softmax met more than {met.most} of {S} keys, so there are more ranges than n_splits = {n_splits}: they "
        "have S / n_splits keys, rounded up"
    )


@pytest.mark.exercise("split_k_attention")
def test_split_k_attention_of_16_bit_heads_adds_up_in_32(impl):
    q, k, v = (x.bfloat16() for x in heads(1, 2, 1, 1, 600))
    actual = impl.split_k_attention(q, k, v, 75)
    assert actual.dtype == torch.bfloat16, f"the result has the dtype of q, not {actual.dtype}"
    exact = explicit_sdpa(q.double(), k.double(), v.double())
    # As for flash_attention: one rounding is off by 1/256 at most.
    off = ((actual.double() - exact).abs() / exact.abs().clamp(min=0.01)).max().item()
    assert off < 1 / 128, f"off by {off:.2%}: 75 states merged in 16 bits lose digits; keep them in 32"


@pytest.mark.exercise("split_k_attention")
def test_split_k_attention_refuses_what_does_not_fit(impl):
    q, k, v = heads(1, 4, 2, 1, 5)
    assert_refuses("n_splits", impl.split_k_attention, q, k, v, 0)
    assert_refuses("n_splits", impl.split_k_attention, q, k, v, 1.5)
    assert_refuses("q", impl.split_k_attention, *heads(1, 4, 2, 2, 5), 2)
    assert_refuses("N|q|k|K", impl.split_k_attention, q[:, :3], k, v, 2)  # 3 query heads for 2 key heads
    assert_refuses("v", impl.split_k_attention, q, k, v[:, :, :4], 2)


# --- score_matrix_bytes ------------------------------------------------------------------------------------------


@pytest.mark.exercise("score_matrix_bytes")
def test_score_matrix_bytes_of_a_long_prompt(impl):
    # 8,192² = 67,108,864 scores of 2 bytes; times 32 heads.
    one = impl.score_matrix_bytes(8192)
    assert one not in (67_108_864, 67_117_056), "half the matrix is left out: a mask saves no memory"
    assert one != 1_073_741_824, "bits are taken for bytes: 8x too large"
    assert one != 16_384, "one score a token: each of 8,192 queries meets each of 8,192 keys"
    assert one == 134_217_728, f"one head: 8,192² scores of 2 bytes; got {one:,}"
    assert impl.score_matrix_bytes(8192, n_heads=32) == 4_294_967_296, "each of the 32 heads has its own matrix"
    assert impl.score_matrix_bytes(8192, 32, batch_size=2) == 8_589_934_592, "each sequence has its own matrix"
    assert impl.score_matrix_bytes(8192, 32, bits=32) == 8_589_934_592, "`bits` a score: 32 take twice what 16 do"
    assert impl.score_matrix_bytes(16_384) == 536_870_912, "twice the tokens: four times the scores"


@pytest.mark.exercise("score_matrix_bytes")
def test_score_matrix_bytes_are_whole_and_rounded_up(impl):
    # 9 scores of 4 bits are 4.5 B, and memory comes in whole ones: 5.
    found = impl.score_matrix_bytes(3, bits=4)
    assert found != 4.5, "4.5 bytes: a number of bytes is whole, rounded up"
    assert found != 4, "4 bytes hold 8 scores of 4 bits, and there are 9: round up, not down"
    assert found == 5, f"3 queries meet 3 keys, 9 scores of 4 bits: expected 5 bytes, got {found}"
    assert not isinstance(found, float), "a number of bytes is an int, not a float"


@pytest.mark.exercise("score_matrix_bytes")
def test_score_matrix_bytes_are_rounded_once_for_everything(impl):
    # 2 · 3 · 9 scores of 4 bits are 27 bytes; rounded for each matrix they would be 30, for each sequence 28.
    found = impl.score_matrix_bytes(3, 3, 2, bits=4)
    assert found != 30, "each head's bytes were rounded up: round once, the bytes of all scores"
    assert found != 28, "each sequence's bytes were rounded up: round once, the bytes of all scores"
    assert found == 27, f"54 scores of 4 bits take 27 bytes, not {found}"


@pytest.mark.exercise("score_matrix_bytes")
def test_score_matrix_bytes_of_bits_that_are_not_whole(impl):
    # 4.5 bits are codes of 4 with a scale of 16 for 32: 16 scores take 72 bits.
    try:
        found = impl.score_matrix_bytes(4, bits=4.5)
    except ValueError as error:
        pytest.fail(f"bits = 4.5 was refused ({error}): any number above 0 is allowed")
    assert found != 10, "bits were rounded up to 5: round once, the bytes of all scores"
    assert found == 9, f"16 scores of 4.5 bits take 9 bytes, not {found}"


@pytest.mark.exercise("score_matrix_bytes")
def test_score_matrix_bytes_refuses_what_is_no_size(impl):
    assert_refuses("n_tokens", impl.score_matrix_bytes, 0)
    assert_refuses("n_tokens", impl.score_matrix_bytes, 1.5)
    assert_refuses("n_heads", impl.score_matrix_bytes, 8, 0)
    assert_refuses("batch_size", impl.score_matrix_bytes, 8, 1, 0)
    assert_refuses("bits", impl.score_matrix_bytes, 8, 1, 1, 0)
    assert_refuses("bits", impl.score_matrix_bytes, 8, 1, 1, -16)
    assert_refuses("n_heads", impl.score_matrix_bytes, 8, 1.5)
    assert_refuses("batch_size", impl.score_matrix_bytes, 8, 1, 1.5)


def test_plain_attention_makes_the_matrix_that_is_predicted():
    q, k = (torch.empty(1, 32, 8192, 128, dtype=torch.bfloat16, device="meta") for _ in range(2))  # no memory behind it
    with LargestTensor() as largest:
        torch.softmax(q @ k.transpose(-1, -2), dim=-1)
    assert largest.nbytes == 4_294_967_296  # 32 · 8,192² · 2
