"""How long a decode pass should take on a machine that was measured: weights to read, operations to ask for."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from .._require import require_not_negative
from ..model.decoder import NanoLM
from ..model.moe import MoE
from ..quantization.linear import QuantizedLinear
from ..quantization.packed import PackedLinear
from .measurement import Measurement, Reading, read_rate

_SCALES = "scales"
_PACKED = {8: torch.int8, 4: torch.uint8}  # codes that have a kind of reading


def predicted_decode_seconds(measurement: Measurement, model: NanoLM, kv_bytes: float = 0) -> float:
    """Return how long one decode pass of a single sequence should take on the machine measured.

    Every matrix is read at the rate of its row length in a working set of all weights, and every operation costs its
    own time on top. A GPU is asked for the next operations while it reads, so there the longer of the two counts.
    Choosing a token from the logits is no part of the pass.

    Args:
        measurement: of the device that the model is on. A CPU is measured in float32 and a GPU in float16.
        model: is run for one pass, in which its operations are counted.
        kv_bytes: bytes of cache that the pass reads.

    Raises:
        ValueError: kv_bytes below 0.
    """
    require_not_negative(kv_bytes=kv_bytes)
    size = sum(weight.nbytes for weight in weights_read(model)) + kv_bytes
    reading = reading_seconds(measurement.readings, measurement.packed_readings, model)
    reading += kv_bytes / measurement.bandwidth_at(size)
    n_operations = count_operations(decode_step_of(model))
    asking = n_operations * measurement.operation_seconds_at(size / n_operations, main_kind(model))
    return reading + asking if measurement.device == "cpu" else max(reading, asking)


def reading_seconds(
    readings: Sequence[Reading], packed_readings: Mapping[str, Sequence[Reading]], model: NanoLM
) -> float:
    """Return the seconds in which all weights of a model are read once, each matrix at the rate of its rows and kind.

    The kinds are those of `Measurement.packed_readings`. One that was not measured is read at the rate of plain
    numbers, as are codes of other than 8 and 4 bits, which takes less than unpacking them.
    """
    parts = _parts(model)
    size = sum(weight.nbytes for weight in weights_read(model))
    seconds = 0.0
    for kind, weight in parts:
        row_length = weight.shape[-1] * (2 if kind == "int4" else 1)
        seconds += weight.nbytes / read_rate(packed_readings.get(kind, readings), size, row_length)
    return seconds


def main_kind(model: NanoLM) -> str:
    """Return the kind of which most bytes of a model's weights are: "bfloat16", "int8", "int4" or another dtype."""
    sizes: dict[str, int] = {}
    for kind, weight in _parts(model):
        sizes[kind] = sizes.get(kind, 0) + weight.nbytes
    return max(sizes, key=sizes.__getitem__)


def _parts(model: NanoLM) -> list[tuple[str, Tensor]]:
    """What a pass reads, each with its kind; scales are read along with their codes, and counted with them."""
    kinds = _kinds(model)
    named = [
        (kinds.get(id(tensor), str(tensor.dtype).removeprefix("torch.")), tensor) for tensor in weights_read(model)
    ]
    return [(kind, tensor) for kind, tensor in named if kind != _SCALES]


def _kinds(model: NanoLM) -> dict[int, str]:
    """The kind of each tensor of a layer of codes, by identity."""
    kinds: dict[int, str] = {}
    for layer in model.modules():
        if isinstance(layer, QuantizedLinear | PackedLinear) and layer.codes.dtype is _PACKED.get(_bits_of(layer)):
            kinds[id(layer.codes)] = f"int{_bits_of(layer)}"
            kinds |= {id(tensor): _SCALES for tensor in (layer.scales, getattr(layer, "minima", None))}
    return kinds


def _bits_of(layer: QuantizedLinear | PackedLinear) -> int:
    return layer.bits if isinstance(layer, QuantizedLinear) else 4 if layer.codes.dtype is torch.uint8 else 8


def weights_read(model: NanoLM) -> list[Tensor]:
    """Return what a pass over one token reads of the parameters and buffers: all, with two exceptions.

    An embedding that is no head as well gives one row, and of a mixture's experts k are read, here the first.
    """
    head = {id(tensor) for tensor in (*model.head.parameters(), *model.head.buffers())}
    looked_up = {id(tensor) for tensor in (*model.embedding.parameters(), *model.embedding.buffers())} - head
    read = [tensor for tensor in (*model.parameters(), *model.buffers()) if id(tensor) not in looked_up]
    for moe in (module for module in model.modules() if isinstance(module, MoE)):
        for experts in (moe.gate_up, moe.down):
            held = {id(tensor) for tensor in (*experts.parameters(), *experts.buffers())}
            read = [t for t in read if id(t) not in held] + experts.of_first(moe.experts_per_token)
    return [tensor for tensor in read if tensor.numel() and tensor.ndim]


def count_operations(call: Callable[[], Any]) -> int:
    """Return how many operations torch carries out in a call, without views, which touch no number."""
    counter = _Counter()
    with torch.inference_mode(), counter:
        call()
    return counter.count


def decode_step_of(model: NanoLM) -> Callable[[], Tensor]:
    """Return a call that runs one decode pass after a short past; repeatable, since the cache is not advanced."""
    token, past = (torch.zeros(1, n, dtype=torch.long, device=model.device) for n in (1, 8))
    cache = model.new_cache(capacity=16)
    with torch.inference_mode():
        model(past, cache, last=1)
    cache.advance(8)
    return torch.inference_mode()(lambda: model(token, cache))


class _Counter(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        self.count += not func.is_view
        return func(*args, **(kwargs or {}))
