"""Layers with different windows over one pool of blocks: who shares a block, and how many a text holds.

A block that held positions of all layers could be given back only when no layer sees them any more: one layer that
sees everything would keep the blocks of all. So layers are cut into groups of equally many layers with one window, and
a block holds its positions for the layers of *one* group. Each request has a block table for each group; the blocks
are all of one size and one pool, and what a window gives back serves any group of any request.

How many layers a group has follows: the largest number that divides how many layers have each window. With 20 layers
that see 1,024 positions and 4 that see all it is 4, so there are 6 groups; with 52 and 10 (Gemma 3 27B) 2, and 31.

Source: vLLM's hybrid KV cache manager (2025). Its groups are as large as the rarest kind of layer has members, and what
is missing to the last group of another kind is padding; here nothing is padded, and groups may be more.
"""

from collections import Counter
from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

from .._require import require_count
from ..paging.blocks import blocks_for


class LayerGroup(NamedTuple):
    """Layers that share blocks: layers[j] has the j-th tensor of the pool. Their window, or None: they see all."""

    window: int | None
    layers: tuple[int, ...]


class LayerGroups:
    """The layers of a model, cut into groups of equally many with one window.

    Args:
        windows: for each layer the positions that its queries see, their own among them; None for all.

    Attributes:
        size: layers of a group, and so tensors of the pool.
        groups: by window in the order of the first layer that has it, then by layer.
        places: for each layer its group and its number j in that.

    Raises:
        ValueError: no layers; a window that is not a whole number, 1 or more.
    """

    def __init__(self, windows: Sequence[int | None]) -> None:
        require_windows(windows)
        self.size = gcd(*Counter(windows).values())
        self.groups: list[LayerGroup] = []
        for window in dict.fromkeys(windows):
            layers = [layer for layer, each in enumerate(windows) if each == window]
            for start in range(0, len(layers), self.size):
                self.groups.append(LayerGroup(window, tuple(layers[start : start + self.size])))
        place = {layer: (i, j) for i, group in enumerate(self.groups) for j, layer in enumerate(group.layers)}
        self.places = [place[layer] for layer in range(len(windows))]

    @property
    def windows(self) -> list[int | None]:
        """The window of each group, in order."""
        return [group.window for group in self.groups]


def blocks_for_request(n_positions: int, windows: Sequence[int | None], block_size: int, chunk: int) -> int:
    """Return the most blocks that a text of n positions holds at one time, over all groups.

    A group that sees everything holds all positions. One with a window has to hold, while a pass writes T positions,
    those and the window - 1 before the first of them; and m positions in a row lie in ⌈(m - 1) / block_size⌉ + 1
    blocks at most, for they may begin in the middle of one. Between passes the blocks behind the window are given back
    (`GroupedTables.drop_behind`).

    Args:
        windows: of each group, None where it sees everything.
        chunk: most positions that a pass writes, drafted ones among them.

    Raises:
        ValueError: n_positions negative; a window, block_size or chunk below 1; or none of these a whole number.
    """
    require_count(0, n_positions=n_positions)
    require_count(1, block_size=block_size, chunk=chunk)
    require_windows(windows)
    whole = blocks_for(n_positions, block_size)
    spans = (window - 1 + chunk for window in windows if window is not None)
    return windows.count(None) * whole + sum(min(whole, blocks_for(span - 1, block_size) + 1) for span in spans)


def require_windows(windows: Sequence[int | None]) -> None:
    """Raise a ValueError unless there is a window, and each is None or a whole number, 1 or more."""
    if not windows:
        raise ValueError("windows is empty; it must have a number or None for each layer, or for each group of layers")
    require_count(1, **{f"windows[{i}]": window for i, window in enumerate(windows) if window is not None})
