"""The viewer's pushed feed: ids that workers put there when they were written."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from feed.candidates import Found, Gaps, empty_ids
from feed.order import below
from feed.query import Query
from storage import keys
from storage.feeds import CachedList


class CachedLists(Protocol):
    """Where cached lists are read (`storage.feeds.Feeds`)."""

    async def read(self, keys: Sequence[str]) -> list[CachedList | None]:
        """Read whole lists; None: missing, or still being built."""
        ...


class PushedFeed:
    """Reads one Redis list; silent below its floor, and about everything when it is missing."""

    name = "pushed_feed"

    def __init__(self, lists: CachedLists) -> None:
        """Read from `lists`."""
        self._lists = lists

    async def find(self, query: Query) -> Found:
        """Return the feed's newest posts below `query.before`, newest first."""
        if not query.viewer.reads_lists:
            return Found(empty_ids(), empty_ids(), self.name)
        (feed,) = await self._lists.read([keys.feed(query.viewer.id)])
        if feed is None:
            return Found(
                empty_ids(), empty_ids(), self.name, self.unknown(query), missing=(query.viewer.id,)
            )
        rows = np.flatnonzero(below(feed.ms, feed.ids, query.before))[: query.n]
        authors = query.viewer.heard_pushed
        gaps = Gaps() if feed.floor_ms is None else Gaps.at(authors, feed.floor_ms)
        return Found(feed.ids[rows], feed.ms[rows], self.name, gaps.under(query.before))

    def unknown(self, query: Query) -> Gaps:
        """Return a gap from `query.before` down for every followee who is pushed and heard."""
        return Gaps.everywhere(query.viewer.heard_pushed).under(query.before)
