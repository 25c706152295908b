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
from .deepseek import DEEPSEEK, in_our_order
from .tensor_files import TensorFiles, read_json
from .tokens import beginning_with, read_tokenizer, with_tokens
from .weight_layout import Source, WeightLayout

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


@contextmanager
def open_folder(folder: Path) -> Iterator[Source]:
    """Give the files of a folder; raise what `load` raises."""
    hf = read_json(folder / "config.json")
    try:
        config = ModelConfig.from_hf(hf)
    except ValueError as error:
        raise ValueError(f"{error} (in {folder})") from error
    layout = _LAYOUTS.get(hf.get("model_type", ""), HUGGING_FACE)
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


def _write_json(path: Path, content: dict) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
