"""The judge: grades files of answers by the published tests, in processes that can harm nobody."""

import queue
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import CourseError
from ..grading import seeds
from ..paths import ROOT, read
from ..registry import Exercise
from ..screening.answers import Answer, answer_to
from . import marks
from .canary import canary
from .isolation import SANDBOXES
from .marks import Mark, broken_off, by_outcomes, mark, suspicious
from .messages import Limits
from .reference import hidden
from .sandbox import kind, without
from .worker import Lost, Seat, Worker

_NAMED = 5  # things that an answer has changed


class Judge:
    """Grades answers; a context manager, and safe to be asked by as many threads as it has workers.

    Each worker is a warm server that has read torch and the tests; each exercise runs in a fork of it. In a sandbox the
    server sees neither the network nor solutions/ nor grading/, and a fork sees no process but its own.
    """

    def __init__(self, workers: int = 1, sandbox: bool | None = None, limits: Limits | None = None) -> None:
        """
        Args:
            workers: servers, and so exercises at once.
            sandbox: True: bubblewrap or nothing; False: plain processes; None: bubblewrap where it works, else plain
                processes and a warning.
            limits: of time and memory; None: the usual.

        Raises:
            CourseError: `sandbox` is True and none can be made here; or `workers` is no number of servers.
        """
        if workers < 1:
            raise CourseError(f"workers is {workers}; it must be 1 or more")
        found, why = kind() if sandbox is not False else (without(), "it was not asked for")
        if found not in SANDBOXES and sandbox:
            raise CourseError(f"there is no sandbox: {why}")
        self.isolation, self._why, self.limits = found, why, limits or Limits()
        self._sound: set[tuple[str, int]] = set()  # exercises and seeds that the engine's own text has passed with
        if found not in SANDBOXES and sandbox is None:
            warnings.warn(self.protection, RuntimeWarning, stacklevel=2)
        self._free: queue.LifoQueue[Seat] = queue.LifoQueue()  # the warmest first
        self._seats = [Seat(found, number, self.limits) for number in range(workers)]
        for seat in self._seats:
            self._free.put(seat)

    def __enter__(self) -> "Judge":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End all servers."""
        for seat in self._seats:
            seat.close()

    @property
    def cpu_seconds(self) -> float:
        """The processor seconds that answers have taken so far, without the start of the servers."""
        return sum(seat.cpu_seconds for seat in self._seats)

    @property
    def protection(self) -> str:
        """What stands between answers and this machine, in a sentence."""
        if self.isolation in SANDBOXES:
            return "answers run in a sandbox: no network, nothing to write to, no solutions, no gradebook"
        return (
            f"NO SANDBOX: {self._why}. Answers run as this user, who can read solutions/ and grading/, write files and "
            "reach the network: grade on a machine and in an account that you could lose"
        )

    def grade(
        self, files: Mapping[str, str], exercises: Sequence[Exercise], seed: int | None = None, screened: bool = True
    ) -> list[Mark]:
        """Return a mark for each exercise, in their order.

        Args:
            files: the answers, "speculative/acceptance.py" to its text, as `course collect` makes them.
            seed: of the random inputs; None: a new one.
            screened: False: run also what the screen finds suspicious, when somebody has looked at it.

        Raises:
            CourseError: the server cannot be started.
        """
        seed = seeds.new() if seed is None else seed
        seat = self._free.get()
        try:
            return [self._grade(seat, answer_to(exercise, files), seed, screened) for exercise in exercises]
        finally:
            self._free.put(seat)

    def _grade(self, seat: Seat, answer: Answer, seed: int, screened: bool) -> Mark:
        exercise = answer.exercise
        reasons = {
            marks.UNREADABLE: answer.unreadable,
            marks.MISSING: answer.missing,
            marks.UNWRITTEN: answer.unwritten,
        }
        for state in filter(reasons.get, reasons):
            return mark(exercise, seed, state, reasons[state])
        if answer.findings and screened:
            return suspicious(exercise, seed, answer.findings)
        found = self._run(seat, answer, seed)
        if found.state in (marks.CRASHED, marks.SUSPICIOUS):
            self._require_sound(seat, exercise, seed)
        return found

    def _require_sound(self, seat: Seat, exercise: Exercise, seed: int) -> None:
        """The engine's own text must pass where an answer's process ended: else it is the judge that is broken."""
        if (exercise.number, seed) in self._sound:
            return
        text = read(ROOT / "nanolm" / exercise.file)
        found = self._run(seat, Answer(exercise, {exercise.file: text}), seed)
        if found.state != marks.PASSED:
            raise CourseError(
                f"the judge cannot grade {exercise.number} here, not even the engine's own: {found.feedback}"
            )
        self._sound.add((exercise.number, seed))

    def _run(self, seat: Seat, answer: Answer, seed: int) -> Mark:
        exercise = answer.exercise
        worker = seat.worker(exercise)
        try:
            worker.send({"exercise": exercise.number, "files": answer.files, "seed": seed, "hidden": hidden(exercise)})
            report, alive, end = _conversation(worker, exercise, seed)
        except Lost as lost:
            seat.close()
            return broken_off(exercise, seed, lost.how)
        seat.give_back(worker)
        seat.cpu_seconds += end["cpu"]
        if report is None or end["how"] != "done":
            return broken_off(exercise, seed, end["how"])
        if report["broken"]:
            return suspicious(exercise, seed, [f"it has changed {name}" for name in report["broken"][:_NAMED]])
        return by_outcomes(exercise, seed, report) if alive else broken_off(exercise, seed, "canary")


def _conversation(worker: Worker, exercise: Exercise, seed: int) -> tuple[dict[str, Any] | None, bool, dict[str, Any]]:
    """Hear a fork to its end: (what the tests found, whether the canary failed as it must, its last message)."""
    report, alive = None, False
    while (message := worker.receive())["kind"] != "end":
        if message["kind"] == "answer":
            report = message
            worker.send(canary(exercise, worker.tests, seed))  # sent only now: a mistake is all but the answer
        else:
            alive = message["alive"]
    return report, alive, message
