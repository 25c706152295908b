"""The tensors behind block tables for groups of layers."""

import torch

from ..cache.kinds import CacheKind, cache_classes
from ..config import ModelConfig
from ..paging.paged_cache import PagedKVCache
from .layer_groups import LayerGroups


def grouped_paged_cache(
    config: ModelConfig,
    groups: LayerGroups,
    n_blocks: int,
    block_size: int = 16,
    cache_kind: CacheKind = "float",
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> PagedKVCache:
    """Return a pool of blocks, each of which holds block_size positions for the layers of one group.

    It has as many tensors as a group has layers, `groups.size`; layer `groups.places[i]` is (group, number in it) of
    layer i of the model. With as many bytes it has as many times more blocks than a pool for all layers as there are
    groups. Whose group a block is for only the block tables know (`GroupedTables`): copying and clearing blocks is as
    in any other pool.

    Args:
        cache_kind: as for `cache_classes`.

    Raises:
        ValueError: groups of another number of layers than config's; what the pool refuses.
    """
    if len(groups.places) != config.n_layers:
        raise ValueError(f"groups has {len(groups.places)} layers; the model has {config.n_layers}")
    return cache_classes(cache_kind).paged(config.with_layers(groups.size), n_blocks, block_size, dtype, device)
