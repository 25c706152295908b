"""Engine files whose exercises are packed: a reader sees the function asked, Python runs the whole file.

A release has this file as `nanolm/_packed.py`. Packed is not secret: whoever wants to can unpack it, and the engine is
public. It keeps an answer out of sight of a student who reads the engine, searches it, or follows a definition.
"""

import sys
import zlib
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

ENGINE = Path(__file__).resolve().parent
PACKED = "shipped/packed"  # in the engine's folder; a wheel has all of shipped/


def name_of(file: str) -> str:
    """Return what the packed text of an engine's file is called: "speculative.acceptance"."""
    return file.removesuffix(".py").replace("/", ".")


def pack(text: str) -> bytes:
    """Return a file's text, packed."""
    return zlib.compress(text.encode("utf-8"), 9)


def _packed(file: Path) -> Path | None:
    file = file.resolve()
    if not file.is_relative_to(ENGINE):
        return None
    packed = ENGINE / PACKED / name_of(file.relative_to(ENGINE).as_posix())
    return packed if packed.is_file() else None


class _Loader(SourceFileLoader):
    """Reads the packed text where the file is asked for, and names it so that no line of the file is shown for it."""

    def get_data(self, path: str) -> bytes:
        packed = _packed(Path(path)) if path.endswith(".py") else None
        return super().get_data(path) if packed is None else zlib.decompress(packed.read_bytes())

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().source_to_code(data, f"{path} (packed)", _optimize=_optimize)


class _Finder(MetaPathFinder):
    """Finds the engine's packed files, under whatever package's name they are imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        tail = fullname.rpartition(".")[2]
        for entry in path or ():
            file = Path(entry) / f"{tail}.py"
            if (Path(entry) / tail / "__init__.py").is_file():
                return None
            if file.is_file():  # the first folder that has it counts
                is_packed = _packed(file) is not None
                loader = _Loader(fullname, str(file))
                return spec_from_file_location(fullname, file, loader=loader) if is_packed else None
        return None


def install() -> None:
    """Let Python read packed files; done when `nanolm` is imported."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
