"""One decoder, several ways to name its weights: what a kind of file calls them, and what the engine does.

Files keep queries, keys and values (and gate and up, and all experts) in matrices of their own; the engine keeps them
in one, so reading joins them and writing parts them. What a layout does not know is where its tensors lie and how they
are coded. A `Source` is such files, opened and looked at.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..budget.shapes import LatentAttention
from ..config import ModelConfig
from ..model.decoder import NanoLM
from ..text.tokenizer import Tokenizer

Shape = tuple[int, ...]
_STACKED = ("feedforward.gate_up.weight", "feedforward.down.weight")  # the experts' of a mixture: (E, out, in)
_NO_HEAD = "head.weight"


@dataclass(frozen=True)
class WeightLayout:
    """How a kind of file names a decoder's weights.

    Attributes:
        top: for each of the engine's tensors outside the layers, the file's tensors that, stacked by rows, make it.
        layer: the same for the tensors of a layer.
        prefix: what the file puts before a layer's names, with {} for its number.
        mixture: in place of a layer's "feedforward." tensors where there are experts; a {} is an expert's number.
        norms: what the file calls the weights of the norms of queries and of keys.
        ignored: ends of names of buffers, which follow from the configuration.
    """

    top: Mapping[str, list[str]]
    layer: Mapping[str, list[str]]
    prefix: str
    mixture: Mapping[str, list[str]] = field(default_factory=dict)
    norms: tuple[str, str] = ("", "")
    ignored: tuple[str, ...] = ()

    def shapes(self, config: ModelConfig) -> dict[str, Shape]:
        """Return the shape of every tensor that a file of this model holds, by the file's names."""
        return {part: shape for _, parts in self.names(config) for part, shape in parts.items()}

    def join(self, tensors: Mapping[str, Tensor], config: ModelConfig, source: str) -> dict[str, Tensor]:
        """Return the engine's state dict from a file's tensors; a tied head is left out.

        Raises:
            ValueError: as `check`.
        """
        self.check({name: tuple(tensor.shape) for name, tensor in tensors.items()}, config, source)
        return dict(self.joined(tensors.__getitem__, config))

    def joined(
        self, read: Callable[[str], Tensor], config: ModelConfig, without: Collection[str] = ()
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield the engine's tensors, by its names, from a file's, each read when it is due; not those of `without`."""
        for ours, parts in self.names(config):
            if ours in without:
                continue
            rows = torch.cat([read(part) for part in parts]) if len(parts) > 1 else read(next(iter(parts)))
            if _is_stacked(ours, config):
                rows = rows.unflatten(0, (config.n_experts, -1))  # (E · out, in) to (E, out, in)
            yield ours, rows

    def check(self, shapes: Mapping[str, Shape], config: ModelConfig, source: str) -> None:
        """Raise a ValueError unless a file has the tensors of the configuration, and no others, in these shapes.

        It looks at no more names than the file has: a configuration may ask for a million layers.
        """
        due, missing = {}, []
        for name, shape in self._due(config):
            due[name] = shape
            if name not in shapes:
                missing.append(name)
            if len(missing) > 3:
                break
        _refuse_names(source, "lacks", missing)
        left_over = {name for name in shapes if name not in due and not name.endswith(self.ignored or ("\0",))}
        if config.tie_embeddings:
            left_over -= {f"{self.top['head'][0]}.weight"}  # some writers store the tied matrix twice
        _refuse_names(source, "has the unknown", sorted(left_over))
        for name, shape in due.items():
            if shapes[name] != shape:
                raise ValueError(f"{source}: {name} has shape {shapes[name]}; the configuration makes it {shape}")

    def part(self, model: NanoLM) -> dict[str, Tensor]:
        """Return a file's tensors from a model, the joined matrices parted by rows; a tied head is left out.

        Raises:
            ValueError: a layer holds something else than weights, as those of a quantized model do.
        """
        names, state, tensors = list(self.names(model.config)), model.state_dict(), {}
        strange = sorted({*state} - {ours for ours, _ in names} - {_NO_HEAD})
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

    def _due(self, config: ModelConfig) -> Iterator[tuple[str, Shape]]:
        for _, parts in self.names(config):
            yield from parts.items()

    def names(self, config: ModelConfig) -> Iterator[tuple[str, dict[str, Shape]]]:
        """Yield the engine's name of every tensor, with the file's tensors that make it and their shapes."""
        shapes = _row_shapes(config)
        for ours, parts in self.top.items():
            if not (ours == "head" and config.tie_embeddings):
                yield f"{ours}.weight", dict(zip([f"{part}.weight" for part in parts], shapes[ours], strict=True))
        for i in range(config.n_layers):
            prefix = self.prefix.format(i)
            for ours, parts in self._layer(config, i):
                kind, sizes = f"layers.{i}.{ours}", shapes[_kind(ours, i, config)]
                named = [prefix + part for part in parts]
                if not _has_bias(ours, config):
                    linear = ours == "attention.qkv" and bool(config.qk_norm or config.clip_qkv)
                    kind += ".linear" if linear else ""
                    yield f"{kind}.weight", dict(zip([f"{part}.weight" for part in named], sizes, strict=True))
                    continue
                yield f"{kind}.linear.weight", dict(zip([f"{part}.weight" for part in named], sizes, strict=True))
                biases = dict(zip([f"{part}.bias" for part in named], [shape[:1] for shape in sizes], strict=True))
                yield f"{kind}.bias", biases
            if config.qk_norm:
                H = config.head_dim
                widths = (H, H) if config.qk_norm == "head" else (config.n_heads * H, config.n_kv_heads * H)
                for letter, part, width in zip("qk", self.norms, widths, strict=True):
                    yield f"layers.{i}.attention.qkv.{letter}_norm", {f"{prefix}{part}.weight": (width,)}

    def _layer(self, config: ModelConfig, i: int) -> Iterator[tuple[str, list[str]]]:
        """The engine's names of one layer's tensors, and the file's that make them."""
        is_mixture = config.n_experts and i not in config.dense_layers
        for ours, parts in self.layer.items():
            if not (is_mixture and ours.startswith("feedforward.")) and _is_there(ours, config):
                yield ours, parts
        for ours, parts in self.mixture.items() if is_mixture else ():
            is_shared = ours.startswith("feedforward.shared")
            if is_shared and not (config.shared_gate if ours.endswith("gate") else config.d_ff_shared):
                continue
            numbers = range(config.n_experts if "{}" in parts[0] else 1)
            yield ours, [part.format(expert) for expert in numbers for part in parts]


def _is_there(ours: str, config: ModelConfig) -> bool:
    """Whether a layer has this tensor: queries of latent attention are made in one step, or through a latent vector."""
    through = config.latent is not None and config.latent.q_latent_dim > 0
    return ours != "attention.q" if through else not ours.startswith("attention.q.")


def _is_stacked(ours: str, config: ModelConfig) -> bool:
    return bool(config.n_experts) and ours.endswith(_STACKED) and int(ours.split(".")[1]) not in config.dense_layers


def _has_bias(ours: str, config: ModelConfig) -> bool:
    kinds = {"attention.qkv": config.qkv_bias, "attention.out": config.out_bias}
    return kinds.get(ours, config.mlp_bias and ours in ("feedforward.gate_up", "feedforward.down"))


def _kind(ours: str, i: int, config: ModelConfig) -> str:
    return f"dense.{ours}" if i in config.dense_layers and ours.startswith("feedforward.") else ours


def _refuse_names(source: str, word: str, names: Sequence[str]) -> None:
    if names:
        listed = ", ".join(sorted(names)[:3]) + (" and more" if len(names) > 3 else "")
        raise ValueError(f"{source} {word} tensor{'s' if len(names) > 1 else ''} {listed}")


def _row_shapes(config: ModelConfig) -> dict[str, list[Shape]]:
    """The shapes of the matrices that, stacked by rows, make each of the engine's tensors."""
    D, F, V = config.d_model, config.d_ff, config.vocab_size
    q, kv = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
    copies = config.n_experts or 1  # of a feed-forward block
    shared, dense = config.d_ff_shared, config.d_ff_dense
    attention = {"attention.qkv": [(q, D), (kv, D), (kv, D)], "attention.out": [(D, q)]}
    return {
        **(attention if config.latent is None else _latent_shapes(config, config.latent)),
        "embedding": [(V, D)], "norm": [(D,)], "head": [(V, D)],
        "attention_norm": [(D,)], "feedforward_norm": [(D,)],
        "feedforward.gate_up": [(F, D), (F, D)] * copies, "feedforward.down": [(D, F)] * copies,
        "dense.feedforward.gate_up": [(dense, D), (dense, D)], "dense.feedforward.down": [(D, dense)],
        "feedforward.router": [(config.n_experts, D)],
        "feedforward.shared.gate_up": [(shared, D), (shared, D)], "feedforward.shared.down": [(D, shared)],
        "feedforward.shared_gate": [(1, D)],
    }  # fmt: skip


def _latent_shapes(config: ModelConfig, latent: LatentAttention) -> dict[str, list[Shape]]:
    D, N, H = config.d_model, config.n_heads, config.head_dim
    C, R, U, through = latent.kv_latent_dim, latent.rotary_dim, latent.value_dim, latent.q_latent_dim
    return {
        "attention.q": [(N * (H + R), D)], "attention.q.0": [(through, D)], "attention.q.1": [(through,)],
        "attention.q.2": [(N * (H + R), through)], "attention.down": [(C + R, D)], "attention.norm": [(C,)],
        "attention.up": [(N * (H + U), C)], "attention.out": [(D, N * U)],
    }  # fmt: skip


@dataclass(frozen=True)
class Source:
    """A model's files while they are open.

    Attributes:
        path: the folder or the file.
        config, tokenizer: what they say; start and end tokens are in the configuration.
        layout: how they name the weights.
        shapes, kinds: of each tensor, what it is stored as among them: "BF16", "Q4_K".
        read: returns a tensor by its name.
        n_files, stored_bytes: how many files hold the weights, and their bytes.
        entries: what the files say of the model, by their own names: config.json, or the metadata.
    """

    path: Path
    config: ModelConfig
    tokenizer: Tokenizer
    layout: WeightLayout
    shapes: Mapping[str, Shape]
    kinds: Mapping[str, str]
    read: Callable[[str], Tensor]
    n_files: int
    stored_bytes: int
    entries: Mapping[str, Any]

    def weights(self, without: Collection[str] = ()) -> Iterator[tuple[str, Tensor]]:
        """Yield the engine's tensors one after the other, by its names; raise a ValueError for NaN or infinity in one.

        Args:
            without: the engine's names of those that are left out.
        """
        return self.layout.joined(self._finite, self.config, without)

    def _finite(self, name: str) -> Tensor:
        tensor = self.read(name)
        # The least and the largest: NaN is both if it is anywhere, and nothing of the tensor's size is made.
        if tensor.numel() and not all(map(math.isfinite, torch.stack(tensor.aminmax()).tolist())):
            raise ValueError(f"{self.path}: {name} holds NaN or an infinity; it was damaged, or saved from such a run")
        return tensor
