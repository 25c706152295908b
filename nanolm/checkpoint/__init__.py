"""Models by name and from files: Hugging Face folders and GGUF files, read and written."""

from typing import TYPE_CHECKING

from .._lazy import lazy

# Written by `course build` from the files' own definitions.
_HOMES = {
    "building": [
        "GROUP_SIZE",
        "Weights",
        "build_model",
        "check_weights",
        "coded_layers",
        "empty_model",
        "group_size_of",
    ],
    "deepseek": [
        "DEEPSEEK",
        "in_our_order",
    ],
    "gguf": [
        "GGUF",
        "gguf_config",
        "half_split_rows",
        "load_gguf",
        "open_gguf",
        "rows_in_order",
    ],
    "gguf_blocks": [
        "BLOCK",
        "BLOCK_BYTES",
        "GGUFFile",
        "PLAIN_KINDS",
        "bits_per_weight_of",
        "decode_blocks",
    ],
    "gguf_packed": [
        "Parts",
        "load_packed_gguf",
        "split_blocks",
    ],
    "gguf_tokens": [
        "end_tokens",
        "entries",
        "entry",
        "gguf_tokenizer",
        "start_token",
        "token_id",
    ],
    "huggingface": [
        "HUGGING_FACE",
        "SEPARATE_EXPERTS",
        "from_hf_tensors",
        "open_folder",
        "save",
        "to_hf_tensors",
    ],
    "loading": [
        "GGUF_SUFFIX",
        "SHIPPED",
        "SMOLLM2",
        "find_folder",
        "find_model",
        "installed_smollm2",
        "load",
        "opened",
    ],
    "memory": [
        "check_memory",
        "loading_bytes",
        "machine_bytes",
        "resident_bytes",
    ],
    "tensor_files": [
        "INDEX",
        "SINGLE",
        "TensorFiles",
        "read_json",
    ],
    "tokens": [
        "beginning_with",
        "read_tokenizer",
        "with_tokens",
    ],
    "weight_layout": [
        "Shape",
        "Source",
        "WeightLayout",
    ],
}
__getattr__, __dir__ = lazy(__name__, _HOMES)

if TYPE_CHECKING:
    from .building import GROUP_SIZE as GROUP_SIZE
    from .building import Weights as Weights
    from .building import build_model as build_model
    from .building import check_weights as check_weights
    from .building import coded_layers as coded_layers
    from .building import empty_model as empty_model
    from .building import group_size_of as group_size_of
    from .deepseek import DEEPSEEK as DEEPSEEK
    from .deepseek import in_our_order as in_our_order
    from .gguf import GGUF as GGUF
    from .gguf import gguf_config as gguf_config
    from .gguf import half_split_rows as half_split_rows
    from .gguf import load_gguf as load_gguf
    from .gguf import open_gguf as open_gguf
    from .gguf import rows_in_order as rows_in_order
    from .gguf_blocks import BLOCK as BLOCK
    from .gguf_blocks import BLOCK_BYTES as BLOCK_BYTES
    from .gguf_blocks import GGUFFile as GGUFFile
    from .gguf_blocks import PLAIN_KINDS as PLAIN_KINDS
    from .gguf_blocks import bits_per_weight_of as bits_per_weight_of
    from .gguf_blocks import decode_blocks as decode_blocks
    from .gguf_packed import Parts as Parts
    from .gguf_packed import load_packed_gguf as load_packed_gguf
    from .gguf_packed import split_blocks as split_blocks
    from .gguf_tokens import end_tokens as end_tokens
    from .gguf_tokens import entries as entries
    from .gguf_tokens import entry as entry
    from .gguf_tokens import gguf_tokenizer as gguf_tokenizer
    from .gguf_tokens import start_token as start_token
    from .gguf_tokens import token_id as token_id
    from .huggingface import HUGGING_FACE as HUGGING_FACE
    from .huggingface import SEPARATE_EXPERTS as SEPARATE_EXPERTS
    from .huggingface import from_hf_tensors as from_hf_tensors
    from .huggingface import open_folder as open_folder
    from .huggingface import save as save
    from .huggingface import to_hf_tensors as to_hf_tensors
    from .loading import GGUF_SUFFIX as GGUF_SUFFIX
    from .loading import SHIPPED as SHIPPED
    from .loading import SMOLLM2 as SMOLLM2
    from .loading import find_folder as find_folder
    from .loading import find_model as find_model
    from .loading import installed_smollm2 as installed_smollm2
    from .loading import load as load
    from .loading import opened as opened
    from .memory import check_memory as check_memory
    from .memory import loading_bytes as loading_bytes
    from .memory import machine_bytes as machine_bytes
    from .memory import resident_bytes as resident_bytes
    from .tensor_files import INDEX as INDEX
    from .tensor_files import SINGLE as SINGLE
    from .tensor_files import TensorFiles as TensorFiles
    from .tensor_files import read_json as read_json
    from .tokens import beginning_with as beginning_with
    from .tokens import read_tokenizer as read_tokenizer
    from .tokens import with_tokens as with_tokens
    from .weight_layout import Shape as Shape
    from .weight_layout import Source as Source
    from .weight_layout import WeightLayout as WeightLayout
