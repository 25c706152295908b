"""Packed passes against each request's own full forward without any cache, in float64."""

import random as chance

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import tiny_model

from nanolm.cache import KVCache
from nanolm.packed import Span, pack, packed_forward
from nanolm.paged_cache import PagedKVCache

MODEL = tiny_model()
V = MODEL.config.vocab_size


def off_by(actual, expected):
    """Largest difference, relative to the largest number expected; NaN counts as infinite."""
    return ((actual - expected).abs().max() / expected.abs().max()).nan_to_num(float("inf")).item()


class Pool:
    """A cache whose blocks are dealt out in a shuffled order, and the texts in them."""

    def __init__(self, block_size, n_blocks=64, seed=0):
        self.size = block_size
        self.cache = PagedKVCache(MODEL.config, n_blocks, block_size, torch.float64)
        self.left = list(range(n_blocks))
        self.rng = chance.Random(seed)
        self.rng.shuffle(self.left)

    def text(self, n):
        """n random tokens and the blocks for them."""
        return [self.rng.randrange(V) for _ in range(n)], [self.left.pop() for _ in range(-(-n // self.size))]

    def run(self, *spans):
        return packed_forward(MODEL, pack(spans, self.size, "cpu", torch.float64), self.cache)


def full_scores(tokens):
    """The scores behind every token, (T, V), by a pass over all of them that knows no cache."""
    with torch.inference_mode():
        return MODEL(torch.tensor([tokens]))[0]


def check(pool, requests):
    """Run (text, blocks, past, n_scored) for each request in one pass, the pasts before it one by one, and compare."""
    for text, blocks, past, _ in requests:
        if past:
            pool.run(Span(text[:past], 0, blocks, 0))
    scores = pool.run(*[Span(text[past:], past, blocks, n) for text, blocks, past, n in requests])
    assert len(scores) == sum(n for *_, n in requests), "a row for every token that is to be scored, and no other"
    for (text, _, past, n), rows in zip(requests, scores.split([r[3] for r in requests]), strict=True):
        if n:
            right = full_scores(text)[-n:]
            assert off_by(rows, right) < 1e-12, f"{len(text)} tokens, {past} of them cached: scores of another request?"


@st.composite
def mixes(draw):
    """Block size, and for each request (tokens, those of them in the cache, those to be scored)."""
    requests = []
    for _ in range(draw(st.integers(1, 6))):
        past, T = draw(st.sampled_from([0, 0, 1, 3, 4, 7, 8, 12])), draw(st.sampled_from([1, 1, 1, 2, 4, 5, 9]))
        requests.append((past + T, past, min(T, draw(st.integers(0, 3)))))
    return draw(st.sampled_from([1, 2, 4, 16])), requests, draw(st.integers(0, 1000))


@settings(max_examples=60)
@given(mixes())
def test_every_request_of_a_packed_pass_gets_the_scores_of_a_full_forward_of_its_own(mix):
    block_size, requests, seed = mix
    pool = Pool(block_size, 150, seed)
    check(pool, [(*pool.text(n), past, n_scored) for n, past, n_scored in requests])


# (tokens in all, cached, scored) of each request.
MIXES = {
    "one whole prompt": [(7, 0, 1)],
    "one token of one request": [(1, 0, 1)],
    "four that decode, equally far": [(9, 8, 1)] * 4,
    "four that decode, at lengths of their own": [(2, 1, 1), (9, 8, 1), (14, 13, 1), (5, 4, 1)],
    "two equal chunks with equal pasts": [(9, 5, 1), (9, 5, 1)],
    "two equal chunks with other pasts": [(9, 5, 2), (12, 8, 3)],
    "a prompt beside two that decode": [(11, 0, 1), (6, 5, 1), (3, 2, 1)],
    "a chunk that is not the end of its prompt": [(6, 3, 0), (4, 3, 1)],
    "three guesses checked beside a prompt": [(9, 5, 4), (4, 0, 1)],
    "all scores of a prompt": [(8, 0, 8)],
    "the first in order is the longest": [(9, 0, 1), (2, 0, 1), (5, 0, 1)],
}


@pytest.mark.parametrize("requests", MIXES.values(), ids=MIXES.keys())
@pytest.mark.parametrize("block_size", [1, 4])
def test_packed_passes_that_differ_in_kind(requests, block_size):
    pool = Pool(block_size, 80)
    check(pool, [(*pool.text(n), past, n_scored) for n, past, n_scored in requests])


def test_rows_of_unequal_length_do_not_see_each_other_s_positions():
    # Same last token at positions 3 and 9, one mask for both: one position too many or too few would change the scores.
    pool = Pool(4)
    (short, blocks), (long, more) = pool.text(4), pool.text(10)
    pool.run(Span(short[:3], 0, blocks, 0), Span(long[:9], 0, more, 0))
    before = pool.run(Span(short[3:], 3, blocks), Span(long[9:], 9, more))
    right = torch.stack([full_scores(short)[-1], full_scores(long)[-1]])
    shorter = torch.stack([MODEL(torch.tensor([text[:-2] + text[-1:]]))[0, -1] for text in (short, long)])
    assert off_by(before, shorter) > 1e-6, "the mask hides one position too many"
    assert off_by(before, right) < 1e-12, "length off by one in the mask: a row sees one position too many or too few"


def test_groups_read_their_own_tables():
    # Three groups (1, 2 and 5 tokens): the blocks of one must not be read for another.
    pool = Pool(4)
    texts = [pool.text(n) for n in (6, 7, 5)]
    pool.run(*[Span(text[:5], 0, blocks, 0) for text, blocks in texts[:2]])
    spans = [Span(text[past:], past, blocks) for (text, blocks), past in zip(texts, (5, 5, 0), strict=True)]
    for actual, (text, _) in zip(pool.run(*spans), texts, strict=True):
        assert off_by(actual, full_scores(text)[-1]) < 1e-12, "wrong group's table: scores of another request's text"


def test_a_packed_pass_writes_what_a_contiguous_cache_holds():
    pool, contiguous = Pool(4), KVCache(MODEL.config, 1, 11, torch.float64)
    text, blocks = pool.text(11)
    other, elsewhere = pool.text(6)
    pool.run(Span(text[:6], 0, blocks, 0), Span(other, 0, elsewhere))
    pool.run(Span(other[-1:], 5, elsewhere), Span(text[6:], 6, blocks))
    with torch.inference_mode():
        MODEL(torch.tensor([text]), contiguous)
    for layer in range(MODEL.config.n_layers):
        keys, values = pool.cache.read(layer, torch.tensor([blocks]))
        assert off_by(keys[:, :, :11], contiguous.keys[layer]) < 1e-12, f"keys of layer {layer}"
        assert off_by(values[:, :, :11], contiguous.values[layer]) < 1e-12, f"values of layer {layer}"
        assert not keys[:, :, 11:].any(), "a place behind the text was written to"


def test_a_request_that_holds_nan_does_not_reach_its_neighbours():
    # All three are in one group; the short ones are filled up to the blocks of the longest, block 0 being the poisoned
    # one's. A masked NaN is a NaN all the same.
    model = tiny_model(tie_embeddings=False)
    model.embedding.weight[10] = float("nan")
    cache = PagedKVCache(model.config, 8, 4, torch.float64)
    texts, blocks = [[1, 2, 3], [10, 5, 6], [4, 5, 6, 7, 8, 9, 1, 2, 3]], [[3], [0], [1, 5, 2]]
    tails = [text[:-1] for text in texts]
    before = [Span(tail, 0, held, 0) for tail, held in zip(tails, blocks, strict=True)]
    packed_forward(model, pack(before, 4, "cpu", torch.float64), cache)
    last = [Span(text[-1:], len(text) - 1, held) for text, held in zip(texts, blocks, strict=True)]
    scores = packed_forward(model, pack(last, 4, "cpu", torch.float64), cache)
    assert scores[1].isnan().all()
    for row in (0, 2):
        right = model(torch.tensor([texts[row]]))[0, -1]
        assert off_by(scores[row], right) < 1e-12, "filled up with another's block: its NaN passes every mask"


def test_a_pass_that_scores_nothing_returns_no_rows():
    pool = Pool(4)
    text, blocks = pool.text(3)
    assert pool.run(Span(text, 0, blocks, 0)).shape == (0, V)
