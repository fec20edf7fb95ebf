"""How long a process of the write side lives: until a signal, through failures of its servers."""

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable

from feed.errors import Unavailable

log = logging.getLogger(__name__)

PAUSE_S = 0.5
"""After a failure, before the next try."""


def stop_on_signals() -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def paused(stop: asyncio.Event, for_s: float) -> None:
    """Wait for a while, or until `stop`."""
    try:
        async with asyncio.timeout(for_s):
            await stop.wait()
    except TimeoutError:
        pass


async def repeat(name: str, step: Callable[[], Awaitable[float]], stop: asyncio.Event) -> None:
    """Run a step again and again, each time after the pause it asks for, until `stop`.

    A step that fails is logged and tried again; while a server stays away that is one line.
    """
    silent = False
    while not stop.is_set():
        pause_s, failed = await _tried(name, step, silent=silent)
        if silent and not failed:
            log.info("%s: going on", name)
        silent = failed
        await paused(stop, pause_s)


async def once(name: str, step: Callable[[], Awaitable[float]], stop: asyncio.Event) -> None:
    """Run a step until it has succeeded and asks for no more, or until `stop`."""
    failed = False
    while not stop.is_set():
        pause_s, failed = await _tried(name, step, silent=failed)
        if not failed and pause_s <= 0:
            return
        await paused(stop, pause_s)


async def _tried(
    name: str, step: Callable[[], Awaitable[float]], *, silent: bool
) -> tuple[float, bool]:
    """Run a step; return the pause it asks for, and whether it failed."""
    try:
        return await step(), False
    except Unavailable as error:
        if not silent:
            log.warning("%s: waiting", name, extra={"error": str(error)})
    except Exception:
        log.exception("%s: failed, trying again", name)
    return PAUSE_S, True
