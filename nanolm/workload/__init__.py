"""Recorded and made-up loads, and ways to serve them side by side."""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "baselines": [
        "Batch",
        "nanolm_batch",
        "replay_batches",
        "transformers_batch",
        "transformers_model",
    ],
    "replay": [
        "EXACTLY",
        "Replay",
        "replay_engine",
    ],
    "simulation": [
        "Row",
        "ServingRun",
        "simulate_continuous_batching",
        "simulate_static_batching",
        "take_arrived",
        "waiting_line",
    ],
    "trace": [
        "Arrival",
        "RECORDED",
        "Trace",
        "all_at_once",
        "at_rate",
        "heavy_tailed_lengths",
        "load_trace",
        "poisson",
        "save_trace",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .baselines import Batch as Batch
    from .baselines import nanolm_batch as nanolm_batch
    from .baselines import replay_batches as replay_batches
    from .baselines import transformers_batch as transformers_batch
    from .baselines import transformers_model as transformers_model
    from .replay import EXACTLY as EXACTLY
    from .replay import Replay as Replay
    from .replay import replay_engine as replay_engine
    from .simulation import Row as Row
    from .simulation import ServingRun as ServingRun
    from .simulation import simulate_continuous_batching as simulate_continuous_batching
    from .simulation import simulate_static_batching as simulate_static_batching
    from .simulation import take_arrived as take_arrived
    from .simulation import waiting_line as waiting_line
    from .trace import Arrival as Arrival
    from .trace import RECORDED as RECORDED
    from .trace import Trace as Trace
    from .trace import all_at_once as all_at_once
    from .trace import at_rate as at_rate
    from .trace import heavy_tailed_lengths as heavy_tailed_lengths
    from .trace import load_trace as load_trace
    from .trace import poisson as poisson
    from .trace import save_trace as save_trace
