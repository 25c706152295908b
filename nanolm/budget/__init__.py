"""How many bytes, operations, seconds and dollars: arithmetic of whole machines and models, without torch.

GB is 10⁹ bytes. Every name can be imported from here, so that one import serves a whole estimate.
"""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "cache_sizes": [
        "CacheSize",
        "cache_bytes_table",
        "hybrid_windows",
        "windowed_cache_bytes",
    ],
    "decode_batch": [
        "critical_batch",
        "crossover_batch",
        "decode_step_time",
        "max_batch_for_tpot",
    ],
    "experts": [
        "ParameterCounts",
        "checked_total",
        "effective_experts",
        "expected_unused_experts",
        "expected_unused_given",
        "load_imbalance",
        "parameter_counts",
        "require_choice",
    ],
    "hardware": [
        "A100",
        "H100",
        "H200",
        "Hardware",
    ],
    "memory": [
        "gpus_needed",
        "kv_bytes_per_token",
        "kv_cache_bytes",
        "kv_projections",
        "max_concurrent_requests",
        "max_context",
        "positions_run",
        "weight_bytes",
    ],
    "pricing": [
        "arrivals_in_order",
        "cost_per_million",
        "pareto_front",
        "prompt_cache_cost",
        "request_dollars",
    ],
    "roofline": [
        "arithmetic_intensity",
        "attention_share_of_prefill",
        "bottleneck",
        "decode_seconds_per_token",
        "end_to_end_seconds",
        "matmul_flops",
        "prefill_seconds",
        "ridge_point",
        "tokens_per_second",
    ],
    "shapes": [
        "DEEPSEEK_V3",
        "Experts",
        "LLAMA_3_70B",
        "LLAMA_3_8B",
        "LatentAttention",
        "MODEL_13B",
        "ModelShape",
        "PRESETS",
        "SMALL_MHA",
    ],
    "sizing": [
        "ATTENTION_KINDS",
        "Capacity",
        "attention_kind",
        "capacity",
        "in_words",
        "params_read",
        "size_in_words",
        "with_attention",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .cache_sizes import CacheSize as CacheSize
    from .cache_sizes import cache_bytes_table as cache_bytes_table
    from .cache_sizes import hybrid_windows as hybrid_windows
    from .cache_sizes import windowed_cache_bytes as windowed_cache_bytes
    from .decode_batch import critical_batch as critical_batch
    from .decode_batch import crossover_batch as crossover_batch
    from .decode_batch import decode_step_time as decode_step_time
    from .decode_batch import max_batch_for_tpot as max_batch_for_tpot
    from .experts import ParameterCounts as ParameterCounts
    from .experts import checked_total as checked_total
    from .experts import effective_experts as effective_experts
    from .experts import expected_unused_experts as expected_unused_experts
    from .experts import expected_unused_given as expected_unused_given
    from .experts import load_imbalance as load_imbalance
    from .experts import parameter_counts as parameter_counts
    from .experts import require_choice as require_choice
    from .hardware import A100 as A100
    from .hardware import H100 as H100
    from .hardware import H200 as H200
    from .hardware import Hardware as Hardware
    from .memory import gpus_needed as gpus_needed
    from .memory import kv_bytes_per_token as kv_bytes_per_token
    from .memory import kv_cache_bytes as kv_cache_bytes
    from .memory import kv_projections as kv_projections
    from .memory import max_concurrent_requests as max_concurrent_requests
    from .memory import max_context as max_context
    from .memory import positions_run as positions_run
    from .memory import weight_bytes as weight_bytes
    from .pricing import arrivals_in_order as arrivals_in_order
    from .pricing import cost_per_million as cost_per_million
    from .pricing import pareto_front as pareto_front
    from .pricing import prompt_cache_cost as prompt_cache_cost
    from .pricing import request_dollars as request_dollars
    from .roofline import arithmetic_intensity as arithmetic_intensity
    from .roofline import attention_share_of_prefill as attention_share_of_prefill
    from .roofline import bottleneck as bottleneck
    from .roofline import decode_seconds_per_token as decode_seconds_per_token
    from .roofline import end_to_end_seconds as end_to_end_seconds
    from .roofline import matmul_flops as matmul_flops
    from .roofline import prefill_seconds as prefill_seconds
    from .roofline import ridge_point as ridge_point
    from .roofline import tokens_per_second as tokens_per_second
    from .shapes import DEEPSEEK_V3 as DEEPSEEK_V3
    from .shapes import Experts as Experts
    from .shapes import LLAMA_3_70B as LLAMA_3_70B
    from .shapes import LLAMA_3_8B as LLAMA_3_8B
    from .shapes import LatentAttention as LatentAttention
    from .shapes import MODEL_13B as MODEL_13B
    from .shapes import ModelShape as ModelShape
    from .shapes import PRESETS as PRESETS
    from .shapes import SMALL_MHA as SMALL_MHA
    from .sizing import ATTENTION_KINDS as ATTENTION_KINDS
    from .sizing import Capacity as Capacity
    from .sizing import attention_kind as attention_kind
    from .sizing import capacity as capacity
    from .sizing import in_words as in_words
    from .sizing import params_read as params_read
    from .sizing import size_in_words as size_in_words
    from .sizing import with_attention as with_attention
