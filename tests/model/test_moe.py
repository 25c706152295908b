"""Grades `nanolm/model/moe.py` against a loop over positions and experts, written here in float64 from the formulas."""

import math

import pytest
import torch
from by_hand import close, name_the_mistake, random
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusal import assert_refuses
from tiny_checkpoints import write_checkpoint
from tiny_models import tiny_config, tiny_model, tokens_of

from nanolm.budget import ModelShape
from nanolm.checkpoint import load
from nanolm.model import MoE, SeparateLinear, StackedLinear, separate_experts, watch_routers

law = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
MIXTURE = dict(n_experts=5, experts_per_token=2)


def softmax(scores):
    powers = [math.exp(score - max(scores)) for score in scores]
    return [power / sum(powers) for power in powers]


def route_by_hand(scores, k):
    """(experts, shares) of one position: the largest scores first, of equal ones the lower id."""
    experts = sorted(range(len(scores)), key=lambda expert: (-scores[expert], expert))[:k]
    return experts, softmax([scores[expert] for expert in experts])


# --- route -------------------------------------------------------------------------------------------------------


@pytest.mark.exercise("route")
def test_route_of_the_worked_example_shares_62_to_38(impl):
    experts, shares = impl.route(torch.tensor([2.0, 1.5, 0.0, -1.0], dtype=torch.float64), 2)
    assert experts.tolist() == [0, 1]
    # e^2 = 7.389 and e^1.5 = 4.482; with e^0 + e^-1 = 1.368 besides, they would be 0.558 and 0.339 of 13.239.
    assert shares.tolist() != pytest.approx([0.558, 0.339], abs=1e-3), (
        "softmax before top-k without renormalising: the shares of the chosen add up to 0.90"
    )
    # 7.389 / (7.389 + 4.482) = 1 / (1 + e^-0.5)
    assert shares.tolist() == pytest.approx([0.6225, 0.3775], abs=1e-4), "the softmax goes over the chosen logits alone"


@pytest.mark.exercise("route")
def test_route_puts_the_strongest_expert_first(impl):
    experts, shares = impl.route(torch.tensor([0.0, 1.0, 3.0, 2.0], dtype=torch.float64), 3)
    assert experts.tolist() == [2, 3, 1], "the largest logit first"
    assert shares.tolist() == pytest.approx(softmax([3.0, 2.0, 1.0])), "share j belongs to expert j of the same list"


@pytest.mark.exercise("route")
def test_route_takes_the_lower_id_of_equal_logits(impl):
    # Enough equal logits that a sort which does not keep their order shows it.
    experts, shares = impl.route(torch.zeros(3, 64, dtype=torch.float64), 4)
    assert experts.tolist() == [[0, 1, 2, 3]] * 3, "of equal logits the lower id comes first: the sort must be stable"
    assert close(shares, torch.full((3, 4), 0.25, dtype=torch.float64))


@pytest.mark.exercise("route")
@law
@given(st.integers(1, 6), st.integers(1, 9), st.data())
def test_route_is_a_sort_and_a_softmax_of_each_position(impl, n_positions, n_experts, data):
    k = data.draw(st.integers(1, n_experts))
    scores = st.lists(st.sampled_from([-2.0, -0.5, 0.0, 1.0, 1.5]), min_size=n_experts, max_size=n_experts)
    rows = [data.draw(scores) for _ in range(n_positions)]
    experts, shares = impl.route(torch.tensor(rows, dtype=torch.float64), k)
    assert experts.shape == shares.shape == (n_positions, k)
    for row, chosen, share in zip(rows, experts.tolist(), shares.tolist(), strict=True):
        expected, expected_shares = route_by_hand(row, k)
        assert chosen == expected, f"of the logits {row} the {k} best, ties to the lower id, are {expected}"
        assert share == pytest.approx(expected_shares), "softmax over the chosen logits"


@pytest.mark.exercise("route")
def test_route_takes_logits_of_any_leading_shape(impl):
    logits = random(2, 3, 5)
    experts, shares = impl.route(logits, 2)
    assert experts.shape == shares.shape == (2, 3, 2)
    assert experts[1, 2].tolist() == route_by_hand(logits[1, 2].tolist(), 2)[0]


@pytest.mark.exercise("route")
@pytest.mark.parametrize("k", [0, -1, 5])
def test_route_refuses_more_experts_than_there_are_and_fewer_than_one(impl, k):
    assert_refuses("k", impl.route, torch.zeros(3, 4), k)


@pytest.mark.exercise("route")
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_route_refuses_logits_that_are_no_numbers(impl, value):
    assert_refuses("logits", impl.route, torch.tensor([0.0, value, 1.0]), 2)


# --- mix_experts -------------------------------------------------------------------------------------------------

WRONG_ROWS = "an expert's outputs went to the wrong rows: undo the sort by expert"
NO_SHARES = "shares not applied: an expert's output counts as much as its share"
WRONG_SHARES = "the shares went to the wrong experts: sort them as the rows were sorted"


def run(expert, rows):
    """An expert that can be told from the others by what it does."""
    return rows * (expert + 1) + expert * rows.flip(-1)


def choice(n_positions, n_experts, k, seed=0):
    """Random rows, experts and shares; only two thirds of the experts are ever chosen, if k allows."""
    used = max(k, 2 * n_experts // 3)
    experts = random(n_positions, used, seed=seed).argsort(dim=-1)[:, :k]
    return random(n_positions, 4, seed=seed + 1), experts, random(n_positions, k, seed=seed + 2).softmax(dim=-1)


def mixed_by_hand(x, experts, shares):
    """Position after position, choice after choice."""
    rows = torch.zeros_like(x)
    for p in range(len(x)):
        for expert, share in zip(experts[p].tolist(), shares[p].tolist(), strict=True):
            rows[p] += share * run(expert, x[p : p + 1])[0]
    return rows


def mix_mistakes(x, experts, shares):
    k, order = experts.shape[1], experts.flatten().argsort(stable=True)
    y = torch.stack([run(e, x[p // k]) for p, e in enumerate(experts.flatten().tolist())])  # one row a choice
    flat = shares.flatten()[:, None]
    return {
        WRONG_ROWS: (y[order] * flat).unflatten(0, (-1, k)).sum(1),
        f"{WRONG_ROWS}, shares too": (y * flat)[order].unflatten(0, (-1, k)).sum(1),
        WRONG_SHARES: (y * flat[order]).unflatten(0, (-1, k)).sum(1),
        NO_SHARES: y.unflatten(0, (-1, k)).sum(1),
        f"{NO_SHARES}, not 1/k": y.unflatten(0, (-1, k)).mean(1),
        "only the strongest expert counts": y.unflatten(0, (-1, k))[:, 0] * shares[:, :1],
    }


def assert_mixed(actual, x, experts, shares):
    assert close(actual, mixed_by_hand(x, experts, shares)), name_the_mistake(
        actual, mix_mistakes(x, experts, shares), "not the sum of share · output over the experts of each position"
    )


@pytest.mark.exercise("mix_experts")
@pytest.mark.parametrize(("n_positions", "n_experts", "k"), [(7, 5, 2), (1, 5, 2), (1, 3, 1), (4, 6, 6), (20, 9, 3)])
def test_mix_experts_equals_a_loop_over_positions(impl, n_positions, n_experts, k):
    x, experts, shares = choice(n_positions, n_experts, k)
    assert_mixed(impl.mix_experts(x, experts, shares, run), x, experts, shares)


@pytest.mark.exercise("mix_experts")
@law
@given(st.integers(1, 12), st.integers(1, 8), st.data())
def test_mix_experts_equals_a_loop_over_positions_in_every_shape(impl, n_positions, n_experts, data):
    k, seed = data.draw(st.integers(1, n_experts)), data.draw(st.integers(0, 99))
    x, experts, shares = choice(n_positions, n_experts, k, seed)
    assert_mixed(impl.mix_experts(x, experts, shares, run), x, experts, shares)


@pytest.mark.exercise("mix_experts")
@pytest.mark.parametrize("n_positions", [1, 2, 50])
def test_mix_experts_runs_each_chosen_expert_once_and_no_other(impl, n_positions):
    x, experts, shares = choice(n_positions, 6, 2)
    calls = []
    impl.mix_experts(x, experts, shares, lambda expert, rows: calls.append((expert, len(rows))) or run(expert, rows))
    ran = [expert for expert, _ in calls]
    assert len(ran) == len(set(ran)), (
        f"an expert ran {max(map(ran.count, ran))} times: its weights are read once for all of its positions"
    )
    assert set(ran) == set(experts.flatten().tolist()), "run the experts that were chosen, and no other"
    counted = {expert: int((experts == expert).sum()) for expert in ran}
    assert dict(calls) == counted, "an expert gets the rows that chose it, and no other"


@pytest.mark.exercise("mix_experts")
def test_mix_experts_gives_an_expert_ids_as_plain_numbers(impl):
    x, experts, shares = choice(5, 4, 2)
    seen = []
    impl.mix_experts(x, experts, shares, lambda expert, rows: seen.append(expert) or rows)
    assert all(type(expert) is int for expert in seen), "run gets an int: a list of experts can be indexed with it"


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


@pytest.mark.exercise("MoE.forward")
@pytest.mark.parametrize(("B", "T"), [(1, 1), (1, 6), (6, 1), (3, 4)])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_moe_forward_equals_a_loop_over_positions(impl, B, T, k):
    layer, x = mixture(experts_per_token=k)(impl), random(B, T, 20, seed=9)
    actual = layer(x)
    assert actual.shape == (B, T, 20), f"the output has the shape of x, (B, T, D), not {tuple(actual.shape)}"
    crossed = layer_by_hand(layer, x.transpose(0, 1), k).reshape(B, T, 20)
    assert close(actual, layer_by_hand(layer, x, k), 1e-10), name_the_mistake(
        actual,
        {"the positions of different texts are mixed up": crossed},
        "not what the chosen experts give, one position at a time",
    )


@pytest.mark.exercise("MoE.forward")
def test_moe_forward_with_one_expert_is_a_feedforward(impl):
    layer, x = mixture(n_experts=1, experts_per_token=1)(impl), random(2, 3, 20)
    dense = torch.stack(
        [torch.stack([swiglu(v, layer.gate_up.weight[0], layer.down.weight[0]) for v in row]) for row in x]
    )
    assert close(layer(x), dense, 1e-10), "the only expert has the share 1"


@pytest.mark.exercise("MoE.forward")
@pytest.mark.parametrize("T", [1, 8])
def test_moe_forward_reads_no_expert_that_nobody_chose(impl, T):
    layer, x = mixture()(impl), random(1, T, 20, seed=4)
    chosen = {e for t in range(T) for e in route_by_hand((layer.router.weight @ x[0, t]).tolist(), 2)[0]}
    for expert in set(range(5)) - chosen:
        layer.gate_up.weight[expert], layer.down.weight[expert] = math.nan, math.nan
    assert layer(x).isfinite().all(), "an expert that no position chose was run: all of its weights were read"


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
