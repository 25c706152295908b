"""The serving engine: requests are scheduled, run in one pass, and given their tokens.

`engine` is the loop, `scheduler` decides, `model_runner` computes, `postprocess` hands out; `simulation` is the same
without a model, slot by slot.
"""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "blocking": [
        "BlockingCalls",
    ],
    "engine": [
        "Engine",
    ],
    "metrics": [
        "EngineMetrics",
        "RequestMetrics",
        "StepRecord",
        "summary",
    ],
    "model_runner": [
        "ModelRunner",
        "Outcome",
    ],
    "paged_rows": [
        "PagedRows",
        "Segment",
        "Shortcuts",
        "groups_of",
    ],
    "plain_runner": [
        "PlainRunner",
        "plain_model",
    ],
    "postprocess": [
        "Postprocessor",
    ],
    "request": [
        "FINISH_REASONS",
        "Output",
        "Request",
    ],
    "scheduler": [
        "Plan",
        "Scheduler",
        "Work",
    ],
    "simulation": [
        "Row",
        "ServingRun",
        "simulate_continuous_batching",
        "simulate_static_batching",
    ],
    "varlen_batch": [
        "VarlenBatch",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .blocking import BlockingCalls as BlockingCalls
    from .engine import Engine as Engine
    from .metrics import EngineMetrics as EngineMetrics
    from .metrics import RequestMetrics as RequestMetrics
    from .metrics import StepRecord as StepRecord
    from .metrics import summary as summary
    from .model_runner import ModelRunner as ModelRunner
    from .model_runner import Outcome as Outcome
    from .paged_rows import PagedRows as PagedRows
    from .paged_rows import Segment as Segment
    from .paged_rows import Shortcuts as Shortcuts
    from .paged_rows import groups_of as groups_of
    from .plain_runner import PlainRunner as PlainRunner
    from .plain_runner import plain_model as plain_model
    from .postprocess import Postprocessor as Postprocessor
    from .request import FINISH_REASONS as FINISH_REASONS
    from .request import Output as Output
    from .request import Request as Request
    from .scheduler import Plan as Plan
    from .scheduler import Scheduler as Scheduler
    from .scheduler import Work as Work
    from .simulation import Row as Row
    from .simulation import ServingRun as ServingRun
    from .simulation import simulate_continuous_batching as simulate_continuous_batching
    from .simulation import simulate_static_batching as simulate_static_batching
    from .varlen_batch import VarlenBatch as VarlenBatch
