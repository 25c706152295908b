"""Grades `nanolm/mla/` against latent attention by its definition: key by key, head by head, in float64."""

import math
from dataclasses import replace

import pytest
import torch
from by_hand import close, name_the_mistake, random, rotate
from largest_tensor import LargestTensor
from refusal import assert_is_refused, assert_refuses
from tiny_models import tiny_config, tokens_of

from nanolm.attention import RotaryTable
from nanolm.budget import LatentAttention
from nanolm.cache import KVCache
from nanolm.engine import Engine
from nanolm.mla import DEMO_CONFIG, DEMO_LATENT, MLA, LatentLM, MLACache, absorbed_attention, naive_attention

B, N, H, C, R, U = 2, 4, 6, 5, 2, 3  # N and H of tiny_config
LATENT = LatentAttention(kv_latent_dim=C, rotary_dim=R, value_dim=U)
THETA = 500.0


def by_definition(q, q_rotary, latents, rotary_keys, up_keys, up_values, sees=None, key_dim=None, with_position=1):
    """Key by key from the formulas; the arguments after `sees` plant mistakes."""
    T, S = q.shape[2], latents.shape[1]
    key_dim = q.shape[3] + q_rotary.shape[3] if key_dim is None else key_dim
    result = torch.zeros(*q.shape[:3], up_values.shape[1], dtype=torch.float64)
    for b in range(q.shape[0]):
        for n in range(q.shape[1]):
            for t in range(T):
                visible = list(sees(t) if sees else range(S - T + t + 1))
                weights = []
                for s in visible:
                    content = q[b, n, t] @ (up_keys[n] @ latents[b, s])
                    position = with_position * (q_rotary[b, n, t] @ rotary_keys[b, s])
                    weights.append(math.exp((content + position).item() / math.sqrt(key_dim)))
                values = [up_values[n] @ latents[b, s] for s in visible]
                result[b, n, t] = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
    return result


def parts(T, S, sizes=(B, N, H, C, R, U), seed=0):
    b, n, h, c, r, u = sizes
    shapes = [(b, n, T, h), (b, n, T, r), (b, S, c), (b, S, r), (n, h, c), (n, u, c)]
    return [random(*shape, seed=seed + i) for i, shape in enumerate(shapes)]


KEYS_TURNED = "the key is up_keys[n] · c; you multiplied with its transpose"
QUERIES_TURNED = "the transpose is missing: q · (W c) is (Wᵀ q) · c, so a query is multiplied with Wᵀ"


def attention_mistakes(q, q_rotary, latents, rotary_keys, up_keys, up_values, keys_turned):
    S = latents.shape[1]
    arguments = (q, q_rotary, latents, rotary_keys, up_keys, up_values)
    suspects = {
        "the scale is √(H + R), the whole length of a key, not √H": by_definition(*arguments, key_dim=q.shape[3]),
        "the scale is √(H + R), though the product is with C + R numbers: absorbing changes no score": by_definition(
            *arguments, key_dim=latents.shape[2] + q_rotary.shape[3]
        ),
        "the scale is forgotten: scores are divided by √(H + R)": by_definition(*arguments, key_dim=1),
        "the rotary part of the score is left out": by_definition(*arguments, with_position=0),
        "no mask: a position looks at the future": by_definition(*arguments, sees=lambda t: range(S)),
        "causal, but aligned top-left: query t stands at position S - T + t": by_definition(
            *arguments, sees=lambda t: range(t + 1)
        ),
    }
    if up_keys.shape[1] == up_keys.shape[2]:
        turned = (q, q_rotary, latents, rotary_keys, up_keys.transpose(1, 2), up_values)
        suspects[keys_turned] = by_definition(*turned)
    if up_values.shape[1] == up_values.shape[2]:
        turned = (q, q_rotary, latents, rotary_keys, up_keys, up_values.transpose(1, 2))
        suspects["up_values is transposed: a value is up_values[n] · c"] = by_definition(*turned)
    return suspects


def check_attention(attention, T, S, keys_turned=KEYS_TURNED, **sizes):
    arguments = parts(T, S, **sizes)
    actual = attention(*arguments)
    assert close(actual, by_definition(*arguments)), name_the_mistake(
        actual,
        attention_mistakes(*arguments, keys_turned),
        f"latent attention of {T} queries over {S} positions is wrong",
    )


# --- naive_attention and absorbed_attention ----------------------------------------------------------------------


SHAPES = [(1, 1), (4, 4), (1, 5), (3, 5)]


@pytest.mark.exercise("naive_attention")
@pytest.mark.parametrize(("T", "S"), SHAPES)
def test_naive_attention_equals_the_definition(impl, T, S):
    check_attention(impl.naive_attention, T, S)


@pytest.mark.exercise("absorbed_attention")
@pytest.mark.parametrize(("T", "S"), SHAPES)
def test_absorbed_attention_equals_the_definition(impl, T, S):
    check_attention(impl.absorbed_attention, T, S)


# With H = C = U a matrix and its transpose have one shape, and nothing but the numbers tells them apart.
SQUARE = (B, N, 4, 4, 2, 4)


@pytest.mark.exercise("naive_attention")
def test_naive_attention_turns_no_matrix_round(impl):
    check_attention(impl.naive_attention, 2, 4, sizes=SQUARE)


@pytest.mark.exercise("absorbed_attention")
def test_absorbed_attention_multiplies_queries_with_the_transpose(impl):
    check_attention(impl.absorbed_attention, 2, 4, QUERIES_TURNED, sizes=SQUARE)


@pytest.mark.exercise("naive_attention")
def test_naive_attention_takes_a_mask(impl):
    check_mask(impl.naive_attention)


@pytest.mark.exercise("absorbed_attention")
def test_absorbed_attention_takes_a_mask(impl):
    check_mask(impl.absorbed_attention)


def check_mask(attention):
    sees = ([0, 2, 3], [1, 4])
    mask = torch.tensor([[s in row for s in range(5)] for row in sees])
    arguments = parts(2, 5)
    actual = attention(*arguments, mask)
    assert close(actual, by_definition(*arguments, sees=sees.__getitem__)), name_the_mistake(
        actual,
        {
            "mask was not used": by_definition(*arguments),
            "the mask is turned round: True means that the query may see the key": by_definition(
                *arguments, sees=lambda t: [s for s in range(5) if s not in sees[t]]
            ),
        },
        "wrong with a mask (if it is wrong without one too, mend that first)",
    )


@pytest.mark.exercise("absorbed_attention")
@pytest.mark.parametrize("T", [1, 3])
def test_absorbed_attention_makes_no_keys_or_values_of_all_heads(impl, T):
    # 16 heads of 32 at 512 positions: 16 · 512 · 32 · 8 B = 2,097,152 B of keys. Latent vectors: 512 · 16 · 8 = 65,536.
    arguments = parts(T, 512, sizes=(1, 16, 32, 16, 4, 32))
    with LargestTensor() as largest:
        impl.absorbed_attention(*arguments)
    assert largest.nbytes < 2_097_152 / 4, (
        f"a tensor of {largest.nbytes:,} B was made: keys or values of all heads and positions, which absorbing avoids"
    )


class RecordingAttend:
    """Stands in for the attention between the two halves of absorbed attention; returns what it was given."""

    def __init__(self, mixed):
        self.mixed, self.calls = mixed, []

    def __call__(self, queries, keys, values, **named):
        self.calls.append((queries, keys, values, named))
        return self.mixed


def absorbed(impl, T=3, S=5, **named):
    """The arguments of absorbed attention, what it handed to `attend`, what that returned, and the result."""
    arguments, attend = parts(T, S), RecordingAttend(random(B, N, T, C, seed=9))
    result = impl.absorbed_attention(*arguments, **named, attend=attend)
    assert attend.calls, "attend was not called: a cache hands over its own, which knows positions that are not here"
    assert len(attend.calls) == 1, f"attend was called {len(attend.calls)} times: once, for all heads and queries"
    return arguments, attend.calls[0], attend.mixed, result


@pytest.mark.exercise("absorbed_attention")
def test_absorbed_attention_hands_over_queries_of_latent_length_and_their_rotary_part(impl):
    (q, q_rotary, _, _, up_keys, _), (queries, *_), _, _ = absorbed(impl)
    in_latent = torch.stack([q[:, n] @ up_keys[n] for n in range(N)], dim=1)  # qᵀ W, head by head
    suspects = {
        "the rotary part of the queries is left out: attend is given [up_keys[n]ᵀ · q; q_rotary]": in_latent,
        "rotary numbers come first in the queries: the latent part does, as in the keys": torch.cat(
            [q_rotary, in_latent], dim=-1
        ),
        "queries are scaled before attend, which is given the scale": torch.cat([in_latent, q_rotary], dim=-1)
        / math.sqrt(H + R),
    }
    assert close(queries, torch.cat([in_latent, q_rotary], dim=-1)), name_the_mistake(
        queries, suspects, f"queries {tuple(queries.shape)} are not [up_keys[n]ᵀ · q; q_rotary], (B, N, T, C + R)"
    )


@pytest.mark.exercise("absorbed_attention")
def test_absorbed_attention_hands_over_keys_and_values_of_one_head(impl):
    (_, _, latents, rotary_keys, _, _), (_, keys, values, _), _, _ = absorbed(impl)
    right = torch.cat([latents, rotary_keys], dim=-1)
    for name, heads in (("keys", keys), ("values", values)):
        assert heads.ndim == 4, f"{name} have shape {tuple(heads.shape)}: heads are the second dimension, one of them"
        assert heads.shape[1] != N, f"{name} are there once a head: all heads read the same, so there is one"
    suspects = {
        "the rotary part of the keys is left out: a key is [latent vector; rotary key]": latents[:, None],
        "rotary numbers come first in the keys: the latent vector does": torch.cat([rotary_keys, latents], -1)[:, None],
    }
    assert close(keys, right[:, None]), name_the_mistake(
        keys, suspects, f"keys {tuple(keys.shape)} are not [latent vector; rotary key], (B, 1, S, C + R)"
    )
    suspects = {"a value is the latent vector alone: the rotary numbers of the key are no part of it": right[:, None]}
    assert close(values, latents[:, None]), name_the_mistake(
        values, suspects, f"values {tuple(values.shape)} are not the latent vectors, (B, 1, S, C)"
    )


@pytest.mark.exercise("absorbed_attention")
def test_absorbed_attention_hands_over_the_scale_of_the_key_that_it_does_not_make(impl):
    *_, (*_, named), _, _ = absorbed(impl)
    assert named.get("scale") is not None, "attend is given no scale: its own would be 1 / √(C + R)"
    scale = named["scale"]
    assert not math.isclose(scale, (C + R) ** -0.5), "scale is 1 / √(C + R): absorbing changes no score, √(H + R) stays"
    assert not math.isclose(scale, H**-0.5), "scale is 1 / √H: a key has H + R numbers, the rotary ones too"
    assert math.isclose(scale, (H + R) ** -0.5), f"scale is {scale}, not 1 / √(H + R)"


@pytest.mark.exercise("absorbed_attention")
def test_absorbed_attention_hands_over_a_mask_where_it_has_one(impl):
    *_, (*_, named), _, _ = absorbed(impl)
    assert named, "attend was given nothing beside queries, keys and values: it takes the scale too"
    assert set(named) == {"scale"}, f"attend was given {', '.join(named)}: without a mask it takes no more than a scale"
    mask = torch.ones(3, 5, dtype=torch.bool)
    *_, (*_, named), _, _ = absorbed(impl, mask=mask)
    assert named.get("mask") is mask, "the mask was not handed to attend, mask=…"


@pytest.mark.exercise("absorbed_attention")
def test_absorbed_attention_makes_its_result_of_what_attend_returns(impl):
    arguments, _, mixed, result = absorbed(impl)
    up_values = arguments[-1]
    own = by_definition(*arguments)
    expected = torch.stack([mixed[:, n] @ up_values[n].T for n in range(N)], dim=1)
    suspects = {"what attend returned was not used: it may know positions that are not here": own}
    assert close(result, expected), name_the_mistake(
        result, suspects, "the result is not up_values[n] times what attend returned for head n"
    )


@pytest.mark.parametrize("T", [1, 3, 7])
@pytest.mark.parametrize("past", [0, 1, 6])
def test_naive_and_absorbed_attention_agree(T, past):
    arguments = parts(T, past + T, seed=T)
    assert close(naive_attention(*arguments), absorbed_attention(*arguments))


# --- latent_multiplications --------------------------------------------------------------------------------------


@pytest.mark.exercise("latent_multiplications")
def test_latent_multiplications_of_a_decode_step_and_a_prompt(impl):
    deepseek = LatentAttention(kv_latent_dim=512, rotary_dim=64, value_dim=128)
    # One query, 8,192 positions, H = 128. Naive: 8,192 · 512 · 256 + 8,192 · 320 = 1,073,741,824 + 2,621,440.
    # Absorbed: 512 · 256 + 8,192 · 1,088 = 131,072 + 8,912,896; 119 times fewer.
    naive, absorbed = impl.latent_multiplications(1, 8192, 128, deepseek)
    assert naive != 131_072 + 2_621_440, "naive: keys and values are made for all S positions, not for the T queries"
    assert absorbed != 1_073_741_824 + 8_912_896, "absorbed: the matrices meet the T queries, not the S positions"
    assert (naive, absorbed) != (9_043_968, 1_076_363_264), "naive and absorbed are swapped: naive comes first"
    # What each number is with a part left out.
    for way, found, right, parts in (
        (
            "naive",
            naive,
            1_076_363_264,
            {
                2_621_440: "making the keys and values of all S positions, C · (H + U) each, is missing",
                1_073_741_824: "the queries' meeting with S positions is missing",
                536_870_912 + 2_621_440: "U is missing, or H: a position's key has H numbers and its value U",
                1_073_741_824 + 1_572_864: "U is missing, or H: a query meets H + R numbers for a score, U for a value",
                536_870_912 + 1_572_864: "U is missing, or H, in both: a position's key has H numbers, its value U",
                1_073_741_824 + 2_097_152: "R is missing: a score takes H + R multiplications",
            },
        ),
        (
            "absorbed",
            absorbed,
            9_043_968,
            {
                8_912_896: "bringing each query to C numbers and its mixture back, C · (H + U), is missing",
                131_072: "the queries' meeting with S positions is missing",
                65_536 + 8_912_896: "U is missing, or H: a query is brought to C numbers from H, and to U back",
                131_072 + 4_718_592: "C is missing for the mixture: a score takes C + R, and the mixture C more",
                131_072 + 8_388_608: "R is missing: a score takes C + R multiplications",
            },
        ),
    ):
        assert found == right, f"{way}: " + parts.get(found, f"{found:,} multiplications, not {right:,}")
    # A prompt of 1,000: 131,072,000 up in both ways, then 10⁶ · 320 against 10⁶ · 1,088.
    naive, absorbed = impl.latent_multiplications(1000, 1000, 128, deepseek)
    # A triangle holds 500,500 of the 10⁶ pairs, or half of them: 160,160,000 or 160,000,000 of 320,000,000.
    assert naive not in (291_232_000, 291_072_000) and absorbed not in (675_616_000, 675_072_000), (
        "half of the pairs are left out: what a mask hides is computed too"
    )
    assert (naive, absorbed) == (451_072_000, 1_219_072_000), f"1,000 over 1,000: {naive:,} and {absorbed:,}"
    # Per position that is far back: 131,072 + 320 T against 1,088 T; equal at T = 131,072 / 768 = 170.7.
    naive, absorbed = impl.latent_multiplications(170, 10**6, 128, deepseek)
    assert absorbed < naive, "170 queries after a long past: absorbing takes fewer"
    naive, absorbed = impl.latent_multiplications(171, 10**6, 128, deepseek)
    assert naive < absorbed, "171 queries after a long past: making keys and values takes fewer"


@pytest.mark.exercise("latent_multiplications")
def test_latent_multiplications_where_keys_and_values_differ_in_length(impl):
    # C = 5, R = 2, U = 3, H = 7; T = 2, S = 4. Naive: 4 · 5 · 10 + 8 · (9 + 3) = 296. Absorbed: 2 · 5 · 10 + 8 · 12.
    found = impl.latent_multiplications(2, 4, 7, LATENT)
    assert tuple(found) not in {(184, 156), (408, 236)}, (
        "H is taken for U, or U for H: a head's key has head_dim numbers and its value latent.value_dim"
    )
    assert tuple(found) == (296, 196), f"296 and 196 at T = 2, S = 4, H = 7, C = 5, R = 2, U = 3; got {found}"
    assert all(isinstance(count, int) for count in found), f"counts of multiplications are whole numbers; got {found}"


@pytest.mark.exercise("latent_multiplications")
def test_latent_multiplications_of_more_queries_than_positions(impl):
    # Nothing in the formulas needs T ≤ S: 1 · 5 · 9 + 2 · 11 = 67 and 2 · 5 · 9 + 2 · 12 = 114 at H = 6.
    try:
        found = tuple(impl.latent_multiplications(2, 1, 6, LATENT))
    except ValueError as error:
        pytest.fail(f"T = 2, S = 1 was refused ({error}): only what is no whole number, 1 or more, is")
    assert found == (67, 114), f"67 and 114 at T = 2, S = 1, H = 6, C = 5, R = 2, U = 3; got {found}"


@pytest.mark.exercise("latent_multiplications")
def test_latent_multiplications_refuse_what_is_no_count(impl):
    assert_refuses("T", impl.latent_multiplications, 0, 5, 128, LATENT)
    assert_refuses("S", impl.latent_multiplications, 1, 0, 128, LATENT)
    assert_refuses("T", impl.latent_multiplications, 1.5, 5, 128, LATENT)


# --- MLACache ----------------------------------------------------------------------------------------------------


def new_entries(T, seed=0):
    return random(B, T, C, seed=seed), random(B, T, R, seed=seed + 1)


@pytest.mark.exercise("MLACache.update")
@pytest.mark.parametrize(("length", "T"), [(0, 5), (3, 1), (3, 4), (7, 1)])
def test_update_of_a_latent_cache_returns_the_past_and_the_new_positions(impl, length, T):
    cache, (latents, rotary_keys) = impl.MLACache(tiny_config(), LATENT, B, 8, torch.float64), new_entries(T)
    old = new_entries(length, seed=7)
    cache.latents[1][:, :length], cache.rotary_keys[1][:, :length] = old
    cache.length = length
    found = cache.update(1, latents, rotary_keys)
    assert found[0].shape[-1] == C, f"latents and rotary keys are swapped: latents have {C} numbers, and come first"
    for name, actual, past, new in zip(("latents", "rotary keys"), found, old, (latents, rotary_keys), strict=True):
        assert actual.shape[1] != T or not length, f"only the new {name} came back: the past is what a cache is for"
        assert actual.shape[1] != length, f"only the cached {name} came back: the new ones are left out"
        assert actual.shape[1] != 8 or length + T == 8, f"the whole capacity of {name} came back, empty places too"
        assert actual.shape[1] == length + T, f"{actual.shape[1]} {name} came back: {length} cached and {T} new"
        assert close(actual[:, :length], past), f"the past {name} changed: new ones start at `length`"
        assert close(actual[:, length:], new), f"the last T {name} are not the new ones"
    stored = cache.keys[1][:, 0, length : length + T]  # absorbed attention reads these
    assert close(stored, torch.cat([latents, rotary_keys], -1)), (
        "the new positions are not in `keys`: write into `latents` and `rotary_keys`, which are views of them"
    )
    assert cache.length == length, "the length was advanced inside a layer: it is advance's, once a pass"
    assert not cache.latents[0].any() and not cache.latents[2].any(), "another layer's cache was written"
    assert not cache.latents[1][:, length + T :].any(), "written behind the new positions"
    assert not length or found[0].data_ptr() == cache.latents[1].data_ptr(), (
        "the cache was copied: return a slice of it"
    )


@pytest.mark.exercise("MLACache.update")
def test_update_of_a_latent_cache_refuses_what_does_not_fit(impl):
    cache = impl.MLACache(tiny_config(), LATENT, B, 4, torch.float64)
    try:
        assert_is_refused("5 positions do not fit into a capacity of 4", cache.update, 0, *new_entries(5))
    except NotImplementedError:  # nobody has written it yet
        raise
    except RuntimeError as error:
        pytest.fail(f"5 positions do not fit into a capacity of 4: raise a ValueError (`_need_room` does) ({error})")
    latents, rotary_keys = new_entries(2)
    of_each_head = rotary_keys[:, None].expand(B, N, 2, R)
    assert_refuses("latents", cache.update, 0, latents[:1], rotary_keys)  # one row would be copied to both
    assert_refuses("rotary_keys", cache.update, 0, latents, of_each_head)
    assert not cache.latents[0].any() and not cache.rotary_keys[0].any(), "an update that is refused wrote something"


@pytest.mark.exercise("MLACache.update")
@pytest.mark.parametrize("layer", [0, 2])
def test_update_of_a_latent_cache_leaves_the_length_alone_in_every_layer(impl, layer):
    cache = impl.MLACache(tiny_config(), LATENT, B, 8, torch.float64)
    cache.update(layer, *new_entries(3))
    assert cache.length == 0, (
        f"the length was advanced in layer {layer}, to {cache.length}: it is advance's, once a pass"
    )


@pytest.mark.exercise("MLACache.update")
def test_update_of_a_latent_cache_writes_where_attention_reads(impl):
    cache, (latents, rotary_keys) = impl.MLACache(tiny_config(), LATENT, B, 8, torch.float64), new_entries(3)
    cache.update(1, latents, rotary_keys)
    assert close(cache.keys[1][:, 0, :3, :C], latents) and close(cache.keys[1][:, 0, :3, C:], rotary_keys), (
        "`keys` does not hold what was written: `latents` and `rotary_keys` are views of it, so write into them and "
        "put no other tensors in their place"
    )


@pytest.mark.exercise("MLACache.update")
def test_update_of_a_latent_cache_keeps_no_gradient(impl):
    cache = impl.MLACache(tiny_config(), LATENT, B, 8, torch.float64)
    cache.update(1, *(x.requires_grad_() for x in new_entries(3)))
    followed = any(tensor.requires_grad for tensor in (*cache.keys, *cache.latents, *cache.rotary_keys))
    assert not followed, "a gradient flows into the cache: what is written is detached, as in KVCache.update"


@pytest.mark.exercise("MLACache.update")
def test_update_of_a_latent_cache_refuses_vectors_of_another_length(impl):
    cache, (latents, rotary_keys) = impl.MLACache(tiny_config(), LATENT, B, 4, torch.float64), new_entries(2)
    assert_refuses("latents", cache.update, 0, latents[..., :1], rotary_keys)  # one number would be copied to all
    assert_refuses("rotary_keys", cache.update, 0, latents, rotary_keys[..., :1])
    assert_refuses("rotary_keys", cache.update, 0, latents, rotary_keys[:, :1])  # and one position to both


def one_head_for_all(q, keys, values, scale):
    """Multi-query attention, key by key: q (B, N, T, …), keys and values (B, S, …); the T queries are the last of S."""
    T, S = q.shape[2], keys.shape[1]
    result = torch.zeros(*q.shape[:3], values.shape[2], dtype=torch.float64)
    for b in range(q.shape[0]):
        for n in range(q.shape[1]):
            for t in range(T):
                weights = [math.exp(scale * (q[b, n, t] @ keys[b, s]).item()) for s in range(S - T + t + 1)]
                sums = sum(w * values[b, s] for s, w in enumerate(weights))
                result[b, n, t] = sums / sum(weights)
    return result


@pytest.mark.parametrize(("length", "T"), [(0, 5), (3, 1), (3, 4), (7, 1)])
@pytest.mark.parametrize("scale", [None, 0.7])
def test_a_latent_cache_attends_to_the_past_and_the_new_positions(length, T, scale):
    cache, past, new = MLACache(tiny_config(), LATENT, B, 8, torch.float64), new_entries(length, 7), new_entries(T)
    cache.update(1, *past)
    cache.advance(length)
    q, k = random(B, N, T, C + R, seed=5), torch.cat(new, dim=-1)
    actual = cache.attend(1, q, k[:, None], new[0][:, None], scale)
    keys = torch.cat([torch.cat(past, dim=-1), k], dim=1)
    right = one_head_for_all(q, keys, keys[..., :C], (C + R) ** -0.5 if scale is None else scale)
    assert close(actual, right), f"{T} absorbed queries after {length} cached positions: wrong mixture"
    assert close(cache.latents[1][:, length : length + T], new[0]), "the new latent vectors were not stored"
    assert close(cache.rotary_keys[1][:, length : length + T], new[1]), "the new rotary keys were not stored"
    assert cache.length == length, "the length is advance's, once a pass"
    assert not cache.keys[0].any() and not cache.keys[2].any(), "another layer's cache was written"


def test_a_latent_cache_that_is_full_attends_to_nothing():
    cache, (latents, rotary_keys) = MLACache(tiny_config(), LATENT, B, 4, torch.float64), new_entries(5)
    k = torch.cat([latents, rotary_keys], dim=-1)[:, None]
    assert_refuses("capacity", cache.attend, 0, random(B, N, 5, C + R), k, latents[:, None])
    assert not cache.keys[0].any(), "an attend that is refused wrote something"


def test_latents_and_rotary_keys_of_a_latent_cache_are_views_of_its_keys():
    cache, (latents, rotary_keys) = MLACache(tiny_config(), LATENT, B, 8, torch.float64), new_entries(8)
    cache.update(1, latents, rotary_keys)
    assert torch.equal(cache.keys[1], torch.cat([latents, rotary_keys], dim=-1)[:, None]), (
        "keys are [latent vector; rotary key], (B, 1, capacity, C + R), in the memory to which update writes"
    )
    cache.keys[1].zero_()
    assert not cache.latents[1].any() and not cache.rotary_keys[1].any()
    storages = {x.untyped_storage().data_ptr(): x.untyped_storage() for x in (*cache.keys, *cache.latents)}
    assert cache.allocated_bytes == sum(storage.nbytes() for storage in storages.values())


def test_a_latent_cache_keeps_576_numbers_a_token_and_layer():
    # 512 of the latent vector and 64 of the rotary key; GQA with 8 heads of 128 keeps 8 · 128 · 2 = 2,048: 3.56 times.
    config = tiny_config(n_layers=1, n_heads=32, n_kv_heads=8, head_dim=128)
    deepseek = LatentAttention(kv_latent_dim=512, rotary_dim=64, value_dim=128)
    small = MLACache(config, deepseek, 1, 1024, torch.bfloat16, "meta")
    small.advance(1)
    assert small.nbytes // 2 != 512 + 32 * 64, "a rotary key is kept for each head: all heads share one"
    assert small.nbytes == 576 * 2, f"{small.nbytes // 2} numbers a token and layer: 512 + 64 are needed"
    large = KVCache(config, 1, 1024, torch.bfloat16, "meta")
    large.advance(1)
    assert large.nbytes == 2048 * 2
    assert round(large.nbytes / small.nbytes, 1) == 3.6


def test_nbytes_of_a_latent_cache_count_layers_rows_and_positions():
    # 61 layers · 576 numbers · 2 B = 70,272 B a token; 4 rows of 1,000 positions.
    deepseek = LatentAttention(kv_latent_dim=512, rotary_dim=64, value_dim=128)
    cache = MLACache(tiny_config(n_layers=61), deepseek, 4, 2000, torch.bfloat16, "meta")
    cache.advance(1000)
    assert cache.nbytes == 281_088_000 and cache.allocated_bytes == 562_176_000
    cache.truncate(250)
    assert cache.nbytes == 70_272_000


# --- MLA.forward -------------------------------------------------------------------------------------------------


class RecordingCache:
    """A latent cache of one layer that returns past and new positions, or attends to them; it remembers what it got."""

    gives_rows = True

    def __init__(self, latents, rotary_keys):
        self.latents, self.rotary_keys, self.length = latents, rotary_keys, latents.shape[1]
        self.calls, self.updates = [], []

    def advance(self, n):
        self.length += n

    def update(self, layer, latents, rotary_keys):
        assert rotary_keys.ndim == 3, f"rotary keys {tuple(rotary_keys.shape)}: one a token, shared by heads: (B, T, R)"
        self.calls.append("update")
        self.updates.append((layer, latents, rotary_keys))
        return torch.cat([self.latents, latents], dim=1), torch.cat([self.rotary_keys, rotary_keys], dim=1)

    def attend(self, layer, q, k, v, scale):
        self.calls.append("attend")
        self.updates.append((layer, k[:, 0, :, : v.shape[-1]], k[:, 0, :, v.shape[-1] :]))
        past = torch.cat([self.latents, self.rotary_keys], dim=-1)
        keys, values = torch.cat([past, k[:, 0]], dim=1), torch.cat([self.latents, v[:, 0]], dim=1)
        return one_head_for_all(q, keys, values, scale)


class MarkedCache(RecordingCache):
    """Returns other numbers than it was given: what the layer makes of them shows whether it uses what it got back."""

    def update(self, *entry):
        return tuple(1 - x for x in super().update(*entry))

    def attend(self, *heads, **named):
        return 1 - super().attend(*heads, **named)


def layer_of(impl, **changes):
    """Layer 1 of 3, float64, with random weights."""
    module = impl.MLA(tiny_config(rope_theta=THETA), replace(LATENT, **changes), layer=1)
    module.double().requires_grad_(False)
    for i, weight in enumerate(module.parameters()):
        weight.copy_(random(*weight.shape, seed=10 + i) * 0.5 + (weight.ndim == 1))
    return module


@pytest.fixture(params=[0, 7], ids=["queries made directly", "queries through a latent vector"])
def layer(impl, request):
    return layer_of(impl, q_latent_dim=request.param)


def rms_norm(x, weight):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) * weight  # norm_eps of tiny_config


def by_hand(
    layer,
    x,
    past,
    offset,
    norm=True,
    turn_keys=1,
    k_offset=None,
    q_offset=None,
    side_by_side=True,
    sees=None,
    q_theta=THETA,
    k_theta=THETA,
    k_positions=None,
    heads_first=False,
    q_by_head=False,
):
    """The layer's output by the formulas; the arguments after `offset` plant mistakes."""
    T, C, R = x.shape[1], layer.latent.kv_latent_dim, layer.latent.rotary_dim
    if layer.latent.q_latent_dim:
        q = rms_norm(x @ layer.q[0].weight.T, layer.q[1].weight) @ layer.q[2].weight.T
    else:
        q = x @ layer.q.weight.T
    q = q.reshape(B, N, T, H + R) if heads_first else q.view(B, T, N, H + R).transpose(1, 2)
    k_offset, q_offset = (offset if given is None else given for given in (k_offset, q_offset))
    if q_by_head:
        q_rotary = rotate(q[..., H:].transpose(1, 2), range(offset, offset + N), q_theta).transpose(1, 2)
    else:
        q_rotary = rotate(q[..., H:], range(q_offset, q_offset + T), q_theta)
    down = x @ layer.down.weight.T
    latents = rms_norm(down[..., :C], layer.norm.weight) if norm else down[..., :C]
    rotary_keys = down[..., C:]
    for _ in range(turn_keys):
        rotary_keys = rotate(rotary_keys, k_positions or range(k_offset, k_offset + T), k_theta)
    up = layer.up.weight.view(N, H + U, C)
    latents, rotary_keys = torch.cat([past[0], latents], 1), torch.cat([past[1], rotary_keys], 1)
    mixed = by_definition(q[..., :H], q_rotary, latents, rotary_keys, up[:, :H], up[:, H:], sees)
    mixed = mixed.transpose(1, 2).flatten(2) if side_by_side else mixed.reshape(B, T, -1)
    return mixed @ layer.out.weight.T


HEADS_SECOND = (
    "cut the last dimension into heads, (B, T, N, H + R), then put the heads before T: view(B, N, T, H + R) mixes "
    "positions and heads"
)
BEFORE_T = (
    "every new rotary key was rotated as the first new position: `apply_rope` counts positions along the dimension "
    "before the last, so put the head dimension before T, (B, 1, T, R)"
)
NOT_COUNTED_HERE = "the length was advanced inside a layer: the caller does that, once a pass"


# Naive S · 5 · 9 + T · S · 11 multiplications a head, absorbed T · 5 · 9 + T · S · 12. In turn 356 and 372 (no past);
# 280 and 105; 390 and 315; 976 and 987.
PASSES = {"update": [(4, 4), (7, 8)], "attend": [(1, 5), (3, 5)]}


@pytest.mark.exercise("MLA.forward")
@pytest.mark.parametrize(("T", "S"), [*PASSES["update"], *PASSES["attend"]])
def test_forward_of_latent_attention_equals_the_formulas(layer, T, S):
    x, past = random(B, T, 20), new_entries(S - T, seed=30)
    cache = RecordingCache(*past)
    actual = layer(x, cache, S - T)
    arguments = (layer, x, past, S - T)
    assert cache.length == S - T, NOT_COUNTED_HERE
    suspects = {
        "the latent vector is not normed": by_hand(*arguments, norm=False),
        "position offset: the new token was rotated as position 0": by_hand(*arguments, k_offset=0, q_offset=0),
        "position offset: the new rotary key was rotated as position 0": by_hand(*arguments, k_offset=0),
        "position offset: the query was rotated as position 0": by_hand(*arguments, q_offset=0),
        # Before any past the first new position is 0, which turns nothing: the two mistakes give the same.
        "the rotary key is not rotated"
        if S > T
        else "the rotary key is not rotated, or every one as position 0: its "
        "head dimension belongs before T, (B, 1, T, R)": by_hand(*arguments, turn_keys=0),
        BEFORE_T: by_hand(*arguments, k_positions=[S - T] * T),
        HEADS_SECOND: by_hand(*arguments, heads_first=True),
        "the queries' heads were turned by their number, not by position: put the head dimension before T, "
        "(B, N, T, R), and then rotate": by_hand(*arguments, q_by_head=True),
        "the rotary key is rotated twice": by_hand(*arguments, turn_keys=2),
        "the heads were not put side by side: (B, N, T, U) becomes (B, T, N, U) before (B, T, N·U)": by_hand(
            *arguments, side_by_side=False
        ),
        "no mask: a position looks at the future": by_hand(*arguments, sees=lambda t: range(S)),
    }
    assert close(actual, by_hand(*arguments)), name_the_mistake(
        actual, suspects, f"{T} new positions after {S - T} cached: wrong output"
    )


@pytest.mark.exercise("MLA.forward")
@pytest.mark.parametrize(("T", "past"), [(3, 4), (7, 1)], ids=["absorbed", "naive"])
def test_forward_of_latent_attention_caches_what_all_heads_share(layer, T, past):
    x = random(B, T, 20)
    cache = RecordingCache(*new_entries(past))
    layer(x, cache, past)
    assert len(cache.updates) == 1, f"the cache was given the new positions {len(cache.updates)} times: once a layer"
    [(number, latents, rotary_keys)] = cache.updates
    down = x @ layer.down.weight.T
    assert number == 1, f"layer 1 wrote to the cache of layer {number}"
    assert close(latents, rms_norm(down[..., :C], layer.norm.weight)), "latent vectors are cached after their norm"
    once = rotate(down[..., C:], range(past, past + T), THETA)
    suspects = {
        "rotary keys were cached before the rotation: later passes cannot know their positions": down[..., C:],
        "the rotary key is rotated twice": rotate(once, range(past, past + T), THETA),
        "position offset: the new rotary key was rotated as position 0": rotate(down[..., C:], range(T), THETA),
        BEFORE_T: rotate(down[..., C:], [past] * T, THETA),
    }
    assert close(rotary_keys, once), name_the_mistake(rotary_keys, suspects, "the cache got wrong rotary keys")
    assert cache.length == past, NOT_COUNTED_HERE


@pytest.mark.exercise("MLA.forward")
@pytest.mark.parametrize(("way", "T", "S"), [(way, *sizes) for way in PASSES for sizes in PASSES[way]])
def test_forward_of_latent_attention_takes_the_way_of_fewer_multiplications(layer, way, T, S):
    cache = RecordingCache(*new_entries(S - T))
    layer(random(B, T, 20), cache, S - T)
    cheaper = {"update": "naive, through cache.update", "attend": "absorbed, through cache.attend"}[way]
    assert cache.calls == [way], (
        f"{T} queries over {S} positions: {cheaper}, is the cheaper way (`absorbs` says which); "
        f"called was {' and '.join(cache.calls)}"
    )


@pytest.mark.exercise("MLA.forward")
def test_forward_of_latent_attention_absorbs_where_a_cache_gives_no_rows(layer):
    cache = RecordingCache(*new_entries(1))
    cache.gives_rows = False
    layer(random(B, 7, 20), cache, 1)
    assert cache.calls == ["attend"], "this cache can attend only: `absorbs` says so, whatever the naive way would take"


@pytest.mark.exercise("MLA.forward")
def test_forward_of_latent_attention_makes_its_output_of_what_the_cache_attended_to(layer):
    x, past = random(B, 1, 20), new_entries(4)
    cache, marked = RecordingCache(*past), MarkedCache(*past)
    # Linear in what attend returns: with 1 - mixed the output is that of ones, less what it was.
    up_values = layer.up.weight.view(N, H + U, C)[:, H:]
    of_ones = up_values.sum(-1).flatten() @ layer.out.weight.T
    plain, found = layer(x, cache, 4), layer(x, marked, 4)
    assert not close(found, plain), "what cache.attend returned was not used: the cache alone knows the past"
    assert close(found, of_ones - plain), "what cache.attend returned goes through each head's up_values, then `out`"


@pytest.mark.exercise("MLA.forward")
def test_forward_of_latent_attention_makes_keys_and_values_of_what_update_returned(layer):
    x, past = random(B, 7, 20), new_entries(1)
    cache, marked = RecordingCache(*past), MarkedCache(*past)
    plain, found = layer(x, cache, 1), layer(x, marked, 1)
    [(_, latents, rotary_keys)] = cache.updates
    q = layer.q(x).view(B, 7, N, H + R).transpose(1, 2)
    queries = q[..., :H], rotate(q[..., H:], range(1, 8), THETA)
    up = layer.up.weight.view(N, H + U, C)
    whole = [1 - torch.cat(parts, dim=1) for parts in zip(past, (latents, rotary_keys), strict=True)]
    expected = by_definition(*queries, *whole, up[:, :H], up[:, H:]).transpose(1, 2).flatten(2) @ layer.out.weight.T
    assert not close(found, plain), "what cache.update returned was not used: it is all positions, the past ones first"
    assert close(found, expected), "keys and values are made of what cache.update returned, and of nothing else"


@pytest.mark.exercise("MLA.forward")
def test_forward_of_latent_attention_without_a_cache(layer):
    x, none = random(B, 4, 20), new_entries(0)
    assert close(layer(x), by_hand(layer, x, none, 0)), "without a cache the positions see each other alone"


@pytest.mark.exercise("MLA.forward")
def test_forward_of_latent_attention_turns_by_the_model_s_theta(impl):
    # Two pairs of numbers: the first turns by one radian a position whatever theta is, the second by 1 / √theta.
    layer, x = layer_of(impl, rotary_dim=4), random(B, 4, 20)
    arguments = (layer, x, (torch.zeros(B, 0, C, dtype=torch.float64), torch.zeros(B, 0, 4, dtype=torch.float64)), 0)
    actual, default = layer(x), 10_000.0
    suspects = {
        "theta: rotate by self.theta, not by the default of apply_rope": by_hand(
            *arguments, q_theta=default, k_theta=default
        ),
        "theta of the queries: rotate by self.theta, not by the default of apply_rope": by_hand(
            *arguments, q_theta=default
        ),
        "theta of the rotary keys: rotate by self.theta, not by the default of apply_rope": by_hand(
            *arguments, k_theta=default
        ),
    }
    assert close(actual, by_hand(*arguments)), name_the_mistake(
        actual, suspects, "4 rotary numbers: wrong output (if it is wrong with 2 too, mend that first)"
    )


@pytest.mark.exercise("MLA.forward")
def test_forward_of_latent_attention_absorbs_without_a_cache_too(impl):
    # C = 4, and a query meets 2 · 4 + 2 numbers absorbed, 6 + 2 + 3 the naive way.
    layer, x = layer_of(impl, kv_latent_dim=4), random(B, 4, 20)
    none = (torch.zeros(B, 0, 4, dtype=torch.float64), torch.zeros(B, 0, R, dtype=torch.float64))
    assert layer.absorbs(4, None)
    assert close(layer(x), by_hand(layer, x, none, 0)), "without a cache the positions see each other alone"


@pytest.mark.exercise("MLA.forward")
@pytest.mark.parametrize("T", [3, 7])
def test_forward_of_latent_attention_hands_its_offset_on_as_it_is(layer, T):
    # As positions of their own, (1, T), which the engine has; as one a row, (B,); as a rotation looked up before.
    x, past = random(B, T, 20), new_entries(1)
    expected = layer(x, RecordingCache(*past), 1)
    positions = torch.arange(1, 1 + T)[None]
    for offset in (positions, torch.tensor([1, 1]), RotaryTable(R, THETA).rotation(1, T, 1 + T, x)):
        assert close(layer(x, RecordingCache(*past), offset), expected), f"offset {offset}: not the positions from 1 on"
    apart = layer(x, RecordingCache(*past), positions * 2)
    assert not close(apart, expected), "positions 2, 4, … instead of 1, 2, … made no difference"


# --- a whole model -----------------------------------------------------------------------------------------------


def latent_model(**changes):
    model = LatentLM(tiny_config(**changes), LATENT).double().eval().requires_grad_(False)
    for i, weight in enumerate(model.parameters()):
        weight.copy_(random(*weight.shape, seed=40 + i) * 0.4 + (weight.ndim == 1))
    return model


@pytest.mark.parametrize("chunks", [[5, 1, 1, 1, 4], [1] * 12, [12]])
def test_a_latent_model_with_its_cache_scores_as_a_full_pass_does(chunks):
    model, tokens = latent_model(), tokens_of(B, 12)
    full = model(tokens)
    cache, logits = model.new_cache(B, 12), []
    for T in chunks:
        logits.append(model(tokens[:, cache.length : cache.length + T], cache))
        cache.advance(T)
    assert close(torch.cat(logits, 1), full)
    cache.truncate(6)
    assert close(model(tokens[:, 6:8], cache), full[:, 6:8]), "tokens forgotten by truncate still have a say"


def test_a_latent_model_generates():
    model = LatentLM()
    batch = model.generate([[1, 2, 3], [4, 5, 6]], 4)
    assert [len(row) for row in batch] == [4, 4]
    assert model.generate([1, 2, 3], 4) == batch[0]
    assert_refuses("ragged", model.generate, [[1, 2], [3]], 4)


@pytest.mark.parametrize("options", [{}, {"max_tokens_per_step": 3}, {"plain": True}, {"draft": "prompt-lookup"}])
def test_a_latent_model_is_served_from_blocks_of_one_head(options):
    # Three lengths, one text twice, so that the prefix cache has something to give; 3 tokens a pass make chunks.
    model, prompts = latent_model(), [[1, 2, 3, 4, 5, 6, 7], [8, 9], [1, 2, 3, 4, 5, 6, 7]]
    engine = Engine(model, n_blocks=24, block_size=4, max_running=2, **options)
    assert engine.generate(prompts, 6) == [model.generate(prompt, 6) for prompt in prompts]
    assert engine.cache.pools[0].shape == (1, 1, 24, 4 * (C + R)), "a block holds latent vectors and rotary keys"


def test_a_latent_model_has_no_blocks_of_bytes():
    assert_refuses("cache_kind", latent_model().new_paged_cache, 4, 4, "int8")


def test_the_demonstration_keeps_a_fifth_of_what_its_heads_would():
    # 32 + 16 = 48 numbers a token and layer against 2 · 4 · 32 = 256.
    latent, heads = LatentLM().new_cache(capacity=8), KVCache(DEMO_CONFIG, 1, 8)
    assert heads.allocated_bytes / latent.allocated_bytes == 256 / 48


def test_latent_attention_refuses_an_odd_rotary_key():
    assert_refuses("rotary_dim", MLA, DEMO_CONFIG, replace(DEMO_LATENT, rotary_dim=3), 0)
    assert_refuses("capacity", MLACache, DEMO_CONFIG, DEMO_LATENT, 1, 0)
