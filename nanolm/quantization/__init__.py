"""Numbers as codes and scales, and linear layers that hold them. It knows no model."""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "absmax": [
        "absmax_scales",
        "at_least_float32",
        "bits_per_weight",
        "check_finite",
        "dequantize",
        "largest_code",
        "quantization_error",
        "quantize",
        "quantize_tensor",
        "round_to_codes",
        "split_groups",
    ],
    "awq_rounding": [
        "ALPHA_STEPS",
        "SHRINK_STEPS",
        "SMALLEST_SHARE",
        "awq",
        "awq_linear",
        "channel_scales",
        "shrunken_scales",
    ],
    "compiled_linear": [
        "CompiledLinear",
        "LEAST_BYTES",
        "MOST_ROWS",
        "with_compiled_linear",
    ],
    "cpu_kernels": [
        "int4_kernel_matmul",
        "int4_kernel_takes",
        "int8_kernel_matmul",
        "int8_kernel_takes",
        "to_int4_kernel",
    ],
    "float8": [
        "FLOAT8",
        "Float8Linear",
        "LARGEST_FLOAT8",
        "float8_matmul",
        "has_float8",
        "multiply_float8",
        "saturated",
        "simulate_float8",
        "to_float8",
    ],
    "gptq_rounding": [
        "check_inputs",
        "detached_bias",
        "gptq",
        "gptq_linear",
        "inverse_factor",
        "output_error",
    ],
    "linear": [
        "Int4Linear",
        "QuantizedLinear",
        "SCALE_DTYPE",
    ],
    "matmul": [
        "DECODED_AT_ONCE",
        "FEW_ROWS",
        "plain_matmul",
        "quantized_matmul",
    ],
    "packed": [
        "PackedEmbedding",
        "PackedLinear",
    ],
    "packing": [
        "check_codes",
        "pack_bits",
        "pack_nibbles",
        "unpack_bits",
        "unpack_nibbles",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .absmax import absmax_scales as absmax_scales
    from .absmax import at_least_float32 as at_least_float32
    from .absmax import bits_per_weight as bits_per_weight
    from .absmax import check_finite as check_finite
    from .absmax import dequantize as dequantize
    from .absmax import largest_code as largest_code
    from .absmax import quantization_error as quantization_error
    from .absmax import quantize as quantize
    from .absmax import quantize_tensor as quantize_tensor
    from .absmax import round_to_codes as round_to_codes
    from .absmax import split_groups as split_groups
    from .awq_rounding import ALPHA_STEPS as ALPHA_STEPS
    from .awq_rounding import SHRINK_STEPS as SHRINK_STEPS
    from .awq_rounding import SMALLEST_SHARE as SMALLEST_SHARE
    from .awq_rounding import awq as awq
    from .awq_rounding import awq_linear as awq_linear
    from .awq_rounding import channel_scales as channel_scales
    from .awq_rounding import shrunken_scales as shrunken_scales
    from .compiled_linear import CompiledLinear as CompiledLinear
    from .compiled_linear import LEAST_BYTES as LEAST_BYTES
    from .compiled_linear import MOST_ROWS as MOST_ROWS
    from .compiled_linear import with_compiled_linear as with_compiled_linear
    from .cpu_kernels import int4_kernel_matmul as int4_kernel_matmul
    from .cpu_kernels import int4_kernel_takes as int4_kernel_takes
    from .cpu_kernels import int8_kernel_matmul as int8_kernel_matmul
    from .cpu_kernels import int8_kernel_takes as int8_kernel_takes
    from .cpu_kernels import to_int4_kernel as to_int4_kernel
    from .float8 import FLOAT8 as FLOAT8
    from .float8 import Float8Linear as Float8Linear
    from .float8 import LARGEST_FLOAT8 as LARGEST_FLOAT8
    from .float8 import float8_matmul as float8_matmul
    from .float8 import has_float8 as has_float8
    from .float8 import multiply_float8 as multiply_float8
    from .float8 import saturated as saturated
    from .float8 import simulate_float8 as simulate_float8
    from .float8 import to_float8 as to_float8
    from .gptq_rounding import check_inputs as check_inputs
    from .gptq_rounding import detached_bias as detached_bias
    from .gptq_rounding import gptq as gptq
    from .gptq_rounding import gptq_linear as gptq_linear
    from .gptq_rounding import inverse_factor as inverse_factor
    from .gptq_rounding import output_error as output_error
    from .linear import Int4Linear as Int4Linear
    from .linear import QuantizedLinear as QuantizedLinear
    from .linear import SCALE_DTYPE as SCALE_DTYPE
    from .matmul import DECODED_AT_ONCE as DECODED_AT_ONCE
    from .matmul import FEW_ROWS as FEW_ROWS
    from .matmul import plain_matmul as plain_matmul
    from .matmul import quantized_matmul as quantized_matmul
    from .packed import PackedEmbedding as PackedEmbedding
    from .packed import PackedLinear as PackedLinear
    from .packing import check_codes as check_codes
    from .packing import pack_bits as pack_bits
    from .packing import pack_nibbles as pack_nibbles
    from .packing import unpack_bits as unpack_bits
    from .packing import unpack_nibbles as unpack_nibbles
