"""Tests `nanolm/model/cuda_graphs.py` without a GPU: the step as it is, and as a recording that is played again.

The recording here does what a CUDA graph does: it repeats the operations of one step on the same tensors, with the
Python numbers of that time. A step that depends on anything else comes out wrong.
"""

import pytest
import torch
from refusal import assert_refuses
from tiny_models import tiny_config, tiny_model
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from nanolm.cache import StaticKVCache
from nanolm.model import StaticDecoder

PROMPTS = [[1, 2, 3], [4, 5, 6, 7, 8], [9]]


class Recording(TorchDispatchMode):
    """The operations of a piece of code, to be repeated with their own results in place of the first ones."""

    def __init__(self):
        super().__init__()
        self.operations = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.operations.append((function, args, kwargs or {}, result))
        return result

    def play(self, wanted):
        new = {}
        for function, args, kwargs, result in self.operations:
            args, kwargs = tree_map(lambda x: new.get(id(x), x), (args, kwargs))
            for old, again in zip(tree_leaves(result), tree_leaves(function(*args, **kwargs)), strict=True):
                new[id(old)] = again
        return new[id(wanted)]


class RecordingDecoder(StaticDecoder):
    """Records on a CPU."""

    def _prepare(self, size):
        step = super()._prepare(size)
        with torch.inference_mode(), Recording() as recording:
            scores = step.run()
        return step._replace(run=lambda: recording.play(scores))


def texts(decoder, prompts, n):
    """n greedy tokens of each prompt."""
    tokens, result = decoder.prefill(prompts).argmax(-1), []
    for _ in range(n - 1):
        result.append(tokens)
        tokens = decoder.step(tokens).argmax(-1)
    return torch.stack([*result, tokens], dim=1).tolist()


@pytest.fixture(params=[StaticDecoder, RecordingDecoder], ids=["as it is", "recorded"])
def decoder(request):
    return request.param(tiny_model(), (1, 2, 4), 20)


@pytest.mark.parametrize("n_prompts", [1, 2, 3])
def test_the_texts_are_those_of_generate(decoder, n_prompts):
    expected = [tiny_model().generate(prompt, 12) for prompt in PROMPTS[:n_prompts]]
    assert texts(decoder, PROMPTS[:n_prompts], 12) == expected


def test_the_scores_are_those_of_a_full_pass(decoder):
    model, text = tiny_model(), [1, 2, 3, 4, 5, 6]
    decoder.prefill([text[:3], [7, 8]])
    for end in (4, 5, 6):
        scores = decoder.step(torch.tensor([text[end - 1], 9]))
        expected = model(torch.tensor([text[:end]]))[0, -1]
        assert torch.allclose(scores[0], expected, rtol=0, atol=1e-10), "a row's logits depend on its own tokens alone"


def test_a_second_batch_sees_nothing_of_the_first(decoder):
    texts(decoder, PROMPTS, 10)
    assert texts(decoder, PROMPTS[2:], 5) == [tiny_model().generate(PROMPTS[2], 5)]


def test_scores_are_kept_when_the_next_step_writes_its_own(decoder):
    decoder.prefill([[1, 2]])
    first = decoder.step(torch.tensor([3]))
    kept = first.clone()
    decoder.step(torch.tensor([4]))
    assert torch.equal(first, kept)


def test_no_buffer_moves_from_step_to_step():
    decoder = StaticDecoder(tiny_model(), (2,), 20)

    def addresses():
        cache = decoder.cache
        buffers = (cache.offset, cache.mask(1), *cache.keys, *cache.values, decoder._steps[2].tokens)
        return [x.data_ptr() for x in buffers]

    before = addresses()
    texts(decoder, PROMPTS[:2], 5)
    assert addresses() == before


def test_the_capacity_may_be_filled_to_the_last_position():
    decoder = StaticDecoder(tiny_model(), (1,), 6)
    assert texts(decoder, [[1, 2, 3]], 4) == [tiny_model().generate([1, 2, 3], 4)]
    assert decoder.cache.lengths == [6]
    assert_refuses("capacity", decoder.step, torch.tensor([1]))


def test_what_does_not_fit_is_refused():
    model = tiny_model()
    decoder = StaticDecoder(model, (1, 2), 6)
    assert_refuses("tokens", decoder.step, torch.tensor([1]))  # before any prefill
    assert_refuses("prompts", decoder.prefill, PROMPTS)
    assert_refuses("capacity", decoder.prefill, [[1] * 7])
    decoder.prefill([[1, 2]])
    assert_refuses("tokens", decoder.step, torch.tensor([1, 2]))
    assert_refuses("batch_sizes", StaticDecoder, model, ())
    assert_refuses("batch_sizes", StaticDecoder, model, (0, 1))
    assert_refuses("record", lambda: StaticDecoder(model, (1,), 6, record=True))


def test_a_static_cache_hides_what_is_behind_each_row_s_length():
    cache = StaticKVCache(tiny_config(), 2, 5)
    cache.advance([3, 0])
    assert cache.mask(1).int().tolist() == [[[[1, 1, 1, 1, 0]]], [[[1, 0, 0, 0, 0]]]]
    assert cache.mask(2).int()[0, 0].tolist() == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


def test_the_mask_of_a_static_cache_follows_its_lengths_in_place():
    cache = StaticKVCache(tiny_config(), 2, 5)
    mask, part = cache.mask(1), cache.first_rows(1)
    of_part = part.mask(1)

    def seen():
        return [row.sum().item() for row in mask], of_part.sum().item()

    assert seen() == ([1, 1], 1), "a row without positions sees its new token"
    cache.advance([3, 0])
    assert seen() == ([4, 1], 4), "advance did not change the mask that a recorded step reads"
    cache.truncate(1)
    assert seen() == ([2, 1], 2), "truncate did not change the mask that a recorded step reads"
    assert cache.mask(1).data_ptr() == mask.data_ptr() == part.mask(1).data_ptr(), "the mask moved"


def test_the_first_rows_of_a_static_cache_see_by_the_lengths_of_now():
    cache = StaticKVCache(tiny_config(), 2, 5)
    part = cache.first_rows(1)
    assert part.mask(2).int().tolist() == [[[[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]]]]
    cache.advance([2, 1])
    assert part.mask(2).int().tolist() == [[[[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]]], "a mask of earlier lengths"


def test_the_first_rows_of_a_static_cache_are_its_own_memory():
    cache = StaticKVCache(tiny_config(), 3, 5)
    part = cache.first_rows(2)
    k = torch.ones(2, 2, 1, 6)
    cache.advance([2, 4, 0])
    part.update(0, k, k)
    assert cache.keys[0][0, 0, :, 0].tolist() == [0, 0, 1, 0, 0]
    assert cache.keys[0][1, 0, :, 0].tolist() == [0, 0, 0, 0, 1]
    assert part.offset.tolist() == [2, 4]
