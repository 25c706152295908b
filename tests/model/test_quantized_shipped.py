"""What quantization costs the shipped target, measured on its held-out problems: minutes, so the nightly run's."""

import copy
import json

import pytest
import torch

import nanolm
from nanolm.checkpoint import SHIPPED
from nanolm.model import quantize_calibrated, quantize_model
from nanolm.quantization import awq_linear, gptq_linear

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def target():
    return nanolm.load("target")


@pytest.fixture(scope="module")
def problems():
    return json.loads((SHIPPED / "problems.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def texts(target):
    """Token rows of held-out problem documents: to calibrate on, and others to measure on."""
    _, tokenizer = target
    documents = json.loads((SHIPPED / "problem_documents.json").read_text(encoding="utf-8"))
    rows = [[0, *tokenizer.encode(text)][:256] for text in documents]
    return rows[:24], rows[24:]


def share_solved(model, tokenizer, problems):
    """Greedy decoding writes the answer if, the answer given, each of its tokens has the largest score before it."""
    right = 0
    for problem in problems:
        prompt, answer = [0, *tokenizer.encode(problem["prompt"])], tokenizer.encode(problem["answer"])
        scores = model(torch.tensor([prompt + answer]), last=len(answer) + 1)[0, :-1]
        right += scores.argmax(-1).tolist() == answer
    return right / len(problems)


def nats_per_token(model, rows):
    """Mean over all tokens but the first of each row."""
    total = count = 0
    for row in rows:
        logits = model(torch.tensor([row[:-1]]))[0]
        total += torch.nn.functional.cross_entropy(logits, torch.tensor(row[1:]), reduction="sum").item()
        count += len(row) - 1
    return total / count


@torch.inference_mode()
def test_8_bits_cost_less_than_half_a_point_of_the_problems(target, problems):
    model, tokenizer = target
    before = share_solved(model, tokenizer, problems)
    after = share_solved(quantize_model(copy.deepcopy(model), 8), tokenizer, problems)
    assert before > 0.9 and after > before - 0.005


@torch.inference_mode()
@pytest.mark.parametrize(("method", "bits"), [(gptq_linear, 4), (gptq_linear, 3), (awq_linear, 4), (awq_linear, 3)])
def test_calibrated_rounding_loses_less_than_plain_rounding(target, texts, method, bits):
    (model, _), (calibration, held_out) = target, texts
    losses = [
        nats_per_token(variant, held_out)
        for variant in (
            model,
            quantize_calibrated(copy.deepcopy(model), bits, calibration, method=method),
            quantize_model(copy.deepcopy(model), bits),
        )
    ]
    assert losses[0] < losses[1] < losses[2], f"exact, calibrated, plain: {losses}"
