"""The one deadline of a feed request, held also when a driver does not give in."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from feed.errors import Unavailable

T = TypeVar("T")

_ending: set[asyncio.Task[Any]] = set()  # given up, and still closing what they had open


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` returns, if it does so in time.

    A driver that is asked to stop may first try to tell its server, which can take long when the
    server hangs: the answer does not wait for that.

    Raises:
        Unavailable: It was not done in time.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
    finally:
        if not task.done():
            task.cancel()
            _ending.add(task)
            task.add_done_callback(_ending.discard)
    raise Unavailable("The feed could not be read in time.")
