"""Models on disk in the Hugging Face layout of a Llama or a Mixtral, read and written, so that others open ours.

A folder holds config.json, model.safetensors and tokenizer.json. There queries, keys and values (and gate and up, and
all experts) are matrices of their own; the engine keeps them in one, so reading joins them and writing parts them.
"""

import json
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from .config import ModelConfig
from .model import NanoLM
from .tokenizer import Tokenizer

SHIPPED = Path(__file__).parent / "shipped"

# Our tensor on the left; on the right the tensors of the file that, stacked by rows, make it.
_TOP = {"embedding": ["model.embed_tokens"], "norm": ["model.norm"], "head": ["lm_head"]}
_LAYER = {
    "attention_norm": ["input_layernorm"],
    "attention.qkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    "attention.out": ["self_attn.o_proj"],
    "feedforward_norm": ["post_attention_layernorm"],
}
_DENSE = {"feedforward.gate_up": ["mlp.gate_proj", "mlp.up_proj"], "feedforward.down": ["mlp.down_proj"]}
# The same of a mixture: first the router, then one part for each of the experts in turn.
_ROUTER = {"feedforward.router": ["block_sparse_moe.gate"]}
_EXPERT = {"feedforward.gate_up": ["w1", "w3"], "feedforward.down": ["w2"]}


def load(
    name: str | Path, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> tuple[NanoLM, Tokenizer]:
    """Return (model, tokenizer), the model ready for inference.

    Args:
        name: a shipped model ("target", "draft" or "mixture"), or a folder in the Hugging Face layout of a Llama or
            a Mixtral.
        device: "cpu", "cuda" or "mps".
        dtype: the number type to run in; files may hold another.

    Raises:
        FileNotFoundError: no such model; the message lists the shipped ones.
        ValueError: a tensor that is missing, unknown or of the wrong shape, or a configuration we cannot run.
    """
    folder = find_folder(name)
    config = ModelConfig.from_hf(_read_json(folder / "config.json"))
    tensors = _read_tensors(folder)
    with torch.device("meta"):  # no memory, no random numbers: every weight comes from the file
        model = NanoLM(config)
    state = from_hf_tensors(tensors, config, str(folder))
    if config.tie_embeddings:
        state["head.weight"] = state["embedding.weight"]
    model.load_state_dict({key: value.to(device, dtype) for key, value in state.items()}, assign=True)
    if config.tie_embeddings:
        model.head.weight = model.embedding.weight
    return model.eval().requires_grad_(False), Tokenizer.from_file(folder / "tokenizer.json")


def save(model: NanoLM, tokenizer: Tokenizer, folder: Path | str, dtype: torch.dtype = torch.float16) -> None:
    """Write the model to a folder in the Hugging Face layout; `load` and `transformers` read it.

    Raises:
        ValueError: the model is quantized; nothing is written then.
    """
    folder = Path(folder)
    tensors = {key: value.detach().to("cpu", dtype).contiguous() for key, value in to_hf_tensors(model).items()}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = {**model.config.to_hf(), "dtype": str(dtype).removeprefix("torch.")}
    _write_json(folder / "config.json", config)
    ends, start = model.config.eos_token_ids, model.config.bos_token_id
    end_id = ends[0] if ends else tokenizer.eos_id
    start_id = end_id if start is None else start
    names = [None if token is None else tokenizer.inner.id_to_token(token) for token in (start_id, end_id)]
    _write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": names[0],
            "eos_token": names[1],
            "model_max_length": model.config.max_positions,
            "clean_up_tokenization_spaces": False,
        },
    )
    tokenizer.save(folder / "tokenizer.json")


def from_hf_tensors(tensors: dict[str, Tensor], config: ModelConfig, source: str = "checkpoint") -> dict[str, Tensor]:
    """Return our state dict from the tensors of a file.

    Raises:
        ValueError: names missing or left over, or a shape that the configuration does not give.
    """
    shapes = _hf_shapes(config)
    left_over = set(tensors) - set(shapes)
    if config.tie_embeddings:
        left_over -= {"lm_head.weight"}  # some writers store the tied matrix twice
    missing = sorted(set(shapes) - set(tensors))
    for word, names in (("lacks", missing), ("has the unknown", sorted(left_over))):
        if names:
            listed = ", ".join(names[:3]) + (" and more" if len(names) > 3 else "")
            raise ValueError(f"{source} {word} tensor{'s' if len(names) > 1 else ''} {listed}")
    for key, shape in shapes.items():
        if tuple(tensors[key].shape) != shape:
            raise ValueError(f"{source}: {key} has shape {tuple(tensors[key].shape)}; config.json makes it {shape}")
    state = {
        ours: torch.cat([tensors[part] for part in theirs]) if len(theirs) > 1 else tensors[theirs[0]]
        for ours, theirs in _names(config)
    }
    for ours in state:
        if config.n_experts and ours.removesuffix(".weight").endswith(tuple(_EXPERT)):
            state[ours] = state[ours].unflatten(0, (config.n_experts, -1))  # (E · out, in) to (E, out, in)
    return state


def to_hf_tensors(model: NanoLM) -> dict[str, Tensor]:
    """Return a model's tensors as they are filed: our joined matrices parted by rows.

    Raises:
        ValueError: a layer holds something else than weights, as those of a quantized model do.
    """
    shapes, state, tensors = _hf_shapes(model.config), model.state_dict(), {}
    strange = sorted({*state} - {ours for ours, _ in _names(model.config)} - {"head.weight"})
    if strange:
        layer, _, what = strange[0].rpartition(".")
        raise ValueError(
            f"{layer} of the model is of type {type(model.get_submodule(layer)).__name__} and holds {what}, for which "
            "the layout has no place: save a model before it is quantized, and quantize it again once loaded"
        )
    for ours, theirs in _names(model.config):
        rows = state[ours].flatten(0, -2) if state[ours].ndim == 3 else state[ours]
        parts = rows.split([shapes[part][0] for part in theirs])
        tensors.update(zip(theirs, parts, strict=True))
    return tensors


def _names(config: ModelConfig) -> list[tuple[str, list[str]]]:
    names = [(ours, theirs) for ours, theirs in _TOP.items() if not (ours == "head" and config.tie_embeddings)]
    layer = {**_LAYER, **(_mixture(config.n_experts) if config.n_experts else _DENSE)}
    for i in range(config.n_layers):
        names += [(f"layers.{i}.{ours}", [f"model.layers.{i}.{p}" for p in theirs]) for ours, theirs in layer.items()]
    return [(f"{ours}.weight", [f"{part}.weight" for part in theirs]) for ours, theirs in names]


def _mixture(n_experts: int) -> dict[str, list[str]]:
    parts = {
        ours: [f"block_sparse_moe.experts.{expert}.{w}" for expert in range(n_experts) for w in theirs]
        for ours, theirs in _EXPERT.items()
    }
    return {**_ROUTER, **parts}


def _hf_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    D, F, V = config.d_model, config.d_ff, config.vocab_size
    q, kv = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
    by_part = {
        "embed_tokens": (V, D), "lm_head": (V, D),
        "norm": (D,), "input_layernorm": (D,), "post_attention_layernorm": (D,),
        "q_proj": (q, D), "k_proj": (kv, D), "v_proj": (kv, D), "o_proj": (D, q),
        "gate_proj": (F, D), "up_proj": (F, D), "down_proj": (D, F),
        "gate": (config.n_experts, D), "w1": (F, D), "w3": (F, D), "w2": (D, F),
    }  # fmt: skip
    return {part: by_part[part.split(".")[-2]] for _, theirs in _names(config) for part in theirs}


def find_folder(name: str | Path) -> Path:
    """Return the folder given, or that of the shipped model of that name; raise FileNotFoundError without either."""
    for folder in (Path(name), SHIPPED / name):
        if (folder / "config.json").is_file():
            return folder
    shipped = sorted(path.parent.name for path in SHIPPED.glob("*/config.json"))
    raise FileNotFoundError(f"no model {str(name)!r}: it is neither a folder with a config.json nor one of {shipped}")


def _read_tensors(folder: Path) -> dict[str, Tensor]:
    path = folder / "model.safetensors"
    if not path.is_file():
        raise FileNotFoundError(f"{folder} has no model.safetensors (files split into several parts are not read)")
    try:
        return load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file, or is cut short: {error}") from error


def _read_json(path: Path) -> dict:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # no JSON, or no UTF-8
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds a {type(content).__name__}; it must be one JSON object")
    return content


def _write_json(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
