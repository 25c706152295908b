"""`sampling/params.py` and `checks.py`: what a request may ask for, how it is kept, and min-p."""

import math
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
import torch

from nanolm.sampling import SamplingParams, min_p_filter

INF, NAN = math.inf, math.nan


def vector(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


# --- refusals ----------------------------------------------------------------------------------------------------

WHOLE = [2.5, 2.0, True, "2", NAN, INF, [2]]
NUMBERS = [NAN, INF, 10**400, True, "1", [1.0], 1j]
TOKENS = [3, "ab", [1.0], [True], [-1], [None], [[1]], NAN, ["1"]]
REFUSED = {
    "temperature": ([-0.1, None, -INF, *NUMBERS], "finite and 0 (greedy) or more"),
    "top_k": ([0, -1, *WHOLE], "a whole number, 1 or more (None keeps all)"),
    "top_p": ([0, 0.0, -0.1, 1.1, *NUMBERS], "above 0 and at most 1 (None keeps all)"),
    "min_p": ([-0.1, 1.1, *NUMBERS], "from 0 to 1 (None keeps all)"),
    "repetition_penalty": ([0, -1.0, None, *NUMBERS], "finite and above 0 (1 changes nothing)"),
    "presence_penalty": ([-2.1, 2.1, None, *NUMBERS], "from -2 to 2 (0 changes nothing)"),
    "frequency_penalty": ([-2.1, 2.1, None, *NUMBERS], "from -2 to 2 (0 changes nothing)"),
    "min_new_tokens": ([-1, None, *WHOLE], "a whole number, 0 or more"),
    "logprobs": ([-1, 21, *WHOLE], "a whole number from 0 to 20 (None reports none)"),
    "end_tokens": (TOKENS, "a sequence of token ids, whole numbers of 0 or more"),
    "stop_token_ids": ([None, *TOKENS], "a sequence of token ids, whole numbers of 0 or more"),
    "logit_bias": (
        [
            *(None, 3, [3], "ab", NAN, [(1, 2, 3)], [(1, 2), (1, 2)]),
            *({1.0: 2}, {-1: 2}, {True: 2}, {"1": 2}, {1: NAN}, {1: INF}, {1: "2"}, {1: True}),
        ],
        "token ids, whole numbers of 0 or more and each once, to numbers that are finite or -inf",
    ),
}


@pytest.mark.parametrize(
    ("name", "value", "allowed"), [(name, value, why) for name, (wrong, why) in REFUSED.items() for value in wrong]
)
def test_what_is_not_allowed_is_refused_by_name_value_and_range(name, value, allowed):
    with pytest.raises(ValueError) as refusal:
        SamplingParams(**{name: value})
    must = "must map" if name == "logit_bias" else "must be"
    assert str(refusal.value) == f"{name} is {value!r}; it {must} {allowed}"


def test_every_field_has_refusals():
    assert {field.name for field in fields(SamplingParams)} == set(REFUSED)


def test_replace_checks_again():
    with pytest.raises(ValueError, match="top_k is 0"):
        replace(SamplingParams(), top_k=0)


# --- what is kept ------------------------------------------------------------------------------------------------


def test_all_that_is_allowed_at_the_ends_of_its_range_is_taken():
    SamplingParams(0, 1, 1, (), 0, 1e-9, -2, 2, {0: -INF}, (), 0, 0)
    SamplingParams(1e-300, 10**9, 1e-12, None, 1, 1e9, 2, -2, [(9, -1e9)], [0], 10**6, 20)


def test_sequences_become_tuples_and_equal_rules_are_equal_and_hash_alike():
    one = SamplingParams(end_tokens=[1, 2], stop_token_ids=[3], logit_bias={5: 1, 2: -INF}, top_k=np.int64(4))
    other = SamplingParams(end_tokens=(1, 2), stop_token_ids=(3,), logit_bias=[(2, -INF), (5, 1.0)], top_k=4)
    assert one.end_tokens == (1, 2) and one.stop_token_ids == (3,) and one.logit_bias == ((2, -INF), (5, 1.0))
    assert type(one.top_k) is int
    assert one == other and hash(one) == hash(other)
    assert one != replace(one, min_new_tokens=1)


def test_a_mapping_that_changes_later_changes_no_rules():
    bias = {1: 2.0}
    sampling = SamplingParams(logit_bias=bias)
    bias[2] = 3.0
    assert sampling.logit_bias == ((1, 2.0),)


def test_rules_do_not_change():
    with pytest.raises(FrozenInstanceError):
        SamplingParams().top_k = 3  # pyright: ignore


def test_the_first_four_fields_stay_in_their_places():
    assert SamplingParams(0.7, 5, 0.9, (3,)) == SamplingParams(temperature=0.7, top_k=5, top_p=0.9, end_tokens=(3,))


@pytest.mark.parametrize(
    ("own", "stops", "ends"), [(None, (), [7]), (None, (3,), [3, 7]), ((), (3,), [3]), ((5,), (3, 4), [3, 4, 5])]
)
def test_a_text_ends_with_the_end_tokens_and_the_stop_tokens(own, stops, ends):
    assert sorted(SamplingParams(end_tokens=own, stop_token_ids=stops).ends((7,))) == ends


@pytest.mark.parametrize(
    ("rules", "adjusts"),
    [
        ({}, False),
        (dict(temperature=0.5, top_k=3, top_p=0.5, min_p=0.1, end_tokens=(1,), stop_token_ids=(2,), logprobs=3), False),
        (dict(repetition_penalty=1.1), True),
        (dict(repetition_penalty=0.9), True),
        (dict(presence_penalty=-0.1), True),
        (dict(frequency_penalty=0.1), True),
        (dict(logit_bias={0: 0.0}), True),
        (dict(min_new_tokens=1), True),
    ],
    ids=str,
)
def test_adjusts_says_whether_logits_change_before_the_temperature(rules, adjusts):
    assert SamplingParams(**rules).adjusts is adjusts


# --- min-p -------------------------------------------------------------------------------------------------------


def test_min_p_keeps_what_has_that_fraction_of_the_largest():
    # 0.25 of 0.5 is 0.125: 0.15 stays and 0.05 goes. 0.5 + 0.3 + 0.15 = 0.95.
    actual = min_p_filter(vector(0.3, 0.05, 0.5, 0.15), 0.25)
    assert torch.allclose(actual, vector(0.3, 0, 0.5, 0.15) / 0.95, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("min_p", "kept"), [(0.0, [1, 1, 1, 0, 1]), (0.25, [1, 1, 1, 0, 1]), (0.5, [1, 0, 1, 0, 0]), (1.0, [1, 0, 1, 0, 0])]
)
def test_min_p_keeps_equals_together_and_never_a_zero(min_p, kept):
    # 0.125/0.375 is a third; the two largest are tied.
    actual = min_p_filter(vector(0.375, 0.125, 0.375, 0.0, 0.125), min_p)
    assert (actual > 0).int().tolist() == kept
    assert actual.sum().item() == pytest.approx(1)


def test_min_p_treats_each_row_on_its_own_and_leaves_its_argument_alone():
    rows = torch.stack([vector(0.5, 0.3, 0.2), vector(0.1, 0.1, 0.8)])[:, None]
    before = rows.clone()
    assert (min_p_filter(rows, 0.5) > 0).tolist() == [[[True, True, False]], [[False, False, True]]]
    assert torch.equal(rows, before)


@pytest.mark.parametrize("min_p", [-0.1, 1.5, NAN, True])
def test_min_p_outside_its_range_is_refused(min_p):
    with pytest.raises(ValueError, match=r"min_p is .*; it must be from 0 to 1"):
        min_p_filter(vector(0.5, 0.5), min_p)


def test_a_request_applies_min_p_last():
    # T = 0.5 squares: 0.16, 0.09, 0.04, 0.01 of 0.3. top-k 3 leaves 0.16, 0.09, 0.04; 0.3 of 0.16 is 0.048.
    logits = vector(0.4, 0.3, 0.2, 0.1).log()
    actual = SamplingParams(temperature=0.5, top_k=3, min_p=0.3).probs(logits)
    assert torch.allclose(actual, vector(0.64, 0.36, 0, 0), rtol=0, atol=1e-12)
