"""How a request chooses its tokens: temperature, then top-k, then top-p."""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from .filters import _check_temperature, _check_top_k, _check_top_p, temperature_probs, top_k_filter, top_p_filter

from course import NotYetWritten


@dataclass(frozen=True)
class SamplingParams:
    """How to choose each token of a request.

    Attributes:
        temperature: 0 is greedy, 1 the model's own distribution.
        top_k: keep the k most probable tokens; None keeps all.
        top_p: keep the smallest set of tokens whose total reaches p; None keeps all.
        end_tokens: ids that end the text; None means the model's own, () means none.

    Raises:
        ValueError: temperature below 0, top_k below 1, or top_p outside (0, 1].
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    end_tokens: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        _check_temperature(self.temperature)
        if self.top_k is not None:
            _check_top_k(self.top_k)
        if self.top_p is not None:
            _check_top_p(self.top_p)

    def ends(self, of_the_model: Sequence[int]) -> Sequence[int]:
        """Return the ids that end a text: these rules' own, or the model's where they have none."""
        return of_the_model if self.end_tokens is None else self.end_tokens

    def probs(self, logits: Float[Tensor, "... V"]) -> Float[Tensor, "... V"]:
        """Return the distribution that the next token is drawn from: temperature, then top-k, then top-p.

        Each filter sees what the one before it has left, renormalised; one that is None is left out. The result is
        float64, in the shape of logits.

        Raises:
            ValueError: what `temperature_probs` refuses.
        """
        raise NotYetWritten(
            "exercise 3.4 SamplingParams.probs is not written yet: read "
            "notebooks/week03_sampling/week03_sampling.ipynb, write it in exercises/sampling/params.py, then run: "
            "NANOLM_IMPL=exercises python -m pytest tests/sampling/test_sampling.py -k probs"
        )
