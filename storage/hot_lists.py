"""Holds in this process, for a moment, the outboxes that many readers read at once.

Every open of every follower reads a large author's outbox, and pays a millisecond of processor time
for each that is full. What is held is what was read, floor and all: complete above its floor, but
for the posts of the last moment. A list that is missing is not held, so that a rebuild is seen at
once; a viewer's own posts never come from here.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from storage.feeds import CachedList


class Lists(Protocol):
    """Where lists are read (`storage.feeds.Feeds`)."""

    async def read(self, keys: Sequence[str]) -> list[CachedList | None]:
        """Read whole lists in one round trip, none for no keys; None: missing, or being built."""
        ...


class _Held(NamedTuple):
    list: CachedList
    until_s: float


class HotLists:
    """Reads lists through a small memory."""

    def __init__(
        self, lists: Lists, *, bound: int, for_s: float, clock: Callable[[], float]
    ) -> None:
        """Hold at most `bound` of `lists`, each until `for_s` after it was asked for."""
        self._lists = lists
        self._bound = bound
        self._for_s = for_s
        self._clock = clock  # of seconds
        self._held: dict[str, _Held] = {}  # those asked for longest ago first

    async def read(self, keys: Sequence[str]) -> list[CachedList | None]:
        """Return these lists, read in one round trip where they are not held."""
        now_s = self._clock()
        found: dict[str, CachedList | None] = {
            key: held.list
            for key in keys
            if (held := self._held.get(key)) is not None and now_s < held.until_s
        }
        wanted = [key for key in keys if key not in found]
        for key, each in zip(wanted, await self._lists.read(wanted), strict=True):
            found[key] = each
            self._hold(key, each, now_s)
        return [found[key] for key in keys]

    def _hold(self, key: str, found: CachedList | None, now_s: float) -> None:
        self._held.pop(key, None)
        if found is not None:
            self._held[key] = _Held(found, now_s + self._for_s)
        if len(self._held) > self._bound:
            del self._held[next(iter(self._held))]
