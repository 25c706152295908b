"""Every rule of SamplingParams under speculation, every outcome followed: the texts are those of plain sampling."""

import math
from dataclasses import replace

import pytest
import torch
from by_hand import close
from enumeration import exact_distribution
from tiny_models import tiny_model

from nanolm.model import NanoLM
from nanolm.sampling import Rng, SamplingParams
from nanolm.speculative import PromptLookupDraft, Session, baseline_generate, speculate

V, PROMPT, N = 4, [2, 0, 1], 3
TARGET, DRAFT = tiny_model(seed=1, vocab_size=V, n_layers=2), tiny_model(seed=2, vocab_size=V, n_layers=1)

RULES = {
    "min-p": dict(min_p=0.4),
    "repetition penalty": dict(repetition_penalty=1.8),
    "presence penalty": dict(presence_penalty=1.5),
    "frequency penalty": dict(frequency_penalty=0.9),
    "logit bias": dict(logit_bias={0: 1.5, 3: -math.inf}),
    "minimum length": dict(min_new_tokens=2, end_tokens=(3,)),
    "stop token ids": dict(stop_token_ids=(1,), end_tokens=(3,)),
    "all": dict(
        temperature=0.8,
        top_k=3,
        top_p=0.95,
        min_p=0.05,
        repetition_penalty=1.3,
        presence_penalty=0.5,
        frequency_penalty=-0.3,
        logit_bias={1: 0.7},
        min_new_tokens=1,
        end_tokens=(0,),
        stop_token_ids=(2,),
    ),
}
each_rule = pytest.mark.parametrize("rules", RULES.values(), ids=RULES)


def distribution_by_hand(logits, rules, text):
    """The next token's distribution from the definitions of the rules, in plain Python."""
    answer, z = text[len(PROMPT) :], logits.tolist()
    for token, bias in rules.get("logit_bias", {}).items():
        z[token] += bias
    for token in range(V):
        if token in ends_of(rules) and len(answer) < rules.get("min_new_tokens", 0):
            z[token] = -math.inf
        penalty = rules.get("repetition_penalty", 1.0) if token in text else 1.0
        z[token] = z[token] / penalty if z[token] > 0 else z[token] * penalty
        z[token] -= rules.get("frequency_penalty", 0.0) * answer.count(token)
        z[token] -= rules.get("presence_penalty", 0.0) * (token in answer)
    weights = [math.exp((score - max(z)) / rules.get("temperature", 1.0)) for score in z]
    kept = sorted(range(V), key=lambda token: -weights[token])[: rules.get("top_k", V)]
    total, nucleus = sum(weights[token] for token in kept), []
    for token in kept:
        nucleus.append(token)
        if sum(weights[token] for token in nucleus) >= rules.get("top_p", 1.0) * total:
            break
    likely = [token for token in nucleus if weights[token] >= rules.get("min_p", 0.0) * max(weights)]
    return [weights[t] / sum(weights[u] for u in likely) if t in likely else 0.0 for t in range(V)]


def ends_of(rules):
    return (*rules.get("end_tokens", ()), *rules.get("stop_token_ids", ()))


def texts_by_hand(rules, text=()):
    """{text of up to N tokens: probability}, by a full pass of the target over every beginning."""
    if len(text) == N or (text and text[-1] in ends_of(rules)):
        return {text: 1.0}
    probs = distribution_by_hand(TARGET(torch.tensor([[*PROMPT, *text]]))[0, -1], rules, [*PROMPT, *text])
    return {
        whole: p * q
        for token, p in enumerate(probs)
        if p > 0
        for whole, q in texts_by_hand(rules, (*text, token)).items()
    }


def assert_same_distribution(outcome, expected):
    for text in expected.keys() | outcome.keys():
        ours, theirs = outcome.get(text, 0.0), expected.get(text, 0.0)
        assert abs(ours - theirs) < 1e-12, f"text {text} has probability {ours:.6f}; by hand {theirs:.6f}"


@each_rule
@pytest.mark.parametrize("draft", [DRAFT, PromptLookupDraft(V)], ids=["model", "prompt-lookup"])
def test_speculation_writes_every_text_with_the_probability_of_the_rules(draft, rules):
    sampling = SamplingParams(**rules)
    outcome = exact_distribution(lambda rng: tuple(speculate(TARGET, draft, PROMPT, N, 2, sampling, rng)[0]))
    assert_same_distribution(outcome, texts_by_hand(rules))


@each_rule
def test_plain_sampling_writes_every_text_with_the_probability_of_the_rules(rules):
    sampling = SamplingParams(**rules)
    expected = texts_by_hand(rules)
    assert_same_distribution(exact_distribution(lambda rng: tuple(TARGET.generate(PROMPT, N, sampling, rng))), expected)
    ends = sampling.ends(())

    def baseline(rng):
        return tuple(baseline_generate(Session(TARGET, sampling), PROMPT, N, rng, ends)[0])

    assert_same_distribution(exact_distribution(baseline), expected)


@each_rule
def test_each_rule_changes_the_distribution(rules):
    without = texts_by_hand({"end_tokens": rules.get("end_tokens", ())})
    assert any(abs(p - without.get(text, 0.0)) > 1e-3 for text, p in texts_by_hand(rules).items()), "it shows nothing"


@each_rule
@pytest.mark.parametrize("draft", [DRAFT, PromptLookupDraft(V)], ids=["model", "prompt-lookup"])
def test_greedy_texts_are_equal_token_for_token(draft, rules):
    greedy = SamplingParams(**{**rules, "temperature": 0.0})
    for start in ([2, 0, 1], [3], [1, 1, 2, 0, 0, 1, 2]):
        alone = TARGET.generate(start, 20, greedy)
        for gamma in (0, 1, 4):
            assert speculate(TARGET, draft, start, 20, gamma, greedy)[0] == alone, f"γ = {gamma}, prompt {start}"


def test_rows_of_a_batch_follow_the_rules_each_by_its_own_text():
    prompts = [[2, 0, 1], [3], [1, 1, 2, 0, 0]]
    greedy = SamplingParams(0.0, repetition_penalty=1.5, frequency_penalty=0.5, min_new_tokens=4, end_tokens=(0, 2))
    alone = [TARGET.generate(prompt, 12, greedy) for prompt in prompts]
    assert TARGET.generate(prompts, 12, greedy) == alone
    assert alone != [TARGET.generate(prompt, 12, replace(greedy, min_new_tokens=0)) for prompt in prompts]


def test_the_models_own_end_tokens_wait_for_the_minimum_length():
    model = NanoLM(replace(TARGET.config, eos_token_ids=(0, 3))).double().eval().requires_grad_(False)
    model.load_state_dict(TARGET.state_dict())
    sampling = SamplingParams(min_new_tokens=5)
    for seed in range(10):
        assert len(model.generate(PROMPT, 9, sampling, Rng(seed))) > 5
        assert len(speculate(model, DRAFT, PROMPT, 9, 2, sampling, Rng(seed))[0]) > 5


# --- what a session takes for the prompt -------------------------------------------------------------------------

ONCE = SamplingParams(presence_penalty=2.0)


def test_what_was_read_before_the_first_scored_row_ends_is_the_prompt():
    session = Session(TARGET, ONCE)
    assert session.n_prompt is None
    session.feed([2, 0, 1, 3, 3], last=3)  # a prompt of three, and two drafted tokens
    assert session.n_prompt == 3
    session.truncate(4)
    session.feed([0, 1])
    assert session.n_prompt == 3


def test_a_prompt_read_in_pieces_is_set_by_hand():
    whole, pieces = Session(TARGET, ONCE), Session(TARGET, ONCE)
    pieces.n_prompt = 4
    pieces.feed([2, 0])
    assert close(whole.feed([2, 0, 1, 3]), pieces.feed([1, 3]))
    assert close(whole.feed([1]), pieces.feed([1]))


def test_forgetting_a_part_of_the_prompt_forgets_where_it_ended():
    session = Session(TARGET, ONCE)
    session.feed([2, 0, 1, 3])
    session.truncate(4)
    assert session.n_prompt == 4
    session.truncate(2)
    assert session.n_prompt is None
    session.feed([1])
    assert session.n_prompt == 3


def test_a_session_that_has_read_nothing_keeps_what_it_was_told():
    session = Session(TARGET, ONCE)
    session.n_prompt = 4
    session.truncate(0)
    assert session.n_prompt == 4


def test_a_session_without_such_rules_gives_the_probabilities_as_before():
    assert torch.equal(
        Session(TARGET, SamplingParams(0.5)).feed(PROMPT),
        Session(TARGET, SamplingParams(0.5, repetition_penalty=1.0, stop_token_ids=(3,))).feed(PROMPT),
    )
