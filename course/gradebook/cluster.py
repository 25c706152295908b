"""A Dask cluster in the judge's place: each exercise is graded by a judge on one of its machines.

The cluster's environment needs this course, as it is here, and torch; bubblewrap too, for a sandbox. Nothing but
answers goes there, nothing but marks comes back; gradebook and solutions stay here.
"""

import importlib
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from ..errors import CourseError
from ..judge.judge import Judge
from ..judge.marks import Mark, version
from ..registry import Exercise, find

_SECONDS = 15  # in which a scheduler answers
_judges: dict[str, Judge] = {}  # of a cluster's worker: by who asks
_turn = threading.Lock()


class Cluster:
    """Grades answers as `Judge` does, on the workers of a Dask cluster; a context manager, safe to be asked by threads.

    Attributes:
        threads: of all workers together, and so exercises at once.
        protection: what stands between answers and those machines, in a sentence.
    """

    def __init__(self, address: str) -> None:
        """
        Args:
            address: of the scheduler, "tcp://HOST:8786".

        Raises:
            CourseError: the library is not installed, nobody answers, there are no workers, or they lack the course.
        """
        distributed = _library()
        try:
            self._client = distributed.Client(address, timeout=_SECONDS, set_as_default=False)
        except (OSError, ValueError) as error:
            said = f"no Dask scheduler answers at {address} within {_SECONDS} s: {error}"
            raise CourseError(
                f"{said}; start one by `dask scheduler`, and workers by `dask worker {address}`"
            ) from None
        self._token = uuid4().hex
        try:
            self.threads = sum(self._client.nthreads().values())
            if not self.threads:
                raise CourseError(f"the cluster at {address} has no workers: `dask worker {address}` starts one")
            self.protection = self._protection(address)
        except BaseException:
            self._client.close()
            raise

    def _protection(self, address: str) -> str:
        try:
            said = Counter(self._client.run(_protection, self._token).values())
        except Exception as error:  # whatever a worker's environment lacks, it says by its own exception
            why = f"{type(error).__name__}: {error}"
            raise CourseError(f"a worker of {address} cannot grade: {why}; it needs the environment of here") from None
        return "; ".join(f"on {count} Dask workers {words}" for words, count in said.items())

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the judges on all workers, and the connection; the cluster stays."""
        try:
            self._client.run(_close, self._token, on_error="ignore")
        except OSError:  # the scheduler is gone, and with it whatever there was to end
            pass
        finally:
            self._client.close()

    def grade(self, files: Mapping[str, str], exercises: Sequence[Exercise], seed: int) -> list[Mark]:
        """Return a mark for each exercise, in their order.

        Raises:
            CourseError: a worker's tests, lesson or grader are other ones than those here.
        """
        numbers = [exercise.number for exercise in exercises]
        given = self._client.submit(_grade, self._token, dict(files), numbers, seed, pure=False)
        marks = given.result()
        for exercise, mark in zip(exercises, marks, strict=True):
            if mark.version != version(exercise):
                raise CourseError(f"a worker grades {exercise.name} by another version of the course: install this one")
        return marks


def _library() -> Any:
    try:
        return importlib.import_module("distributed")  # by its name, as not everybody has it
    except ImportError:
        how = "pip install distributed, in the environment of the course"
        raise CourseError(f"--scheduler needs Dask, which is not installed: {how}") from None


def _grade(token: str, files: dict[str, str], numbers: list[str], seed: int) -> list[Mark]:
    """On a worker: ask its judge."""
    judge = _judge(token, _library().get_worker())
    return judge.grade(files, [find(number) for number in numbers], seed)


def _protection(token: str, dask_worker: Any = None) -> str:
    """On a worker, which Dask hands in by that name: what it has between answers and its machine."""
    return _judge(token, dask_worker).protection


def _judge(token: str, worker: Any) -> Judge:
    with _turn:
        if token not in _judges:
            _judges[token] = Judge(workers=worker.state.nthreads)
        return _judges[token]


def _close(token: str) -> None:
    """On a worker: end the judge that this token has asked."""
    with _turn:
        judge = _judges.pop(token, None)
    if judge is not None:
        judge.close()
