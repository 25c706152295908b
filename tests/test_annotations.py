"""The shapes in nanolm's annotations are true: a run through the engine with every one of them checked.

In a process of its own, since the hook must be there before nanolm is imported; why not in every test, says conftest.
"""

import subprocess
import sys
from pathlib import Path

SCRIPT = """
from jaxtyping import install_import_hook
install_import_hook("nanolm", "shapes_only.check")
import torch
from tiny_models import tiny_model
from nanolm.dice import Dice
from nanolm.drafts import ModelDraft, PromptLookupDraft
from nanolm.moe import watch_routers
from nanolm.sampling import Sampling
from nanolm.session import Session
from nanolm.speculative import acceptance_rate, speculative_generate

torch.manual_seed(0)
target, draft = tiny_model(0), tiny_model(1, n_layers=1)
sampling = Sampling(temperature=0.9, top_k=8, top_p=0.95)
assert len(target.generate([[1, 2, 3], [4, 5]], 6, sampling, Dice(0))) == 2
for guesser in (ModelDraft(draft, sampling), PromptLookupDraft(target.config.vocab_size)):
    text, stats = speculative_generate(Session(target, sampling), guesser, [1, 2, 3, 1, 2], 8, 3, Dice(0))
    assert len(text) == stats.new_tokens == 8
mixture = tiny_model(0, n_experts=4, experts_per_token=2)
with watch_routers(mixture) as stats:
    assert len(mixture.generate([[1, 2, 3], [4, 5]], 6)) == 2
assert stats.counts.shape == (3, 4) and stats.experts_read.shape == (3, 6)
rows = torch.full((2, 3, 4), 0.25, dtype=torch.float64)
assert acceptance_rate(rows, rows).shape == (2, 3)
try:
    acceptance_rate(rows, rows[..., :3])
except TypeError as error:
    assert "draft_probs" in str(error), error
else:
    raise SystemExit("a misshapen argument passed: the annotations are not checked")
"""


def test_every_shape_in_a_run_through_the_engine_is_as_annotated():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=Path(__file__).parent, capture_output=True, text=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stdout + done.stderr
