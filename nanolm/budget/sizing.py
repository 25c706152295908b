"""Does this model, with this context and batch, fit on this hardware, how fast will it write, and what holds it back?

One question answered by many functions of `memory`, `decode_batch` and `roofline`; the arithmetic is theirs. The speeds
are what the chips could do at best, and several GPUs count as one that is as many times larger and faster: what they
say to each other costs time that is not counted. `nanolm size` prints the answer, and `course.lab.calculator` puts
sliders to it.
"""

from dataclasses import dataclass, replace

from .._require import require_count
from .decode_batch import decode_step_time
from .experts import expected_unused_experts
from .hardware import Hardware
from .memory import gpus_needed, kv_bytes_per_token, kv_cache_bytes, max_concurrent_requests, max_context, weight_bytes
from .pricing import cost_per_million
from .roofline import arithmetic_intensity, bottleneck, tokens_per_second
from .shapes import ModelShape

ATTENTION_KINDS = ("MHA", "GQA", "MQA")
_QUERIES_A_GROUP = 4  # of grouped-query attention where a model has no groups of its own; Llama 3 8B has 4
_LIMITS = {
    "memory": "memory: weights, caches and what is kept free do not fit together",
    "bandwidth": "bandwidth: a step waits for weights and caches to be read",
    "compute": "compute: a step waits for its arithmetic",
}


@dataclass(frozen=True)
class Capacity:
    """What `capacity` found.

    Attributes:
        shape: the model, with the attention asked for.
        hardware: all GPUs as one.
        context_tokens, batch_size: as asked.
        weight_bytes: all weights.
        kv_bytes_per_token: cache of one token of one sequence.
        cache_bytes: the caches of all sequences, each filled to its last token.
        headroom_bytes: memory kept free on purpose.
        free_bytes: memory that is left beside weights, caches and headroom; negative: what is missing.
        fits: whether nothing is missing.
        max_batch_size: sequences of this context that fit; 0 if not one does.
        max_context_tokens: context that each sequence of this batch can have; 0 if the weights alone do not fit.
        n_gpus_needed: GPUs of this kind that would hold weights, caches and the same fraction of headroom.
        tpot_seconds: time per output token, one decode step; None, like all speeds, if it does not fit.
        tokens_per_second_per_user, tokens_per_second: of one sequence, and of the batch.
        dollars_per_million: price of a million written tokens.
        limit: "memory" if it does not fit; else "compute" if a step's arithmetic takes longer than all of its
            reading, weights and caches together; else "bandwidth".
    """

    shape: ModelShape
    hardware: Hardware
    context_tokens: int
    batch_size: int
    weight_bytes: int
    kv_bytes_per_token: int
    cache_bytes: int
    headroom_bytes: float
    free_bytes: float
    fits: bool
    max_batch_size: int
    max_context_tokens: int
    n_gpus_needed: int
    tpot_seconds: float | None = None
    tokens_per_second_per_user: float | None = None
    tokens_per_second: float | None = None
    dollars_per_million: float | None = None
    limit: str = "memory"


def capacity(
    shape: ModelShape,
    hardware: Hardware,
    context_tokens: int,
    batch_size: int = 1,
    weight_bits: float = 16,
    kv_bits: float = 16,
    attention: str | None = None,
    n_gpus: int = 1,
    headroom: float = 0.1,
) -> Capacity:
    """Return what fits, how fast it is, and what limits it.

    Args:
        shape: the model.
        hardware: one GPU.
        context_tokens: tokens that each sequence has in its cache.
        batch_size: sequences that are written at the same time.
        weight_bits, kv_bits: of one number of the weights and of the cache.
        attention: None: the model as it is; "MHA", "GQA", "MQA": what it would be with that (`with_attention`).
        n_gpus: GPUs that share weights and caches evenly.
        headroom: fraction of the memory kept free.

    Raises:
        ValueError: a count that is not whole and above 0, bits not above 0, headroom outside 0 ≤ headroom < 1, or an
            attention that does not exist or does not suit the model's heads.
    """
    require_count(1, context_tokens=context_tokens, batch_size=batch_size, n_gpus=n_gpus)
    shape, gpu, hardware = with_attention(shape, attention), hardware, _together(hardware, n_gpus)
    memory, weights = hardware.memory_bytes, weight_bytes(shape.n_params, weight_bits)
    a_token, a_sequence = kv_bytes_per_token(shape, kv_bits), kv_cache_bytes(shape, context_tokens, 1, kv_bits)
    caches = kv_cache_bytes(shape, context_tokens, batch_size, kv_bits)
    longest = max_context(memory, weights, a_token, batch_size, headroom)  # it refuses a headroom that is no fraction
    reserved = headroom * memory
    most = max_concurrent_requests(memory, weights, a_sequence, reserved)
    found = Capacity(
        shape=shape,
        hardware=hardware,
        context_tokens=context_tokens,
        batch_size=batch_size,
        weight_bytes=weights,
        kv_bytes_per_token=a_token,
        cache_bytes=caches,
        headroom_bytes=reserved,
        free_bytes=memory - reserved - weights - caches,
        fits=batch_size <= most,
        max_batch_size=most,
        max_context_tokens=longest,
        n_gpus_needed=gpus_needed((weights + caches) / (1 - headroom), gpu.memory_bytes),
    )
    return _with_speed(found, weight_bits) if found.fits else found


def _with_speed(found: Capacity, weight_bits: float) -> Capacity:
    B, hardware = found.batch_size, found.hardware
    n_params, read_bytes = found.shape.n_multiplied_params, weight_bytes(params_read(found.shape, B), weight_bits)
    step = decode_step_time(B, n_params, read_bytes, found.cache_bytes / B, hardware)
    intensity = arithmetic_intensity(B, n_params, read_bytes, found.cache_bytes)
    return replace(
        found,
        tpot_seconds=step,
        tokens_per_second_per_user=tokens_per_second(step),
        tokens_per_second=tokens_per_second(step, B),
        dollars_per_million=cost_per_million(step, B, hardware.dollars_per_hour),
        limit="bandwidth" if bottleneck(intensity, hardware) == "memory" else "compute",
    )


def in_words(found: Capacity) -> dict[str, str]:
    """Return the figures with their units, in the order to print them; a dash for a speed where it does not fit."""
    B, n, kind = found.batch_size, found.context_tokens, attention_kind(found.shape)
    caches = f"{size_in_words(found.cache_bytes)}: {B:,} × {n:,} tokens of {found.kv_bytes_per_token:,} B ({kind})"
    speeds: dict[str, str] = dict.fromkeys(("time per token", "each user", "all users", "price"), "–")
    if found.tpot_seconds is not None:
        speeds = {
            "time per token": f"{1e3 * found.tpot_seconds:,.3g} ms",
            "each user": f"{found.tokens_per_second_per_user:,.0f} tokens/s",
            "all users": f"{found.tokens_per_second:,.0f} tokens/s",
            "price": f"{found.dollars_per_million:,.2f} dollars a million tokens",
        }
    return {
        "weights": f"{size_in_words(found.weight_bytes)}: {found.shape.n_params / 1e9:,.3g} billion parameters",
        "caches": caches,
        "kept free": size_in_words(found.headroom_bytes),
        "missing" if found.free_bytes < 0 else "left": size_in_words(abs(found.free_bytes)),
        "memory": f"{size_in_words(found.hardware.memory_bytes)}, {found.hardware.name}",
        "largest batch": f"{found.max_batch_size:,} sequences of {n:,} tokens",
        "longest context": f"{found.max_context_tokens:,} tokens in a batch of {B:,}",
        "GPUs needed": f"{found.n_gpus_needed:,}",
        **speeds,
        "limited by": _LIMITS[found.limit],
    }


def size_in_words(n_bytes: float) -> str:
    """Return a size in the largest unit of which there is at least one: B, kB, MB, GB, TB, each 1,000 of the last."""
    for exponent, unit in ((12, "TB"), (9, "GB"), (6, "MB"), (3, "kB")):
        if n_bytes >= 10**exponent:
            return f"{n_bytes / 10**exponent:,.2f} {unit}"
    return f"{n_bytes:,.0f} B"


def with_attention(shape: ModelShape, attention: str | None) -> ModelShape:
    """Return the model with this kind of attention in every layer, all other sizes kept; None: the model as it is.

    MHA has a key/value head for each query head, MQA one for all. GQA has the model's own groups, or groups of four
    query heads where it has none. Each replaces latent attention. The projections to keys and values grow or shrink
    with their heads, so the weights change a little too.

    Raises:
        ValueError: an attention that does not exist, or query heads that do not make groups of four.

    Source: Shazeer 2019 (MQA), Ainslie 2023 (GQA).
    """
    if attention is None:
        return shape
    if str(attention).upper() not in ATTENTION_KINDS:
        raise ValueError(
            f"attention is {attention!r}; it must be {', '.join(ATTENTION_KINDS)}, or None: the model's own"
        )
    n_kv_heads = {"MHA": shape.n_heads, "GQA": _grouped_kv_heads(shape), "MQA": 1}[attention.upper()]
    if n_kv_heads is None:
        raise ValueError(f"attention is 'GQA' and n_heads {shape.n_heads}; it must be a multiple of {_QUERIES_A_GROUP}")
    return replace(shape, n_kv_heads=n_kv_heads, latent=None)


def attention_kind(shape: ModelShape) -> str:
    """Return "MLA" for latent attention, else "MHA", "GQA" or "MQA"."""
    if shape.latent is not None:
        return "MLA"
    if shape.n_kv_heads == shape.n_heads:
        return "MHA"
    return "MQA" if shape.n_kv_heads == 1 else "GQA"


def params_read(shape: ModelShape, batch_size: int = 1) -> float:
    """Return how many parameters one decode step of a batch reads, on average.

    Without experts those that it multiplies. The tokens of a batch choose different experts: if each chooses k of E
    evenly, an expert is left alone with probability (1 - k/E)^B, and all others are read.

    Raises:
        ValueError: batch_size not a whole number above 0.
    """
    require_count(1, batch_size=batch_size)
    experts = shape.experts
    if experts is None or experts.n_experts == experts.n_experts_per_token:
        return shape.n_multiplied_params
    E, k = experts.n_experts, experts.n_experts_per_token
    of_all = replace(shape, experts=replace(experts, n_experts_per_token=E)).n_multiplied_params
    n_read = E - expected_unused_experts(batch_size, E, k)
    return shape.n_multiplied_params + (of_all - shape.n_multiplied_params) * (n_read - k) / (E - k)


def _grouped_kv_heads(shape: ModelShape) -> int | None:
    if attention_kind(shape) == "GQA":
        return shape.n_kv_heads
    return None if shape.n_heads % _QUERIES_A_GROUP else shape.n_heads // _QUERIES_A_GROUP


def _together(hardware: Hardware, n: int) -> Hardware:
    return Hardware(
        name=hardware.name if n == 1 else f"{n} × {hardware.name}",
        memory_bytes=n * hardware.memory_bytes,
        bandwidth_bytes_per_second=n * hardware.bandwidth_bytes_per_second,
        peak_flops_per_second=n * hardware.peak_flops_per_second,
        dollars_per_hour=n * hardware.dollars_per_hour,
    )
