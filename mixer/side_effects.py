"""What a request leaves to be done after its answer: bounded, counted, never just forgotten."""

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger("foryou.side_effects")


class SideEffects:
    """Runs coroutines beside the requests, at most `bound` of a name; more are dropped and counted.

    Of a name, so that what is frequent cannot crowd out what heals: when many come at once, the
    same come first each time. Everything given here heals by itself when it is dropped: the next
    open asks again.
    """

    def __init__(self, *, bound: int, deadline_s: float) -> None:
        """Run at most `bound` of each name at a time, each for at most `deadline_s`."""
        self._bound = bound
        self._deadline_s = deadline_s
        self._running: set[asyncio.Task[Any]] = set()
        self._n_running: Counter[str] = Counter()
        self.dropped = 0
        self.failed = 0

    def start(self, name: str, work: Coroutine[Any, Any, Any]) -> bool:
        """Start `work` unless too much of that name is running already; False: it is."""
        if self._n_running[name] >= self._bound:
            self.dropped += 1
            work.close()
            return False
        task = asyncio.create_task(asyncio.wait_for(work, self._deadline_s), name=name)
        self._running.add(task)
        self._n_running[name] += 1
        task.add_done_callback(self._ended)
        return True

    async def drain(self) -> None:
        """Wait until everything started has ended."""
        while self._running:
            await asyncio.wait(self._running)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        self._n_running[task.get_name()] -= 1
        if not task.cancelled() and task.exception() is not None:
            self.failed += 1
            log.warning(
                "side effect failed",
                extra={"work": task.get_name(), "error": repr(task.exception())},
            )
