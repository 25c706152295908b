"""A grammar under speculation, every outcome followed: each text is as probable as the masked target makes it."""

import math

import pytest
import torch
from enumeration import ScriptedRng, follow_all
from tiny_models import tiny_model

from nanolm.engine import Engine
from nanolm.sampling import SamplingParams

V, PROMPT, N = 4, [2, 0, 1], 3
TARGET, DRAFT = tiny_model(seed=1, vocab_size=V, n_layers=2), tiny_model(seed=2, vocab_size=V, n_layers=1)


class NoTokenTwice:
    """A grammar: no token follows itself, none but 0 or 1 begins, and 3 ends the text once there are two."""

    def constraint(self, end_tokens):
        return self

    def may_follow(self, answer):
        if not answer:
            return [True, True, False, False]
        return [token != answer[-1] and (token != 3 or len(answer) >= 2) for token in range(V)]

    def allowed(self, answer, drafted):
        rows, text = [self.may_follow(answer)], list(answer)
        for token in drafted:
            is_possible = rows[-1][token] and token != 3
            text.append(token)
            rows.append(self.may_follow(text) if is_possible else [True] * V)
            if not is_possible:
                rows += [[True] * V] * (len(drafted) + 1 - len(rows))
                break
        return torch.tensor(rows)

    def is_whole(self, answer):
        return bool(answer) and answer[-1] == 3


RULES = {
    "alone": {},
    "a bias towards what is forbidden": {"logit_bias": {2: 5.0, 3: 5.0}},
    "a repetition penalty and top-p": {"repetition_penalty": 1.5, "top_p": 0.9},
    "temperature and min-p": {"temperature": 0.7, "min_p": 0.2},
}


def masked_probs(text, rules):
    """The next token's distribution: the target's logits, -inf where the grammar says no, then the other rules."""
    answer = list(text)
    z = TARGET(torch.tensor([[*PROMPT, *answer]]))[0, -1].tolist()
    z = [score if may else -math.inf for score, may in zip(z, NoTokenTwice().may_follow(answer), strict=True)]
    for token, bias in rules.get("logit_bias", {}).items():
        z[token] += bias
    penalty = rules.get("repetition_penalty", 1.0)
    for token in set(PROMPT + answer):
        z[token] = z[token] / penalty if z[token] > 0 else z[token] * penalty
    weights = [math.exp((score - max(z)) / rules.get("temperature", 1.0)) for score in z]
    kept, total = [], 0.0
    for token in sorted(range(V), key=lambda token: -weights[token]):
        if weights[token] and total < rules.get("top_p", 1.0) * sum(weights) - 1e-12:
            kept.append(token)
            total += weights[token]
    likely = [token for token in kept if weights[token] >= rules.get("min_p", 0.0) * max(weights)]
    return {token: weights[token] / sum(weights[u] for u in likely) for token in likely}


def texts_by_hand(rules, text=()):
    if len(text) == N or 3 in text:
        return {text: 1.0}
    return {
        whole: p * q
        for token, p in masked_probs(text, rules).items()
        for whole, q in texts_by_hand(rules, (*text, token)).items()
    }


class EngineRng(ScriptedRng):
    """Every stream of a request's randomness is the one script."""

    def at(self, position, stream=0):
        return self


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
@pytest.mark.parametrize("draft", [None, "prompt-lookup", DRAFT], ids=["plain", "prompt-lookup", "model"])
@pytest.mark.parametrize("plain", [False, True], ids=["fast", "lessons"])
def test_each_text_has_the_probability_that_the_masked_target_gives_it(draft, plain, rules, monkeypatch):
    draw = lambda probs, rng: [each.categorical(row) for each, row in zip(rng, probs, strict=True)]  # noqa: E731
    monkeypatch.setattr("nanolm.sampling.rows.draw_rows", draw)

    def run(rng):
        engine = Engine(TARGET, n_blocks=8, block_size=4, draft=draft, gamma=2, adaptive=False, plain=plain)
        request = engine.request(engine.add_request(PROMPT, N, SamplingParams(**rules), grammar=NoTokenTwice()))
        request.rng = EngineRng(rng.path)
        while request.finish_reason is None:
            engine.step()
        rng.taken, rng.open_branches, rng.weight = request.rng.taken, request.rng.open_branches, request.rng.weight
        assert request.error is None
        return tuple(request.new_tokens)

    outcome = {}
    for text, weight in follow_all(run):
        outcome[text] = outcome.get(text, 0.0) + weight
    expected = texts_by_hand(rules)
    for text in expected.keys() | outcome.keys():
        ours, theirs = outcome.get(text, 0.0), expected.get(text, 0.0)
        assert abs(ours - theirs) < 1e-12, f"text {text} has probability {ours:.6f}; by hand {theirs:.6f}"


@pytest.mark.parametrize("draft", [None, "prompt-lookup", DRAFT], ids=["plain", "prompt-lookup", "model"])
def test_answers_of_one_prompt_each_have_a_grammar_of_their_own(draft):
    engine = Engine(TARGET, n_blocks=32, block_size=4, draft=draft)
    ids = engine.add_group(PROMPT, 8, SamplingParams(1.0), seeds=range(6), grammar=NoTokenTwice())
    requests = [engine.request(i) for i in ids]
    while engine.has_work:
        engine.step()
    for request in requests:
        text = request.new_tokens
        assert all(NoTokenTwice().may_follow(text[:i])[token] for i, token in enumerate(text)), text
        assert request.finish_reason == ("stop" if text[-1] == 3 else "length")
