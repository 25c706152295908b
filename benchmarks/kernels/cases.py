"""What `benchmarks.kernels` checks and times: inputs, what is right in float64, and what else computes the same.

Inputs of a check lie in larger tensors full of NaN, so that a kernel which reads beside them shows it in its result.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from nanolm.attention import paged_attention, prefill_attention
from nanolm.model import grouped_matmul
from nanolm.quantization import quantized_matmul

POISON_WIDTH = 2


@dataclass
class Case:
    """One kernel at one size.

    Attributes:
        run: the result, by "triton" or "torch".
        exact: the result in float64, from the definition.
        n_bytes: what must be read and written at least.
        n_operations: multiplications and additions.
        library: what torch offers for it, by name.
        inputs: the poisoned tensors around the inputs, and copies of them.
    """

    kernel: str
    numbers: str
    dtype: torch.dtype
    run: Callable[[str], Tensor]
    exact: Callable[[], Tensor]
    n_bytes: int
    n_operations: int
    library: dict[str, Callable[[], Tensor]]
    inputs: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def inputs_untouched(self) -> bool:
        """Return whether all inputs, and the poison around them, are as they were."""
        return all(torch.equal(now.view(torch.uint8), before.view(torch.uint8)) for now, before in self.inputs)


class Maker:
    """Makes cases of one dtype on one device; with `poisoned` their inputs are surrounded by NaN."""

    def __init__(self, device: str, dtype: torch.dtype, poisoned: bool) -> None:
        self.device, self.dtype, self.poisoned = device, dtype, poisoned
        self.generator = torch.Generator(device).manual_seed(0)
        self.inputs: list[tuple[Tensor, Tensor]] = []

    def case(self, kernel: str, numbers: str, **rest: object) -> Case:
        """Return the case with the inputs made since the last one."""
        inputs, self.inputs = self.inputs, []
        return Case(kernel, numbers, self.dtype, inputs=inputs, **rest)

    def floats(self, *shape: int) -> Tensor:
        """Return normal numbers."""
        return self.place(torch.randn(shape, generator=self.generator, device=self.device).to(self.dtype))

    def place(self, x: Tensor, poison: float = math.nan) -> Tensor:
        """Return x, in the middle of a larger tensor of poison where that is asked for."""
        if not self.poisoned:
            return x
        padded = torch.full([n + 2 * POISON_WIDTH for n in x.shape], poison, dtype=x.dtype, device=self.device)
        view = padded[tuple(slice(POISON_WIDTH, -POISON_WIDTH) for _ in x.shape)]
        view.copy_(x)
        self.inputs.append((padded, padded.clone()))
        return view


def prefill(make: Maker, B: int, N: int, K: int, T: int, S: int, H: int) -> Case:
    """T queries, the last of S positions."""
    q, k, v = make.floats(B, N, T, H), make.floats(B, K, S, H), make.floats(B, K, S, H)

    def sdpa() -> Tensor:
        if T == S:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=N != K)
        from torch.nn.attention.bias import causal_lower_right  # here, for it imports triton

        bias = causal_lower_right(T, S)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, enable_gqa=N != K)

    def exact() -> Tensor:
        seen = torch.ones(T, S, dtype=torch.bool, device=q.device).tril(S - T)
        heads = [(b, n) for b in range(B) for n in range(N)]  # one after the other: in float64 all would need much room
        return torch.stack([_softmax(q[b, n], k[b, n * K // N], v[b, n * K // N], seen) for b, n in heads]).view_as(q)

    return make.case(
        "prefill",
        f"{T}/{S}, H {H}",
        run=lambda backend: prefill_attention(q, k, v, backend=backend),
        exact=exact,
        n_bytes=(2 * q.numel() + 2 * k.numel()) * q.element_size(),
        n_operations=4 * B * N * H * (T * S - T * (T - 1) // 2),
        library={"SDPA": sdpa},
    )


def paged(make: Maker, lengths: list[int], N: int, K: int, H: int, block_size: int, n_splits: int) -> Case:
    """One query a row; the rows' blocks lie in the pool in no order."""
    B, M = len(lengths), -(-max(lengths) // block_size)
    n_blocks = B * M + 1
    pool = make.floats(2, K, n_blocks, block_size * H)
    order = torch.randperm(n_blocks, generator=make.generator, device=make.device)
    tables = make.place(order[: B * M].view(B, M).int(), n_blocks)  # which is poison
    filled, q = make.place(torch.tensor(lengths, dtype=torch.int32, device=make.device), 1), make.floats(B, N, 1, H)
    k, v = (half[:, tables.long()].view(K, B, M * block_size, H).transpose(0, 1).contiguous() for half in pool)
    folded = q.reshape(B, K, N // K, H)

    def exact() -> Tensor:
        rows = [
            _softmax(q[b, n], k[b, n * K // N, :length], v[b, n * K // N, :length])
            for b, length in enumerate(lengths)
            for n in range(N)
        ]
        return torch.stack(rows).view_as(q)

    mask = (torch.arange(M * block_size, device=make.device) < filled[:, None])[:, None, None]
    return make.case(
        "decode",
        f"{B}×{max(lengths)}, {n_splits} split{'s' if n_splits > 1 else ''}",
        run=lambda backend: paged_attention(q, *pool, tables, filled, n_splits, backend=backend),
        exact=exact,
        n_bytes=(2 * sum(lengths) * K * H + 2 * q.numel()) * q.element_size(),
        n_operations=4 * sum(lengths) * N * H,
        library={"SDPA, gathered before": lambda: F.scaled_dot_product_attention(folded, k, v, attn_mask=mask)},
    )


def quantized(make: Maker, n_rows: int, out: int, D: int, bits: int, group_size: int | None) -> Case:
    """A few rows times packed weights; group_size None is a scale a row."""
    shape, G = (out, D * bits // 8), D // (group_size or D)
    low, high, dtype = (-127, 128, torch.int8) if bits == 8 else (0, 256, torch.uint8)
    codes = torch.randint(low, high, shape, generator=make.generator, device=make.device).to(dtype)
    scales = torch.rand(out, G, generator=make.generator, device=make.device).add(0.5).div(2**bits).bfloat16()
    numbers = codes if bits == 8 else torch.stack([codes % 16, codes // 16], dim=-1).flatten(1).to(torch.int8) - 8
    weights = numbers.double() * scales.double().repeat_interleave(D // G, dim=1)
    x, codes, scales = make.floats(n_rows, D), make.place(codes, 77), make.place(scales)
    floats = weights.to(make.dtype)
    return make.case(
        f"int{bits}",
        f"{n_rows}×{D}×{out}" + (f"/{group_size}" if group_size else ""),
        run=lambda backend: quantized_matmul(x, codes, scales, bits, backend=backend),
        exact=lambda: x.double() @ weights.T,
        n_bytes=codes.nbytes + scales.nbytes + (x.numel() + n_rows * out) * x.element_size(),
        n_operations=2 * n_rows * out * D,
        library={"F.linear, not packed": lambda: F.linear(x, floats)},
    )


def grouped(make: Maker, P: int, E: int, F_: int, D: int, idle: int) -> Case:
    """P rows over E experts by chance, of which the last `idle` get none."""
    experts = torch.randint(E - idle, (P,), generator=make.generator, device=make.device)
    counts = experts.bincount(minlength=E)
    offsets = make.place(torch.cat([counts.new_zeros(1), counts.cumsum(0)]), 0)
    x, weights = make.floats(P, D), make.floats(E, F_, D)
    chosen = experts.sort().values
    return make.case(
        "experts",
        f"{P} rows, E {E}",
        run=lambda backend: grouped_matmul(x, weights, offsets, backend=backend),
        exact=lambda: torch.stack(
            [weights[e].double() @ row for e, row in zip(chosen.tolist(), x.double(), strict=True)]
        ),
        n_bytes=(int((counts > 0).sum()) * F_ * D + x.numel() + P * F_) * x.element_size(),
        n_operations=2 * P * F_ * D,
        library={"F.linear, one expert": lambda: F.linear(x, weights[0])},
    )


def _softmax(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None = None) -> Tensor:
    scores = q.double() @ k.double().T / math.sqrt(q.shape[-1])
    if seen is not None:
        scores.masked_fill_(~seen, -math.inf)
    return torch.softmax(scores, dim=-1) @ v.double()


def to_check(make: Maker) -> list[Case]:
    """Return small cases with every edge: one position, no past and some, tiles half full, idle experts."""
    return [
        prefill(make, 1, 4, 4, 1, 1, 16),
        prefill(make, 2, 4, 2, 67, 67, 24),
        prefill(make, 1, 4, 1, 33, 130, 64),
        paged(make, [1, 33, 130], 4, 2, 24, 16, 4),
        paged(make, [7], 4, 4, 64, 5, 9),
        quantized(make, 1, 40, 96, 8, None),
        quantized(make, 5, 33, 320, 8, 32),
        quantized(make, 1, 40, 96, 4, None),
        quantized(make, 5, 33, 320, 4, 32),
        grouped(make, 1, 8, 24, 40, 2),
        grouped(make, 70, 5, 70, 40, 1),
    ]


def to_time(make: Maker, quick: bool) -> list[Case]:
    """Return the cases whose time is told: an 8-billion Llama's heads and widths, and 64 experts."""
    S = 1024 if quick else 8192
    return [
        prefill(make, 1, 32, 8, S, S, 128),
        prefill(make, 1, 32, 8, 512, S, 128),
        *[paged(make, [S] * B, 32, 8, 128, 16, splits) for B, splits in ((1, 1), (1, 16), (1, 64), (16, 1), (16, 4))],
        *[quantized(make, n, 4096, 4096, 8, None) for n in (1, 8)],
        *[quantized(make, n, 4096, 4096, 4, 128) for n in (1, 8)],
        quantized(make, 1, 14336, 4096, 4, 128),
        *[grouped(make, P, 64, 1408, 2048, 0) for P in (8, 128, 4096)],
    ]
