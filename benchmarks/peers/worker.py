"""One engine in a process of its own: it answers each line that it reads, the name of a work, with a line of JSON."""

import json
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nanolm.workload import Arrival, Trace

from . import engines, llama
from .engines import Peer

ENGINES: dict[str, Callable[[str, Path, int], Peer]] = {
    "NanoLM": engines.ours,
    "llama.cpp": llama.llama_cpp,
    "transformers": engines.theirs,
}
PREFILL, BATCH, REQUESTS, TEXT = 512, 8, 64, 32
WORKS = ("decode", f"decode {BATCH}", f"prefill {PREFILL}", f"serve {REQUESTS}", "text", "memory")
RATES = WORKS[:4]
_PROMPT = 64


def mixed(n: int, n_vocab: int) -> Trace:
    """Return n requests at once, of 8 to 64 prompt tokens and 8 to 32 new ones; always the same."""
    draw = random.Random(0)
    arrivals = []
    for _ in range(n):
        n_prompt, n_new = draw.randint(8, 64), draw.randint(8, 32)
        arrivals.append(Arrival(0.0, n_prompt, n_new, tuple(draw.randrange(3, n_vocab) for _ in range(n_prompt))))
    return Trace(tuple(arrivals))


def works_of(peer: Peer, n_vocab: int, quick: bool) -> dict[str, Callable[[], Any]]:
    """Return what each work calls. Rates are in tokens a second."""
    draw, part = random.Random(1), 8 if quick else 1
    prompts = [[draw.randrange(3, n_vocab) for _ in range(PREFILL // part)] for _ in range(BATCH)]
    short, steps = [prompt[: _PROMPT // part] for prompt in prompts], 32 // part
    trace = mixed(REQUESTS // part, n_vocab)
    new = sum(arrival.n_output_tokens for arrival in trace)
    calls = (
        lambda: 1 / peer.decode(short[:1], steps),
        lambda: BATCH / peer.decode(short, steps),
        lambda: len(prompts[0]) / peer.prefill(prompts[0]),
        lambda: new / peer.serve(trace),
        lambda: peer.text(short[0], TEXT),
        peak_bytes,
    )
    return dict(zip(WORKS, calls, strict=True))


def peak_bytes() -> int | None:
    """Return the most memory that this process has held; None where the system does not count it."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux hands the other count down from whoever started this process
        found = re.search(r"VmHWM:\s*(\d+) kB", status.read_text(encoding="utf-8"))
        return int(found[1]) * 1024 if found else None
    try:
        import resource
    except ImportError:  # Windows
        return None
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main(engine: str, precision: str, path: str, threads: str, n_vocab: str, quick: str) -> None:
    """Load the model, say so, and answer until there is nothing more to read."""
    works = works_of(ENGINES[engine](precision, Path(path), int(threads)), int(n_vocab), quick == "quick")
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(json.dumps(works[json.loads(line)]()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
