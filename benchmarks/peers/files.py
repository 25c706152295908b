"""The same weights in every precision: files that NanoLM and llama.cpp both read, and a folder for transformers.

One GGUF file is decoded once, and everything is made of those floats. So the engines of one precision multiply by the
same numbers, and a difference between their texts is one of arithmetic.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from nanolm.checkpoint import load_gguf, save

KINDS = {"float32": "F32", "bfloat16": "BF16", "8 bits": "Q8_0", "4 bits": "Q4_1"}  # the precision, its GGUF format
FOLDER = "folder"  # in the layout of Hugging Face, float32


def write_files(source: Path, folder: Path, tell: Callable[[str], None] = lambda name: None) -> dict[str, Path]:
    """Return the path of each precision's GGUF file and of the folder in float32, written first where missing.

    Matrices are kept in the precision's format, the embedding too; vectors in float32, as llama.cpp wants them.

    Args:
        source: a GGUF file in any format.
        tell: told the name of each file before it is written.

    Raises:
        ModuleNotFoundError: the library `gguf` is not installed.
        ValueError: what `load_gguf` raises for a file it cannot read.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = {precision: folder / f"{source.stem}.{kind}.gguf" for precision, kind in KINDS.items()}
    for precision, path in paths.items():
        if not path.exists():
            tell(path.name)
            part = path.with_suffix(".part")
            _write(source, part, KINDS[precision])
            part.replace(path)
    paths[FOLDER] = folder / source.stem
    if not (paths[FOLDER] / "tokenizer.json").exists():  # the last that `save` writes
        tell(paths[FOLDER].name)
        save(*load_gguf(source), paths[FOLDER], dtype=torch.float32)
    return paths


def _write(source: Path, path: Path, kind: str) -> None:
    import gguf

    reader, to = gguf.GGUFReader(source), gguf.GGMLQuantizationType
    writer = gguf.GGUFWriter(path, _value(reader, "general.architecture"))
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name not in ("general.architecture", "general.file_type"):
            element = field.types[-1] if field.types[0] is gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), field.types[0], sub_type=element)
    for tensor in reader.tensors:
        floats = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        its_kind = to[kind] if floats.ndim > 1 else to.F32
        writer.add_tensor(tensor.name, gguf.quants.quantize(floats, its_kind), raw_dtype=its_kind)
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()


def _value(reader: Any, name: str) -> Any:
    return reader.fields[name].contents()
