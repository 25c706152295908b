"""The tensors of a Hugging Face folder: one safetensors file or several, looked at before they are read.

A tensor is read when it is asked for, one at a time, so that no more than one lies in memory beside the model. Files
that are pickles are never opened: to read one is to run whatever program its writer has put there.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
_NUMBERS = ("F64", "F32", "F16", "BF16")


class TensorFiles:
    """The tensors of a folder, by their names; a context that closes the files.

    Attributes:
        files: the files that hold them, in order.
        shapes: the shape of each.
        kinds: what each is stored as, "BF16" and so on.

    Raises:
        FileNotFoundError: there are no safetensors; the message names the pickles, if those are there.
        ValueError: a file that is none, or is cut short; an index that does not fit the files.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._stack = folder, ExitStack()
        with ExitStack() as stack:
            self._where = self._open_all(stack)
            slices = {name: file.get_slice(name) for name, file in self._where.items()}
            self.shapes = {name: tuple(each.get_shape()) for name, each in slices.items()}
            self.kinds = {name: str(each.get_dtype()) for name, each in slices.items()}
            self._stack = stack.pop_all()

    def __enter__(self) -> "TensorFiles":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def stored_bytes(self) -> int:
        """Bytes of the files."""
        return sum(file.stat().st_size for file in self.files)

    def read(self, name: str) -> Tensor:
        """Return a tensor.

        Raises:
            ValueError: it is no matrix of floats: codes of a quantized model, which stand for other numbers.
        """
        if self.kinds[name] not in _NUMBERS:
            raise ValueError(
                f"{self.folder}: {name} is stored as {self.kinds[name]}; {', '.join(_NUMBERS)} can be read, and codes "
                "of a quantized model are no weights"
            )
        return self._where[name].get_tensor(name)

    def rows(self, name: str, at_once: int = 4096) -> Iterator[Tensor]:
        """Yield a matrix some rows at a time."""
        whole = self._where[name].get_slice(name)
        for start in range(0, self.shapes[name][0], at_once):
            yield whole[start : start + at_once]

    def _open_all(self, stack: ExitStack) -> dict[str, Any]:
        """The open file of each tensor."""
        if (self.folder / SINGLE).is_file():
            self.files = [self.folder / SINGLE]
            file = self._open(self.files[0], stack)
            return dict.fromkeys(file.keys(), file)
        weight_map = self._weight_map()
        names = sorted(set(weight_map.values()))
        self.files = [self.folder / name for name in names]
        opened = {name: self._open(self.folder / name, stack) for name in names}
        held = {name: set(file.keys()) for name, file in opened.items()}
        for tensor, name in weight_map.items():
            if tensor not in held[name]:
                raise ValueError(f"{self.folder / INDEX} says that {name} holds {tensor}, which it does not")
            held[name].discard(tensor)
        for name, tensors in held.items():
            if tensors:
                what = "has elsewhere" if (one := min(tensors)) in weight_map else "does not name"
                raise ValueError(f"{self.folder / name} holds {one}, which {INDEX} {what}; they must agree")
        return {tensor: opened[name] for tensor, name in weight_map.items()}

    def _open(self, path: Path, stack: ExitStack) -> Any:
        if not path.is_file():
            raise FileNotFoundError(f"{self.folder} has no {path.name}, which {INDEX} names as a part of the model")
        try:
            return stack.enter_context(safe_open(path, "pt"))
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{path} is not a safetensors file, or is cut short: {error}") from error

    def _weight_map(self) -> dict[str, str]:
        path = self.folder / INDEX
        if not path.is_file():
            raise FileNotFoundError(self._what_is_missing())
        weight_map = read_json(path).get("weight_map")
        if not isinstance(weight_map, dict) or not weight_map:
            raise ValueError(f"{path} has no weight_map, an object that says which file holds each tensor")
        for tensor, name in weight_map.items():
            if not isinstance(name, str) or Path(name).name != name or "\\" in name:
                raise ValueError(f"{path} says that {tensor} is in {name!r}; it must be the name of a file beside it")
        return weight_map

    def _what_is_missing(self) -> str:
        pickles = sorted(path.name for path in self.folder.iterdir() if path.suffix in _PICKLES)
        if pickles:
            return (
                f"{self.folder} has no {SINGLE} but {pickles[0]}, a pickle: reading one runs whatever program is in "
                "it, so it is not read; convert the model to safetensors (transformers: save_pretrained)"
            )
        return f"{self.folder} has no {SINGLE}, nor a {INDEX} that names its parts"


def read_json(path: Path) -> dict[str, Any]:
    """Return the one JSON object in a file.

    Raises:
        ValueError: no JSON, no UTF-8, or JSON of another kind.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, or brackets without end
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds a {type(content).__name__}; it must be one JSON object")
    return content
