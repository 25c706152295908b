"""Compiles every kernel for a GPU, on any Linux machine: the interpreter lets types pass that the compiler refuses.

Nothing runs. The compiler also says how much of a chip's shared memory a program needs; the smallest of today's GPUs
(compute capability 8.6 and 8.9) give a program 99 KB.
"""

from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(
    find_spec("triton") is None,
    reason="NO KERNEL IS COMPILED: no triton (Linux only: pip install -e '.[kernels]' -c constraints.txt)",
)

SHARED_MEMORY = 99 * 1024
POINTERS = {
    "maximum_ptr": "*fp32",
    "total_ptr": "*fp32",
    "weighted_ptr": "*fp32",
    "table_ptr": "*i32",
    "length_ptr": "*i32",
    "offsets_ptr": "*i64",
    "scales_ptr": "*bf16",
}
# What a launch with usual sizes finds out: these numbers and all pointers are multiples of 16, so loads can be wide.
ROUND = ("stride", "block_size", "bytes_per_group", "D", "F")
NUMBERS = {"bf16": 2, "fp32": 4}


def compiled(kernel, floats, constants, codes="*i8", num_stages=2):
    """The kernel for compute capability 8.0, with pointers to `floats` where no other type is known."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    types = POINTERS | {"codes_ptr": codes, "scale": "fp32"}
    signature, attributes = {}, {}
    for i, name in enumerate(kernel.arg_names):
        is_pointer = name.endswith("_ptr")
        signature[name] = "constexpr" if name in constants else types.get(name, f"*{floats}" if is_pointer else "i32")
        if name not in constants and (is_pointer or any(name == word or word in name.split("_") for word in ROUND)):
            attributes[(i,)] = [["tt.divisibility", 16]]
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=attributes)
    options = {"num_warps": 4, "num_stages": num_stages}
    return triton.compile(source, target=GPUTarget("cuda", 80, 32), options=options)


def assert_compiles(binary, floats):
    assert binary.asm["cubin"]
    assert binary.metadata.shared <= SHARED_MEMORY, f"{binary.metadata.shared} bytes of shared memory"
    if floats == "bf16":
        assert "mma.sync" in binary.asm["ptx"], "a product without the matrix units"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


def test_every_kernel_compiles_where_all_numbers_are_1():
    """A number that is 1 at a launch becomes a constant, and not all that takes numbers takes constants."""
    from nanolm.kernels import triton_grouped, triton_paged, triton_prefill, triton_quantized

    small = {"G": 1, "H": 16, "H_TILE": 16}
    for kernel, tiles in [
        (triton_prefill.flash_prefill_kernel, {"H": 16, "H_TILE": 16, "T_TILE": 16, "S_TILE": 16}),
        (triton_paged.paged_split_kernel, {**small, "G_TILE": 16, "S_TILE": 16}),
        (triton_paged.paged_merge_kernel, {**small, "SPLITS_TILE": 1}),
        (triton_quantized.quantized_matvec_kernel, {"BITS": 8, "R_TILE": 16, "O_TILE": 16, "C_TILE": 16}),
        (triton_grouped.grouped_matmul_kernel, {"E_TILE": 16, "P_TILE": 16, "F_TILE": 16, "D_TILE": 16}),
    ]:
        numbers = [name for name in kernel.arg_names if not name.endswith("_ptr") and name not in (*tiles, "scale")]
        assert compiled(kernel, "bf16", tiles | dict.fromkeys(numbers, 1)).asm["cubin"], kernel.__name__


@pytest.mark.parametrize("floats", NUMBERS)
@pytest.mark.parametrize("H", [64, 128, 256])
def test_the_prefill_kernel_compiles(floats, H):
    from nanolm.kernels import triton_prefill

    tiles = triton_prefill.tiles_for(1000, H, NUMBERS[floats])
    stages = triton_prefill.stages_for(H, NUMBERS[floats])
    assert_compiles(compiled(triton_prefill.flash_prefill_kernel, floats, tiles, num_stages=stages), floats)


@pytest.mark.parametrize("floats", NUMBERS)
def test_the_paged_kernels_compile(floats):
    from nanolm.kernels import triton_paged

    tiles = triton_paged.tiles_for(4, 256, NUMBERS[floats])
    assert_compiles(compiled(triton_paged.paged_split_kernel, floats, tiles), floats)
    tiles = {"G": 4, "H": 256, "H_TILE": 256, "SPLITS_TILE": 16}
    assert compiled(triton_paged.paged_merge_kernel, floats, tiles).asm["cubin"]


@pytest.mark.parametrize("floats", NUMBERS)
@pytest.mark.parametrize(("bits", "codes"), [(8, "*i8"), (4, "*u8")])
def test_the_quantized_kernel_compiles(floats, bits, codes):
    from nanolm.kernels import triton_quantized as quantized

    tiles = {"BITS": bits, **quantized.tiles_for(bits, 4096, NUMBERS[floats])}
    stages = tiles.pop("num_stages")
    assert_compiles(compiled(quantized.quantized_matvec_kernel, floats, tiles, codes, num_stages=stages), floats)


@pytest.mark.parametrize("floats", NUMBERS)
@pytest.mark.parametrize("P", [8, 4096])
def test_the_grouped_kernel_compiles(floats, P):
    from nanolm.kernels import triton_grouped

    tiles = triton_grouped.tiles_for(P, 8, NUMBERS[floats])
    assert_compiles(compiled(triton_grouped.grouped_matmul_kernel, floats, tiles, num_stages=3), floats)
