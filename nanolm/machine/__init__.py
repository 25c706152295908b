"""This computer: its devices, its rates as decoding uses them, and what a pass should take on it."""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "calibration": [
        "calibrate",
        "measure_hardware",
        "memory_bytes",
    ],
    "device": [
        "require_device",
    ],
    "loads": [
        "ALMOST_NOTHING",
        "CPU_PLAN",
        "GPU_PLAN",
        "NUMBERS",
        "Plan",
        "models_of",
        "product_of",
        "sets_of",
    ],
    "measurement": [
        "Measurement",
        "OperationCost",
        "Reading",
        "cache_folder",
        "main_memory_bytes",
        "processor_name",
        "read_rate",
    ],
    "prediction": [
        "count_operations",
        "decode_step_of",
        "main_kind",
        "predicted_decode_seconds",
        "reading_seconds",
        "weights_read",
    ],
    "threads": [
        "ThreadChoice",
        "Threads",
        "choose_threads",
        "decode_pass",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .calibration import calibrate as calibrate
    from .calibration import measure_hardware as measure_hardware
    from .calibration import memory_bytes as memory_bytes
    from .device import require_device as require_device
    from .loads import ALMOST_NOTHING as ALMOST_NOTHING
    from .loads import CPU_PLAN as CPU_PLAN
    from .loads import GPU_PLAN as GPU_PLAN
    from .loads import NUMBERS as NUMBERS
    from .loads import Plan as Plan
    from .loads import models_of as models_of
    from .loads import product_of as product_of
    from .loads import sets_of as sets_of
    from .measurement import Measurement as Measurement
    from .measurement import OperationCost as OperationCost
    from .measurement import Reading as Reading
    from .measurement import cache_folder as cache_folder
    from .measurement import main_memory_bytes as main_memory_bytes
    from .measurement import processor_name as processor_name
    from .measurement import read_rate as read_rate
    from .prediction import count_operations as count_operations
    from .prediction import decode_step_of as decode_step_of
    from .prediction import main_kind as main_kind
    from .prediction import predicted_decode_seconds as predicted_decode_seconds
    from .prediction import reading_seconds as reading_seconds
    from .prediction import weights_read as weights_read
    from .threads import ThreadChoice as ThreadChoice
    from .threads import Threads as Threads
    from .threads import choose_threads as choose_threads
    from .threads import decode_pass as decode_pass
