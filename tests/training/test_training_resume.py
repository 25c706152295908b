"""An interrupted run goes on to the same weights, and a failed write leaves the old file."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from nanolm.config import ModelConfig
from nanolm.model import NanoLM
from training.loop import Run, distillation_loss
from training.recipe import Recipe
from training.state import load_state, save_json, write_atomically
from training.texts.data import Batches

MODEL = ModelConfig(
    vocab_size=50, d_model=16, n_layers=2, n_heads=2, n_kv_heads=1, head_dim=8, d_ff=32, max_positions=64
)
RECIPE = Recipe(
    MODEL,
    steps=12,
    tokens_per_step=32,
    short=8,
    long=16,
    long_share=0.25,
    warmup_steps=3,
    eval_every=5,
    learning_rate=0.01,
)


def run_at(path, recipe=RECIPE, teacher=None):
    torch.manual_seed(recipe.seed)
    rng = np.random.default_rng(0)
    batches = Batches(recipe, rng.integers(0, 50, 400), rng.integers(0, 50, 400))
    return Run(recipe, NanoLM(recipe.model), batches, path, teacher)


def no_figures(model):
    return {}


def test_a_resumed_run_has_the_losses_and_weights_of_an_uninterrupted_one(tmp_path):
    whole = run_at(tmp_path / "whole.pt")
    whole.train(no_figures)
    run_at(tmp_path / "cut.pt").train(no_figures, stop_at=7)
    resumed = run_at(tmp_path / "cut.pt")
    assert resumed.resume() and resumed.step == 7
    resumed.train(no_figures)
    assert resumed.losses == whole.losses, "the losses after the interruption differ"
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, resumed.model.state_dict()[name]), f"{name} differs"
    assert [point["step"] for point in resumed.evaluations] == [5, 10, 12]


def test_a_run_killed_between_saves_repeats_the_lost_steps_exactly(tmp_path):
    whole = run_at(tmp_path / "whole.pt")
    whole.train(no_figures)
    killed = run_at(tmp_path / "killed.pt")
    killed.train(no_figures, stop_at=5)
    for _ in range(3):
        killed.one_step()  # steps 6 to 8 are done and never saved
    resumed = run_at(tmp_path / "killed.pt")
    resumed.resume()
    resumed.train(no_figures)
    assert resumed.losses == whole.losses


def test_training_lowers_the_loss(tmp_path):
    recipe = replace(RECIPE, steps=60)
    run = run_at(tmp_path / "state.pt", recipe)
    run.batches = Batches(recipe, np.arange(400) % 50, np.arange(400) % 50)  # a text that can be learned
    run.train(no_figures)
    assert run.losses[-1] < run.losses[0] / 2, run.losses


def test_without_a_state_nothing_is_resumed(tmp_path):
    assert not run_at(tmp_path / "none.pt").resume()


def test_a_state_of_another_recipe_is_refused_and_says_what_differs(tmp_path):
    run_at(tmp_path / "state.pt").train(no_figures, stop_at=1)
    with pytest.raises(ValueError, match="another learning_rate, seed"):
        run_at(tmp_path / "state.pt", replace(RECIPE, seed=4, learning_rate=0.02)).resume()


def test_a_damaged_state_is_refused_in_one_line(tmp_path):
    (tmp_path / "state.pt").write_bytes(b"cut short")
    with pytest.raises(ValueError, match="not a readable training state") as refusal:
        load_state(tmp_path / "state.pt", {})
    assert "\n" not in str(refusal.value)


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "state.json"
    save_json(path, {"step": 1})

    def dies_half_way(temporary):
        temporary.write_text('{"st', encoding="utf-8")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, dies_half_way)
    assert path.read_text(encoding="utf-8") == '{\n "step": 1\n}\n'


def test_distillation_teaches_the_teachers_distribution(tmp_path):
    torch.manual_seed(9)
    teacher = NanoLM(MODEL).requires_grad_(False)
    with torch.no_grad():
        teacher.embedding.weight.mul_(40)  # a teacher with opinions
    student = run_at(tmp_path / "state.pt", replace(RECIPE, steps=80), teacher)
    student.train(no_figures)
    assert student.losses[-1] < student.losses[0] - 0.1, student.losses[::20]


def test_distillation_loss_is_the_teachers_entropy_when_both_agree():
    logits = torch.tensor([[[2.0, 1.0, 0.0]]], dtype=torch.float64)
    # Softmax of (2, 1, 0) is (0.66524, 0.24473, 0.09003); its entropy is 0.83240 nats.
    assert float(distillation_loss(logits, logits)) == pytest.approx(0.83240, abs=1e-5)
