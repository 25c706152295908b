"""Exercises of `nanolm.workload`. What is not here is the engine's own."""

from pathlib import Path

import nanolm
from nanolm._lazy import lazy
from nanolm.workload import _HOMES

__path__.append(str(Path(nanolm.__file__).parent / "workload"))
__getattr__, __dir__ = lazy(__name__, _HOMES)
