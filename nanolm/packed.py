"""One pass over the tokens of many requests, packed one behind the other: whole prompts, parts of them, single tokens.

A batch in rows would pad every row to the longest: one prompt of 200 tokens beside 31 requests that write one token
each would run 6,400 positions for 231. Packed, the 231 tokens are the rows of one matrix, which is all that the linear
layers want. Only attention has to know whose token is whose; it takes the requests with equally many tokens together.

(Yu 2022, "Orca", section 4.2, calls this selective batching.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .attention import attend
from .kernels import paged_attention
from .kernels.choice import computes
from .model import NanoLM
from .paged_cache import PagedKVCache
from .rope import rotary_table

# Ranges of a text that a GPU works on side by side; one token of few requests would leave it idle. Always as many,
# though few texts would like more: the order in which a text's sums are taken must not depend on who else is served.
_N_SPLITS = 4


@dataclass(frozen=True)
class Span:
    """One request's part of a pass.

    Attributes:
        tokens: the T tokens to run, T at least 1.
        past: its positions in the cache, which come before them.
        blocks: where its past + T positions lie, in order.
        n_scored: scores are wanted behind the last n_scored tokens; 0 for a part of a prompt that is not the end.
    """

    tokens: Sequence[int]
    past: int
    blocks: Sequence[int]
    n_scored: int = 1


@dataclass(frozen=True)
class _Group:
    """Neighbouring requests with T tokens each: rows start … stop - 1 of the packed tokens."""

    start: int
    stop: int
    T: int
    S: int  # positions of the longest, this pass included
    tables: Int[Tensor, "B blocks"]
    lengths: Int[Tensor, "B"]  # of each, this pass included
    mask: Float[Tensor, "B 1 T S"] | None


@dataclass(frozen=True)
class PackedBatch:
    """The tensors of a pass, made once and used by every layer. Scored rows are in the order of the spans."""

    tokens: Int[Tensor, "n"]
    positions: Int[Tensor, "n"]
    slots: Int[Tensor, "n"]
    scored: Int[Tensor, "scored"]
    groups: list[_Group]
    n_positions: int  # of the longest request


def pack(spans: Sequence[Span], block_size: int, device: torch.device | str, dtype: torch.dtype) -> PackedBatch:
    """Return the batch of one pass over all spans, at least one, sorted so that equally many tokens are neighbours."""
    order = sorted(range(len(spans)), key=lambda i: len(spans[i].tokens))
    tokens, positions, slots, groups, ends = [], [], [], [], {}
    for T, equally_long in groupby(order, key=lambda i: len(spans[i].tokens)):
        members, start = list(equally_long), len(tokens)
        for i in members:
            span, where = spans[i], range(spans[i].past, spans[i].past + T)
            tokens += span.tokens
            positions += where
            slots += [span.blocks[p // block_size] * block_size + p % block_size for p in where]
            ends[i] = len(tokens)
        groups.append(_group([spans[i] for i in members], start, len(tokens), block_size, device, dtype))
    scored = [row for i, span in enumerate(spans) for row in range(ends[i] - span.n_scored, ends[i])]
    # One transfer for the four of them: on a GPU each costs more than the numbers in it.
    numbers = torch.tensor([*tokens, *positions, *slots, *scored]).to(device)
    n = len(tokens)
    return PackedBatch(
        *numbers.split([n, n, n, len(scored)]), groups, max(span.past + len(span.tokens) for span in spans)
    )


def _group(
    spans: list[Span], start: int, stop: int, block_size: int, device: torch.device | str, dtype: torch.dtype
) -> _Group:
    T = len(spans[0].tokens)
    pasts = [span.past for span in spans]
    S = max(pasts) + T
    n_blocks = -(-S // block_size)
    # Filled up with a block of the row's own: what another row's block holds, a NaN perhaps, would pass the mask.
    filled_up = [(*span.blocks[:n_blocks], *span.blocks[:1] * (n_blocks - len(span.blocks))) for span in spans]
    tables = torch.tensor(filled_up)
    mask = None
    if min(pasts) < max(pasts):  # else the rows see alike, and `attend` knows what a causal pass sees
        last_seen = torch.tensor(pasts)[:, None] + torch.arange(T)  # (B, T)
        hidden = torch.arange(S) > last_seen[..., None]  # (B, T, S)
        mask = torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, float("-inf")).unsqueeze(1).to(device)
    lengths = torch.tensor(pasts) + T
    return _Group(start, stop, T, S, tables.to(device), lengths.to(device), mask)


@torch.inference_mode()
def packed_forward(model: NanoLM, batch: PackedBatch, cache: PagedKVCache) -> Float[Tensor, "scored V"]:
    """Return the scores behind every scored token; the keys and values of all tokens are written to the cache.

    This is `NanoLM.forward` with the tokens of all requests as the rows of one matrix. Row by row it computes what a
    request alone would get, up to the order in which sums are taken.
    """
    N, K, H = model.config.n_heads, model.config.n_kv_heads, model.config.head_dim
    x = model.embedding(batch.tokens.unsqueeze(0))  # (1, n, D), to the layers one row of n positions
    cos, sin = rotary_table(H, model.config.rope_theta, batch.n_positions, x.dtype, x.device)
    cos, sin = cos[batch.positions].unsqueeze(1), sin[batch.positions].unsqueeze(1)  # (n, 1, H)
    for index, layer in enumerate(model.layers):
        heads = layer.attention.qkv(layer.attention_norm(x)).view(-1, N + 2 * K, H)
        rotated = heads[:, : N + K]
        rotated = torch.addcmul(rotated * cos, rotated.roll(H // 2, dims=-1), sin)  # apply_rope, with positions apart
        cache.write(index, rotated[:, N:], heads[:, N + K :], batch.slots)
        x = x + layer.attention.out(_attend(rotated[:, :N], batch.groups, index, cache))
        x = x + layer.feedforward(layer.feedforward_norm(x))
    return model.head(model.norm(x[:, batch.scored]))[0]


def _attend(q: Float[Tensor, "n N H"], groups: list[_Group], layer: int, cache: PagedKVCache) -> Float[Tensor, "n NH"]:
    outputs = []
    for group in groups:
        rows = q[group.start : group.stop].unflatten(0, (-1, group.T)).transpose(1, 2)  # (B, N, T, H)
        if group.T == 1 and cache.is_plain and computes(None, q=q, tables=group.tables):
            # The kernel follows the tables itself, so nothing is gathered.
            attended = paged_attention(rows, *cache.pools[layer], group.tables, group.lengths, _N_SPLITS)
        else:
            k, v = (x[:, :, : group.S] for x in cache.read(layer, group.tables))  # (B, K, S, H)
            attended = attend(rows, k, v, group.mask)
        outputs.append(attended.transpose(1, 2).reshape(group.stop - group.start, -1))
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)
