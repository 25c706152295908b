"""A model's files, opened and looked at: everything but the weights is read, and those one at a time when asked for."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from ..config import ModelConfig
from ..text.tokenizer import Tokenizer
from .weight_layout import Shape, WeightLayout


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

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the engine's tensors one after the other, by its names."""
        return self.layout.joined(self.read, self.config)


@contextmanager
def opened(name: str | Path) -> Iterator[Source]:
    """Give the files of a model, by the names that `load` takes; raise what `load` raises."""
    from .gguf import open_gguf
    from .huggingface import GGUF_SUFFIX, find_model, open_folder

    path = find_model(name)
    is_file = path.suffix == GGUF_SUFFIX and not path.is_dir()
    with open_gguf(path) if is_file else open_folder(path) as source:
        yield source
