"""The one deadline of a feed request, held also when a driver does not give in."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from feed.errors import ForYouError, Unavailable

T = TypeVar("T")

log = logging.getLogger("foryou.feed")

_ending: set[asyncio.Task[Any]] = set()  # given up, and still closing what they had open


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Return what `work` returns, if it does so in time.

    A driver that is asked to stop may first try to tell its server, which can take long when the
    server hangs: the answer does not wait for that. An error that nobody foresaw is logged, and
    told like a server that is away: a stage that cannot be skipped has failed, which one is in the
    trace of the request.

    Raises:
        Unavailable: It was not done in time, or failed.
    """
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            return task.result()
    except ForYouError:
        raise
    except Exception as error:
        log.exception("a feed could not be read")
        raise Unavailable(f"The feed could not be read: {error!r}") from error
    finally:
        if not task.done():
            task.cancel()
            _ending.add(task)
            task.add_done_callback(_ending.discard)
    raise Unavailable("The feed could not be read in time.")
