"""Tests `nanolm/kernels/compiled.py`: a library is made once for a machine, or there is a reason why not."""

import os
import subprocess
import sys

import pytest

from nanolm import kernels
from nanolm.kernels import compiled as module
from nanolm.kernels.compiled import (
    ATTENTION,
    PRODUCTS,
    Library,
    NotCompiled,
    build_library,
    find_compiler,
    load_library,
)

needs_compiler = pytest.mark.skipif(not isinstance(load_library(), Library), reason=f"none here: {load_library()}")
scripts = pytest.mark.skipif(os.name == "nt", reason="the stand-ins for compilers are shell scripts")


# What is tested here is not how fast the products are, and to make them fast takes four times as long.
PLAIN = ("-O0", *module._COMMON[1:])


@pytest.fixture(autouse=True)
def compiled_plainly(monkeypatch):
    monkeypatch.setattr(module, "_COMMON", PLAIN)


def compiler_that(folder, monkeypatch, script):
    """Put a compiler that runs this script in the place of all others."""
    folder.mkdir(exist_ok=True)
    (folder / "cc").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    (folder / "cc").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CC", raising=False)


@needs_compiler
def test_a_library_is_made_once_and_then_found(tmp_path, monkeypatch):
    made = build_library(tmp_path / "new")
    (file,) = (tmp_path / "new").iterdir()
    assert set(made.functions) == {*PRODUCTS, *ATTENTION, "even_then_odd"} and file.name.startswith("products-")
    before = file.stat().st_mtime_ns
    monkeypatch.setattr(module, "_compile", lambda *_: pytest.fail("compiled again"))
    assert build_library(tmp_path / "new").made_by == made.made_by
    assert file.stat().st_mtime_ns == before


@needs_compiler
@pytest.mark.parametrize("changed", range(3), ids=[source.name for source in module._SOURCES])
def test_another_source_makes_another_file(tmp_path, monkeypatch, changed):
    build_library(tmp_path)
    sources = [tmp_path / source.name for source in module._SOURCES]
    for i, (source, other) in enumerate(zip(module._SOURCES, sources, strict=True)):
        other.write_bytes(source.read_bytes() + b"\n" * (i == changed))
    monkeypatch.setattr(module, "_SOURCES", sources)
    build_library(tmp_path)
    assert len(list(tmp_path.glob("products-*"))) == 2


@needs_compiler
def test_two_processes_at_once_leave_one_whole_file(tmp_path):
    code = f"import sys, pathlib; from nanolm.kernels import compiled as c; c._COMMON = {PLAIN}; "
    command = [sys.executable, "-c", f"{code}c.build_library(pathlib.Path(sys.argv[1]))", str(tmp_path / "shared")]
    processes = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait() for process in processes] == [0, 0]
    assert len(list((tmp_path / "shared").iterdir())) == 1


def test_without_a_compiler_the_reason_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(NotCompiled, match="no C compiler: cc, gcc and clang are not on the path"):
        build_library(tmp_path)


def test_a_compiler_that_is_asked_for_and_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler -O1")
    with pytest.raises(NotCompiled, match="CC names no-such-compiler, which is not there"):
        build_library(tmp_path)


@scripts
def test_a_compiler_is_called_with_the_options_that_cc_names(tmp_path, monkeypatch):
    compiler_that(tmp_path, monkeypatch, "true")
    monkeypatch.setenv("CC", "cc -O1")
    assert find_compiler() == [str(tmp_path / "cc"), "-O1"]


@scripts
def test_a_compiler_that_fails_is_quoted_by_its_first_line(tmp_path, monkeypatch):
    compiler_that(tmp_path / "bin", monkeypatch, "echo 'cc: out of luck' >&2; echo more >&2; exit 1")
    with pytest.raises(NotCompiled, match=r"^cc failed: cc: out of luck$"):
        build_library(tmp_path / "kept")


@scripts
def test_a_compiler_that_makes_rubbish_gives_a_reason_and_no_crash(tmp_path, monkeypatch):
    compiler_that(
        tmp_path / "bin", monkeypatch, 'while [ $# -gt 0 ]; do [ "$1" = -o ] && echo rubbish > "$2"; shift; done'
    )
    with pytest.raises(NotCompiled, match=r"products-\w+\.so cannot be loaded"):
        build_library(tmp_path / "kept")


@scripts
def test_a_compiler_that_makes_nothing_gives_a_reason(tmp_path, monkeypatch):
    compiler_that(tmp_path / "bin", monkeypatch, "exit 0")
    with pytest.raises(NotCompiled, match="cannot be written"):
        build_library(tmp_path / "kept")


@scripts
@needs_compiler
def test_a_compiler_without_openmp_makes_a_library_without_threads(tmp_path, monkeypatch):
    real = find_compiler()[0]
    path = os.environ["PATH"]
    script = f'PATH="{path}"; for a in "$@"; do [ "$a" = -fopenmp ] && exit 1; done; exec {real} "$@"'
    compiler_that(tmp_path / "bin", monkeypatch, script)
    library = build_library(tmp_path / "kept")
    assert not library.has_threads and "-fopenmp" not in library.made_by


@needs_compiler
def test_a_folder_that_cannot_be_written_is_the_reason(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(NotCompiled, match=r"file.* cannot be written"):
        build_library(tmp_path / "file" / "in it")


def test_nothing_is_compiled_or_loaded_by_an_import():
    code = (
        "import nanolm.kernels.products as p, nanolm.quantization.matmul, nanolm; from nanolm.kernels import compiled"
    )
    run = f"{code}; assert compiled._loaded.cache_info().currsize == 0"
    subprocess.run([sys.executable, "-c", run], check=True)


def test_the_sources_are_part_of_the_package():
    folder = module._SOURCES[0].parent
    assert folder.name == kernels.__name__.rpartition(".")[2]
    assert {*folder.glob("*.c"), *folder.glob("*.h")} == set(module._SOURCES)
    pyproject = (folder.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    assert '"kernels/*.c", "kernels/*.h"' in pyproject
