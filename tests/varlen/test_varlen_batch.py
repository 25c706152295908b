"""Passes over tokens of many requests against each request's own full forward without any cache, in float64."""

import math
import random as chance

import pytest
import torch
from by_hand import off_by
from hypothesis import given, settings
from hypothesis import strategies as st
from refusal import assert_refuses
from tiny_models import tiny_config, tiny_latent_model, tiny_model

from nanolm.cache import KVCache
from nanolm.paging import BlockAllocator, BlockTable, PagedKVCache, Scratch, TableRows
from nanolm.varlen import Segment, Shortcuts, VarlenBatch, groups_of

MODEL, LATENT = tiny_model(), tiny_latent_model()
V = MODEL.config.vocab_size


class Pool:
    """A cache whose blocks are dealt out in a shuffled order."""

    def __init__(self, block_size, n_blocks=64, seed=0, model=MODEL, cache_kind="float"):
        self.model, self.rng = model, chance.Random(seed)
        self.cache = model.new_paged_cache(n_blocks, block_size, cache_kind)
        self.allocator = BlockAllocator(n_blocks)
        blocks = [self.allocator.allocate() for _ in range(n_blocks)]
        self.rng.shuffle(blocks)
        for block in blocks:  # it gives first what was freed last
            self.allocator.free(block)

    def text(self, n):
        """n random tokens and a table for them."""
        table = BlockTable(self.allocator, self.cache.block_size)
        table.append(n)
        return [self.rng.randrange(V) for _ in range(n)], table

    def run(self, *segments, **options):
        """The logits that a pass over the segments gives, (scored, V)."""
        with torch.inference_mode():
            batch = VarlenBatch(self.cache, segments, **options)
            return self.model(batch.tokens, batch, batch.scored)[0]


def over(blocks, block_size=4):
    """A table over these very blocks, all positions of them."""
    table = BlockTable(BlockAllocator(max(blocks) + 1), block_size)
    table.adopt(blocks)
    return table


def full_scores(tokens, model=MODEL):
    """The logits behind every token, (T, V), by a pass over all of them that knows no cache."""
    with torch.inference_mode():
        return model(torch.tensor([tokens]))[0]


def check(pool, requests, one_by_one=False):
    """Run (text, table, past, n_scored) for each request in one pass, the pasts before it one by one, and compare."""
    for text, table, past, _ in requests:
        if past:
            pool.run(Segment(text[:past], 0, table, 0))
    segments = [Segment(text[past:], past, table, n) for text, table, past, n in requests]
    scores = pool.run(*segments, one_by_one=one_by_one)
    assert len(scores) == sum(n for *_, n in requests), "a row for every token whose logits are wanted, and no other"
    for (text, _, past, n), rows in zip(requests, scores.split([r[3] for r in requests]), strict=True):
        if n:
            right = full_scores(text, pool.model)[-n:]
            assert off_by(rows, right) < 1e-12, f"{len(text)} tokens, {past} of them cached: logits of another request?"


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
def test_every_request_of_a_pass_gets_the_scores_of_a_full_forward_of_its_own(mix):
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
    "three drafted tokens verified beside a prompt": [(9, 5, 4), (4, 0, 1)],
    "all scores of a prompt": [(8, 0, 8)],
    "the first in order is the longest": [(9, 0, 1), (2, 0, 1), (5, 0, 1)],
}


@pytest.mark.parametrize("requests", MIXES.values(), ids=MIXES.keys())
@pytest.mark.parametrize("block_size", [1, 4])
def test_passes_that_differ_in_kind(requests, block_size):
    pool = Pool(block_size, 80)
    check(pool, [(*pool.text(n), past, n_scored) for n, past, n_scored in requests])


def test_rows_of_unequal_length_do_not_see_each_other_s_positions():
    # Same last token at positions 3 and 9, one mask for both: one position too many or too few would change the logits.
    pool = Pool(4)
    (short, table), (long, other) = pool.text(4), pool.text(10)
    pool.run(Segment(short[:3], 0, table, 0), Segment(long[:9], 0, other, 0))
    before = pool.run(Segment(short[3:], 3, table), Segment(long[9:], 9, other))
    right = torch.stack([full_scores(short)[-1], full_scores(long)[-1]])
    shorter = torch.stack([MODEL(torch.tensor([text[:-2] + text[-1:]]))[0, -1] for text in (short, long)])
    assert off_by(before, shorter) > 1e-6, "the mask hides one position too many"
    assert off_by(before, right) < 1e-12, "length off by one in the mask: a row sees one position too many or too few"


def test_groups_read_their_own_tables():
    # Three groups (1, 2 and 5 tokens): the blocks of one must not be read for another.
    pool = Pool(4)
    texts = [pool.text(n) for n in (6, 7, 5)]
    pool.run(*[Segment(text[:5], 0, table, 0) for text, table in texts[:2]])
    segments = [Segment(text[past:], past, table) for (text, table), past in zip(texts, (5, 5, 0), strict=True)]
    for actual, (text, _) in zip(pool.run(*segments), texts, strict=True):
        assert off_by(actual, full_scores(text)[-1]) < 1e-12, "wrong group's table: logits of another request's text"


def test_a_pass_writes_what_a_contiguous_cache_holds():
    pool, contiguous = Pool(4), KVCache(MODEL.config, 1, 11, torch.float64)
    text, table = pool.text(11)
    other, elsewhere = pool.text(6)
    pool.run(Segment(text[:6], 0, table, 0), Segment(other, 0, elsewhere))
    pool.run(Segment(other[-1:], 5, elsewhere), Segment(text[6:], 6, table))
    with torch.inference_mode():
        MODEL(torch.tensor([text]), contiguous)
    for layer in range(MODEL.config.n_layers):
        keys, values = pool.cache.read(layer, torch.tensor([table.blocks]))
        assert off_by(keys[:, :, :11], contiguous.keys[layer]) < 1e-12, f"keys of layer {layer}"
        assert off_by(values[:, :, :11], contiguous.values[layer]) < 1e-12, f"values of layer {layer}"
        assert not keys[:, :, 11:].any(), "a place behind the text was written to"


def test_a_request_that_holds_nan_does_not_reach_its_neighbours():
    # All three are in one group; the short ones are filled up to the blocks of the longest, block 0 being the poisoned
    # one's. A masked NaN is a NaN all the same.
    model = tiny_model(tie_embeddings=False)
    model.embedding.weight[10] = float("nan")
    pool = Pool(4, 8, model=model)
    texts, tables = [[1, 2, 3], [10, 5, 6], [4, 5, 6, 7, 8, 9, 1, 2, 3]], [over([3]), over([0]), over([1, 5, 2])]
    pool.run(*[Segment(text[:-1], 0, table, 0) for text, table in zip(texts, tables, strict=True)])
    scores = pool.run(*[Segment(text[-1:], len(text) - 1, table) for text, table in zip(texts, tables, strict=True)])
    assert scores[1].isnan().all()
    for row in (0, 2):
        right = model(torch.tensor([texts[row]]))[0, -1]
        assert off_by(scores[row], right) < 1e-12, "filled up with another's block: its NaN passes every mask"


def test_a_pass_that_scores_nothing_returns_no_rows():
    pool = Pool(4)
    text, table = pool.text(3)
    assert pool.run(Segment(text, 0, table, 0)).shape == (0, V)


@pytest.mark.parametrize("requests", MIXES.values(), ids=MIXES.keys())
def test_one_by_one_every_request_gets_the_same_scores(requests):
    pool = Pool(4, 80)
    check(pool, [(*pool.text(n), past, n_scored) for n, past, n_scored in requests], one_by_one=True)


@pytest.mark.parametrize("requests", MIXES.values(), ids=MIXES.keys())
def test_latent_attention_reads_its_own_texts_too(requests):
    pool = Pool(4, 80, model=LATENT)
    check(pool, [(*pool.text(n), past, n_scored) for n, past, n_scored in requests])


def test_a_batch_tells_the_model_what_to_run_where_it_stands_and_what_to_score():
    # The single token comes first, being shorter; what is to be scored keeps the order in which it was asked for.
    pool = Pool(4)
    (prompt, table), (text, other) = pool.text(5), pool.text(9)
    batch = VarlenBatch(pool.cache, [Segment(prompt[2:], 2, table, 2), Segment(text[8:], 8, other)])
    assert batch.tokens.tolist() == [[text[8], *prompt[2:]]]
    assert batch.offset.tolist() == [[8, 2, 3, 4]], "each token is rotated by its own position in its own text"
    assert batch.scored.tolist() == [[2, 3, 0]], "the last two of the prompt, then the single token"
    assert (batch.batch_size, batch.capacity) == (1, 9), "to the model one row; the longest request has 9 positions"


def test_positions_that_nobody_has_reserved_are_refused():
    pool = Pool(4)
    text, table = pool.text(4)
    assert_refuses("position", VarlenBatch, pool.cache, [Segment([*text, 1], 0, table)])


# --- groups by length --------------------------------------------------------------------------------------------


def groups(pasts, T=1):
    """The pasts of each group; a position has 2 · 2 · 32 numbers of 4 bytes a layer, so a group is worth 512."""
    config = tiny_config(n_layers=1, n_kv_heads=2, head_dim=32)
    cache, table = PagedKVCache(config, 2, 16), over([0])
    segments = [Segment([1] * T, past, table) for past in sorted(pasts, reverse=True)]
    return [[row.past for row in group] for group in groups_of(cache, segments, Shortcuts(None, Scratch(), None))]


@pytest.mark.parametrize(
    ("pasts", "sizes"),
    [
        ([256] * 32, [32]),
        ([64] * 15 + [1900], [1, 15]),
        ([100, 300], [2]),  # 200 positions of padding are less than a group costs
        ([64, 1900], [1, 1]),
        ([1000] * 8 + [700] * 8, [16]),  # 2,400 positions, of 13,600
        ([1000] * 8 + [600] * 8, [8, 8]),
        ([0] * 9, [9]),
        ([7], [1]),
    ],
)
@pytest.mark.parametrize("T", [1, 5])
def test_rows_are_grouped_by_length_where_padding_costs_more_than_a_group(pasts, sizes, T):
    assert [len(group) for group in groups(pasts, T)] == sizes


def test_what_lies_behind_a_window_makes_no_row_longer():
    cache, table = PagedKVCache(tiny_config(n_layers=1, n_kv_heads=2, head_dim=32), 2, 16), over([0])
    segments = [Segment([1], past, table) for past in [1900] * 8 + [64] * 8]
    fast = Shortcuts(None, Scratch(), None)
    assert [len(group) for group in groups_of(cache, segments, fast)] == [8, 8]
    assert [len(group) for group in groups_of(cache, segments, fast, window=50)] == [16]


def test_the_compiled_library_takes_a_few_tokens_of_rows_of_any_length_and_prompts_one_by_one():
    cache, table = PagedKVCache(tiny_config(n_layers=1, n_kv_heads=2, head_dim=32), 2, 16), over([0])
    fast = Shortcuts(None, Scratch(), "compiled")
    for T, sizes in ((1, [3]), (16, [3]), (17, [1, 1, 1])):
        segments = [Segment([1] * T, past, table) for past in (1900, 64, 0)]
        assert [len(group) for group in groups_of(cache, segments, fast)] == sizes, "nothing is padded, nothing masked"


@given(st.lists(st.integers(0, 4000), min_size=1, max_size=60))
def test_padding_is_at_most_half_of_what_is_read_and_groups_are_few(pasts):
    found = groups(pasts)
    assert [past for group in found for past in group] == sorted(pasts, reverse=True)
    for group in found:
        padding = sum(group[0] - past for past in group)
        assert padding <= 0.5 * sum(group) + 512, f"{group} are padded to the longest"
    assert len(found) <= 2 + math.log(1 + max(pasts), 1.5)


@pytest.fixture
def free_groups(monkeypatch):
    """Every length that is another's 1.5th part gets a group, however little it spares."""
    monkeypatch.setattr("nanolm.varlen.paged_rows._GROUP_BYTES", {"cpu": 0, "cuda": 0})


@pytest.mark.parametrize(("kind", "model"), [("float", MODEL), ("int8", MODEL), ("float8", MODEL), ("float", LATENT)])
@settings(max_examples=25)
@given(mix=mixes())
def test_groups_read_and_mask_what_each_request_alone_would(free_groups, kind, model, mix):
    block_size, requests, seed = mix
    pool, rows = Pool(block_size, 150, seed, model, kind), TableRows()
    texts = [(*pool.text(n), past) for n, past, _ in requests]
    for text, table, past in texts:
        if past:
            pool.run(Segment(text[:past], 0, table, 0))
    segments = [Segment(text[past:], past, table, len(text) - past) for text, table, past in texts]
    alone = pool.run(*segments, one_by_one=True)
    assert off_by(pool.run(*segments), alone) < 1e-10
    assert off_by(pool.run(*segments, tables=rows), alone) < 1e-10


def test_a_group_that_reads_less_leaves_the_scores_as_they_are(free_groups):
    pool = Pool(4, 80)
    check(pool, [(*pool.text(n), n - 1, 1) for n in (2, 3, 30, 31, 60, 9, 14)])


# --- what lives from pass to pass --------------------------------------------------------------------------------


@settings(max_examples=40)
@given(mixes(), st.integers(1, 4))
def test_block_tables_kept_from_pass_to_pass_give_the_same_scores_to_the_last_bit(mix, n_passes):
    block_size, requests, seed = mix
    pool, rows = Pool(block_size, 200, seed), TableRows()
    texts = [(*pool.text(n + n_passes), past, n - past) for n, past, _ in requests]
    for step in range(n_passes):
        segments = [Segment(text[past : past + T + step], past, table) for text, table, past, T in texts]
        segments = pool.rng.sample(segments, pool.rng.randint(1, len(segments)))
        assert torch.equal(pool.run(*segments, tables=rows), pool.run(*segments)), "another's block, or an older one"


@pytest.mark.parametrize(("few", "kept"), [(9, 0), (8, 2)])
def test_few_blocks_are_made_into_a_tensor_anew(monkeypatch, few, kept):
    monkeypatch.setattr("nanolm.varlen.varlen_batch._FEW_BLOCKS", few)
    pool, rows = Pool(4), TableRows()
    segments = [Segment(text, 0, table) for text, table in (pool.text(15), pool.text(14))]  # 8 blocks
    assert torch.equal(pool.run(*segments, tables=rows), pool.run(*segments)) and rows.n_rows == kept
