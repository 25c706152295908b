"""The packages of the repository, the order of the rooms in each, and what an import may not do.

Also what stands under functions counts; what stands under `if TYPE_CHECKING` never runs, and does not.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from course.paths import ROOT, read

PACKAGES = ("nanolm", "course", "training", "benchmarks", "tests", "exercises")


@dataclass(frozen=True)
class House:
    """One package.

    Attributes:
        name: the package's.
        rooms: its packages and lone files, from the ground up: one knows those before it.
        knows: which other packages it may import; of the repository's, no other.
        longer: files that may be longer than the others, each with the reason.
    """

    name: str
    rooms: tuple[str, ...]
    knows: tuple[str, ...] = ()
    longer: dict[str, str] = field(default_factory=dict)

    @cached_property
    def files(self) -> list[str]:
        """Every Python file by its path from the package."""
        folder = ROOT / self.name
        return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py"))

    @property
    def inside(self) -> list[str]:
        """The files without the front door of the whole package, which hands on from any room."""
        return [file for file in self.files if file != "__init__.py"]

    @property
    def packages(self) -> list[str]:
        """The rooms that have files in them."""
        return [file.removesuffix("/__init__.py") for file in self.files if file.endswith("/__init__.py")]

    def text(self, file: str) -> str:
        """Return the text of a file."""
        return read(ROOT / self.name / file)

    def complaints(self, file: str, text: str) -> list[str]:
        """Return what is wrong with the imports of one file, a line for each."""
        found = []
        for node in _imports(ast.parse(text)):
            line = f"{self.name}/{file}, line {node.lineno}: {ast.unparse(node)}"
            for other in _packages_of(node) & set(PACKAGES) - {self.name, *self.knows}:
                found.append(f"{line}: {self.name} knows nothing of {other}, which is built on it")
            for module, name in self._imported(file, node):
                found += [f"{line}: {reason}" for reason in self._reasons(file, module, name)]
        return found

    def _reasons(self, file: str, module: str, name: str) -> Iterator[str]:
        own, known = file.removesuffix(".py").split("/")[0], {f.removesuffix(".py") for f in self.files}
        whole = ".".join(filter(None, [module, name]))
        is_file = whole.replace(".", "/") in known or whole in self.packages
        inner = whole if is_file else module  # the file or room that is imported from
        room = inner.partition(".")[0]
        if room not in self.rooms:
            yield f"{room or f'{self.name} itself'} is no room"
        elif self.rooms.index(room) > self.rooms.index(own):
            yield f"{own} must not know {room}, which comes after it"
        if inner in self.packages:
            yield "inside a package a name is imported from its file, not from the front door"

    def _imported(self, file: str, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
        """Where an import looks in this house, and for what: "cache.contiguous", "KVCache"."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == self.name:
                    yield alias.name.partition(".")[2], ""
            return
        package = [self.name, *file.split("/")[:-1]]
        parts = package[: len(package) - node.level + 1] if node.level else []
        parts += (node.module or "").split(".") if node.module else []
        if parts[:1] == [self.name]:
            for alias in node.names:
                yield ".".join(parts[1:]), alias.name


def _imports(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and ast.unparse(child.test).rpartition(".")[2] == "TYPE_CHECKING":
            for other in child.orelse:
                yield from _imports(ast.Module([other], []))
        else:
            yield from _imports(child)


def _packages_of(node: ast.Import | ast.ImportFrom) -> set[str]:
    if isinstance(node, ast.ImportFrom):
        return set() if node.level else {(node.module or "").partition(".")[0]}
    return {alias.name.partition(".")[0] for alias in node.names}


NANOLM = House(
    "nanolm",
    rooms=(
        *("_require", "_lazy", "_files"),
        *("rope_scaling", "hf_config", "budget", "config", "batch_invariant"),
        *("kernels", "sampling", "text", "grammar"),
        *("quantization", "attention"),
        *("paging", "cache", "window"),
        "varlen",
        *("layers", "model", "mla"),
        *("checkpoint", "machine", "speculative"),
        "engine",
        "workload",
        *("openai_api", "web", "watching", "serving", "cli"),
        "__main__",
    ),
    longer={
        "engine/scheduler.py": "one class: methods whose docstrings say what an exercise has to do, and their books",
        "model/decoder.py": "one class and its docstrings: the pass, the loop, and what both refuse",
        "paging/radix_cache.py": "one class: the three exercises, the host store, and what both count",
    },
)
COURSE = House(
    "course",
    rooms=(
        *("paths", "errors", "folder", "registry", "nbgrader_step"),
        "text",
        "building",
        *("grading", "audit", "lab"),
        *("screening", "judge"),
        *("capstone", "work"),
        "leaderboard",
        *("intake", "gradebook"),
        *("bundles", "tab", "book"),
        "update",
        *("commands", "cli", "__main__"),
    ),
    knows=("nanolm",),
)
TRAINING = House(
    "training",
    rooms=(
        *("state", "recipe"),
        "texts",
        *("balance", "measure", "routing", "plots", "trace"),
        *("loop", "figures", "train", "card", "mixture_card"),
    ),
    knows=("nanolm",),
)
BENCHMARKS = House(
    "benchmarks",
    rooms=(
        *("tools", "kernels", "against", "decode", "speculation", "serving", "load", "http"),
        *("peers", "grading"),
        *("quantized_decode", "quantized_linear", "quantization_quality", "prediction", "lookup", "cuda_graphs"),
    ),
    knows=("nanolm", "course", "training"),
)
HOUSES = (NANOLM, COURSE, TRAINING, BENCHMARKS)
