"""Work on the texts of requests, away from the event loop: tokenizing, templates, grammars.

One thread does it, in order of arrival: so it costs the engine one core at most, and a body of the largest size delays
those behind it and nobody else. How many may wait is limited, as it is for the engine.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from .request_group import Busy

_T = TypeVar("_T")


class PromptPool:
    """Runs work on texts.

    Args:
        most: pieces of work that may run or wait.
    """

    def __init__(self, most: int) -> None:
        self.most, self._n = most, 0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="nanolm-prompts")

    async def run(self, work: Callable[[], _T], is_short: bool = False) -> _T:
        """Return what the work returns.

        Args:
            is_short: whether it takes less time than to hand it to another thread and back; then it is done at once.

        Raises:
            Busy: as many wait as may.
        """
        if is_short:
            return work()
        if self._n >= self.most:
            raise Busy(f"{self._n} prompts wait to be read; at most {self.most} may")
        self._n += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work)
        finally:
            self._n -= 1

    def close(self) -> None:
        """Take no more work; what waits is dropped."""
        self._pool.shutdown(wait=False, cancel_futures=True)
