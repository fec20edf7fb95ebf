"""Postgres, where cached lists are silent: below their floors, or for all of a missing one."""

from typing import Protocol

from feed.candidates import Found, Gaps
from feed.order import Ids, Key
from feed.query import Query


class Timelines(Protocol):
    """Where posts are read by author and time (`storage.timelines.PostgresTimelines`)."""

    async def newest_posts(self, gaps: Gaps, down_to: Key, n: int) -> tuple[Ids, Ids]:
        """Return ids and effective times (at most n,) of the newest posts inside these gaps."""
        ...


class BelowFloor:
    """Extends only the lists that are too shallow, each author within the same bound."""

    name = "below_floor"

    def __init__(self, timelines: Timelines) -> None:
        """Read from `timelines`."""
        self._timelines = timelines

    async def fill(self, query: Query, gaps: Gaps, down_to: Key) -> Found:
        """Return the newest `query.n` posts inside the gaps, at or above `down_to`."""
        ids, ms = await self._timelines.newest_posts(gaps, down_to, query.n)
        return Found(ids, ms, self.name)
