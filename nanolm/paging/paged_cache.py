"""The tensors of a paged cache: keys and values in blocks that any request may hold, read by block table.

It knows no requests: the caller says into which slots new positions go and which blocks a row reads (`blocks` keeps
those books). A kernel follows the table while it attends: `attention.paged` on a GPU, `kernels.cpu_attention` where
there is a C compiler. Elsewhere, and for prompts, blocks are gathered first, then attended to like any other cache. A
gather copies what attention would have read anyway, so it costs about as much again.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .._require import require_whole
from ..config import ModelConfig
from ..quantization.absmax import dequantize, quantize
from ..quantization.float8 import FLOAT8, saturated

_SCALE_DTYPE = torch.bfloat16
_NO_MEMORY = ("allocate", "out of memory", "Storage size")  # in torch's words, on a CPU, on a GPU, beyond 64 bits


class Scratch:
    """Memory that the layers of a pass gather into one after the other, each over what the last one left there.

    Taken anew for every layer, 8 MB and more cost several times the gather: the system has to clear the memory first.
    """

    def __init__(self) -> None:
        self._given: dict[tuple[tuple[int, ...], torch.dtype], Tensor] = {}

    def room(self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
        """Return a tensor of any content: always the same one for the same shape and dtype."""
        given = self._given.get((shape, dtype))
        if given is None:
            given = self._given[shape, dtype] = torch.empty(shape, dtype=dtype, device=device)
        return given


class PagedKVCache:
    """Keys and values of a pool of blocks.

    Attributes:
        pools: a list with one (2, K, n_blocks, block_size · H) tensor a layer, keys first, then values. A block's
            numbers of one head lie side by side, so that a gather moves whole blocks.
    """

    def __init__(
        self,
        config: ModelConfig,
        n_blocks: int,
        block_size: int = 16,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        require_whole(1, n_blocks=n_blocks, block_size=block_size)
        self.n_blocks, self.block_size = n_blocks, block_size
        (self.n_kv_heads, self.head_dim), self.dtype = self._heads(config), dtype
        # Zeros, not empty: places that a mask hides are multiplied by 0 all the same, and 0 · NaN is NaN.
        self.pools = [self._pool(self.head_dim, self._stored_dtype, device) for _ in range(config.n_layers)]

    def _heads(self, config: ModelConfig) -> tuple[int, int]:
        """How many heads are kept of a token and layer, and how many numbers each has."""
        return config.n_kv_heads, config.head_dim

    @property
    def is_plain(self) -> bool:
        """Whether `pools` hold the numbers themselves, as a kernel reads them, and not codes."""
        return self._stored_dtype is self.dtype

    @property
    def is_read_by_library(self) -> bool:
        """Whether `pools`, and `scales_of` beside them, are what `kernels.cpu_attention` reads."""
        return self.is_plain

    def scales_of(self, layer: int) -> Tensor | None:
        """Return the scales of a layer's codes, (2, K, n_blocks, block_size); None where there are no codes."""
        return None

    @property
    def _stored_dtype(self) -> torch.dtype:
        return self.dtype

    def _pool(self, numbers: int, dtype: torch.dtype, device: torch.device | str) -> Tensor:
        return self._zeros((2, self.n_kv_heads, self.n_blocks, self.block_size * numbers), dtype, device)

    def _zeros(self, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device | str) -> Tensor:
        """Return a layer's pool; raise a ValueError where there is no memory for it."""
        try:
            return torch.zeros(shape, dtype=dtype, device=device)
        except (RuntimeError, TypeError) as error:  # torch's TypeError: a size beyond 64 bits
            if isinstance(error, RuntimeError) and not any(word in str(error) for word in _NO_MEMORY):
                raise
            needed = math.prod(shape) * dtype.itemsize / 1e9
            raise ValueError(
                f"n_blocks is {self.n_blocks}; a layer's keys and values would take {needed:.3g} GB, which is more "
                "memory than there is: give fewer blocks, or fewer bytes for them"
            ) from None

    @property
    def _tensors(self) -> list[Tensor]:
        return self.pools

    @property
    def block_bytes(self) -> int:
        """Bytes of one block, all layers: 2 · L · K · block_size · H · bytes a number."""
        return self.allocated_bytes // self.n_blocks

    @property
    def allocated_bytes(self) -> int:
        """Bytes of the whole pool."""
        return sum(t.nbytes for t in self._tensors)

    def write(self, layer: int, k: Float[Tensor, "K n H"], v: Float[Tensor, "K n H"], slots: Int[Tensor, "n"]) -> None:
        """Store the keys and values of n positions, of whatever requests, each in its slot."""
        keys, values = self.pools[layer].view(2, self.n_kv_heads, -1, self.head_dim).unbind()  # (K, slots, H) each
        keys.index_copy_(1, slots, k)
        values.index_copy_(1, slots, v)

    def read(
        self, layer: int, tables: Int[Tensor, "B blocks"], scratch: Scratch | None = None
    ) -> tuple[Float[Tensor, "B K S H"], Float[Tensor, "B K S H"]]:
        """Return keys and values of each row's blocks in order, S = blocks · block_size positions.

        A row with fewer blocks is filled up with one of its own; the caller masks what lies behind the row's positions.

        Args:
            scratch: where they are gathered, to be overwritten by the next read; None takes new memory.
        """
        keys, values = self._gather(self.pools[layer], tables, scratch).unbind()
        return keys, values

    def _gather(self, pool: Tensor, tables: Tensor, scratch: Scratch | None) -> Tensor:
        """What the pool has of the tables' positions: (2, B, K, S, numbers a position); a latent cache has no 2."""
        (both, heads, _, numbers), (B, blocks) = pool.shape, tables.shape
        room = scratch and scratch.room((both, heads, B * blocks, numbers), pool.dtype, pool.device)
        found = torch.index_select(pool, 2, tables.flatten(), out=room)
        return found.view(both, heads, B, blocks * self.block_size, -1).transpose(1, 2)

    def copy_blocks(self, copies: list[tuple[int, int]]) -> None:
        """Copy whole blocks, (from, to) one after the other, in all layers."""
        for source, target in copies:
            for pool in self._tensors:
                pool[:, :, target] = pool[:, :, source]

    def clear_blocks(self, blocks: list[int]) -> None:
        """Fill blocks with zeros: what a NaN has touched must not reach the next holder through a mask."""
        for pool in self._tensors:
            pool[:, :, blocks] = 0


class Int8PagedKVCache(PagedKVCache):
    """A paged cache of int8 codes with one scale for each head of each position: H + 2 bytes in place of 2H or 4H.

    The codes are those of `Int8KVCache`: a number comes back off by at most half its scale.

    Attributes:
        scale_pools: a list with one bfloat16 (2, K, n_blocks, block_size) tensor a layer.
    """

    def __init__(
        self,
        config: ModelConfig,
        n_blocks: int,
        block_size: int = 16,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(config, n_blocks, block_size, dtype, device)
        self.scale_pools = [self._pool(1, _SCALE_DTYPE, device) for _ in self.pools]

    @property
    def is_read_by_library(self) -> bool:
        """True: it widens codes as it goes."""
        return True

    def scales_of(self, layer: int) -> Tensor:
        """As PagedKVCache.scales_of."""
        return self.scale_pools[layer]

    @property
    def _stored_dtype(self) -> torch.dtype:
        return torch.int8

    @property
    def _tensors(self) -> list[Tensor]:
        return [*self.pools, *self.scale_pools]

    def write(self, layer: int, k: Float[Tensor, "K n H"], v: Float[Tensor, "K n H"], slots: Int[Tensor, "n"]) -> None:
        """As PagedKVCache.write, through codes: each head of each position is a row with a scale of its own.

        A row that holds NaN or infinity gets the scale NaN and comes back as NaN: its request will be found out by its
        logits, and the others' rows are written all the same.
        """
        both = torch.stack([k, v])  # (2, K, n, H)
        finite = both.isfinite().all(dim=-1, keepdim=True)
        codes, scales = quantize(torch.where(finite, both, 0.0), 8, scale_dtype=_SCALE_DTYPE)
        scales = torch.where(finite, scales, float("nan"))
        self.pools[layer].view(2, self.n_kv_heads, -1, self.head_dim).index_copy_(2, slots, codes)
        self.scale_pools[layer].view(2, self.n_kv_heads, -1, 1).index_copy_(2, slots, scales)

    def read(
        self, layer: int, tables: Int[Tensor, "B blocks"], scratch: Scratch | None = None
    ) -> tuple[Tensor, Tensor]:
        """As PagedKVCache.read; what comes back is what the codes stand for."""
        codes = self._gather(self.pools[layer], tables, scratch)
        scales = self._gather(self.scale_pools[layer], tables, scratch)
        if scratch is None:
            keys, values = dequantize(codes, scales).to(self.dtype)
        else:  # the same product, and no memory taken for it
            room = scratch.room(codes.shape, torch.float32, codes.device)
            keys, values = room.copy_(codes).mul_(scales).to(self.dtype)
        return keys, values


class Float8PagedKVCache(PagedKVCache):
    """A paged cache of 8-bit floats (E4M3), as `Float8KVCache`: a byte a number, numbers beyond ±448 held at ±448."""

    @property
    def _stored_dtype(self) -> torch.dtype:
        return FLOAT8

    @property
    def _tensors(self) -> list[Tensor]:
        return [pool.view(torch.uint8) for pool in self.pools]  # few operations know 8-bit floats; bytes are bytes

    def write(self, layer: int, k: Float[Tensor, "K n H"], v: Float[Tensor, "K n H"], slots: Int[Tensor, "n"]) -> None:
        """As PagedKVCache.write; each number is rounded to 4 significant binary digits."""
        places = self._tensors[layer].view(2, self.n_kv_heads, -1, self.head_dim)
        for of, new in zip(places, (k, v), strict=True):
            of.index_copy_(1, slots, saturated(new).view(torch.uint8))

    def read(
        self, layer: int, tables: Int[Tensor, "B blocks"], scratch: Scratch | None = None
    ) -> tuple[Tensor, Tensor]:
        """As PagedKVCache.read, widened to the model's dtype."""
        codes = self._gather(self._tensors[layer], tables, scratch).view(FLOAT8)
        room = scratch and scratch.room(codes.shape, self.dtype, codes.device)
        keys, values = codes.to(self.dtype) if room is None else room.copy_(codes)
        return keys, values
