"""Passes of models with windows over block tables of layer groups, against one pass over the text by HybridKVCache."""

import random as chance

import pytest
import torch
from by_hand import off_by
from hypothesis import given, settings
from hypothesis import strategies as st
from refusal import assert_refuses
from tiny_models import tiny_config, tiny_model

from nanolm.paging import BlockAllocator, TableRows
from nanolm.varlen import Segment, VarlenBatch
from nanolm.window import (
    HOLE,
    GroupedTables,
    HybridKVCache,
    LayerGroups,
    blocks_for_request,
    grouped_paged_cache,
)

LONG = 2048
MODELS = {n: tiny_model(n_layers=n) for n in (1, 3, 4)}
SIZE = 4


def full_scores(model, windows, tokens):
    """The logits behind every token, (T, V), by one pass over the text."""
    with torch.inference_mode():
        cache = HybridKVCache(model.config, windows, 1, len(tokens), torch.float64)
        return model(torch.tensor([tokens]), cache)[0]


class Server:
    """Texts that share a pool, as an engine keeps them: books, tensors and passes."""

    def __init__(self, model, windows, n_blocks=200, kind="float", block_size=SIZE, **options):
        self.model, self.windows, self.groups = model, windows, LayerGroups(windows)
        self.cache = grouped_paged_cache(model.config, self.groups, n_blocks, block_size, kind, torch.float64)
        self.allocator, self.options, self.most_used = BlockAllocator(n_blocks), options, 0
        # What lies in a block that nobody has written to is large: read by mistake, it would be seen.
        for pool in self.cache.pools:
            if pool.dtype == torch.float64:
                pool.fill_(1e3)

    def new(self, tokens=()):
        return Text(list(tokens), GroupedTables(self.allocator, self.cache.block_size, self.groups))

    def run(self, *work, one_by_one=False, n_scored=None):
        """Read the next n tokens of each text, and behind them a draft that is refused; the logits of all of them."""
        segments = []
        for text, n, draft in work:
            self.cache.copy_blocks(text.table.append(n + len(draft)))
            tokens = [*text.tokens[text.n_computed :][:n], *draft]
            segments.append(Segment(tokens, text.n_computed, text.table, n_scored or len(tokens)))
        self.most_used = max(self.most_used, self.allocator.n_used)
        with torch.inference_mode():
            batch = VarlenBatch(self.cache, segments, one_by_one, **self.options)
            scores = self.model(batch.tokens, batch, batch.scored)[0]
        for text, n, _ in work:
            text.n_computed += n
            text.table.truncate(text.n_computed)
            text.table.drop_behind(text.n_computed)
        return scores.split([segment.n_scored for segment in segments])

    def check(self, *work, **options):
        pasts = [text.n_computed for text, *_ in work]
        for (text, n, draft), past, scores in zip(work, pasts, self.run(*work, **options), strict=True):
            tokens = [*text.tokens[: past + n], *draft]
            right = full_scores(self.model, self.windows, tokens)[-len(scores) :]
            assert off_by(scores, right) < 1e-10, f"{past} tokens computed, {n} and {len(draft)} drafted ones run"


class Text:
    def __init__(self, tokens, table, n_computed=0):
        self.tokens, self.table, self.n_computed = tokens, table, n_computed

    @property
    def n_pending(self):
        return len(self.tokens) - self.n_computed


def tokens(n, seed=0):
    rng = chance.Random(seed)
    return [rng.randrange(11) for _ in range(n)]


WINDOWS = [[None], [1], [5], [5, 5, None], [3, 9, None], [None] * 3, [6] * 3, [4, 4, 4, None], [7, None, 7, None]]


@pytest.mark.parametrize("one_by_one", [False, True], ids=["together", "one by one"])
@pytest.mark.parametrize("windows", WINDOWS, ids=str)
def test_a_prompt_in_chunks_and_tokens_one_by_one_get_the_scores_of_one_pass(windows, one_by_one):
    server = Server(MODELS[len(windows)], windows)
    texts = [server.new(tokens(n, seed=n)) for n in (30, 23)]
    for chunks in ((7, 7), (9, 1), (1, 1), (4, 3), (1, 1), (1, 1), (2, 5), (1, 1)):
        server.check(*((text, n, []) for text, n in zip(texts, chunks, strict=True)), one_by_one=one_by_one)


@st.composite
def courses(draw):
    """Windows, block size, and what happens pass after pass."""
    windows = draw(st.sampled_from(WINDOWS))
    steps = st.sampled_from(["run"] * 5 + ["draft"] * 3 + ["fork"] * 2 + ["preempt"])
    return (
        windows,
        draw(st.sampled_from([1, 2, 4, 16])),
        draw(st.lists(steps, max_size=12)),
        draw(st.integers(0, 10**6)),
    )


@pytest.mark.parametrize("ways", ["kept tables", "groups of any length", "plain"])
@settings(max_examples=40)
@given(course=courses())
def test_texts_that_decode_draft_fork_and_are_preempted_get_the_scores_of_one_pass(ways, course):
    windows, block_size, steps, seed = course
    rng, options = chance.Random(seed), {"tables": TableRows()} if ways == "kept tables" else {}
    server = Server(MODELS[len(windows)], windows, block_size=block_size, **options)
    texts = [server.new(tokens(rng.randint(1, 20), seed + i)) for i in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        if ways == "groups of any length":
            patch.setattr("nanolm.varlen.paged_rows._GROUP_BYTES", {"cpu": 0, "cuda": 0})
        for step in steps:
            text = rng.choice(texts)
            if step == "fork" and len(texts) < 5:
                texts.append(Text([*text.tokens, rng.randrange(11)], text.table.fork(), text.n_computed))
            elif step == "preempt":
                text.table.release()
                text.n_computed = 0
            server.check(*a_pass(texts, rng, drafts=step == "draft"), one_by_one=ways == "plain")


def a_pass(texts, rng, drafts):
    """Some of the texts, each with some of its pending tokens, perhaps behind a new one, and a draft."""
    work = []
    for text in rng.sample(texts, rng.randint(1, len(texts))):
        if not text.n_pending:
            text.tokens.append(rng.randrange(11))
        draft = [rng.randrange(11) for _ in range(rng.randint(0, 4))] if drafts else []
        work.append((text, rng.randint(1, min(text.n_pending, 9)), draft))
    return work


def test_a_fork_goes_its_own_way_in_every_group():
    server = Server(MODELS[3], [5, 5, None])
    text = server.new(tokens(14))
    server.check((text, 14, []))
    twin = Text([*text.tokens, 3], text.table.fork(), 14)
    text.tokens.append(8)
    copies = [table.blocks[-1] for table in text.table.tables]
    server.check((text, 1, []), (twin, 1, []))
    assert all(a.blocks[-1] != b.blocks[-1] for a, b in zip(text.table.tables, twin.table.tables, strict=True))
    assert [table.blocks[-1] for table in twin.table.tables] == copies, "the last to write has the old blocks alone"
    for each in (text, twin):
        each.tokens += [1, 2, 3]
    server.check((twin, 3, [7, 7]), (text, 2, []))


@pytest.mark.parametrize(("kind", "bound"), [("int8", 0.2), ("float8", 0.5)])
def test_a_cache_of_a_byte_a_number_serves_groups_too(kind, bound):
    server, exact = (Server(MODELS[3], [5, 5, None], kind=each) for each in (kind, "float"))
    texts = [(each, each.new(tokens(20))) for each in (server, exact)]
    for n in (9, 1, 4, 1, 1):
        coarse, right = (each.run((text, n, []))[0] for each, text in texts)
        assert 0 < off_by(coarse, right) < bound
    plain, again = server.new(tokens(20)), server.new(tokens(20))
    assert off_by(server.run((plain, 20, []), one_by_one=True)[0], server.run((again, 20, []))[0]) < 1e-10


def test_a_text_of_2000_positions_holds_what_the_formula_says_and_a_hybrid_s_share():
    windows, model = [64, 64, 64, None], tiny_model(n_layers=4, max_positions=LONG)
    server = Server(model, windows, n_blocks=260, block_size=16, tables=TableRows())
    text = server.new(tokens(2000))
    for _ in range(19):
        server.run((text, 100, []), n_scored=1)
    assert server.most_used <= blocks_for_request(1900, server.groups.windows, 16, 100)
    server.most_used = 0
    last = [server.run((text, 1, []))[0] for _ in range(100)]
    assert server.most_used <= blocks_for_request(2000, server.groups.windows, 16, 1) == 125 + 3 * 5
    assert off_by(torch.cat(last), full_scores(model, windows, text.tokens)[-100:]) < 1e-10
    whole = 4 * 125  # blocks of one layer each, if every layer kept everything
    cache = HybridKVCache(model.config, windows, 1, 2000)
    hybrid = cache.allocated_bytes / (4 * 2 * 2000 * 2 * 6 * 4)  # layers, keys and values, K, H, bytes
    assert hybrid == (2000 + 3 * 64) / 8000
    assert server.allocator.n_used / whole == pytest.approx(hybrid, abs=3 / whole), "a block more a window, half full"


def test_a_pass_reads_of_a_window_only_the_blocks_that_are_seen(monkeypatch):
    server = Server(MODELS[3], [6, 6, None])
    text, read = server.new(tokens(40)), []
    server.run((text, 39, []))
    original = server.cache.read
    monkeypatch.setattr(
        server.cache, "read", lambda layer, tables, *a: read.append(tables.tolist()) or original(layer, tables, *a)
    )
    assert [len(table.blocks) - table.blocks.count(HOLE) for table in text.table.tables] == [2, 2, 10]
    server.check((text, 1, []))
    seen = [table.blocks for table in text.table.tables]  # 39 sees 34 to 39, which lie in blocks 8 and 9
    assert read == [[seen[0][8:]], [seen[1][8:]], [seen[2]]]


def test_a_pool_with_layers_for_another_model_is_refused():
    assert_refuses("groups", grouped_paged_cache, tiny_config(), LayerGroups([3, None]), 4)
    assert_refuses("cache_kind", grouped_paged_cache, tiny_config(), LayerGroups([3, None, 3]), 4, 4, "int3")


def test_the_same_bytes_are_as_many_times_more_blocks_as_there_are_groups():
    groups = LayerGroups([3, None, 3])
    cache, whole = grouped_paged_cache(tiny_config(), groups, 6), tiny_model().float().new_paged_cache(2)
    assert len(cache.pools) == 1 and cache.block_bytes * 3 == whole.block_bytes
    assert cache.allocated_bytes == whole.allocated_bytes
