"""What everybody engages with just now, for viewers who do not follow its authors."""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from feed.candidates import Found, Gaps, empty_ids
from feed.order import among
from feed.query import Query
from storage.discovery import Discovered


class PopularPosts(Protocol):
    """Where they are read (`storage.discovery.PostgresDiscovery`)."""

    async def popular(self, n: int) -> Discovered:
        """Return at most n posts, the hottest first."""
        ...


class Popular:
    """The posts with the highest engagement velocity, the same list for everybody.

    It is read once every few seconds for all requests of this process, by one of them; the others
    take what is held, also when that one is slow or fails. At the very first nothing is.
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
        self._due_s = clock()
        self._held = Discovered(empty_ids(), empty_ids(), empty_ids())

    async def find(self, query: Query) -> Found:
        """Return the hottest posts (at most n,) of authors that this viewer does not know."""
        found = await self._fresh()
        rows = np.flatnonzero(~among(found.authors, query.viewer.known))
        return Found(found.ids[rows], found.ms[rows], self.name)

    def unknown(self, query: Query) -> Gaps:
        """Return no gap: nobody is promised a popular post."""
        return Gaps()

    async def _fresh(self) -> Discovered:
        now_s = self._clock()
        if now_s >= self._due_s:
            self._due_s = now_s + self._every_s
            self._held = await self._posts.popular(self._n)
        return self._held
