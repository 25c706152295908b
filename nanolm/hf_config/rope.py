"""Rotary positions in a config.json, in older files and in newer ones, as transformers reads them."""

from typing import Any

from ..rope_scaling import RopeScaling
from .entries import LARGEST

# What each way needs and may have, by the names of a config.json.
_NEEDED = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "proportional": (),
    "yarn": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "longrope": ("short_factor", "long_factor"),
}
_POSSIBLE = {
    "proportional": ("factor", "partial_rotary_factor"),
    "yarn": ("attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"),
    "longrope": ("factor", "attention_factor"),
}
_LISTS = ("short_factor", "long_factor")
_EVERYWHERE = ("rope_type", "type", "rope_theta", "original_max_position_embeddings")


def read_rope(hf: dict[str, Any], default_theta: float, max_positions: int, head_dim: int) -> dict[str, Any]:
    """Return rope_theta and rope_scaling for a ModelConfig, as transformers reads them from a config.json.

    Older files have rope_theta at the top and the rest in rope_scaling, newer ones all of it in rope_parameters; of
    both, rope_scaling counts, as with transformers.

    Raises:
        ValueError: an entry of the wrong type, missing, out of range or unknown.
    """
    where = "rope_scaling" if hf.get("rope_scaling") else "rope_parameters"
    for name in ("rope_scaling", "rope_parameters"):
        if not isinstance(hf.get(name) or {}, dict):
            raise ValueError(f"config.json has {name} = {hf[name]!r}; it must be an object or null")
    given = dict(hf.get(where) or {})
    theta = given.get("rope_theta", hf.get("rope_theta"))
    theta = default_theta if theta is None else theta
    _check("rope_theta", theta)
    part = given.get("partial_rotary_factor", hf.get("partial_rotary_factor"))
    kind = given.get("rope_type", given.get("type", "default")) or "default"
    if kind == "default":
        strange = sorted(name for name in given if name not in (*_EVERYWHERE, "partial_rotary_factor"))
        strange = [name for name in strange if name != "factor" or given[name] != 1]
        if strange:
            raise ValueError(f"config.json has {where}.{strange[0]} without a rope_type that says what it means")
        if part not in (None, 1, 1.0):
            raise ValueError(f"config.json has partial_rotary_factor = {part!r}; this engine reads 1.0 only")
        return {"rope_theta": float(theta)}
    if not isinstance(kind, str) or kind not in _NEEDED:
        raise ValueError(f"config.json has rope_type = {kind!r}; this engine reads default, {', '.join(_NEEDED)}")
    if kind == "proportional" and part is not None:
        given["partial_rotary_factor"] = part
    elif part not in (None, 1, 1.0):
        raise ValueError(f"config.json has partial_rotary_factor = {part!r}; this engine reads 1.0 only")
    return {"rope_theta": float(theta), "rope_scaling": _scaling(kind, given, hf, max_positions, head_dim)}


def _scaling(kind: str, given: dict[str, Any], hf: dict[str, Any], max_positions: int, head_dim: int) -> RopeScaling:
    known = (*_NEEDED[kind], *_POSSIBLE.get(kind, ()))
    missing = [name for name in _NEEDED[kind] if given.get(name) is None]
    if kind == "yarn" and given.get("original_max_position_embeddings"):
        missing = []  # the factor is the ratio of the two contexts
    if missing:
        raise ValueError(f"config.json has rope_type = {kind!r} and lacks {', '.join(missing)}")
    for name, value in given.items():
        if name not in (*known, *_EVERYWHERE, "partial_rotary_factor"):
            raise ValueError(f"config.json has {name} = {value!r} with rope_type = {kind!r}, which knows no such entry")
        if name in known and value is not None:
            _check(name, value, head_dim // 2 if name in _LISTS else 0)
    original = hf.get("original_max_position_embeddings") or given.get("original_max_position_embeddings")
    original = max_positions if original is None or kind == "dynamic" else original
    if isinstance(original, bool) or not isinstance(original, int | float) or not 0 < original <= LARGEST:
        raise ValueError(f"config.json has original_max_position_embeddings = {original!r}; it must be above 0")
    if kind == "dynamic" and head_dim < 4:
        raise ValueError(f"config.json has rope_type = 'dynamic' with heads of {head_dim} numbers; it needs 4 or more")
    if kind == "llama3" and not given["high_freq_factor"] > given["low_freq_factor"]:
        raise ValueError(
            f"config.json has high_freq_factor = {given['high_freq_factor']!r}; it must be above low_freq_factor, "
            f"{given['low_freq_factor']!r}"
        )
    values = tuple(
        (name, tuple(value) if isinstance(value, list) else value)
        for name, value in sorted(given.items())
        if name in known and value is not None
    )
    return RopeScaling(kind, int(original), values, max_positions)


def _check(name: str, value: Any, length: int = 0) -> None:
    """Refuse what is not a number above 0, or a list of `length` of them."""
    if name == "truncate":
        if not isinstance(value, bool):
            raise ValueError(f"config.json has truncate = {value!r}; it must be true or false")
        return
    numbers = value if length and isinstance(value, list) else [value]
    allowed = f"a list of {length} numbers above 0, one for each pair of a head" if length else "a number above 0"
    if length and (not isinstance(value, list) or len(value) != length):
        raise ValueError(f"config.json has {name} = {str(value)[:60]}; it must be {allowed}")
    least_is_fine = name.startswith("mscale")  # DeepSeek writes a 0 for "leave it out"
    for number in numbers:
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        if not is_number or not (0 < number <= LARGEST or (least_is_fine and number == 0)):
            raise ValueError(f"config.json has {name} = {str(value)[:60]}; it must be {allowed}")
