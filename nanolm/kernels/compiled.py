"""`products.c` and `attention.c` as a library of this machine: compiled by its own C compiler when first asked for.

A wheel would have to be built for every processor; a compiler on the spot builds for the one that is there. It lies in
the user's cache folder under a name that says what it was made of (source, flags, compiler, processor), so a change of
any of them makes another file. It is written aside and then renamed: processes that do the same at once do no harm.
"""

import ctypes
import hashlib
import os
import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path
from threading import Lock

from .._files import user_cache_folder, write_whole

_SOURCES = tuple(Path(__file__).with_name(name) for name in ("products.c", "attention.c", "vectors.h"))
_NATIVE, _THREADS = ("-march=native",), ("-fopenmp",)
# Tried in turn: Apple's Clang has no OpenMP, some compilers name the processor in another way.
_FLAGS = ((*_NATIVE, *_THREADS), ("-mcpu=native", *_THREADS), _NATIVE, ("-mcpu=native",), ())
_COMMON = ("-O3", "-shared", "-fPIC", "-ffp-contract=off")
_SECONDS = 120  # that a compiler may take
PRODUCTS = ("product_float32", "product_bfloat16", "product_int8", "product_int4", "product_uint4")
ATTENTION = ("attend_float32", "attend_bfloat16", "attend_int8")
_P, _N, _I = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
_PRODUCT = (_P, _N, _N, _P, _P, _P, _N, _I, _N, _P, _I)  # x n D matrix scales minima group is_half out y threads


class Layout(ctypes.Structure):
    """Where keys and values lie: `layout` of attention.c."""

    _fields_ = (
        *((name, _P) for name in ("keys", "key_scales", "values", "value_scales", "tables", "lengths")),
        *((name, _N) for name in ("N", "K", "T", "H", "M", "length", "block_size", "heads", "blocks")),
        ("scale", ctypes.c_float),
    )


_ATTEND = (_P, _N, ctypes.POINTER(Layout), _P, _N, _P, _I)  # q B layout scratch room out threads

_lock = Lock()


class NotCompiled(RuntimeError):
    """There is no compiled library here; the message says why."""


class Library:
    """The compiled products, their arguments' types set.

    Attributes:
        functions: by name, those of `PRODUCTS` and `ATTENTION`, and even_then_odd.
        made_by: the compiler's name and the flags it took.
        has_threads: whether rows of a matrix are shared out among threads.
    """

    def __init__(self, path: Path, compiler: str, flags: tuple[str, ...]) -> None:
        try:
            library = ctypes.CDLL(str(path))
            self.functions = {name: getattr(library, name) for name in (*PRODUCTS, *ATTENTION, "even_then_odd")}
        except (OSError, AttributeError) as error:
            raise NotCompiled(f"{path} cannot be loaded: {_first_line(str(error))}") from None
        for name, function in self.functions.items():
            function.restype = None
            function.argtypes = _ATTEND if name in ATTENTION else (_P, _N, _P) if name == "even_then_odd" else _PRODUCT
        self.made_by = " ".join((Path(compiler).name, *flags))
        self.has_threads = _THREADS[0] in flags


def load_library() -> Library | NotCompiled:
    """Return the library, compiled first if need be (a second or two), or the reason why there is none."""
    with _lock:
        return _loaded()


@cache
def _loaded() -> Library | NotCompiled:
    try:
        return build_library(user_cache_folder())
    except NotCompiled as reason:
        return reason
    except RuntimeError as error:  # of Path.home
        return NotCompiled(f"no folder to keep it in: {error}")


def build_library(folder: Path) -> Library:
    """Return the library from this folder, put there first if it is not.

    Raises:
        NotCompiled: no compiler, one that fails, a folder that cannot be written, a library that cannot be loaded.
    """
    compiler, failure = find_compiler(), ""
    for flags in _FLAGS:
        try:
            about = _run([*compiler, *flags, "-dM", "-E", "-x", "c", os.devnull])  # all that it knows of the processor
            path = folder / f"products-{_digest(' '.join((*compiler, *flags)), about)}{_suffix()}"
            if not path.exists():
                _compile([*compiler, *_COMMON, *flags], path)
            return Library(path, compiler[0], flags)
        except NotCompiled as reason:
            failure = failure or str(reason)
    raise NotCompiled(failure)


def find_compiler() -> list[str]:
    """Return the C compiler's command: the variable CC, or the first of cc, gcc and clang on the path.

    Raises:
        NotCompiled: there is none.
    """
    asked = shlex.split(os.environ.get("CC", ""), posix=os.name != "nt")
    for name in asked[:1] or ("cc", "gcc", "clang"):
        found = shutil.which(name)
        if found:
            return [found, *asked[1:]]
    what = f"CC names {asked[0]}, which is not there" if asked else "cc, gcc and clang are not on the path"
    raise NotCompiled(f"no C compiler: {what}")


def _compile(command: list[str], path: Path) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, lambda part: _run([*command, "-o", str(part), *map(str, _SOURCES[:2])]))
    except OSError as error:
        raise NotCompiled(f"{path.parent} cannot be written: {error.strerror or error}") from None


def _run(command: list[str]) -> str:
    """Return what a compiler prints.

    Raises:
        NotCompiled: it cannot be started, takes too long or fails; with the first line of what it says.
    """
    name = Path(command[0]).name
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotCompiled(f"{name} did not run: {_first_line(str(error))}") from None
    if done.returncode:
        raise NotCompiled(f"{name} failed: {_first_line(done.stderr) or f'exit status {done.returncode}'}")
    return done.stdout


def _digest(command: str, about: str) -> str:
    sources = (source.read_bytes() for source in _SOURCES)
    parts = (*sources, command.encode(), " ".join(_COMMON).encode(), about.encode(errors="replace"))
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]


def _suffix() -> str:
    return {"nt": ".dll"}.get(os.name, ".so")


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
