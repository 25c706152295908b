"""Ways to a smaller cache side by side: what each takes for the same model and text, and what it costs.

Only sizes; no tensor is touched. GB is 10⁹ bytes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from .._require import require_count
from .memory import kv_cache_bytes
from .shapes import DEEPSEEK_V3, ModelShape
from .sizing import attention_kind, with_attention

from course import NotYetWritten

_SCALE_BITS = 16  # of a quantized cache: one scale for each head of each position


@dataclass(frozen=True)
class CacheSize:
    """One line of the table.

    Attributes:
        name: what is done, in a few words.
        cache_bytes: caches of all sequences of the batch.
        times_smaller: the model as it is over this; below 1 where this is larger.
        price: what one pays for it.
    """

    name: str
    cache_bytes: int
    times_smaller: float
    price: str


def hybrid_windows(n_layers: int, window: int, global_every: int) -> list[int | None]:
    """Return the window of each layer where every `global_every`-th layer, counted from 1, sees the whole text (None).

    With 6 of them five local layers come first, then a global one, and so on, as in Gemma 3; with 1 all are global.

    Raises:
        ValueError: an argument that is not a whole number above 0.
    """
    require_count(1, n_layers=n_layers, window=window, global_every=global_every)
    return [None if (layer + 1) % global_every == 0 else window for layer in range(n_layers)]


def windowed_cache_bytes(
    shape: ModelShape, n_tokens: int, windows: Sequence[int | None], batch_size: int = 1, kv_bits: float = 16
) -> int:
    """Return the bytes of the caches of `batch_size` sequences of `n_tokens`, each layer with a window of its own.

    A layer keeps the last windows[layer] positions, or as many as there are where the text is shorter; with None it
    keeps all of them.

    Raises:
        ValueError: not one window a layer; a window or batch_size that is not a whole number above 0; n_tokens not one
            of 0 or more; kv_bits not above 0.

    Source: Gemma 3 technical report 2025, section 2.
    """
    raise NotYetWritten(
        "exercise 9.14 windowed_cache_bytes is not written yet: read "
        "notebooks/week09_smaller_cache/week09_smaller_cache.ipynb, write it in exercises/budget/cache_sizes.py, "
        "then run: NANOLM_IMPL=exercises python -m pytest tests/budget/test_cache_sizes.py --exercise "
        "windowed_cache_bytes"
    )


def cache_bytes_table(
    shape: ModelShape, n_tokens: int, batch_size: int = 1, window: int = 1024, global_every: int = 6
) -> list[CacheSize]:
    """Return what the caches take, at 16 bits a number, with each kind of attention and each other way, in one order.

    MHA, GQA and MQA as `with_attention` makes them (no GQA where the heads make no groups); MLA with the latent
    attention of the shape, or else of DeepSeek-V3 (512 + 64 numbers a token and layer); then the shape as it is with a
    window in every layer, in all but every `global_every`-th, and with 8 or 4 bits and a 16-bit scale for each head (or
    latent vector) of each position.

    Raises:
        ValueError: a count that is not a whole number above 0.
    """
    require_count(1, n_tokens=n_tokens, batch_size=batch_size)
    now = kv_cache_bytes(shape, n_tokens, batch_size)
    return [
        CacheSize(name, n_bytes, now / n_bytes, price)
        for rows in (_by_heads, _by_window, _by_bits)
        for name, n_bytes, price in rows(shape, n_tokens, batch_size, window, global_every)
    ]


def _by_heads(shape: ModelShape, n_tokens: int, batch_size: int, *_: int) -> Iterator[tuple[str, int, str]]:
    prices = {
        "MHA": "the largest cache; no other price",
        "GQA": "trained so; little quality",
        "MQA": "trained so; more quality, and one head cannot be shared out among GPUs",
    }
    for kind, price in prices.items():
        if kind != "GQA" or attention_kind(shape) == "GQA" or shape.n_heads % 4 == 0:
            yield kind, kv_cache_bytes(with_attention(shape, kind), n_tokens, batch_size), price
    latent = replace(shape, latent=shape.latent or DEEPSEEK_V3.latent)
    yield "MLA", kv_cache_bytes(latent, n_tokens, batch_size), "trained so; more arithmetic for each position read"


def _by_window(
    shape: ModelShape, n_tokens: int, batch_size: int, window: int, global_every: int
) -> Iterator[tuple[str, int, str]]:
    ways = {
        f"window of {window:,}": ([window] * shape.n_layers, "older text is not seen directly: long recall suffers"),
        f"window of {window:,}, 1 layer in {global_every} global": (
            hybrid_windows(shape.n_layers, window, global_every),
            "trained so; two kinds of cache, and that of the global layers still grows",
        ),
    }
    for name, (windows, price) in ways.items():
        yield name, windowed_cache_bytes(shape, n_tokens, windows, batch_size), price


def _by_bits(shape: ModelShape, n_tokens: int, batch_size: int, *_: int) -> Iterator[tuple[str, int, str]]:
    latent = shape.latent
    numbers_a_scale = shape.head_dim if latent is None else latent.kv_latent_dim + latent.rotary_dim
    prices = {
        8: "hardly any quality; a kernel that reads codes",
        4: "some quality, in long recall first; such a kernel",
    }
    for bits, price in prices.items():
        yield f"{bits} bits", kv_cache_bytes(shape, n_tokens, batch_size, bits + _SCALE_BITS / numbers_a_scale), price
