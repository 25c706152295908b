"""`sampling/adjust.py`: each rule against a plain loop over the vocabulary, their order, and rows behind a draft."""

import math
import random
import time

import pytest
import torch
from by_hand import close

from nanolm.sampling import SamplingParams, adjust_logits, adjust_rows, check_vocabulary

INF = math.inf
V = 9


def by_hand(logits, rules, text, n_prompt, ends):
    """The rules one after the other, one token after the other, from their definitions."""
    answer = text[n_prompt:]
    result = [float(z) for z in logits]
    for token, bias in rules.get("logit_bias", {}).items():
        result[token] += bias
    for token in range(len(result)):
        if token in ends and len(answer) < rules.get("min_new_tokens", 0):
            result[token] = -INF
        if token in text:  # Keskar et al. 2019
            penalty = rules.get("repetition_penalty", 1.0)
            result[token] = result[token] / penalty if result[token] > 0 else result[token] * penalty
        # "mu[j] -> mu[j] - c[j] * alpha_frequency - float(c[j] > 0) * alpha_presence" (OpenAI)
        result[token] -= answer.count(token) * rules.get("frequency_penalty", 0.0)
        result[token] -= (token in answer) * rules.get("presence_penalty", 0.0)
    return torch.tensor(result, dtype=torch.float64)


LOGITS = torch.tensor([2.0, -1.0, 0.5, 0.0, 3.0, -2.5, 1.25, -0.25, 0.75], dtype=torch.float64)
TEXT = [4, 1, 1, 0, 3, 4, 4, 2]
RULES = [
    {},
    {"logit_bias": {0: -5.0, 7: 2.5, 4: -INF}},
    {"min_new_tokens": 6},
    {"min_new_tokens": 5},  # the answer has five: nothing is forbidden
    {"repetition_penalty": 1.5},
    {"repetition_penalty": 0.5},
    {"presence_penalty": 0.75},
    {"frequency_penalty": -0.5},
    {"presence_penalty": -2.0, "frequency_penalty": 1.5},
    # Every rule meets the others on one token: 4 is biased, occurs, and changes its sign on the way.
    {"logit_bias": {4: -3.5, 1: 4.0}, "repetition_penalty": 1.25, "presence_penalty": 0.5, "frequency_penalty": 0.25}
    | {"min_new_tokens": 9},
]


@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize("n_prompt", [3, 0, 8])
def test_adjust_logits_equals_a_plain_loop(rules, n_prompt):
    actual = adjust_logits(LOGITS, SamplingParams(**rules), TEXT, n_prompt, (2, 6))
    assert actual.dtype == torch.float64
    assert close(actual, by_hand(LOGITS, rules, TEXT, n_prompt, (2, 6)))


@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize("drafted", [[], [5], [4, 7, 4, 2]], ids=str)
def test_row_i_stands_behind_the_text_and_i_drafted_tokens(rules, drafted):
    rows = LOGITS + torch.arange(len(drafted) + 1.0)[:, None]
    actual = adjust_rows(rows, SamplingParams(**rules), TEXT, 3, (2, 6), drafted)
    for i, row in enumerate(rows):
        assert close(actual[i], by_hand(row, rules, TEXT + drafted[:i], 3, (2, 6))), f"row {i}"


def test_fewer_rows_than_drafted_tokens_see_only_theirs():
    sampling = SamplingParams(frequency_penalty=1.0)
    actual = adjust_rows(LOGITS.repeat(2, 1), sampling, TEXT, 3, (), [5, 6, 7])
    assert close(actual, adjust_rows(LOGITS.repeat(2, 1), sampling, TEXT, 3, (), [5]))


def test_random_rules_and_texts_equal_a_plain_loop():
    choose = random.Random(0)
    for _ in range(200):
        size = choose.randint(2, 12)
        text = [choose.randrange(size) for _ in range(choose.randint(1, 12))]
        rules = {
            "logit_bias": {choose.randrange(size): choose.uniform(-9, 9)},
            "min_new_tokens": choose.randint(0, 8),
            "repetition_penalty": choose.uniform(0.5, 2),
            "presence_penalty": choose.uniform(-2, 2),
            "frequency_penalty": choose.uniform(-2, 2),
        }
        logits = torch.tensor([choose.uniform(-5, 5) for _ in range(size)], dtype=torch.float64)
        n_prompt, ends = choose.randint(0, len(text)), [choose.randrange(size)]
        actual = adjust_logits(logits, SamplingParams(**rules), text, n_prompt, ends)
        assert close(actual, by_hand(logits, rules, text, n_prompt, ends)), rules


def test_the_argument_is_left_alone():
    logits = LOGITS.clone()
    adjust_logits(logits, SamplingParams(repetition_penalty=2.0, logit_bias={0: 1.0}), TEXT, 3, ())
    assert torch.equal(logits, LOGITS)


def test_short_numbers_are_adjusted_in_float64():
    # 0.1 in float32 is 0.1 + 1.5e-9; a logit of 4 in bfloat16 has steps of 1/32, and 0.1 would be lost in them.
    logits = torch.full((3,), 4.0, dtype=torch.bfloat16)
    actual = adjust_logits(logits, SamplingParams(frequency_penalty=0.1), [0, 1, 1], 0, ())
    assert actual.tolist() == [4 - 0.1, 4 - 0.2, 4.0]


def test_a_forbidden_token_stays_forbidden():
    logits = torch.tensor([-INF, 1.0, 2.0], dtype=torch.float64)
    rules = SamplingParams(repetition_penalty=0.5, presence_penalty=-2.0, logit_bias={0: 50.0})
    assert adjust_logits(logits, rules, [0, 0], 0, ())[0] == -INF


def test_an_empty_answer_and_an_empty_text_have_nothing_to_penalise():
    rules = SamplingParams(repetition_penalty=2.0, presence_penalty=1.0)
    assert close(adjust_logits(LOGITS, rules, [], 0, ()), LOGITS)


def test_the_largest_adjusted_logit_is_what_temperature_0_takes():
    rules = SamplingParams(temperature=0.0, repetition_penalty=10.0)
    assert rules.probs(adjust_logits(LOGITS, rules, [4], 1, ())).argmax() == 0


@pytest.mark.parametrize(
    ("rules", "ends", "message"),
    [
        ({"logit_bias": {9: 1.0}}, (), "logit_bias names token 9; ids run from 0 to 8"),
        ({"stop_token_ids": (2, 11)}, (2, 11), "stop_token_ids names token 11; ids run from 0 to 8"),
        ({"min_new_tokens": 1}, (12,), "end_tokens names token 12; ids run from 0 to 8"),
        ({"logit_bias": dict.fromkeys(range(9), -INF)}, (), "logit_bias and min_new_tokens forbid all 9 tokens"),
        (
            {"logit_bias": dict.fromkeys(range(8), -INF), "min_new_tokens": 1},
            (8,),
            "logit_bias and min_new_tokens forbid all 9 tokens; at least one must be left",
        ),
    ],
)
def test_rules_that_cannot_be_followed_are_refused(rules, ends, message):
    sampling = SamplingParams(**rules)
    for call in (
        lambda: check_vocabulary(sampling, V, ends),
        lambda: adjust_logits(LOGITS, sampling, TEXT, 3, ends),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_logits_that_the_rules_leave_nothing_of_are_refused():
    logits = torch.full((2, V), -INF)
    logits[:, 3] = 1.0
    with pytest.raises(ValueError, match="logits have no token left"):
        adjust_rows(logits, SamplingParams(min_new_tokens=9), TEXT, 3, (3,), [1])


def test_a_long_text_costs_no_loop_over_the_vocabulary():
    # 50,000 tokens of text and of vocabulary: a loop in Python over both would take minutes.
    choose = random.Random(1)
    text, rules = (
        [choose.randrange(50_000) for _ in range(50_000)],
        SamplingParams(repetition_penalty=1.1, presence_penalty=0.5, frequency_penalty=0.1),
    )
    started = time.process_time()
    adjust_rows(torch.zeros(5, 50_000), rules, text, 100, (), text[:4])
    assert time.process_time() - started < 5
