"""What the screen allows and refuses, by name. A right answer needs none of what is refused."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Roots of what may be imported. Everything else reaches files, processes, frames or the tests.
IMPORTS = _words(
    "IPython __future__ abc array bisect cmath collections contextlib copy course dataclasses datetime decimal einops "
    "enum fractions functools heapq itertools jaxtyping math nanolm numbers numpy operator pprint random re statistics "
    "string struct sys textwrap time timeit torch tqdm typing typing_extensions warnings"
)
# What even an import that nothing uses must not read: the course's own files, and what runs its tests.
OURS = _words("_pytest benchmarks conftest course impl pluggy pytest solutions tests training")
# Of these, the only names that may be used.
ONLY = {
    "sys": _words("maxsize float_info exit version_info stderr stdout"),
    "IPython": _words("display"),
    "IPython.display": _words("display Markdown HTML Math Latex clear_output"),
    "datetime": _words("datetime date time timedelta timezone"),
    "pprint": _words("pprint pp pformat"),
    "string": _words("ascii_letters ascii_lowercase ascii_uppercase digits punctuation whitespace capwords"),
    "timeit": _words("default_timer"),
    "tqdm": _words("tqdm trange auto notebook"),
    "tqdm.auto": _words("tqdm trange"),
    "tqdm.notebook": _words("tqdm trange"),
    "torch.testing": _words("assert_close"),
    "numpy.testing": _words("assert_allclose assert_array_equal assert_almost_equal assert_equal"),
    "course": _words("NotYetWritten check needs still_to_write your_engine"),  # what a notebook's set-up cell imports
    "contextlib": _words("contextmanager nullcontext suppress closing ExitStack"),
    "operator": _words(
        "add sub mul truediv floordiv mod neg pos abs lt le gt ge eq ne and_ or_ xor not_ matmul pow itemgetter "
        "contains getitem setitem index iadd"
    ),
    "warnings": _words("warn catch_warnings simplefilter filterwarnings"),
    "typing": _words(
        "Any Callable ClassVar Final Generic Iterable Iterator Generator Literal Mapping MutableMapping NamedTuple "
        "Optional Protocol Self Sequence Set FrozenSet Deque DefaultDict Tuple List Dict Type TypeAlias TypeVar "
        "TypedDict Union TYPE_CHECKING cast overload override Never NoReturn Annotated ParamSpec Concatenate Hashable "
        "Sized Collection Counter OrderedDict SupportsFloat SupportsInt SupportsIndex Concatenate assert_never "
        "runtime_checkable final Required NotRequired Unpack Iterable Reversible Container"
    ),
    "dataclasses": _words("dataclass field replace fields asdict astuple is_dataclass KW_ONLY InitVar"),
    "torch.autograd": frozenset(["no_grad", "grad", "Function"]),
    "torch.utils": frozenset(),
}
# Parts of libraries that run text, read or write files, start compilers or stand between a call and what it does.
REFUSED_PARTS = _words(
    "load save savez savetxt savez_compressed loadtxt genfromtxt fromfile tofile memmap open_memmap from_file "
    "DataSource lib ctypeslib f2py distutils testing hub jit package ops classes library overrides compile "
    "multiprocessing distributed serialization fx export profiler onnx cpp_extension data_ptr ctypes dump dumps "
    "set_default_dtype set_default_device set_default_tensor_type "
    "register_module_forward_hook register_module_forward_pre_hook UntypedStorage TypedStorage get_type_hints "
    "make_dataclass Formatter os sys io gc inspect builtins subprocess importlib pickle threading socket shutil "
    "pathlib tempfile signal platform codecs linecache traceback types weakref copyreg bltns eval exec open"
)
ALLOWED_PARTS = frozenset(["re.compile", "torch.testing", "numpy.testing"])
# Of these, what is refused of any object: no answer calls an attribute of its own so.
REFUSED_ANYWHERE = _words(
    "os sys builtins bltns subprocess ctypes importlib inspect pickle socket linecache ctypeslib cpp_extension f2py "
    "hub overrides UntypedStorage TypedStorage from_file tofile fromfile memmap load_library set_default_dtype"
)
# Names of Python itself that run text, open files, or reach names by their text.
REFUSED_NAMES = _words(
    "eval exec compile open input globals locals vars dir breakpoint setattr delattr help memoryview "
    "__import__ __builtins__ __loader__ __spec__ __file__ __dict__ __annotations__ get_ipython"
)
ALLOWED_DUNDER_NAMES = frozenset(["__name__", "__debug__", "__all__", "__doc__", "__class__"])
# What leads from a value to the code that runs, or to the function that called.
FRAMES = _words(
    "f_back f_globals f_locals f_builtins f_code tb_frame tb_next gi_frame gi_code gi_yieldfrom cr_frame cr_code "
    "cr_await ag_frame ag_code func_globals func_code co_code co_consts cell_contents with_traceback mro "
    "_getframe"
)
ALLOWED_DUNDER_ATTRIBUTES = _words(
    "__init__ __post_init__ __name__ __qualname__ __doc__ __class__ __len__ __iter__ __next__ __getitem__ __setitem__ "
    "__contains__ __call__ __enter__ __exit__ __repr__ __version__"
)
# Methods with which an object answers truthfully; with the others it could say of itself that it equals anything.
ALLOWED_DUNDER_METHODS = _words(
    "__init__ __post_init__ __repr__ __str__ __len__ __iter__ __next__ __call__ __getitem__ __setitem__ "
    "__enter__ __exit__ __lt__ __hash__ __slots__ __match_args__"
)
# A class that is one of these passes for a value, whatever it does when it is compared.
VALUES = _words(
    "Tensor Parameter ndarray int float complex bool str bytes list tuple dict set frozenset type object_ generic"
)
# The engine's private functions of torch and numpy that a lesson shows.
ALLOWED_PRIVATE = _words(
    "_int_mm _weight_int8pack_mm _weight_int4pack_mm_for_cpu _convert_weight_to_int4pack_for_cpu _scaled_mm"
)
