"""Exercises of `nanolm.cache`. What is not here is the engine's own."""

from pathlib import Path

import nanolm
from nanolm._lazy import lazy
from nanolm.cache import _HOMES

__path__.append(str(Path(nanolm.__file__).parent / "cache"))
__getattr__, __dir__ = lazy(__name__, _HOMES)
