"""Packages that load their files on first use: the arithmetic of `nanolm.budget` should not wait for torch."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy(package: str, homes: Mapping[str, Sequence[str]]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return a package's `__getattr__` and `__dir__`: names from the files that define them, and the files themselves.

    Args:
        package: the package's `__name__`.
        homes: file, without .py, to the names that it gives.
    """
    file_of = {name: file for file, names in homes.items() for name in names}

    def get(name: str) -> Any:
        if name in homes:
            return import_module(f"{package}.{name}")
        if name not in file_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{file_of[name]}"), name)

    return get, lambda: sorted([*file_of, *homes])
