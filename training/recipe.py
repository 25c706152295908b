"""What is trained and how: the shapes of the shipped models, and every number of their training runs."""

from dataclasses import asdict, dataclass
from typing import Any

from nanolm.config import ModelConfig

VOCABULARY = 1024
END_ID = 0  # the token before each document and after the last


@dataclass(frozen=True)
class Recipe:
    """One training run. Equal recipes give equal weights on the same machine and thread count.

    The run takes `steps` steps of `tokens_per_step` tokens; sequences are `short` tokens long, and `long` for the
    last `long_share` of the steps, so that long contexts are met without paying for them all along. `balance` is the
    weight of the loss that keeps a mixture's experts equally busy (`training/balance.py`).
    """

    model: ModelConfig
    steps: int
    tokens_per_step: int = 4096
    short: int = 256
    long: int = 1024
    long_share: float = 0.12
    problem_share: float = 0.22
    learning_rate: float = 3e-3
    warmup_steps: int = 120
    decay_share: float = 0.3
    weight_decay: float = 0.1
    clip_norm: float = 1.0
    balance: float = 0.0
    eval_every: int = 200
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("steps", "tokens_per_step", "short", "long", "eval_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} is below 1")
        for name in ("long_share", "problem_share", "decay_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name}: {getattr(self, name)} is outside 0 to 1")
        for name in ("short", "long"):
            if self.tokens_per_step % getattr(self, name):
                raise ValueError(
                    f"{name}: {getattr(self, name)} does not divide tokens_per_step {self.tokens_per_step}"
                )

    @property
    def first_long_step(self) -> int:
        """The first step that runs sequences of `long` tokens."""
        return self.steps - round(self.steps * self.long_share)

    def learning_rate_at(self, step: int) -> float:
        """Warm up linearly, stay, and in the last `decay_share` of the steps fall linearly to nearly nothing."""
        warm = min(1.0, (step + 1) / max(1, self.warmup_steps))
        left = (self.steps - step) / max(1, round(self.steps * self.decay_share))
        return self.learning_rate * min(warm, max(0.01, min(1.0, left)))

    def as_dict(self) -> dict[str, Any]:
        """The recipe as plain numbers, for the curve's file and to recognise a run that is resumed."""
        return asdict(self)


def _shape(**sizes: int) -> ModelConfig:
    return ModelConfig(
        vocab_size=VOCABULARY,
        head_dim=32,
        max_positions=2048,
        bos_token_id=END_ID,
        eos_token_ids=(END_ID,),
        **sizes,
    )


# Deep and narrow on purpose: at batch 1 a small model's step costs per layer, hardly per byte, so a one-layer draft
# of the same width is many times cheaper than its target.
RECIPES = {
    "target": Recipe(_shape(d_model=128, n_layers=12, n_heads=4, n_kv_heads=2, d_ff=384), steps=3200),
    "draft": Recipe(_shape(d_model=128, n_layers=1, n_heads=4, n_kv_heads=2, d_ff=768), steps=2400, seed=2),
    # A token goes through a quarter of the experts, so each learns from a quarter of the tokens: a few more steps.
    "mixture": Recipe(
        _shape(d_model=128, n_layers=8, n_heads=4, n_kv_heads=2, d_ff=160, n_experts=8, experts_per_token=2),
        steps=4000,
        learning_rate=2e-3,
        balance=0.04,
        eval_every=400,
        seed=3,
    ),
}


def recipe_named(name: str) -> Recipe:
    """The recipe of that name; raises ValueError when there is none."""
    if name not in RECIPES:
        raise ValueError(f"name: {name!r} is not a recipe; allowed are {', '.join(RECIPES)}")
    return RECIPES[name]
