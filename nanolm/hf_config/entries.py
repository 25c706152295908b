"""Entries of a config.json, one at a time: read under our names, or refused by theirs."""

from collections.abc import Mapping
from typing import Any

from .._require import shown
from .families import MAY_LACK, SIZES


def read_sizes(hf: dict[str, Any], also: Mapping[str, str] | None = None) -> dict[str, int]:
    """Return the sizes of a decoder in a Hugging Face config.json under our names, whatever the architecture.

    num_key_value_heads falls back to num_attention_heads, and head_dim to hidden_size / num_attention_heads.

    Args:
        also: further entries to read, our names and the file's.

    Raises:
        ValueError: an entry is missing or no whole number above 0, or there is no head_dim and heads do not divide
            hidden_size.
    """
    names = {**SIZES, **(also or {})}
    given = {name: theirs for name, theirs in names.items() if name not in MAY_LACK or hf.get(theirs) is not None}
    sizes = read_counts(hf, given)
    sizes.setdefault("n_kv_heads", sizes["n_heads"])
    if "head_dim" not in sizes:
        width, n_heads = sizes["d_model"], sizes["n_heads"]
        if width % n_heads:
            raise ValueError(f"config.json lacks head_dim, and hidden_size {width} is no multiple of {n_heads} heads")
        sizes["head_dim"] = width // n_heads
    return sizes


def read_counts(hf: dict[str, Any], names: Mapping[str, str], least: int = 1) -> dict[str, int]:
    """Return entries of a config.json by our names, given as our names and the file's.

    Raises:
        ValueError: an entry is missing, or no whole number of at least `least`.
    """
    missing = [theirs for theirs in names.values() if hf.get(theirs) is None]
    if missing:
        raise ValueError(f"config.json lacks {', '.join(missing)}")
    for theirs in names.values():
        value = hf[theirs]
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            allowed = "a whole number above 0" if least else "a whole number, 0 or more"
            raise ValueError(f"config.json has {theirs} = {shown(value)}; it must be {allowed}")
    return {ours: hf[theirs] for ours, theirs in names.items()}


def flag(hf: dict[str, Any], name: str, missing: bool = False) -> bool:
    """Return an entry that is true or false; raise ValueError if it is something else."""
    value = hf.get(name)
    value = missing if value is None else value
    if value not in (True, False):
        raise ValueError(f"config.json has {name} = {shown(value)}; it must be true or false")
    return bool(value)


def token_id(hf: dict[str, Any], name: str, where: str = "config.json") -> int | None:
    """Return a token id or None; raise ValueError if it is something else."""
    value = hf.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        raise ValueError(f"{where} has {name} = {shown(value)}; it must be a whole number, 0 or more, or null")
    return value


def token_ids(hf: dict[str, Any], name: str, where: str = "config.json") -> tuple[int, ...]:
    """Return one token id, several or none as a tuple; raise ValueError if it is something else."""
    value = hf.get(name)
    listed = value if isinstance(value, list) else [] if value is None else [value]
    return tuple(found for each in listed if (found := token_id({name: each}, name, where)) is not None)


LARGEST = float(2**1000)  # an int beyond it would not become a float


def number(hf: dict[str, Any], name: str, missing: float) -> float:
    value = hf.get(name)
    value = missing if value is None else value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LARGEST:
        raise ValueError(f"config.json has {name} = {shown(value)}; it must be a number above 0")
    return value
