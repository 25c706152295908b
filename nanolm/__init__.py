"""NanoLM: a small engine for LLM inference, written to be read.

The legend, used in every shape comment and annotation:

B sequences in the batch · T positions run in this pass · S positions in the cache (past + this pass)
L layers · N query heads · K key/value heads · H head dimension · D model width · F feed-forward width · V vocabulary
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cache import KVCache
    from .checkpoint import load, save
    from .config import ModelConfig
    from .engine import Engine
    from .model import NanoLM
    from .sampling import SamplingParams
    from .text import Tokenizer

# Loaded on first use: the arithmetic of `nanolm.budget` should not wait three seconds for torch.
_HOMES = {
    "load": "checkpoint",
    "save": "checkpoint",
    "NanoLM": "model",
    "ModelConfig": "config",
    "KVCache": "cache",
    "Tokenizer": "text",
    "Engine": "engine",
    "SamplingParams": "sampling",
}
__all__ = ["Engine", "KVCache", "ModelConfig", "NanoLM", "SamplingParams", "Tokenizer", "load", "save"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
