"""A model whose linear layers hold codes: which are exchanged, how many bytes are left, and what each layer reads."""

from collections.abc import Callable, Sequence
from itertools import groupby

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..quantization.gptq_rounding import gptq_linear
from ..quantization.linear import Int4Linear, QuantizedLinear
from ..quantization.packed import PackedEmbedding
from .decoder import NanoLM
from .expert_layers import separate_experts

_ROWS_AT_ONCE = 16  # in a pass that collects inputs

LayerMaker = Callable[[str, nn.Linear], nn.Module]


def linear_layers(model: nn.Module, head: bool = False) -> dict[str, nn.Linear]:
    """Return the model's linear layers by dotted name, in the order in which a pass meets them.

    Four a layer (attention.qkv, attention.out, feedforward.gate_up, feedforward.down), and "head" if asked for. Of a
    mixture whose experts are apart (`separate_experts`), feedforward.gate_up.0 and so on, one an expert. A router is
    none of them: it is small, and an error in it sends a token to another expert. Nor is the gate of a shared expert.
    """
    layers = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    kept = ("router", "shared_gate") if head else ("router", "shared_gate", "head")
    return {name: layer for name, layer in layers.items() if name.rsplit(".", 1)[-1] not in kept}


def quantize_model(
    model: NanoLM,
    bits: int,
    group_size: int | None = None,
    head: bool = False,
    make: LayerMaker | None = None,
    kernels: bool = True,
    per_tensor: bool = False,
) -> NanoLM:
    """Exchange the model's linear layers for quantized ones, in place, and return the model.

    Norms and routers stay, and so does the embedding: of its V rows a step reads one. The head reads all of its rows,
    but errors in it go straight into the logits; where it shares the embedding's weights, the embedding goes over to
    its codes too (`PackedEmbedding`), and the floats are gone. The experts of a mixture are taken apart first and then
    exchanged one by one.

    Args:
        bits: 2 to 8, for plain rounding.
        group_size: weights that share a scale, for plain rounding; None is a row.
        head: whether to exchange the head too.
        make: what makes a layer from its name and nn.Linear, in the order of a pass, in place of plain rounding.
            It sees a model whose earlier layers have been exchanged already.
        kernels: whether layers may multiply by kernels that read codes; False: by `plain_matmul` always. With kernels,
            4-bit layers that the compiled product does not read take the layout of torch's kernel (`Int4Linear`),
            where this processor has one.
        per_tensor: one scale for a whole matrix, for plain rounding: the coarsest way.

    Raises:
        ValueError: no linear layer is left to exchange, or what `QuantizedLinear.from_linear` refuses.
    """
    separate_experts(model)
    layers = linear_layers(model, head)
    if not layers:
        raise ValueError("the model has no linear layer to exchange: is it quantized already?")
    tied = model.head.weight is model.embedding.weight
    for name, linear in layers.items():
        layer = make(name, linear) if make else QuantizedLinear.from_linear(linear, bits, group_size, per_tensor)
        model.set_submodule(name, _for_running(layer, kernels))
    if tied and isinstance(model.head, QuantizedLinear):
        model.set_submodule("embedding", PackedEmbedding(model.head, model.dtype))
    return model


def quantized_layer(linear: nn.Linear, bits: int, group_size: int | None = None) -> nn.Module:
    """Return one linear layer as codes, as `quantize_model` makes it by plain rounding, with kernels."""
    return _for_running(QuantizedLinear.from_linear(linear, bits, group_size), True)


def _for_running(layer: nn.Module, kernels: bool) -> nn.Module:
    if kernels and Int4Linear.takes(layer) and not layer.read_as_it_is:
        return Int4Linear(layer)
    if isinstance(layer, QuantizedLinear):
        layer.fast = kernels
    return layer


def model_bytes(model: nn.Module) -> int:
    """Return the bytes of a model's weights, codes and scales; a matrix used twice (a tied head) counts once."""
    return sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))


@torch.inference_mode()
def collect_inputs(
    model: NanoLM, rows: Sequence[Sequence[int]], names: Sequence[str] | None = None
) -> dict[str, Float[Tensor, "positions D"]]:
    """Return what layers get to read when the model reads the rows of tokens: (positions of all rows, D) by name.

    Args:
        rows: token ids, each row a text of its own.
        names: the layers wanted, quantized or not; None means all of `linear_layers`.

    Raises:
        ValueError: no rows, an empty one, or an expert that none of the positions chose.
    """
    if not rows or not all(len(row) for row in rows):
        raise ValueError(f"{len(rows)} rows were given, each must have tokens; calibration needs something to read")
    seen: dict[str, list[Tensor]] = {name: [] for name in (linear_layers(model) if names is None else names)}

    def keep_in(found: list[Tensor]) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        return lambda _, inputs: found.append(inputs[0].flatten(0, -2))

    hooks = [model.get_submodule(name).register_forward_pre_hook(keep_in(found)) for name, found in seen.items()]
    try:
        for _, same in groupby(rows, key=len):  # neighbours of one length share passes
            for tokens in torch.tensor([list(row) for row in same], device=model.device).split(_ROWS_AT_ONCE):
                model(tokens, last=1)
    finally:
        for hook in hooks:
            hook.remove()
    unseen = [name for name, found in seen.items() if not found]
    if unseen:
        raise ValueError(
            f"rows send nothing to {', '.join(unseen[:3])}; give more text, so that every expert reads some"
        )
    return {name: torch.cat(found) for name, found in seen.items()}


def quantize_calibrated(
    model: NanoLM,
    bits: int,
    rows: Sequence[Sequence[int]],
    group_size: int | None = None,
    method: Callable[..., QuantizedLinear] = gptq_linear,
    kernels: bool = True,
) -> NanoLM:
    """Exchange the model's linear layers in place for ones that are calibrated on rows of tokens; return the model.

    Each layer of attention and feed-forward is calibrated on what it reads once the layers before it have been
    exchanged, and so can make up for their errors too.

    Args:
        rows: token ids of the texts to calibrate on; some thousand tokens of the kind that the model will meet.
        method: `gptq_linear` or `awq_linear`.
        kernels: as for `quantize_model`.

    Raises:
        ValueError: what `quantize_model` and `collect_inputs` refuse.
    """
    inputs: dict[str, Tensor] = {}

    def make(name: str, linear: nn.Linear) -> QuantizedLinear:
        if name not in inputs:
            layer = name.rsplit(".", 2)[0] + "."  # "layers.3.", all of whose matrices share a pass
            together = [other for other in linear_layers(model) if other.startswith(layer)]
            inputs.update(collect_inputs(model, rows, together))
        return method(linear, inputs.pop(name), bits, group_size)

    return quantize_model(model, bits, group_size, make=make, kernels=kernels)
