"""Grades `MoE` of `nanolm/model/moe.py` against a loop over positions and experts, in float64 from the formulas."""

import math

import numpy as np
import pytest
import torch
from by_hand import close, name_the_mistake, random
from routing_by_hand import route_by_hand, softmax
from tiny_checkpoints import write_checkpoint
from tiny_models import tiny_config, tiny_model, tokens_of

from nanolm.budget import ModelShape
from nanolm.checkpoint import load
from nanolm.model import MoE, SeparateLinear, StackedLinear, separate_experts, watch_routers

MIXTURE = dict(n_experts=5, experts_per_token=2)

# --- MoE ---------------------------------------------------------------------------------------------------------


def mixture(**changes):
    """A layer of five experts in float64 with random weights, and its module."""
    config = tiny_config(**{**MIXTURE, **changes})

    def make(impl):
        layer = impl.MoE(config).double().requires_grad_(False)
        for i, weight in enumerate(layer.parameters()):
            weight.copy_(random(*weight.shape, seed=i) * 0.5)
        return layer

    return make


def swiglu(x, gate_up, down):
    F = down.shape[1]
    gate, up = gate_up[:F] @ x, gate_up[F:] @ x
    return down @ (gate * torch.sigmoid(gate) * up)


def layer_by_hand(layer, x, k):
    """(B, T, D) by two loops: each position's router logits, its experts, their weighted sum."""
    result = torch.zeros_like(x)
    for b in range(x.shape[0]):
        for t in range(x.shape[1]):
            experts, shares = route_by_hand((layer.router.weight @ x[b, t]).tolist(), k)
            for expert, share in zip(experts, shares, strict=True):
                weights = layer.gate_up.weight[expert], layer.down.weight[expert]
                result[b, t] += share * swiglu(x[b, t], *weights)
    return result


def layer_mistakes(layer, x, k):
    """What the layer would give under each common mistake."""

    def with_shares(change):
        result = torch.zeros_like(x)
        for place in np.ndindex(*x.shape[:2]):
            logits = layer.router.weight @ x[place]
            experts, _ = route_by_hand(logits.tolist(), k)
            for expert, share in zip(experts, change([logits[e].item() for e in experts], logits), strict=True):
                result[place] += share * swiglu(x[place], layer.gate_up.weight[expert], layer.down.weight[expert])
        return result

    B, T, D = x.shape
    right = layer_by_hand(layer, x, k)
    return {
        "the positions of different texts are mixed up": layer_by_hand(layer, x.transpose(0, 1), k).reshape(B, T, D),
        "the shares are not applied: each expert's output counts as much as its share": with_shares(
            lambda chosen, _: [1.0] * k
        ),
        "all chosen experts count alike: their shares come from the router": with_shares(lambda chosen, _: [1 / k] * k),
        "a softmax before `route`: it takes the router's logits as they are": with_shares(
            lambda chosen, logits: softmax([logits.softmax(0)[logits == c][0].item() for c in chosen])
        ),
        "only the strongest expert runs, whatever experts_per_token is": layer_by_hand(layer, x, 1),
        "two experts run, whatever experts_per_token is": layer_by_hand(layer, x, min(2, len(layer.router.weight))),
        "x is added to the output: the layer around does that": right + x,
    }


@pytest.mark.exercise("MoE.forward")
@pytest.mark.parametrize(("B", "T"), [(3, 4), (1, 1), (1, 6), (6, 1)])
@pytest.mark.parametrize("k", [3, 1, 2, 5])
def test_moe_forward_equals_a_loop_over_positions(impl, B, T, k):
    layer, x = mixture(experts_per_token=k)(impl), random(B, T, 20, seed=9)
    actual = layer(x)
    assert actual.shape == (B, T, 20), f"the output has the shape of x, (B, T, D), not {tuple(actual.shape)}"
    assert close(actual, layer_by_hand(layer, x, k), 1e-10), name_the_mistake(
        actual, layer_mistakes(layer, x, k), "not what the chosen experts give, one position at a time"
    )


@pytest.mark.exercise("MoE.forward")
@pytest.mark.parametrize("T", [1, 8])
def test_moe_forward_reads_no_expert_that_nobody_chose(impl, T):
    layer, x = mixture()(impl), random(1, T, 20, seed=4)
    x[..., 0], layer.router.weight[3:] = 1.0, 0.0
    layer.router.weight[3:, 0] = -100.0  # so experts 3 and 4 are the weakest everywhere
    chosen = {e for t in range(T) for e in route_by_hand((layer.router.weight @ x[0, t]).tolist(), 2)[0]}
    for expert in set(range(5)) - chosen:
        layer.gate_up.weight[expert], layer.down.weight[expert] = math.nan, math.nan
    assert layer(x).isfinite().all(), "an expert that no position chose was run: all of its weights were read"


@pytest.mark.exercise("MoE.forward")
def test_moe_forward_runs_each_chosen_expert_once_for_all_texts(impl):
    # The same two texts three times: six texts choose what one does.
    layer, x = mixture()(impl), random(2, 4, 20, seed=9).repeat(3, 1, 1)
    ran = []
    layer.gate_up.register_forward_pre_hook(lambda _, arguments: ran.append((int(arguments[1]), len(arguments[0]))))
    layer(x)
    again = [expert for expert, _ in ran if [e for e, _ in ran].count(expert) > 1]
    assert not again, (
        f"expert {again[0]} ran {again.count(again[0])} times in one pass over 6 texts: each expert runs once, for the "
        "positions of all texts together, so its weights are read once"
    )
    assert sum(n for _, n in ran) == 24 * 2, "24 positions with 2 experts each are 48 rows, no more and no fewer"


@pytest.mark.exercise("MoE.forward")
def test_moe_forward_with_one_expert_is_a_feedforward(impl):
    layer, x = mixture(n_experts=1, experts_per_token=1)(impl), random(2, 3, 20)
    dense = torch.stack(
        [torch.stack([swiglu(v, layer.gate_up.weight[0], layer.down.weight[0]) for v in row]) for row in x]
    )
    assert close(layer(x), dense, 1e-10), "the only expert has the share 1"


def test_moe_learns_through_shares_and_experts():
    layer = MoE(tiny_config(**MIXTURE)).double()
    layer(random(2, 6, 20)).square().sum().backward()
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in layer.parameters())


def test_an_expert_s_weights_are_looked_at_and_not_copied():
    stacked = StackedLinear(3, 4, 5).requires_grad_(False)
    assert stacked.weight[1].data_ptr() == stacked.weight.data_ptr() + 20 * 4
    assert close(stacked(torch.ones(2, 4), 1).double(), stacked.weight[1].sum(1).double().repeat(2, 1), 1e-5)


# --- experts apart -----------------------------------------------------------------------------------------------


def test_separate_experts_share_the_weights_and_compute_the_same():
    model, tokens = tiny_model(**MIXTURE), tokens_of(2, 6)
    expected, stacked = model(tokens), model.layers[1].feedforward.down.weight
    separate_experts(model)
    apart = model.layers[1].feedforward.down
    assert isinstance(apart, SeparateLinear) and [type(layer) for layer in apart] == [torch.nn.Linear] * 5
    assert all(layer.weight.data_ptr() == stacked[e].data_ptr() for e, layer in enumerate(apart)), "copied"
    assert torch.equal(model(tokens), expected)


def test_separate_experts_leave_a_model_without_experts_alone():
    model = tiny_model()
    before = [type(module) for module in model.modules()]
    separate_experts(model)
    assert [type(module) for module in model.modules()] == before


# --- what routers choose -----------------------------------------------------------------------------------------


def test_watch_routers_counts_choices_layer_by_layer():
    model = tiny_model(**MIXTURE)
    model.layers[0].feedforward.router.weight.zero_()  # all logits equal: experts 0 and 1 for every position
    with watch_routers(model) as stats:
        model(tokens_of(2, 6))
        model(tokens_of(1, 3))
    assert stats.counts.shape == (3, 5)
    assert stats.counts[0].tolist() == [15, 15, 0, 0, 0], "12 + 3 positions, each counted for both of its experts"
    assert stats.counts.sum(dim=1).tolist() == [30, 30, 30]
    assert stats.experts_read[0].tolist() == [2, 2]
    assert [len(passes) for passes in stats.choices] == [2, 2, 2]
    assert stats.choices[2][0].shape == (12, 2)


def test_watch_routers_sees_what_the_layer_really_runs(monkeypatch):
    model, ran = tiny_model(**MIXTURE), []
    layer = model.layers[2].feedforward
    plain = layer.run_expert
    monkeypatch.setattr(layer, "run_expert", lambda e, rows: ran.append((e, len(rows))) or plain(e, rows))
    with watch_routers(model) as stats:
        model(tokens_of(4, 9))
    assert dict(ran) == {e: n for e, n in enumerate(stats.counts[2].tolist()) if n}
    assert stats.experts_read[2].tolist() == [len(ran)]


def test_watch_routers_changes_nothing_and_leaves_nothing_behind():
    model, tokens = tiny_model(**MIXTURE), tokens_of(2, 6)
    expected = model(tokens)
    with watch_routers(model) as stats:
        assert torch.equal(model(tokens), expected)
    model(tokens)
    assert stats.counts.sum() == 3 * 2 * 12, "watched after the end of the with"


def test_watch_routers_refuses_a_model_without_routers():
    with pytest.raises(ValueError, match="no router to watch"), watch_routers(tiny_model()):
        pass


# --- the model ---------------------------------------------------------------------------------------------------


def test_a_mixture_scores_a_text_the_same_with_and_without_a_cache():
    model, tokens = tiny_model(**MIXTURE), tokens_of(2, 9)
    cache, parts = model.new_cache(2, 9), []
    for part in tokens.split([4, 1, 1, 3], dim=1):
        parts.append(model(part, cache))
        cache.advance(part.shape[1])
    assert close(torch.cat(parts, dim=1), model(tokens), 1e-10)


def test_a_mixture_writes_the_same_text_alone_and_in_a_batch():
    model, prompts = tiny_model(**MIXTURE), [[1, 2, 3], [4], [5, 6, 7, 8]]
    assert model.generate(prompts, 8) == [model.generate(prompt, 8) for prompt in prompts]


def test_the_shape_of_a_saved_mixture_counts_the_parameters_that_it_holds_and_uses(tmp_path):
    shape = ModelShape.from_config(write_checkpoint(tmp_path, **MIXTURE))
    # V = 290, D = 20, and in 3 layers qkv 48·20, out 20·24, a router 5·20, an expert 30·20 and two norms of 20.
    attention, router, expert = 48 * 20 + 20 * 24, 5 * 20, 30 * 20
    assert shape.n_params == 290 * 20 + 3 * (attention + router + 5 * expert + 40) + 20
    assert shape.n_params == sum(weight.numel() for weight in load(tmp_path)[0].parameters())
    assert shape.n_multiplied_params == 290 * 20 + 3 * (attention + router + 2 * expert)


def test_only_a_config_with_experts_makes_a_mixture():
    assert not any(isinstance(module, MoE) for module in tiny_model().modules())
    assert sum(isinstance(module, MoE) for module in tiny_model(**MIXTURE).modules()) == 3, "one a layer"
