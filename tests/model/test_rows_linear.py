"""Tests `nanolm/model/rows_linear.py`: every linear layer exchanged, over the same weights."""

import torch
import torch.nn.functional as F
from tiny_models import tiny_model, tokens_of

from nanolm.batch_invariant import tree_linear
from nanolm.model import with_linear


def test_with_linear_exchanges_every_linear_layer_and_shares_the_weights():
    model, calls = tiny_model(), []
    other = with_linear(model, lambda x, weight: calls.append(len(weight)) or F.linear(x, weight))
    tokens = tokens_of(2, 5)
    assert torch.equal(other(tokens), model(tokens))
    assert len(calls) == 4 * 3 + 1, "four a layer, and the head"
    ours, theirs = dict(model.named_parameters()), dict(other.named_parameters())
    assert ours.keys() == theirs.keys() and all(theirs[name] is weight for name, weight in ours.items())
    assert type(model.head) is torch.nn.Linear, "the model given stays as it is"


def test_with_linear_exchanges_the_experts_of_a_mixture_too():
    model, calls = tiny_model(n_experts=4, experts_per_token=2), []
    other = with_linear(model, lambda x, weight: calls.append(tuple(weight.shape)) or F.linear(x, weight))
    assert torch.equal(other(tokens_of(1, 1)), model(tokens_of(1, 1)))
    # In each of 3 layers qkv, out, the router and two matrices for each of two experts; then the head.
    assert len(calls) == 3 * (3 + 2 * 2) + 1
    stacked = model.layers[0].feedforward.down.weight
    assert other.layers[0].feedforward.down[1].weight.data_ptr() == stacked[1].data_ptr(), "shared, not copied"


def test_a_model_of_trees_scores_a_text_with_the_same_bits_alone_and_in_a_batch():
    model, tokens = with_linear(tiny_model().float(), tree_linear), tokens_of(16, 6)
    alone, together = model.new_cache(1, 6), model.new_cache(16, 6)
    for t in range(6):
        one, all_of_them = model(tokens[:1, t : t + 1], alone), model(tokens[:, t : t + 1], together)
        assert torch.equal(all_of_them[:1], one), f"position {t}"
        alone.advance(1)
        together.advance(1)
