"""The warm server: torch and the tests are read once, and each exercise is graded in a fork.

`python -m course.judge.server SETTINGS` is started by `worker.py`, in a sandbox where there is one. Requests come in
by the standard input and answers go out by the standard output, which no fork keeps.
"""

import gc
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from ..grading.implementation import CHOSEN, Implementation
from ..grading.outcomes import Collector, targets_of
from ..grading.runner import arguments
from ..paths import ROOT
from ..registry import find
from .bench import examine, run, seeds_are
from .fork import Fork
from .isolation import SPAWN, adopt_orphans
from .messages import Channel, Closed, Settings
from .seal import Seal, sealed


class _Nobody(Implementation):
    """In the place of an implementation while tests are read: any that is not the reference."""

    name = "the answers of a class"


class _Direct(Channel):
    """The judge itself at the other end, which asks for no word."""

    def __init__(self, down: int, up: int) -> None:
        super().__init__(down, up)
        self._words = [{"word": ""}]

    def receive(self, seconds: float | None = None) -> dict[str, Any] | None:
        return self._words.pop() if self._words else super().receive(seconds)


class Server:
    """A plugin of pytest that has it read the tests, and then grades answers for as long as anybody asks."""

    def __init__(self, settings: Settings, judge: Channel) -> None:
        self.settings, self.judge = settings, judge

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        config.stash[CHOSEN] = _Nobody()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.judge.send({"kind": "broken", "said": str(report.longrepr)})

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if self.settings.isolation != SPAWN:
            self._warm(session)
        seal = sealed()
        gc.collect()
        gc.freeze()  # what is there now is never looked through again, so forks go on sharing it
        tests = {getattr(item, "originalname", item.name): targets_of(item) for item in session.items}
        self.judge.send({"kind": "ready", "tests": tests, "pid": os.getpid()})
        with suppress(Closed):
            while request := self.judge.receive():
                if self.settings.isolation == SPAWN:
                    self._here(session, request, seal)
                    break  # a process that has run an answer runs no other
                Fork(self.settings, self.judge, seal).grade(session, request)
        return True

    def _warm(self, session: pytest.Session) -> None:
        """Run the tests on the reference once: what they import and make on first use, no fork has to make again."""
        seeds_are(self.settings.seed)
        run(session, Collector(Implementation()), session.items)

    def _here(self, session: pytest.Session, request: dict[str, Any], seal: Seal) -> None:
        """Where no process can fork: in this one, which ends with it."""
        with TemporaryDirectory() as folder:
            examine(session, request, Path(folder), _Direct(self.judge.down, self.judge.up), seal)
        self.judge.send({"kind": "end", "how": "done", "cpu": time.process_time()})


def main(text: str) -> None:
    """Serve until the judge closes its end."""
    settings = Settings.read(text)
    # What tests and answers print must not come between the messages.
    down, up = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    sys.stdout = os.fdopen(os.dup(nothing), "w", encoding="utf-8")
    sys.dont_write_bytecode = True
    if sys.platform == "linux":
        adopt_orphans()
    files = [ROOT / name for name in dict.fromkeys(name for each in settings.exercises for name in find(each).tests)]
    server = Server(settings, Channel(down, up))
    pytest.main([*arguments(files, settings.seed), "--capture=no"], plugins=[server])


if __name__ == "__main__":
    main(sys.argv[1])
