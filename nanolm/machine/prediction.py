"""How long a decode pass should take on a machine that was measured: weights to read, operations to ask for."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from .._require import require_not_negative
from ..model.decoder import NanoLM
from ..model.moe import MoE
from .measurement import Measurement, Reading, read_rate


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
    reading = reading_seconds(model, measurement.readings, measurement.code_readings)
    reading += kv_bytes / measurement.bandwidth_at(size)
    n_operations = count_operations(decode_step_of(model))
    asking = n_operations * measurement.operation_seconds_at(size / n_operations)
    return reading + asking if measurement.device == "cpu" else max(reading, asking)


def reading_seconds(model: NanoLM, readings: Sequence[Reading], code_readings: Sequence[Reading] = ()) -> float:
    """Return the seconds in which all weights of a model are read once, each matrix at the rate of its rows.

    8-bit codes are read at the rates of codes where there are any; fewer bits, packed in bytes, at that of numbers,
    which is more than unpacking allows.
    """
    weights = weights_read(model)
    size = sum(weight.nbytes for weight in weights)
    return sum(
        weight.nbytes
        / read_rate(code_readings if weight.dtype == torch.int8 and code_readings else readings, size, weight.shape[-1])
        for weight in weights
    )


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
