"""The training loop: one step, the schedule, the evaluations, and a state that resumes exactly."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from nanolm.model import NanoLM

from .balance import balance_loss, collect_router_logits
from .recipe import Recipe
from .state import load_state, save_state
from .texts.data import Batches


def fast_bfloat16() -> bool:
    """Whether this CPU multiplies bfloat16 in hardware; elsewhere bfloat16 is many times slower than float32."""
    capability = torch.cpu.get_capabilities()
    return bool(capability.get("avx512_bf16") or capability.get("amx_bf16"))


def make_optimizer(model: NanoLM, recipe: Recipe) -> torch.optim.AdamW:
    """AdamW with weight decay on matrices only: gains of the norms are not pulled to zero."""
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    gains = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": recipe.weight_decay}, {"params": gains, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=recipe.learning_rate, betas=(0.9, 0.95), fused=True)


def distillation_loss(logits: Tensor, teacher_logits: Tensor) -> Tensor:
    """Cross-entropy of the teacher's distribution under the student's: KL plus the teacher's entropy, in nats."""
    return -(teacher_logits.softmax(-1) * logits.log_softmax(-1)).sum(-1).mean()


@dataclass
class Run:
    """A training run in memory. `step` counts finished steps; `losses` holds one mean loss in nats for each."""

    recipe: Recipe
    model: NanoLM
    batches: Batches
    state_path: Path
    teacher: NanoLM | None = None
    bfloat16: bool = False
    step: int = 0
    seconds: float = 0.0
    losses: list[float] = field(default_factory=list)
    evaluations: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.optimizer = make_optimizer(self.model, self.recipe)

    def identity(self) -> dict[str, Any]:
        """What must be equal for a saved state to be continued by this run."""
        how = {"device": self.model.device.type, "bfloat16": self.bfloat16, "distilled": self.teacher is not None}
        return {**self.recipe.as_dict(), **how}

    def resume(self) -> bool:
        """Continue from the saved state, if there is one; says whether there was. Errors as `load_state`."""
        state = load_state(self.state_path, self.identity())
        if state is None:
            return False
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])
        self.step, self.seconds = state["step"], state["seconds"]
        self.losses, self.evaluations = state["losses"], state["evaluations"]
        return True

    def save(self) -> None:
        """Write everything a later process needs to go on from here, atomically."""
        state = {
            "recipe": self.identity(),
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "rng": torch.get_rng_state(),
            **{name: getattr(self, name) for name in ("step", "seconds", "losses", "evaluations")},
        }
        save_state(self.state_path, state)

    def one_step(self) -> float:
        """Train on the batch of the current step and return its loss in nats a token."""
        rate = self.recipe.learning_rate_at(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        with collect_router_logits(self.model) as router_logits:
            loss = self._loss(*(part.to(self.model.device) for part in self.batches.at(self.step)))
        self.optimizer.zero_grad(set_to_none=True)
        (loss + self.recipe.balance * balance_loss(router_logits, self.recipe.model.experts_per_token)).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip_norm)
        self.optimizer.step()
        self.step += 1
        self.losses.append(float(loss.detach()))
        return self.losses[-1]

    def _loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        with torch.autocast(tokens.device.type, torch.bfloat16) if self.bfloat16 else nullcontext():
            logits = self.model(tokens)
            if self.teacher is not None:
                with torch.no_grad():
                    teacher_logits = self.teacher(tokens)
        if self.teacher is not None:
            return distillation_loss(logits.float(), teacher_logits.float())
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    def train(
        self,
        evaluate: Callable[[NanoLM], dict[str, Any]],
        report: Callable[["Run"], None] = lambda run: None,
        save_every_seconds: float = 180.0,
        stop_at: int | None = None,
    ) -> None:
        """Run to the last step (or to `stop_at`), evaluating every `eval_every` steps and at the end.

        `report` is called after every step. The state is saved after each evaluation, every few minutes, at the end.
        """
        last = self.recipe.steps if stop_at is None else min(stop_at, self.recipe.steps)
        saved = time.monotonic()
        while self.step < last:
            started = time.monotonic()
            self.one_step()
            self.seconds += time.monotonic() - started
            due = self.step % self.recipe.eval_every == 0 or self.step == self.recipe.steps
            if due:
                self.model.eval()
                self.evaluations.append({"step": self.step, **evaluate(self.model)})
                self.model.train()
            report(self)
            if due or time.monotonic() - saved > save_every_seconds:
                self.save()
                saved = time.monotonic()
        self.save()
