"""A process that answers line by line: each line that it is sent, JSON, with a line of JSON."""

import json
import subprocess
from pathlib import Path
from typing import Any


class Worker:
    """Such a process, started in a folder; before it is asked anything it says a first line by itself.

    Args:
        what: it is, for an error.

    Raises:
        ValueError: it ended before it answered; what it said stands on stderr.
    """

    def __init__(self, what: str, command: list[str], folder: Path) -> None:
        self.what = what
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(command, cwd=folder, text=True, encoding="utf-8", **pipes)

    def ask(self, question: Any) -> Any:
        """Return the answer."""
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> Any:
        """Return the next line: the first one, or what an earlier question brings."""
        line = self.process.stdout.readline()
        if not line:
            raise ValueError(f"the process of {self.what} ended before it answered; its error is above")
        return json.loads(line)

    def stop(self) -> None:
        """End the process."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
