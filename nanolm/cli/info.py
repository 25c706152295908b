"""The tables of `nanolm info`: a model's shape, and the bytes of its weights and cache in each dtype."""

from pathlib import Path

from rich.table import Table
from safetensors import safe_open

from ..budget.memory import kv_bytes_per_token, weight_bytes
from ..budget.shapes import ModelShape
from ..checkpoint.gguf_blocks import GGUFFile
from ..kernels.compiled import NotCompiled
from ..kernels.products import products_backend
from ..model.decoder import NanoLM
from ..text.tokenizer import Tokenizer


def shape_table(name: str, path: Path, model: NanoLM, tokenizer: Tokenizer) -> Table:
    """Return a model's sizes as a table; `path` is where it is, as `find_model` says."""
    config, (n_bytes, numbers) = model.config, _stored(path)
    ends = ", ".join(repr(tokenizer.inner.id_to_token(token)) for token in config.eos_token_ids)
    rows = {
        "layers": f"L = {config.n_layers}",
        "model width": f"D = {config.d_model}",
        "heads": f"N = {config.n_heads} of queries, K = {config.n_kv_heads} of keys and values, H = {config.head_dim}",
        "feed-forward width": f"F = {config.d_ff}",
        **({"experts": f"E = {config.n_experts}, k = {config.experts_per_token} a token"} if config.n_experts else {}),
        "vocabulary": f"V = {config.vocab_size:,}",
        "embedding and head": "one matrix" if config.tie_embeddings else "a matrix each",
        "end tokens": ends or "none",
        "context": f"{config.max_positions:,} tokens",
        "parameters": f"{sum(weight.numel() for weight in model.parameters()):,}",
        "weights on disk": f"{n_bytes:,} bytes, {', '.join(numbers)}",
    }
    table = Table(title=name, show_header=False, title_justify="left", title_style="bold")
    for row in rows.items():
        table.add_row(*row)
    return table


def bytes_table(name: str, model: NanoLM) -> Table:
    """Return the bytes in memory by dtype; int8 and int4 without their scales."""
    config, context = model.config, model.config.max_positions
    sizes = "n_layers d_model n_heads n_kv_heads head_dim d_ff vocab_size tie_embeddings"
    shape = ModelShape(name, **{size: getattr(config, size) for size in sizes.split()})
    n_params = sum(weight.numel() for weight in model.parameters())
    caption = f"Products with codes on a CPU: {_who_computes()}"
    table = Table(title="Bytes in memory", title_justify="left", title_style="bold", caption=caption)
    for head in ("numbers", "weights", "cache, a token", f"cache, {context:,} tokens"):
        table.add_column(head, justify="left" if head == "numbers" else "right")
    for numbers, bits in (("float32", 32), ("float16, bfloat16", 16), ("int8", 8), ("int4", 4)):
        a_token = kv_bytes_per_token(shape, bits)
        table.add_row(numbers, *(f"{n:,}" for n in (weight_bytes(n_params, bits), a_token, a_token * context)))
    return table


def _who_computes() -> str:
    try:
        who, how = products_backend()
        return f"{who} ({how})"
    except NotCompiled as reason:
        return f"nobody, {reason}"


def _stored(path: Path) -> tuple[int, list[str]]:
    """The bytes of the file that holds the weights, and the kinds of numbers in it."""
    if path.is_file():
        return path.stat().st_size, sorted(set(GGUFFile(path).kinds.values()))
    file = path / "model.safetensors"
    with safe_open(file, "pt") as tensors:
        kinds = {tensors.get_slice(name).get_dtype() for name in tensors.keys()}  # noqa: SIM118
    return file.stat().st_size, sorted(kinds)
