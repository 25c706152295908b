"""What the plan of the capstone says of memory is what the engine takes."""

import pytest
from capstones import at

from course.capstone.plan import Plan
from course.capstone.serving import Service
from course.capstone.settings import BLOCK_SIZE, Choices, Load


@pytest.mark.parametrize("weight_bits", [32, 8])
@pytest.mark.parametrize("cache_kind", ["float", "int8"])
@pytest.mark.parametrize("model", ["target", "mixture"])
def test_the_plan_counts_the_bytes_that_the_engine_keeps(model, cache_kind, weight_bits):
    load, choices = Load(model=model, rate=0.0), Choices(cache_kind=cache_kind, weight_bits=weight_bits)
    service = Service(load, choices)
    plan = Plan(at(load), choices, service.config, service.trace, service.cache_bytes)
    assert plan.position() == f"{service.engine().cache.block_bytes / BLOCK_SIZE:,.0f} B"
    kept = {t.data_ptr(): t.nbytes for t in (*service.model.parameters(), *service.model.buffers())}
    # Norms stay floats too, and a mixture's routers: less than one in a hundred.
    assert float(plan.weights().removesuffix(" MB")) == pytest.approx(sum(kept.values()) / 1e6, rel=0.02)
