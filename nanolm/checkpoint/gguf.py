"""Models in one GGUF file, as llama.cpp runs them: configuration and weights; `gguf_tokens` has the rest.

Two things differ from a checkpoint folder. Weights come in blocks of codes (`gguf_blocks`), and here they are decoded:
the model that runs is the one that the codes stand for. And a Llama's rows of queries and keys stand in another order,
since llama.cpp turns numbers 2i and 2i + 1 of a head as a pair there, where this engine turns i and i + H/2.

Source: the format's description, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, and convert_hf_to_gguf.py
of llama.cpp.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from jaxtyping import Float, Num
from torch import Tensor

from ..config import ModelConfig
from ..model.decoder import NanoLM
from ..rope_scaling import RopeScaling
from ..text.tokenizer import Tokenizer
from .building import build_model, check_weights
from .gguf_blocks import GGUFFile
from .gguf_tokens import end_tokens, entries, entry, gguf_tokenizer, start_token
from .weight_layout import Source, WeightLayout

GGUF = WeightLayout(
    top={"embedding": ["token_embd"], "norm": ["output_norm"], "head": ["output"]},
    layer={
        "attention_norm": ["attn_norm"],
        "attention.qkv": ["attn_q", "attn_k", "attn_v"],
        "attention.out": ["attn_output"],
        "feedforward_norm": ["ffn_norm"],
        "feedforward.gate_up": ["ffn_gate", "ffn_up"],
        "feedforward.down": ["ffn_down"],
    },
    prefix="blk.{}.",
    norms=("attn_q_norm", "attn_k_norm"),
    ignored=("rope_freqs.weight",),
)
# Whether rows of queries and keys stand in llama.cpp's own order, by architecture.
_TURNED = {"llama": True, "qwen2": False, "qwen3": False}
_SIZES = {
    "d_model": "embedding_length", "n_layers": "block_count", "n_heads": "attention.head_count",
    "d_ff": "feed_forward_length", "max_positions": "context_length",
}  # fmt: skip
_FACTORS = "rope_freqs.weight"
_READ = {
    *_SIZES.values(), "vocab_size", "attention.head_count_kv", "attention.key_length", "attention.value_length",
    "attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.dimension_count", "rope.scaling.type",
    "rope.scaling.factor", "rope.scaling.original_context_length", "rope.scaling.finetuned", "tensor_data_layout",
}  # fmt: skip


def load_gguf(
    path: Path | str,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    weights: str | None = None,
) -> tuple[NanoLM, Tokenizer]:
    """Return (model, tokenizer) from a GGUF file of a Llama-style model, the model ready for inference.

    Args:
        path: the file, of a Llama, a Mistral, a Qwen2 or a Qwen3; its weights are in any format that `GGUFFile` reads.
        device: "cpu", "cuda" or "mps".
        dtype: of the numbers that the model runs in.
        weights: as for `load`. Codes are made anew, since a Q4_1 block has a smallest value, for which the engine's
            codes have no place: a second rounding, in 8 bits finer than the file's own.

    Raises:
        ModuleNotFoundError: the library `gguf` is not installed.
        FileNotFoundError: there is no such file.
        ValueError: no GGUF file or one cut short; an architecture, a feature or a block format that this engine does
            not have; metadata or a tensor that is missing, unknown or of the wrong shape.
    """
    dtype, bits = check_weights(weights, dtype)
    with open_gguf(path) as source:
        return build_model(source.weights(), source.config, device, dtype, bits), source.tokenizer


@contextmanager
def open_gguf(path: Path | str) -> Iterator[Source]:
    """Give a file, opened; raise what `load_gguf` raises."""
    file = GGUFFile(path)
    config = gguf_config(file)
    GGUF.check(file.shapes, config, str(path))

    def read(name: str) -> Tensor:
        return rows_in_order(file, name, file.read(name), config.head_dim)

    entries = {key: file.entry(key) for key in file.keys if not key.startswith("tokenizer.ggml.")}
    n_bytes = file.path.stat().st_size
    yield Source(file.path, config, gguf_tokenizer(file), GGUF, file.shapes, file.kinds, read, 1, n_bytes, entries)


def rows_in_order(file: GGUFFile, name: str, rows: Num[Tensor, "rows D"], H: int) -> Num[Tensor, "rows D"]:
    """Return a tensor's rows, of weights or of their blocks, in the engine's order: what its family turns, back."""
    is_turned = _TURNED[file.entry("general.architecture")]
    is_rotated = name.endswith(("attn_q.weight", "attn_k.weight", "attn_q.bias", "attn_k.bias"))
    return half_split_rows(rows, H) if is_turned and is_rotated else rows


def half_split_rows(weight: Float[Tensor, "rows D"], H: int) -> Float[Tensor, "rows D"]:
    """Return the rows of a query or key matrix in the engine's order: of each head, first the even ones, then the odd.

    llama.cpp's rows 2i and 2i + 1 of a head are the pair that a position turns by one angle; `apply_rope` has that
    pair in rows i and i + H/2. Rows that are no whole number of heads come back as they are, for a check to name.
    """
    if len(weight) % H:
        return weight
    return weight.unflatten(0, (-1, H // 2, 2)).transpose(1, 2).flatten(0, 2)


def gguf_config(file: GGUFFile) -> ModelConfig:
    """Return the configuration in a file's metadata.

    Raises:
        ValueError: another architecture, a missing or misshapen entry, or a feature this engine does not have.
    """
    architecture = entry(file, "general.architecture", str)
    if architecture not in _TURNED:
        allowed = " and ".join(map(repr, _TURNED))
        raise ValueError(f"{file.path} has general.architecture = {architecture!r}; this engine reads {allowed} only")
    of = f"{architecture}.{{}}".format
    known = {ours: entry(file, of(theirs), int) for ours, theirs in _SIZES.items()}
    n_heads, tokens = known["n_heads"], entries(file, "tokens", str)
    head_dim = entry(file, of("attention.key_length"), int, known["d_model"] // max(1, n_heads))
    _refuse_what_we_lack(file, architecture, head_dim)
    return ModelConfig(
        **known,
        vocab_size=entry(file, of("vocab_size"), int, len(tokens)),
        n_kv_heads=entry(file, of("attention.head_count_kv"), int, n_heads),
        head_dim=head_dim,
        rope_theta=entry(file, of("rope.freq_base"), float, 10_000.0),
        rope_scaling=_rope_scaling(file, architecture, known["max_positions"], head_dim),
        norm_eps=entry(file, of("attention.layer_norm_rms_epsilon"), float),
        tie_embeddings="output.weight" not in file.kinds,
        bos_token_id=start_token(file, len(tokens)),
        eos_token_ids=end_tokens(file, len(tokens)),
        qkv_bias="blk.0.attn_q.bias" in file.kinds,
        out_bias="blk.0.attn_output.bias" in file.kinds,
        mlp_bias="blk.0.ffn_gate.bias" in file.kinds,
        qk_norm="head" if "blk.0.attn_q_norm.weight" in file.kinds else "",
    )


def _rope_scaling(file: GGUFFile, architecture: str, max_positions: int, head_dim: int) -> RopeScaling | None:
    """How positions are stretched, as llama.cpp reads it: a factor without a type is linear."""
    of = f"{architecture}.rope.scaling.{{}}".format
    factor = entry(file, of("factor"), float, 0.0)
    kind = entry(file, of("type"), str, "linear" if factor else "none")
    factors = file.read(_FACTORS).tolist() if _FACTORS in file.kinds else None
    if kind not in ("none", "linear", "yarn"):
        raise ValueError(f"{file.path} has {of('type')} = {kind!r}; this engine reads 'none', 'linear' and 'yarn' only")
    if kind != "none" and not 0 < factor < float("inf"):
        raise ValueError(f"{file.path} has {of('type')} = {kind!r} and {of('factor')} = {factor}; it must be above 0")
    if factors is not None:  # Llama 3.1: a factor for each pair, worked out by whoever wrote the file
        if kind != "none" or len(factors) != head_dim // 2 or not all(0 < each < float("inf") for each in factors):
            raise ValueError(f"{file.path}: {_FACTORS} must be {head_dim // 2} numbers above 0, and no other scaling")
        both = tuple((name, tuple(factors)) for name in ("long_factor", "short_factor"))
        return RopeScaling("longrope", max_positions, (("attention_factor", 1.0), *both), max_positions)
    if kind == "none" or factor == 1.0:
        return None
    original = entry(file, of("original_context_length"), int, max_positions) or max_positions
    return RopeScaling(kind, original, (("factor", factor),), max_positions)


def _refuse_what_we_lack(file: GGUFFile, architecture: str, head_dim: int) -> None:
    """A model that runs with a part silently left out is worse than one that does not load."""
    for name in ("rope.dimension_count", "attention.value_length"):
        value = file.entry(f"{architecture}.{name}")
        if value not in (head_dim, None):
            raise ValueError(f"{file.path} has {architecture}.{name} = {value!r}; this engine reads {head_dim!r} only")
    for key in file.keys:
        name = key.removeprefix(f"{architecture}.")
        if name != key and name not in _READ and (value := file.entry(key)):
            allowed = "this engine does not know what that changes, and reads 0 only"
            raise ValueError(f"{file.path} has {key} = {str(value)[:40]}; {allowed}")
