"""The recorded runs that the book shows: an engine small enough to be seen whole, with the shipped models."""

from collections.abc import Callable
from pathlib import Path

from nanolm.checkpoint import load
from nanolm.engine import Engine
from nanolm.sampling import SamplingParams
from nanolm.watching import Recording, embedded, recorded, words_of

from ..paths import ROOT

FOLDER = "book/replays"
_OPENING = "Enter, in Verona, two households with their servants.\n\n"
_SPEAKERS = ("ROMEO", "JULIET", "HAMLET", "OTHELLO", "IAGO", "PORTIA")
_RULES = SamplingParams(0.8, end_tokens=())


def shared_prompt() -> Recording:
    """Return six prompts that begin alike, with a draft model: blocks shared, guesses kept and rejected."""
    engine = _engine(n_blocks=64, draft=load("draft")[0], gamma=3, adaptive=False)
    return _served(engine, "A shared system prompt, with speculation", [_OPENING + name for name in _SPEAKERS], 24)


def small_pool() -> Recording:
    """Return a pool too small for one long and four short prompts: they wait, and are preempted."""
    engine = _engine(n_blocks=24, max_tokens_per_step=32, reserve=0.0)
    return _served(engine, "One long prompt among short ones, in a pool too small", [*_SPEAKERS[:4], _OPENING * 6], 48)


REPLAYS: dict[str, Callable[[], Recording]] = {"shared_prompt": shared_prompt, "small_pool": small_pool}


def replay_html(name: str, root: Path = ROOT) -> str:
    """Return the elements that show a replay in a page, which needs no server and no net."""
    return embedded(Recording.load(root / FOLDER / f"{name}.json"))


def _engine(**options: object) -> Engine:
    return Engine(load("target")[0], block_size=8, **options)  # pyright: ignore[reportArgumentType]


def _served(engine: Engine, title: str, prompts: list[str], n_new: int) -> Recording:
    tokenizer = load("target")[1]
    with recorded(engine, title, words_of(tokenizer)) as recording:
        for seed, prompt in enumerate(prompts):
            engine.add_request(tokenizer.encode(prompt), n_new, sampling=_RULES, seed=seed)
            engine.step()
        while engine.has_work:
            engine.step()
    return recording


if __name__ == "__main__":
    for name, run in REPLAYS.items():
        run().save(ROOT / FOLDER / f"{name}.json")
