"""One layer's latent attention: project, rotate, let the cache attend, project back."""

from functools import partial

from jaxtyping import Float
from torch import Tensor, nn

from ..attention import dot_product
from ..attention.rope import Offset, apply_rope
from ..budget.shapes import LatentAttention
from ..cache.attending import AttendingCache
from ..config import ModelConfig
from ..model.norm import RMSNorm
from .attention import absorbed_attention, latent_multiplications, naive_attention
from .cache import MLACache

from course import NotYetWritten


class MLA(nn.Module):
    """One layer's latent attention; takes the place of `Attention` in a model, and an MLACache that of its cache.

    Args:
        config: d_model, n_heads, head_dim (H, the part of a key without position), rope_theta and norm_eps count;
            there are no key/value heads to choose.
        latent: the sizes C, R and U, and the length of the queries' own latent vector, 0 for none.
        layer: its number, from 0.

    Raises:
        ValueError: an odd rotary_dim.
    """

    def __init__(self, config: ModelConfig, latent: LatentAttention, layer: int) -> None:
        super().__init__()
        if latent.rotary_dim % 2:
            raise ValueError(
                f"rotary_dim is {latent.rotary_dim}; rotary positions turn pairs of numbers: it must be even"
            )
        self.layer, self.theta, self.latent = layer, config.rope_theta, latent
        self.n_heads, self.head_dim = config.n_heads, config.head_dim
        D, N, H = config.d_model, config.n_heads, config.head_dim
        C, R, U = latent.kv_latent_dim, latent.rotary_dim, latent.value_dim
        self.q = projection_through(D, N * (H + R), latent.q_latent_dim, config.norm_eps)
        self.down = nn.Linear(D, C + R, bias=False)
        self.norm = RMSNorm(C, config.norm_eps)
        self.up = nn.Linear(C, N * (H + U), bias=False)
        self.out = nn.Linear(N * U, D, bias=False)

    def up_projections(self) -> tuple[Float[Tensor, "N H C"], Float[Tensor, "N U C"]]:
        """Return each head's way from the latent vector to its key and to its value: two views of one matrix."""
        heads = self.up.weight.view(self.n_heads, self.head_dim + self.latent.value_dim, self.latent.kv_latent_dim)
        return heads[:, : self.head_dim], heads[:, self.head_dim :]

    def forward(
        self, x: Float[Tensor, "B T D"], cache: MLACache | AttendingCache | None = None, offset: Offset = 0
    ) -> Float[Tensor, "B T D"]:
        """Return the attention output of T new positions, which stand where `offset` says, as for `apply_rope`.

        `q` gives for each head H numbers and R to rotate; `down` gives C numbers, which `norm` makes the latent vector,
        and R for the rotary key. Latent vectors after the norm and rotary keys after the rotation are cached (not
        counted: the caller advances), and all cached ones are attended to, in the way that takes fewer multiplications
        (`self.absorbs`). Absorbed, `cache.attend` stores them and attends; else `cache.update` stores them and returns
        all. Without a cache the T positions see each other alone. The heads' results side by side go through `out`.
        """
        raise NotYetWritten(
            "exercise 9.11 MLA.forward is not written yet: read "
            "notebooks/week09_smaller_cache/week09_smaller_cache.ipynb, write it in exercises/mla/layer.py, then "
            "run: NANOLM_IMPL=exercises python -m pytest tests/mla/test_mla.py --exercise MLA.forward"
        )

    def absorbs(self, T: int, cache: MLACache | AttendingCache | None) -> bool:
        """Return whether absorbed attention is the cheaper way for T positions after the cached ones.

        A cache whose `update` returns no rows, such as that of a pass of many requests, can be absorbed only.
        """
        if cache is not None and not cache.gives_rows:
            return True
        past = cache.length if cache else 0  # pyright: ignore[reportAttributeAccessIssue]  an MLACache, or like one
        naive, absorbed = latent_multiplications(T, T + past, self.head_dim, self.latent)
        return absorbed < naive


def projection_through(D: int, width: int, through: int, eps: float) -> nn.Module:
    """Return the layer from D to width numbers, through a normed vector of `through` numbers unless that is 0."""
    if not through:
        return nn.Linear(D, width, bias=False)
    return nn.Sequential(
        nn.Linear(D, through, bias=False), RMSNorm(through, eps), nn.Linear(through, width, bias=False)
    )
