"""`score_prompt`: the log-probabilities of a prompt's own tokens, in chunks, behind a cache, preempted, for several."""

import pytest
import torch
from tiny_models import tiny_model

from nanolm.engine import Engine
from nanolm.sampling import SamplingParams

MODEL = tiny_model(max_positions=128)
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9]
SAMPLING = SamplingParams(0.0, logprobs=2)


def by_hand(prompt):
    rows = torch.log_softmax(MODEL(torch.tensor([prompt]))[0].double(), -1)
    return [float(rows[i, token]) for i, token in enumerate(prompt[1:])]


def scored(engine, prompt=PROMPT, n_new=4):
    request_id, found = engine.add_request(prompt, n_new, SAMPLING, score_prompt=True), []
    while engine.has_work:
        found += [output for output in engine.step() if output.id == request_id]
    assert all(output.prompt_logprobs is None for output in found[1:]), "with the first output, and once"
    return found[0].prompt_logprobs, [token for output in found for token in output.tokens]


@pytest.mark.parametrize("plain", [False, True], ids=["fast", "lessons"])
@pytest.mark.parametrize("most", [4, 512], ids=["in chunks", "at once"])
@pytest.mark.parametrize("draft", [None, "prompt-lookup"])
def test_they_are_those_of_a_full_pass_and_the_answer_is_the_same(draft, most, plain):
    engine = Engine(MODEL, n_blocks=32, block_size=4, max_tokens_per_step=most, draft=draft, plain=plain)
    found, text = scored(engine)
    assert [each.token for each in found] == PROMPT[1:]
    assert [each.logprob for each in found] == pytest.approx(by_hand(PROMPT), abs=1e-9)
    assert all(len(each.top) == 2 for each in found) and text == MODEL.generate(PROMPT, 4)


def test_what_is_cached_of_the_prompt_is_run_again_and_nobody_loses_a_block():
    engine = Engine(MODEL, n_blocks=32, block_size=4)
    for _ in range(3):
        found, _ = scored(engine)
        assert [each.logprob for each in found] == pytest.approx(by_hand(PROMPT), abs=1e-9)
    assert engine.scheduler.allocator.n_used == engine.scheduler.prefix.n_blocks


def test_a_request_that_is_preempted_has_each_of_them_once():
    engine = Engine(MODEL, n_blocks=12, block_size=4, reserve=0.0, max_tokens_per_step=8)
    ids = [engine.add_request([*PROMPT, i], 20, SAMPLING, score_prompt=True) for i in range(3)]
    first = {}
    while engine.has_work:
        for output in engine.step():
            assert output.error is None
            first.setdefault(output.id, output)
    assert engine.metrics.n_preemptions > 0, "the pool is too large to show anything"
    for i, request_id in enumerate(ids):
        expected = by_hand([*PROMPT, i])
        assert [each.logprob for each in first[request_id].prompt_logprobs] == pytest.approx(expected, abs=1e-9)


def test_of_several_answers_the_first_has_them():
    engine = Engine(MODEL, n_blocks=32, block_size=4)
    ids = engine.add_group(PROMPT, 3, SamplingParams(1.0, logprobs=0), seeds=[1, 2, 3], score_prompt=True)
    outputs = {}
    while engine.has_work:
        for output in engine.step():
            outputs.setdefault(output.id, output)
    assert len(outputs[ids[0]].prompt_logprobs) == len(PROMPT) - 1
    assert outputs[ids[1]].prompt_logprobs is outputs[ids[2]].prompt_logprobs is None
    alone = Engine(MODEL, n_blocks=32).generate([PROMPT], 3, SamplingParams(1.0), seeds=[2])
    assert outputs[ids[1]].tokens == alone[0][:1]
