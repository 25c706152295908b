"""The command `nanolm info`: a model's shape, and the bytes of its weights and cache in each kind of number.

The weights themselves are not read: what they take is worked out from the configuration, as the engine keeps them.
"""

from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from .options import BAD_MODEL, MACHINE, Json, WeightKind, one_line, print_json

if TYPE_CHECKING:
    from ..checkpoint.weight_layout import Source
    from ..config import ModelConfig

_KINDS = ("float32", "bfloat16", "int8", "int4")

Model = Annotated[str, typer.Argument(help="The model to look at.")]
KV = Annotated[
    Literal["float", "int8", "float8"],
    typer.Option("--kv", help="Numbers in the KV cache; float is what the model computes in.", rich_help_panel=MACHINE),
]


def info(model: Model = "target", weights: WeightKind = None, kv: KV = "float", as_json: Json = False) -> None:
    """Show a model's shape, and the bytes of its weights and cache in memory; --weights shows one kind alone."""
    with one_line(BAD_MODEL):
        from ..checkpoint.loading import opened

        with opened(model) as source:
            kinds = [weights] if weights else _KINDS
            if as_json:
                sizes = {kind: bytes_in_memory(source.config, kind, kv) for kind in kinds}
                return print_json({"model": model, **shape_rows(source), "bytes_in_memory": sizes})
            Console().print(shape_table(model, source), bytes_table(source.config, kinds, kv))


def shape_table(name: str, source: "Source") -> Table:
    """Return a model's sizes as a table."""
    table = Table(title=name, show_header=False, title_justify="left", title_style="bold")
    for row in shape_rows(source).items():
        table.add_row(*row)
    return table


def shape_rows(source: "Source") -> dict[str, str]:
    """Return a model's sizes in words, by name."""
    config = source.config
    id_to_token = source.tokenizer.inner.id_to_token
    start = "none" if config.bos_token_id is None else repr(id_to_token(config.bos_token_id))
    return {
        "layers": f"L = {config.n_layers}",
        "model width": f"D = {config.d_model}",
        "heads": f"N = {config.n_heads} of queries, K = {config.n_kv_heads} of keys and values, H = {config.head_dim}",
        "feed-forward width": f"F = {config.d_ff}",
        **({"experts": f"E = {config.n_experts}, k = {config.experts_per_token} a token"} if config.n_experts else {}),
        "vocabulary": f"V = {config.vocab_size:,}",
        "embedding and head": "one matrix" if config.tie_embeddings else "a matrix each",
        "start token": start,
        "end tokens": ", ".join(repr(id_to_token(token)) for token in config.eos_token_ids) or "none",
        "context": f"{config.max_positions:,} tokens",
        **besides(config),
        "parameters": f"{n_params(config):,}",
        "weights on disk": f"{source.stored_bytes:,} bytes, {', '.join(sorted(set(source.kinds.values())))}",
    }


def besides(config: "ModelConfig") -> dict[str, str]:
    """Return what the model has besides a plain Llama, by name; nothing for a plain one."""
    latent, scaling = config.latent, config.rope_scaling
    windows = sorted({w for w in config.windows if w is not None})
    seen = f"{', '.join(map(str, windows))} positions in {sum(w is not None for w in config.windows)} layers"
    parts = {
        "queries, keys, values": config.qkv_bias,
        "attention's output": config.out_bias,
        "feed-forward": config.mlp_bias,
    }
    biases = [name for name, is_there in parts.items() if is_there]
    return {
        **({"positions": f"{scaling.kind}, from {scaling.original:,}"} if scaling else {}),
        **({"windows": seen} if windows else {}),
        **({"biases": ", ".join(biases)} if biases else {}),
        **(
            {"norms of queries and keys": {"head": "each head", "all": "all heads"}[config.qk_norm]}
            if config.qk_norm
            else {}
        ),
        **({"latent attention": f"C = {latent.kv_latent_dim}, R = {latent.rotary_dim}"} if latent else {}),
        **({"shared expert": f"F = {config.d_ff_shared}"} if config.d_ff_shared else {}),
        **({"layers without experts": ", ".join(map(str, config.dense_layers))} if config.dense_layers else {}),
    }


def n_params(config: "ModelConfig") -> int:
    """Return how many parameters a model has; a matrix used twice (a tied head) counts once."""
    from ..checkpoint.memory import resident_bytes

    return resident_bytes(config, "float32") // 4


def bytes_table(config: "ModelConfig", kinds: "list[str] | tuple[str, ...]", kv: str) -> Table:
    """Return the bytes in memory by kind of number as the engine keeps them: codes with scales, the rest floats."""
    context = config.max_positions
    caption = f"Products with codes on a CPU: {_who_computes()}"
    table = Table(title="Bytes in memory", title_justify="left", title_style="bold", caption=caption)
    for head in ("numbers", "weights", "while loading", "cache, a token", f"cache, {context:,} tokens"):
        table.add_column(head, justify="left" if head == "numbers" else "right")
    for kind in kinds:
        sizes = bytes_in_memory(config, kind, kv).values()
        table.add_row("16-bit floats" if kind == "bfloat16" else kind, *(f"{n:,}" for n in sizes))
    return table


def bytes_in_memory(config: "ModelConfig", kind: str, kv: str) -> dict[str, int]:
    """Return the bytes of weights, of weights while they are loaded, of a token's cache and of a whole context's."""
    from ..checkpoint.memory import loading_bytes, resident_bytes

    a_token = cache_bytes_per_token(config, kind, kv)
    return {
        "weights": resident_bytes(config, kind),
        "while_loading": loading_bytes(config, kind),
        "cache_of_a_token": a_token,
        "cache_of_a_context": a_token * config.max_positions,
    }


def _who_computes() -> str:
    from ..kernels.compiled import NotCompiled
    from ..kernels.products import products_backend

    try:
        who, how = products_backend()
        return f"{who} ({how})"
    except NotCompiled as reason:
        return f"nobody, {reason}"


def cache_bytes_per_token(config: "ModelConfig", weights: str, kv: str) -> int:
    """Return the bytes of a token's keys and values in all layers; beside codes for weights, floats are float32."""
    if config.latent is not None:  # one vector and one rotary key, in the numbers that the model computes in
        numbers = config.n_layers * (config.latent.kv_latent_dim + config.latent.rotary_dim)
        return numbers * (2 if weights in ("bfloat16", "float16") else 4)
    heads = 2 * config.n_layers * config.n_kv_heads
    a_head = {"float8": config.head_dim, "int8": config.head_dim + 2}  # 2: a scale
    return heads * a_head.get(kv, config.head_dim * (2 if weights in ("bfloat16", "float16") else 4))
