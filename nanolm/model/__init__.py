"""The network: a decoder of layers, each attention and a feed-forward block or a mixture of experts."""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "attention": [
        "Attention",
    ],
    "cuda_graphs": [
        "StaticDecoder",
    ],
    "decoder": [
        "Layer",
        "NanoLM",
        "check_pass",
        "check_prompts",
        "right_padded",
    ],
    "expert_layers": [
        "SeparateLinear",
        "StackedLinear",
        "separate_experts",
    ],
    "feedforward": [
        "FeedForward",
        "GroupRouter",
        "SharedMoE",
        "feedforward_of",
    ],
    "grouped_moe": [
        "GroupedMoE",
        "MOST_EXPERTS",
        "check_offsets",
        "grouped_matmul",
    ],
    "moe": [
        "MoE",
        "mix_experts",
        "route",
    ],
    "norm": [
        "FastRMSNorm",
        "RMSNorm",
    ],
    "quantize": [
        "LayerMaker",
        "collect_inputs",
        "linear_layers",
        "model_bytes",
        "quantize_calibrated",
        "quantize_model",
        "quantized_layer",
    ],
    "router_stats": [
        "RouterStats",
        "watch_routers",
    ],
    "rows_linear": [
        "MultiplyRows",
        "RowsLinear",
        "with_linear",
    ],
    "tiny_decoder": [
        "Generation",
        "TinyCache",
        "TinyDecoder",
        "Work",
        "causal_attention",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .attention import Attention as Attention
    from .cuda_graphs import StaticDecoder as StaticDecoder
    from .decoder import Layer as Layer
    from .decoder import NanoLM as NanoLM
    from .decoder import check_pass as check_pass
    from .decoder import check_prompts as check_prompts
    from .decoder import right_padded as right_padded
    from .expert_layers import SeparateLinear as SeparateLinear
    from .expert_layers import StackedLinear as StackedLinear
    from .expert_layers import separate_experts as separate_experts
    from .feedforward import FeedForward as FeedForward
    from .feedforward import GroupRouter as GroupRouter
    from .feedforward import SharedMoE as SharedMoE
    from .feedforward import feedforward_of as feedforward_of
    from .grouped_moe import GroupedMoE as GroupedMoE
    from .grouped_moe import MOST_EXPERTS as MOST_EXPERTS
    from .grouped_moe import check_offsets as check_offsets
    from .grouped_moe import grouped_matmul as grouped_matmul
    from .moe import MoE as MoE
    from .moe import mix_experts as mix_experts
    from .moe import route as route
    from .norm import FastRMSNorm as FastRMSNorm
    from .norm import RMSNorm as RMSNorm
    from .quantize import LayerMaker as LayerMaker
    from .quantize import collect_inputs as collect_inputs
    from .quantize import linear_layers as linear_layers
    from .quantize import model_bytes as model_bytes
    from .quantize import quantize_calibrated as quantize_calibrated
    from .quantize import quantize_model as quantize_model
    from .quantize import quantized_layer as quantized_layer
    from .router_stats import RouterStats as RouterStats
    from .router_stats import watch_routers as watch_routers
    from .rows_linear import MultiplyRows as MultiplyRows
    from .rows_linear import RowsLinear as RowsLinear
    from .rows_linear import with_linear as with_linear
    from .tiny_decoder import Generation as Generation
    from .tiny_decoder import TinyCache as TinyCache
    from .tiny_decoder import TinyDecoder as TinyDecoder
    from .tiny_decoder import Work as Work
    from .tiny_decoder import causal_attention as causal_attention
