"""How a request chooses its tokens: rules for the logits, then temperature, top-k, top-p and min-p."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from .checks import FIELD_CHECKS
from .filters import min_p_filter, temperature_probs, top_k_filter, top_p_filter

from course import NotYetWritten


@dataclass(frozen=True)
class SamplingParams:
    """How to choose each token of a request.

    The rules apply in one order: logit bias, minimum length, repetition penalty, presence and frequency penalty
    (`adjust_logits` does these four), then temperature, top-k, top-p and min-p (`probs`). Temperature 0 takes the
    largest of the adjusted logits.

    Attributes:
        temperature: 0 is greedy, 1 the model's own distribution.
        top_k: keep the k most probable tokens; None keeps all.
        top_p: keep the smallest set of tokens whose total reaches p; None keeps all.
        end_tokens: ids that end the text; None means the model's own, () means none.
        min_p: keep tokens of at least min_p times the largest probability; None keeps all.
        repetition_penalty: for every token that occurs in prompt or answer a positive logit is divided by it and a
            negative one multiplied (Keskar et al. 2019, "CTRL").
        presence_penalty: taken from the logit of every token that occurs in the answer, as OpenAI documents.
        frequency_penalty: taken from it once for every time that it occurs there.
        logit_bias: added to the logits: pairs (token, bias), or a mapping; -inf forbids a token.
        stop_token_ids: ids that end the text besides the end tokens.
        min_new_tokens: until the answer has so many, no token that ends the text may come.
        logprobs: None, or beside each chosen token's log-probability those of so many of the likeliest, 0 to 20.

    Raises:
        ValueError: a field out of its range, said by name.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    end_tokens: Sequence[int] | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] | Sequence[tuple[int, float]] = ()
    stop_token_ids: Sequence[int] = ()
    min_new_tokens: int = 0
    logprobs: int | None = None

    def __post_init__(self) -> None:
        for name, check in FIELD_CHECKS.items():
            # Frozen is for everyone else: sequences become tuples here, so that equal rules hash alike.
            object.__setattr__(self, name, check(getattr(self, name)))

    @property
    def adjusts(self) -> bool:
        """Whether any rule changes logits before the temperature does: then `adjust_logits` has work to do."""
        penalties = (self.repetition_penalty - 1, self.presence_penalty, self.frequency_penalty)
        return any(penalties) or bool(self.logit_bias) or self.min_new_tokens > 0

    def ends(self, of_the_model: Sequence[int]) -> Sequence[int]:
        """Return the ids that end a text: the stop tokens, and these rules' own end tokens or else the model's."""
        return (*(of_the_model if self.end_tokens is None else self.end_tokens), *self.stop_token_ids)

    def probs(self, logits: Float[Tensor, "... V"]) -> Float[Tensor, "... V"]:
        """Return the distribution that the next token is drawn from: temperature, then top-k, then top-p, then min-p.

        Each filter sees what the one before it has left, renormalised; one that is None is left out. The result is
        float64, in the shape of logits.

        Raises:
            ValueError: what `temperature_probs` refuses.
        """
        raise NotYetWritten(
            "exercise 3.4 SamplingParams.probs is not written yet: read "
            "notebooks/week03_sampling/week03_sampling.ipynb, write it in exercises/sampling/params.py, then run: "
            "NANOLM_IMPL=exercises python -m pytest tests/sampling/test_probs.py --exercise SamplingParams.probs"
        )
