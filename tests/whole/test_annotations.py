"""The shapes in nanolm's annotations are true: a run through the engine with every one of them checked.

In a process of its own, since the hook must be there before nanolm is imported; why not in every test, says conftest.
"""

import subprocess
import sys

import pytest

from course.paths import ROOT

START = """
from jaxtyping import install_import_hook
install_import_hook("nanolm", "shapes_only.check")
import torch
from tiny_models import tiny_config, tiny_model

def assert_checked(name, function, *arguments):
    try:
        function(*arguments)
    except TypeError as error:
        assert f"parameter {name!r}" in str(error), error
    else:
        raise SystemExit("a misshapen argument passed: the annotations are not checked")
"""

GENERATION = """
from nanolm.sampling import Rng
from nanolm.speculative import ModelDraft, PromptLookupDraft
from nanolm.model import watch_routers
from nanolm.attention import flash_attention, split_k_attention
from nanolm.mla import LatentLM
from nanolm.engine import Engine
from nanolm.varlen import Segment, VarlenBatch
from nanolm.paging import BlockAllocator, TableRows
from nanolm.sampling import SamplingParams
from nanolm.speculative import Session
from nanolm.speculative import acceptance_rate, speculative_generate
from nanolm.window import GroupedTables, HybridKVCache, LayerGroups, grouped_paged_cache

torch.manual_seed(0)
target, draft = tiny_model(0), tiny_model(1, n_layers=1)
sampling = SamplingParams(temperature=0.9, top_k=8, top_p=0.95)
assert len(target.generate([[1, 2, 3], [4, 5]], 6, sampling, Rng(0))) == 2
for guesser in (ModelDraft(draft, sampling), PromptLookupDraft(target.config.vocab_size)):
    text, stats = speculative_generate(Session(target, sampling), guesser, [1, 2, 3, 1, 2], 8, 3, Rng(0))
    assert len(text) == stats.new_tokens == 8
mixture = tiny_model(0, n_experts=4, experts_per_token=2)
with watch_routers(mixture) as stats:
    assert len(mixture.generate([[1, 2, 3], [4, 5]], 6)) == 2
assert stats.counts.shape == (3, 4) and stats.experts_read.shape == (3, 6)
heads = [torch.randn(2, n, 5, 6) for n in (4, 2, 2)]
assert flash_attention(*heads, tile=2).shape == (2, 4, 5, 6)
assert split_k_attention(heads[0][:, :, :1], *heads[1:], 2, torch.tensor([5, 3])).shape == (2, 4, 1, 6)
latent = LatentLM()
assert len(latent.generate([1, 2, 3], 3)) == len(latent.generate(list(range(40)), 3)) == 3
for plain in (False, True):
    engine = Engine(latent, n_blocks=14, block_size=4, max_tokens_per_step=7, plain=plain)
    assert len(engine.generate([[1, 2, 3], [4, 5], [1, 2, 3, 4, 5, 6, 7, 8, 9]], 6)) == 3
hybrid = HybridKVCache(target.config, [2, None, 4], dtype=torch.float64)
for chunk in torch.tensor([[1, 2, 3, 4]]).split([3, 1], dim=1):
    target(chunk, hybrid)
    hybrid.advance(chunk.shape[1])
groups = LayerGroups([2, None, 4])
tables = [GroupedTables(BlockAllocator(40), 4, groups) for _ in range(2)]
for kind, one_by_one in (("float", True), ("float", False), ("int8", False), ("float8", False)):
    pool = grouped_paged_cache(target.config, groups, 40, 4, kind, torch.float64)
    copies = [table.append(5) for table in tables]
    segments = [Segment([1, 2, 3, 4], tables[0].length - 5, tables[0]), Segment([5], tables[1].length - 1, tables[1])]
    batch = VarlenBatch(pool, segments, one_by_one, TableRows())
    assert target(batch.tokens, batch, batch.scored).shape == (1, 2, target.config.vocab_size)
for kind in ("float", "int8", "float8"):
    engine = Engine(target, n_blocks=14, block_size=4, max_tokens_per_step=7, cache_kind=kind, draft=draft)
    assert len(engine.generate([[1, 2, 3], [4, 5], [1, 2, 3, 4, 5, 6, 7, 8, 9]], 6, sampling)) == 3
rows = torch.full((2, 3, 4), 0.25, dtype=torch.float64)
assert acceptance_rate(rows, rows).shape == (2, 3)
assert_checked("draft_probs", acceptance_rate, rows, rows[..., :3])
"""

QUANTIZED = """
from nanolm.cache import cache_classes
from nanolm.quantization import awq_linear, gptq_linear
from nanolm.model import quantize_calibrated

for kind in ("float", "int8", "float8"):
    for prompts in ([[1, 2, 3], [4, 5]], [[1, 2], [3, 4]]):
        assert len(tiny_model().generate(prompts, 3, cache_kind=kind)) == 2
    classes, heads = cache_classes(kind), torch.ones(2, 2, 3, 6, dtype=torch.float64)
    for rows in (classes.equal, classes.ragged):
        cache = rows(tiny_config(), 2, 8, torch.float64)
        assert_checked("v", cache.update, 0, heads, heads[..., :5])
        assert_checked("v", cache.attend, 0, heads.repeat(1, 2, 1, 1), heads, heads[:1])
    blocks = classes.paged(tiny_config(), 4, 2, torch.float64)
    assert_checked("v", blocks.write, 0, heads[0], heads[0, :1], torch.arange(3))
for method in (gptq_linear, awq_linear):
    for group_size in (None, 2):
        model = quantize_calibrated(tiny_model(), 4, [[1, 2, 3, 4], [5, 6]], group_size, method)
        assert len(model.generate([1, 2, 3], 3)) == 3
assert_checked("inputs", gptq_linear, tiny_model().layers[0].attention.out, torch.ones(24), 4)
"""

FOR_A_GPU = """
from nanolm.attention import paged_attention, prefill_attention
from nanolm.quantization import quantized_matmul
from nanolm.model import StaticDecoder, grouped_matmul

heads, pool = [torch.randn(2, n, 5, 6) for n in (4, 2, 2)], torch.randn(2, 2, 4, 18)
tables, lengths = torch.tensor([[3, 1], [2, 0]]), torch.tensor([4, 6])
assert prefill_attention(*heads).shape == (2, 4, 5, 6)
assert paged_attention(heads[0][:, :, :1], *pool, tables, lengths, 2).shape == (2, 4, 1, 6)
assert_checked("lengths", paged_attention, heads[0][:, :, :1], *pool, tables, lengths[:1], 2)
codes, scales = torch.ones(3, 4, dtype=torch.int8), torch.ones(3, 2)
assert quantized_matmul(torch.ones(2, 4), codes, scales, 8).shape == (2, 3)
assert grouped_matmul(torch.ones(5, 4), torch.ones(2, 3, 4), torch.tensor([0, 1, 5])).shape == (5, 3)
decoder = StaticDecoder(tiny_model(), (1, 2), 8)
assert decoder.prefill([[1, 2, 3]]).shape == decoder.step(torch.tensor([4])).shape == (1, 11)
"""


@pytest.mark.parametrize("run", [GENERATION, QUANTIZED, FOR_A_GPU], ids=["generation", "quantized", "for a GPU"])
def test_every_shape_in_a_run_through_the_engine_is_as_annotated(run):
    done = subprocess.run(
        [sys.executable, "-c", START + run],
        cwd=ROOT / "tests" / "helpers",
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout + done.stderr
