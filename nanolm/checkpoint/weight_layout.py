"""One decoder, several ways to name its weights: what a kind of file calls them, and what the engine does.

Files keep queries, keys and values (and gate and up, and all experts) in matrices of their own; the engine keeps them
in one, so reading joins them and writing parts them. What a layout does not know is where its tensors lie and how they
are coded.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..config import ModelConfig
from ..model.decoder import NanoLM

Shape = tuple[int, ...]
_STACKED = ("feedforward.gate_up.weight", "feedforward.down.weight")  # the experts' of a mixture: (E, out, in)


@dataclass(frozen=True)
class WeightLayout:
    """How a kind of file names a decoder's weights.

    Attributes:
        top: for each of the engine's tensors outside the layers, the file's tensors that, stacked by rows, make it.
        layer: the same for the tensors of a layer.
        prefix: what the file puts before a layer's names, with {} for its number.
        mixture: in place of a layer's "feedforward." tensors where there are experts; a {} is an expert's number.
    """

    top: Mapping[str, list[str]]
    layer: Mapping[str, list[str]]
    prefix: str
    mixture: Mapping[str, list[str]] = field(default_factory=dict)

    def shapes(self, config: ModelConfig) -> dict[str, Shape]:
        """Return the shape of every tensor that a file of this model holds, by the file's names."""
        return {part: shape for _, parts in self.names(config) for part, shape in parts.items()}

    def join(self, tensors: Mapping[str, Tensor], config: ModelConfig, source: str) -> dict[str, Tensor]:
        """Return the engine's state dict from a file's tensors; a tied head is left out.

        Raises:
            ValueError: names missing or left over, or a shape that the configuration does not give.
        """
        shapes, head = self.shapes(config), f"{self.top['head'][0]}.weight"
        left_over = set(tensors) - set(shapes)
        if config.tie_embeddings:
            left_over -= {head}  # some writers store the tied matrix twice
        for word, names in (("lacks", set(shapes) - set(tensors)), ("has the unknown", left_over)):
            if names:
                listed = ", ".join(sorted(names)[:3]) + (" and more" if len(names) > 3 else "")
                raise ValueError(f"{source} {word} tensor{'s' if len(names) > 1 else ''} {listed}")
        for name, shape in shapes.items():
            if tuple(tensors[name].shape) != shape:
                found = tuple(tensors[name].shape)
                raise ValueError(f"{source}: {name} has shape {found}; the configuration makes it {shape}")
        state = {
            ours: torch.cat([tensors[part] for part in parts]) if len(parts) > 1 else tensors[next(iter(parts))]
            for ours, parts in self.names(config)
        }
        for ours, rows in state.items():
            if config.n_experts and ours.endswith(_STACKED):
                state[ours] = rows.unflatten(0, (config.n_experts, -1))  # (E · out, in) to (E, out, in)
        return state

    def part(self, model: NanoLM) -> dict[str, Tensor]:
        """Return a file's tensors from a model, the joined matrices parted by rows; a tied head is left out.

        Raises:
            ValueError: a layer holds something else than weights, as those of a quantized model do.
        """
        names, state, tensors = list(self.names(model.config)), model.state_dict(), {}
        strange = sorted({*state} - {ours for ours, _ in names} - {"head.weight"})
        if strange:
            layer, _, what = strange[0].rpartition(".")
            raise ValueError(
                f"{layer} of the model is of type {type(model.get_submodule(layer)).__name__} and holds {what}, for "
                "which the file has no place: save a model before it is quantized, and quantize it again once loaded"
            )
        for ours, parts in names:
            rows = state[ours].flatten(0, -2) if state[ours].ndim == 3 else state[ours]
            tensors.update(zip(parts, rows.split([shape[0] for shape in parts.values()]), strict=True))
        return tensors

    def names(self, config: ModelConfig) -> Iterator[tuple[str, dict[str, Shape]]]:
        """Yield the engine's name of every tensor, with the file's tensors that make it and their shapes."""
        shapes = _row_shapes(config)
        named = [(ours, ours, parts) for ours, parts in self.top.items()]
        for i in range(config.n_layers):
            prefix, layer = self.prefix.format(i), self._layer(config.n_experts)
            named += [(ours, f"layers.{i}.{ours}", [prefix + p for p in parts]) for ours, parts in layer.items()]
        for kind, ours, parts in named:
            if not (ours == "head" and config.tie_embeddings):
                yield f"{ours}.weight", dict(zip([f"{part}.weight" for part in parts], shapes[kind], strict=True))

    def _layer(self, n_experts: int) -> dict[str, list[str]]:
        if not n_experts:
            return dict(self.layer)
        dense = {ours: parts for ours, parts in self.layer.items() if not ours.startswith("feedforward.")}
        return dense | {
            ours: [part.format(expert) for expert in range(n_experts if "{}" in parts[0] else 1) for part in parts]
            for ours, parts in self.mixture.items()
        }


def _row_shapes(config: ModelConfig) -> dict[str, list[Shape]]:
    """The shapes of the matrices that, stacked by rows, make each of the engine's tensors."""
    D, F, V = config.d_model, config.d_ff, config.vocab_size
    q, kv = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
    copies = config.n_experts or 1  # of a feed-forward block
    return {
        "embedding": [(V, D)], "norm": [(D,)], "head": [(V, D)],
        "attention_norm": [(D,)], "feedforward_norm": [(D,)],
        "attention.qkv": [(q, D), (kv, D), (kv, D)], "attention.out": [(D, q)],
        "feedforward.gate_up": [(F, D), (F, D)] * copies, "feedforward.down": [(D, F)] * copies,
        "feedforward.router": [(config.n_experts, D)],
    }  # fmt: skip


def build_model(
    state: Mapping[str, Tensor], config: ModelConfig, device: torch.device | str, dtype: torch.dtype
) -> NanoLM:
    """Return the model of these weights, ready for inference; `state` is what `WeightLayout.join` returns."""
    with torch.device("meta"):  # no memory, no random numbers: every weight comes from the file
        model = NanoLM(config)
    weights = {name: tensor.to(device, dtype) for name, tensor in state.items()}
    if config.tie_embeddings:
        weights["head.weight"] = weights["embedding.weight"]
    model.load_state_dict(weights, assign=True)
    if config.tie_embeddings:
        model.head.weight = model.embedding.weight
    return model.eval().requires_grad_(False)
