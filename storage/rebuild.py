"""Rebuilds a missing cached list from Postgres, while fan-out goes on.

The order of the steps is what makes it right: a building marker first, so that fan-out pushes
into the list from now on; then the truth; then a merge that only the holder of the marker can do.
"""

import numpy as np

from feed.candidates import Gaps
from feed.order import OLDEST, Ids
from storage import keys
from storage.connections import Connection, Postgres
from storage.feeds import Feeds
from storage.timelines import newest_posts


class Rebuild:
    """Rebuilds pushed feeds and author outboxes, one list at a time."""

    def __init__(
        self, postgres: Postgres, feeds: Feeds, outboxes: Feeds, *, ttl_s: int, building_ttl_s: int
    ) -> None:
        """Read from `postgres` into `feeds` and `outboxes`, each up to its own cap."""
        self._postgres = postgres
        self._feeds = feeds
        self._outboxes = outboxes
        self._ttl_s = ttl_s
        self._building_ttl_s = building_ttl_s

    async def feed(self, viewer_id: int, token: str, *, ttl_s: int | None = None) -> bool:
        """Rebuild a viewer's pushed feed; False when it exists, or somebody else is at it.

        The viewer is here now, or `ttl_s` is what is left of the life that the last visit gave: a
        list that outlives its reader's activity is no longer pushed into, and looks complete.
        """
        key = keys.feed(viewer_id)
        if not await self._feeds.begin(key, token, ttl_s=self._building_ttl_s):
            return False
        async with self._postgres.connection() as connection:
            followees = await followees_of(connection, viewer_id)
        return await self._fill(self._feeds, key, token, followees, ttl_s or self._ttl_s)

    async def outbox(self, author_id: int, token: str) -> bool:
        """Rebuild an author's outbox; False when it exists, or somebody else is at it."""
        key = keys.outbox(author_id)
        if not await self._outboxes.begin(key, token, ttl_s=self._building_ttl_s):
            return False
        author = np.array([author_id], dtype=np.int64)
        return await self._fill(self._outboxes, key, token, author, self._ttl_s)

    async def _fill(self, lists: Feeds, key: str, token: str, authors: Ids, ttl_s: int) -> bool:
        async with self._postgres.connection() as connection:
            gaps = Gaps.everywhere(authors)
            ids, ms = await newest_posts(connection, gaps, OLDEST, lists.cap + 1)
        # One row more than fits: its time is the floor, above which the list is complete.
        floor_ms = int(ms[lists.cap]) if len(ids) > lists.cap else None
        kept = slice(None, lists.cap)
        return await lists.finish(key, token, ids[kept], ms[kept], floor_ms, ttl_s=ttl_s)


async def followees_of(connection: Connection, viewer_id: int) -> Ids:
    """Return whom a viewer follows, as the primary knows it now."""
    cursor = await connection.execute(
        "SELECT followee_id FROM follows WHERE follower_id = %s", (viewer_id,)
    )
    return np.array([row[0] for row in await cursor.fetchall()], dtype=np.int64)
