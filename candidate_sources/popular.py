"""What everybody engages with just now, for viewers who do not follow its authors."""

import asyncio
from collections.abc import Callable
from typing import Protocol

import numpy as np

from feed.candidates import Found, Gaps
from feed.query import Query
from storage.discovery import Discovered


class PopularPosts(Protocol):
    """Where they are read (`storage.discovery.PostgresDiscovery`)."""

    async def popular(self, n: int) -> Discovered:
        """Return at most n posts, the hottest first."""
        ...


class Popular:
    """The posts with the highest engagement velocity, the same list for everybody.

    It is read once every few seconds for all requests of this process, by one of them.
    """

    name = "popular"

    def __init__(
        self, posts: PopularPosts, *, n: int, every_s: float, clock: Callable[[], float]
    ) -> None:
        """Hold the n hottest of `posts`; `clock` gives seconds."""
        self._posts = posts
        self._n = n
        self._every_s = every_s
        self._clock = clock
        self._alone = asyncio.Lock()
        self._read_at: float | None = None
        self._held: Discovered | None = None

    async def find(self, query: Query) -> Found:
        """Return the hottest posts (at most n,) of authors that this viewer does not know."""
        found = await self._fresh()
        rows = np.flatnonzero(~np.isin(found.authors, query.viewer.known))
        return Found(found.ids[rows], found.ms[rows], self.name)

    def unknown(self, query: Query) -> Gaps:
        """Return no gap: nobody is promised a popular post."""
        return Gaps()

    async def _fresh(self) -> Discovered:
        async with self._alone:
            now_s = self._clock()
            if self._held is None or self._read_at is None or now_s - self._read_at > self._every_s:
                self._held = await self._posts.popular(self._n)
                self._read_at = now_s
            return self._held
