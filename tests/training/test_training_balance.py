"""The loss that keeps a mixture's experts equally busy, and that training uses it where it is asked to."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nanolm.budget import load_imbalance
from nanolm.config import ModelConfig
from nanolm.model import NanoLM, watch_routers
from training.balance import balance_loss, collect_router_logits
from training.loop import Run
from training.recipe import Recipe
from training.texts.data import Batches

MODEL = ModelConfig(
    vocab_size=50, d_model=16, n_layers=2, n_heads=2, n_kv_heads=1, head_dim=8, d_ff=8, max_positions=64,
    n_experts=4, experts_per_token=2,
)  # fmt: skip
RECIPE = Recipe(
    MODEL, steps=150, tokens_per_step=64, short=8, long=16, long_share=0.0, warmup_steps=3, eval_every=100,
    learning_rate=0.01,
)  # fmt: skip


def test_balance_loss_is_1_when_choices_and_probabilities_are_even():
    # Four positions, each expert chosen by one of them, all with the same certainty: f = P = 1/4, and 4 · 4 · 1/16 = 1.
    assert float(balance_loss([3.0 * torch.eye(4)], k=1)) == pytest.approx(1.0)


def test_balance_loss_is_E_when_one_expert_gets_everything():
    logits = torch.tensor([[30.0, 0.0, 0.0, 0.0]]).repeat(5, 1)
    assert float(balance_loss([logits], k=1)) == pytest.approx(4.0)


def test_balance_loss_counts_every_choice_of_a_position():
    # k = 2 and both positions choose 0 and 1: f = (1/2, 1/2, 0, 0). P = softmax(1, 1, 0, 0) = (e, e, 1, 1) / (2e + 2),
    # 0.36553 for the first two. 4 · (0.36553 / 2 + 0.36553 / 2) = 1.46212.
    logits = torch.tensor([[1.0, 1.0, 0.0, 0.0]]).repeat(2, 1)
    assert float(balance_loss([logits], k=2)) == pytest.approx(1.46212, abs=1e-5)


def test_balance_loss_is_the_mean_over_the_layers():
    even, collapsed = 3.0 * torch.eye(4), torch.tensor([[30.0, 0.0, 0.0, 0.0]])
    assert float(balance_loss([even, collapsed], k=1)) == pytest.approx(2.5), "(1 + 4) / 2"


def test_balance_loss_pushes_the_busiest_expert_down_and_the_idle_ones_up():
    logits = torch.tensor([[1.0, 0.5, 0.0, -1.0]]).repeat(6, 1).requires_grad_()
    balance_loss([logits], k=1).backward()
    gradient = logits.grad.sum(dim=0)
    assert gradient[0] > 0 and (gradient[1:] < 0).all(), "following the gradient must take from expert 0"


def test_a_model_without_routers_has_nothing_to_balance():
    with collect_router_logits(torch.nn.Linear(2, 2)) as logits:
        pass
    assert logits == [] and balance_loss(logits, k=0) == 0


def test_collected_router_logits_are_one_tensor_a_layer_that_a_gradient_flows_through():
    model = NanoLM(MODEL)
    with collect_router_logits(model) as logits:
        model(torch.zeros(2, 3, dtype=torch.long))
    assert [tuple(layer.shape) for layer in logits] == [(6, 4), (6, 4)] and all(layer.requires_grad for layer in logits)
    model(torch.zeros(2, 3, dtype=torch.long))
    assert len(logits) == 2, "collected after the end of the with"


def trained(path, balance):
    """A mixture whose routers begin with a strong liking for experts 0 and 1, after 150 steps; and its run."""
    recipe = replace(RECIPE, balance=balance)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    run = Run(recipe, NanoLM(MODEL), Batches(recipe, rng.integers(0, 50, 900), rng.integers(0, 50, 900)), path)
    with torch.no_grad():
        run.model.embedding.weight[:, 0] += 0.5  # something that all tokens have in common
        for layer in run.model.layers:
            layer.feedforward.router.weight[:2, 0] += 0.5
    run.train(lambda model: {})
    return run


def imbalance(run):
    with watch_routers(run.model) as stats, torch.no_grad():
        run.model(torch.arange(50)[None])
    return [load_imbalance(counts) for counts in stats.counts.tolist()]


def test_training_with_the_balance_loss_spreads_the_load(tmp_path):
    without, with_loss = (trained(tmp_path / f"{weight}.pt", weight) for weight in (0.0, 1.0))
    assert max(imbalance(without)) > 1.8, "2.0 is the most: all tokens go to two of four experts"
    assert max(imbalance(with_loss)) < 1.6, "the balance loss did not reach the routers"


def test_the_losses_of_a_run_are_nats_without_the_balance_loss(tmp_path):
    # 50 tokens drawn evenly: ln 50 = 3.91 nats a token is the least; the balance loss would add at least 1.
    assert trained(tmp_path / "state.pt", 1.0).losses[0] == pytest.approx(3.91, abs=0.3)
