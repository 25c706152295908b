"""One replay, in a process of its own: `python -m course.capstone.replay` reads options and writes JSON.

The options come on standard input and the result goes to standard output, so that the process which compares the
student's engine with the reference shares nothing with either.
"""

import contextlib
import json
import math
import os
import sys
import traceback
from pathlib import Path
from typing import Any

# Read by torch at import: threads that wait for work asleep, not spinning, leave a busy machine usable.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

from ..errors import CourseError
from ..grading.assembly import Part, assemble
from ..grading.implementation import chosen
from ..paths import ROOT
from ..registry import registry


def run(options: dict[str, Any]) -> dict[str, Any]:
    """Assemble the engine, replay the trace, return times, texts and parts as plain numbers."""
    import torch

    from nanolm.budget import cost_per_million
    from nanolm.checkpoint import load
    from nanolm.engine import Engine
    from nanolm.model import quantize_model
    from nanolm.sampling import SamplingParams
    from nanolm.workload import Replay, Trace, all_at_once, at_rate, load_trace, replay_engine

    torch.set_num_threads(options["threads"])
    parts = assemble(chosen(options["impl"]), registry())
    model, _ = load(options["model"])
    if options["weight_bits"] == 8:
        model = quantize_model(model, 8, None)
    recorded = (load_trace(Path(options["trace"])) if options["trace"] else load_trace())[: options["requests"]]
    sampling = SamplingParams(options["temperature"], options["top_k"], options["top_p"], end_tokens=())

    def replay(name: str, trace: Trace) -> Replay:
        return replay_engine(name, Engine(model, **options["engine"]), trace, sampling=sampling)

    replay("warm up", all_at_once(recorded[:2]))
    for part in parts:
        part.calls = 0
    done = replay("engine", at_rate(recorded, options["rate"] or math.inf))
    described = [_described(part) for part in parts]  # before more is replayed, and counted
    # Who runs in a pass with whom depends on the clock, and so do near ties. All at once it does not.
    compared = replay("texts", all_at_once(recorded)) if options["rate"] and options["texts"] else done
    return {
        "tokens_per_second": done.tokens_per_second,
        "ttft_seconds": done.ttft_seconds(95),
        "tpot_seconds": done.inter_token_seconds(95) if any(r.inter_token_seconds for r in done.requests) else 0.0,
        "dollars_per_million": cost_per_million(1 / done.tokens_per_second, 1, options["dollars_per_hour"]),
        "texts": compared.texts,
        "parts": described,
    }


def _described(part: Part) -> dict[str, Any]:
    names = {"number": part.exercise.number, "part": part.name}
    return names | {"whose": part.whose, "why": part.why, "calls": part.calls}


def main() -> None:
    """Run once; an error of the student's code becomes a result too, with the place where it happened."""
    options = json.loads(sys.stdin.read())
    try:
        with contextlib.redirect_stdout(sys.stderr):  # a print in an answer must not end up in the JSON
            result = run(options)
    except (CourseError, ValueError, OSError) as error:
        result = {"error": str(error), "where": _where(error)}
    except Exception as error:
        result = {"error": f"{type(error).__name__}: {error}", "where": _where(error)}
    print(json.dumps(result))


def _where(error: BaseException) -> str:
    """The innermost line outside libraries, as "file, line n, in function"."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "site-packages" not in frame.filename]
    if not frames:
        return ""
    path = Path(frames[-1].filename)
    # Of a folder elsewhere the room and the file: which folder it is was the student's choice.
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else "/".join(path.parts[-2:])
    return f"{name}, line {frames[-1].lineno}, in {frames[-1].name}"


if __name__ == "__main__":
    main()
