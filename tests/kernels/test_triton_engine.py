"""The serving engine with the paged kernel in its decode passes, against the same engine without."""

import pytest
import torch
from tiny_models import tiny_latent_model, tiny_model

from nanolm import kernels
from nanolm.engine import Engine
from nanolm.sampling import SamplingParams
from nanolm.varlen import paged_rows


@pytest.fixture
def chosen():
    """Triton for the length of a test."""
    before = kernels.set_backend("triton")
    yield
    kernels.set_backend(before)


def answers(model):
    # A small pool: blocks lie in no order, and requests of several lengths share passes.
    engine = Engine(model, n_blocks=12, block_size=4, max_running=3)
    prompts = [[1, 2, 3], [4, 5, 6, 7, 8, 9, 10, 1, 2], [1, 2, 3, 4, 5], [7]]
    return engine.generate(prompts, 6, SamplingParams(temperature=0.0, end_tokens=()))


def test_the_engine_writes_the_same_with_the_paged_kernel(chosen, monkeypatch):
    model = tiny_model().float()
    called = []
    original = paged_rows.paged_attention
    monkeypatch.setattr("nanolm.varlen.paged_rows.paged_attention", lambda *a: called.append(a) or original(*a))
    with_kernel = answers(model)
    assert called, "no decode pass went through the kernel"
    kernels.set_backend("torch")
    called.clear()
    assert answers(model) == with_kernel
    assert not called, "torch was chosen, and the kernel ran"


@pytest.mark.parametrize(("kind", "dtype"), [("int8", torch.int8), ("float8", torch.float8_e4m3fn)])
def test_a_cache_of_a_byte_a_number_is_gathered_whoever_computes(chosen, kind, dtype):
    engine = Engine(tiny_model().float(), n_blocks=12, block_size=4, cache_kind=kind)
    assert len(engine.generate([[1, 2, 3]], 4)[0]) <= 4
    assert not engine.cache.is_plain and engine.cache.pools[0].dtype == dtype


def test_a_latent_cache_is_gathered_whoever_computes(chosen):
    model = tiny_latent_model().float()
    engine = Engine(model, n_blocks=12, block_size=4)
    assert engine.generate([[1, 2, 3]], 4) == [model.generate([1, 2, 3], 4)]
