"""Run the published tests in this process against one implementation, and say what each test found.

The same files, marks and fixtures as `python -m pytest`; only the implementation is handed over directly, the
outcome comes back as objects, and nothing is printed or written.
"""

import contextlib
import io
import os
import sys
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from ..errors import CourseError
from ..folder import require_folder
from ..paths import ROOT
from ..registry import Exercise
from . import seeds
from .implementation import REFERENCE, Implementation
from .limits import limits
from .outcomes import Collector, Outcome

TESTS = ROOT / "tests"
PLUGINS = ("impl", "left_out", "settled", "shuffled")


@dataclass(frozen=True)
class Run:
    """The outcomes of one run, what went wrong outside any test (`error`, or empty), and the seed of the inputs."""

    outcomes: list[Outcome]
    error: str
    seed: int = 0

    @property
    def passed(self) -> bool:
        """Whether at least one test ran and all passed."""
        return bool(self.outcomes) and not self.error and all(outcome.passed for outcome in self.outcomes)


def run_exercises(
    exercises: Sequence[Exercise],
    implementation: Implementation,
    seconds: float = 60,
    brief: bool = False,
    seed: int | None = None,
    weak: Collection[str] = (),
    first: bool = False,
) -> Run:
    """Run the tests that grade the exercises against an implementation, for at most `seconds`.

    Args:
        weak: test functions that pass whatever the answer does: what the audit has to notice.
        first: end with the first test that fails.
        seed: of the random inputs; None: a new one for an answer, 0 for the reference.
        brief: of an unwritten exercise run one test, not all (`Collector`).
    """
    require_folder()
    targets = {name for exercise in exercises for name in exercise.targets}
    files = [ROOT / name for name in dict.fromkeys(name for exercise in exercises for name in exercise.tests)]
    if not files:  # pytest with no file would run whatever it finds
        return Run([], "no test grades it yet")
    collector = Collector(implementation, targets=targets, brief=brief, weak=weak)
    return _run(collector, files, seconds, seed, *(["--maxfail=1"] if first else []))


def collected(exercises: Sequence[Exercise]) -> list[pytest.Item]:
    """Return the tests that grade the exercises, without running any."""
    collector = Collector(Implementation(), targets={name for exercise in exercises for name in exercise.targets})
    files = [ROOT / name for name in dict.fromkeys(name for exercise in exercises for name in exercise.tests)]
    run = _run(collector, files, 60, 0, "--collect-only")
    if run.error:
        raise CourseError(f"the tests could not be read: {run.error}")
    return collector.items


def run_test(
    test: str, files: Sequence[Path], implementation: Implementation, seconds: float = 60, seed: int | None = None
) -> Run:
    """Run one test by its function's name, marked or not, with all of its parameters."""
    return _run(Collector(implementation, test=test), files, seconds, seed)


def _run(collector: Collector, files: Sequence[Path], seconds: float, seed: int | None, *options: str) -> Run:
    said = io.StringIO()
    if seed is None:
        seed = 0 if collector.implementation.name == REFERENCE else seeds.new()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), _unchanged(), limits(seconds) as clock:
        collector.clock = clock
        code = pytest.main([*arguments(files, seed), *options], plugins=[collector, *_plugins()])
    return Run(collector.outcomes(), collector.problem(code, said.getvalue()), seed)


def arguments(files: Sequence[Path], seed: int) -> list[str]:
    """Return what pytest is started with, wherever answers are graded.

    Left out are its account of a failure, which nobody reads and which takes longer than most of our tests, the
    plugins that collect garbage several times a run, and the one that catches what is logged: it hangs itself into
    every logger of torch three times a test, a quarter of what such a short test takes.
    """
    found = [*map(str, files), f"--rootdir={ROOT}", f"--confcutdir={ROOT}", "-c", str(ROOT / "pyproject.toml")]
    found += ["--seed", str(seed), "--capture=sys", "-m", "not slow", "--disable-plugin-autoload", "--color=no"]
    for plugin in ("cacheprovider", "faulthandler", "unraisableexception", "threadexception", "logging"):
        found += ["-p", f"no:{plugin}"]
    return [*found, "--tb=no"]


def _plugins() -> list[ModuleType]:
    """The plugins that tests/conftest.py names. By name, pytest would look for each in all that is installed.

    Where they lie is put before sys.path, as pytest does too; `_unchanged` gives it back.
    """
    sys.path[:0] = [str(ROOT), str(TESTS), str(TESTS / "helpers")]
    return [import_module(name) for name in PLUGINS]


@contextlib.contextmanager
def _unchanged() -> Iterator[None]:
    """Give sys.path, the warnings settings and the loaded tests back as they were: the process is the student's.

    Tests are read anew for each run, so that nothing which an answer does to them outlives it.
    """
    path, bytecode, loaded = list(sys.path), sys.dont_write_bytecode, _test_modules()
    sys.dont_write_bytecode = True  # nothing is written beside the tests
    for name in loaded:
        del sys.modules[name]
    try:
        with warnings.catch_warnings():
            yield
    finally:
        sys.path[:], sys.dont_write_bytecode = path, bytecode
        for name in _test_modules():
            del sys.modules[name]
        sys.modules.update(loaded)


def _test_modules() -> dict[str, ModuleType]:
    """The files of tests that are loaded."""
    found, within = {}, os.path.normcase(TESTS) + os.sep
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if os.path.basename(file).startswith("test_") and os.path.normcase(file).startswith(within):
            found[name] = module
    return found
