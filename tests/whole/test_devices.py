"""The same engine on a CPU and on a GPU: everything here runs on both, and is compared with float64 on the CPU.

Without a GPU its half is skipped, and the other half shows that the tests themselves are right.
"""

from collections.abc import Callable
from functools import cache

import pytest
import torch
from tiny_models import tiny_latent_model, tiny_model

import nanolm
from nanolm.engine import Engine
from nanolm.machine import calibrate
from nanolm.model import NanoLM, StaticDecoder, quantize_model
from nanolm.quantization import QuantizedLinear, float8_matmul, simulate_float8, to_float8
from nanolm.sampling import SamplingParams

UNENDING = SamplingParams(temperature=0.0, end_tokens=())
PROMPTS = [[0, 65, 291, 40], [0, 7], [0, *range(100, 121)], [0, 65, 291, 40, 33, 512]]
N_NEW = 16


@pytest.fixture(params=["cpu", "cuda"])
def device(request):
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no CUDA device here; on a machine with one: python -m pytest tests/whole/test_devices.py")
    return request.param


@cache
def exact() -> list[list[int]]:
    """The shipped target's texts in float64 on the CPU, each prompt alone."""
    model, _ = nanolm.load("target", dtype=torch.float64)
    return [model.generate([prompt], N_NEW, UNENDING)[0] for prompt in PROMPTS]


def target(device: str, dtype: torch.dtype = torch.float64) -> NanoLM:
    return nanolm.load("target", device, dtype)[0]


def assert_scores_close(make: Callable[[], NanoLM], device: str, within: float) -> None:
    """A model's logits on the device are those of the CPU, up to a share of the largest."""
    tokens = torch.tensor([[1, 5, 9, 2, 7, 3]])
    expected, actual = make()(tokens), make().to(device)(tokens.to(device)).cpu()
    error = ((actual - expected).abs().max() / expected.abs().max()).item()
    assert error <= within, f"the logits on {device} are off by {error:.1e} of the largest"


def test_a_batch_writes_the_same_texts_on_every_device(device):
    assert target(device).generate(PROMPTS, N_NEW, UNENDING) == exact()


def test_a_seeded_text_is_the_same_on_every_device(device):
    sampling, prompt = SamplingParams(temperature=1.0, end_tokens=()), PROMPTS[0]
    on_cpu = Engine(target("cpu"), n_blocks=16)
    on_device = Engine(target(device), n_blocks=16)
    texts = [engine.generate([prompt], N_NEW, sampling, seeds=[5])[0] for engine in (on_cpu, on_device)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("options", [{}, {"max_tokens_per_step": 8}, {"host_blocks": 4}, {"draft": "prompt-lookup"}])
def test_the_engine_writes_in_company_what_each_writes_alone(device, dtype, options):
    # float32 on a GPU decodes with the paged kernel, whose sums have another order: no near tie among these 64 tokens.
    engine = Engine(target(device, dtype), n_blocks=9, max_running=3, **options)
    assert engine.generate(PROMPTS, N_NEW, UNENDING) == exact()
    assert engine.generate(PROMPTS, N_NEW, UNENDING) == exact(), "with their prompts in the prefix cache"


@pytest.mark.parametrize("kind", ["int8", "float8"])
def test_a_cache_of_a_byte_a_number_serves_on_every_device(device, kind):
    # The small pool takes blocks away and gives them back through CPU memory.
    engines = [Engine(target(where), n_blocks=9, host_blocks=4, cache_kind=kind) for where in ("cpu", device)]
    texts = [engine.generate(PROMPTS, N_NEW, UNENDING) for engine in engines]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("kind", ["float", "int8", "float8"])
@pytest.mark.parametrize("prompts", [PROMPTS, [PROMPTS[0], PROMPTS[0][::-1]]], ids=["ragged", "equal"])
def test_every_kind_of_cache_in_rows_writes_the_same_on_every_device(device, kind, prompts):
    texts = [target(where).generate(prompts, N_NEW, UNENDING, cache_kind=kind) for where in ("cpu", device)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("options", [{}, {"max_tokens_per_step": 3}])
def test_a_latent_model_is_served_on_every_device(device, options):
    model, prompts = tiny_latent_model(), [[1, 2, 3, 4], [5, 6], [7, 8, 9, 10, 1, 2, 3]]
    expected = [model.generate(prompt, N_NEW, UNENDING) for prompt in prompts]
    engine = Engine(model.to(device), n_blocks=16, block_size=4, **options)
    assert engine.generate(prompts, N_NEW, UNENDING) == expected
    assert [model.generate(prompt, N_NEW, UNENDING) for prompt in prompts] == expected


def test_a_draft_on_the_same_device_changes_no_token(device):
    draft, _ = nanolm.load("draft", device, torch.float64)
    engine = Engine(target(device), draft=draft, gamma=3, adaptive=False)
    assert engine.generate(PROMPTS, N_NEW, UNENDING) == exact()


@pytest.mark.parametrize("bits", [8, 4, 3])
def test_quantized_layers_compute_the_same_on_every_device(device, bits):
    def make() -> NanoLM:
        # float64, for which no processor has a kernel of codes: only the plain way on either device.
        return quantize_model(tiny_model(d_model=32, d_ff=64), bits, kernels=False)

    assert_scores_close(make, device, 1e-9)


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("n_rows", [1, 5, 40])  # the last is too many for the kernel on a GPU
def test_a_quantized_layer_of_floats_computes_what_its_weights_say(device, bits, n_rows):
    generator = torch.Generator().manual_seed(0)
    linear = torch.nn.Linear(64, 48, bias=False)
    linear.weight.data = torch.randn(48, 64, generator=generator)
    layer, x = QuantizedLinear.from_linear(linear, bits, 32), torch.randn(n_rows, 64, generator=generator)
    expected = x.double() @ layer.weight.double().T
    error = (layer.to(device)(x.to(device)).cpu().double() - expected).abs().max()
    # The CPU's 8-bit kernel and float32 sums: 8 binary digits of x at worst.
    assert error <= 2.0**-7 * expected.abs().max()


def test_a_mixture_computes_the_same_on_every_device(device):
    def make() -> NanoLM:
        return tiny_model(n_experts=4, experts_per_token=2).float()

    assert_scores_close(make, device, 1e-3)


@pytest.mark.parametrize("changes", [{}, {"n_experts": 4, "experts_per_token": 2}])
def test_a_decoder_at_fixed_addresses_writes_what_generate_writes(device, changes):
    model = tiny_model(**changes).float()
    prompts = [[1, 2, 3], [4, 5], [6, 7, 8, 9]]
    expected = model.generate(prompts, 8, UNENDING)
    decoder, texts = StaticDecoder(model.to(device), (2, 4), 16), [[], [], []]
    tokens = decoder.prefill(prompts).argmax(-1)
    for _ in range(8):
        for text, token in zip(texts, tokens.tolist(), strict=True):
            text.append(token)
        tokens = decoder.step(tokens).argmax(-1)
    assert texts == expected


def test_8_bit_floats_multiplied_by_the_device_are_those_that_are_simulated(device):
    generator = torch.Generator().manual_seed(0)
    x, w = torch.randn(5, 64, generator=generator), torch.randn(48, 64, generator=generator)
    weights, scales = to_float8(w)
    expected = simulate_float8(*to_float8(x), weights, scales)
    actual = float8_matmul(x.to(device), weights.to(device), scales.to(device)).cpu()
    # A device that multiplies them gives bfloat16, of 8 binary digits: half a unit of the last one, plus the sums.
    assert (actual - expected).abs().max() <= 2.0**-8 * expected.abs().max()


def test_a_device_is_calibrated_to_rates_that_a_device_can_have(device, tmp_path):
    measured = calibrate(device, folder=tmp_path)
    rates = [reading.bytes_per_second for reading in measured.readings]
    # A phone reads a few GB/s from memory; nothing on the market reads 100 TB/s, not even from its caches.
    assert rates and all(1e8 < rate < 1e14 for rate in rates)
