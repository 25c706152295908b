"""A KV cache whose rows have lengths of their own."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from ..config import ModelConfig
from .contiguous import KVCache


class RaggedKVCache(KVCache):
    """A KV cache whose rows have lengths of their own: unequal prompts, or drafts accepted to different depths.

    Row b's tokens stand at positions 0 … lengths[b] - 1 of its row. What a pass writes beyond a row's own tokens
    (padding on the right) is masked while it is there and overwritten by the row's next tokens.

    Attributes:
        lengths: cached positions of each row, a list of B ints; `length` is the largest.
    """

    def __init__(
        self,
        config: ModelConfig,
        batch_size: int = 1,
        capacity: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(config, batch_size, capacity, dtype, device)
        self._masks: dict[int, Tensor] = {}
        self._set([0] * batch_size)
        K, device = config.n_kv_heads, self.keys[0].device
        self._rows = torch.arange(batch_size, device=device)[:, None, None]  # (B, 1, 1)
        self._heads = torch.arange(K, device=device)[None, :, None]  # (1, K, 1)

    @property
    def offset(self) -> Tensor:
        """Return the position of each row's next token, (B,)."""
        return self._offset

    @property
    def nbytes(self) -> int:
        """Bytes that the rows' own tokens occupy."""
        return self.allocated_bytes * sum(self.lengths) // (self.capacity * self.batch_size)

    def update(
        self, layer: int, k: Float[Tensor, "B K T H"], v: Float[Tensor, "B K T H"]
    ) -> tuple[Float[Tensor, "B K S H"], Float[Tensor, "B K S H"]]:
        """As KVCache.update, row b's positions starting at lengths[b]; S is the longest row + T."""
        end, places = self._end_of(k, v), self._places(k.shape[2])
        for all_of, new in ((self.keys[layer], k), (self.values[layer], v)):
            all_of[places] = new.detach().to(all_of.dtype)  # unlike a slice, an index of tensors converts nothing
        return self.keys[layer][:, :, :end], self.values[layer][:, :, :end]

    def advance(self, n: int | list[int]) -> None:
        """Count n more positions of every row as cached, or n[b] of row b."""
        steps = [n] * self.batch_size if isinstance(n, int) else n
        if len(steps) != self.batch_size or min(steps) < 0:
            raise ValueError(f"n is {n}; one count of 0 or more is needed for each of {self.batch_size} rows")
        lengths = [length + step for length, step in zip(self.lengths, steps, strict=True)]
        self._need_room(max(lengths))
        self._set(lengths)

    def truncate(self, length: int | list[int]) -> None:
        """Forget all but the first length[b] positions of row b (one int: of every row that is longer)."""
        if isinstance(length, int):
            length = [min(length, now) for now in self.lengths]
        if len(length) != self.batch_size or not all(
            0 <= new <= now for new, now in zip(length, self.lengths, strict=True)
        ):
            raise ValueError(f"length is {length}; the rows hold {self.lengths} positions, and no row can grow")
        self._set(length)

    def mask(self, T: int) -> Bool[Tensor, "B 1 T S"]:
        """Return the mask of T new positions a row, (B, 1, T, S): row b's query t sees its keys 0 … lengths[b] + t."""
        if T not in self._masks:  # one for all layers of a pass
            self._masks[T] = self._mask(T, self.length + T)
        return self._masks[T]

    def _mask(self, T: int, S: int) -> Bool[Tensor, "B 1 T S"]:
        device = self.keys[0].device
        queries = self._offset[:, None] + torch.arange(T, device=device)  # (B, T)
        return (torch.arange(S, device=device) <= queries[..., None]).unsqueeze(1)

    def _places(self, T: int) -> tuple[slice | Tensor, ...]:
        positions = self._offset[:, None, None] + torch.arange(T, device=self._offset.device)  # (B, 1, T)
        return self._rows, self._heads, positions

    def _set(self, lengths: list[int]) -> None:
        self.lengths, self.length = list(lengths), max(lengths)
        self._offset = torch.tensor(self.lengths, device=self.keys[0].device)
        self._masks.clear()
