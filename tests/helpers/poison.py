"""A model whose logits are NaN for some texts, and a draft that leads it there."""

import torch
from tiny_models import tiny_model
from torch import Tensor

from nanolm.model import NanoLM
from nanolm.sampling import Rng

POISON = 10


def poisoned_model() -> NanoLM:
    """A model whose logits are NaN for any text with token 10 in it; other texts are as good as ever."""
    model = tiny_model(tie_embeddings=False)
    model.head.weight[POISON] = -model.head.weight[:POISON].sum(0)  # 10 is written now and then
    model.embedding.weight[POISON] = float("nan")
    return model


class DraftsPoison:
    """A draft of the token whose logits are NaN."""

    length = 0

    def propose(self, text: list[int], gamma: int, rng: Rng) -> tuple[list[int], Tensor]:
        drafted = [POISON] * gamma
        return drafted, torch.nn.functional.one_hot(torch.tensor(drafted), POISON + 1).double()

    def truncate(self, length: int) -> None:
        pass
