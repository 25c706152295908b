"""A model whose logits are NaN for some texts, and a draft that leads it there."""

from tiny_models import tiny_model

from nanolm.engine import Engine
from nanolm.model import NanoLM

POISON = 10


def poisoned_model() -> NanoLM:
    """A model whose logits are NaN for any text with token 10 in it; other texts are as good as ever."""
    model = tiny_model(tie_embeddings=False)
    model.head.weight[POISON] = -model.head.weight[:POISON].sum(0)  # 10 is written now and then
    model.embedding.weight[POISON] = float("nan")
    return model


def draft_poison(engine: Engine) -> None:
    """Let an engine that looks drafts up draft the token whose logits are NaN, and nothing else."""
    engine.runner.drafts.look_up = lambda request, n: [POISON] * n
