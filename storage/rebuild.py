"""Rebuilds a missing cached list from Postgres, while fan-out goes on.

The order of the steps is what makes it right: a building marker first, so that fan-out pushes
into the list from now on; then the truth; then a merge that only the holder of the marker can do.
All processes together rebuild `rebuilds_at_once` lists at a time, so that the loss of a cache is
no storm for Postgres: each rebuild holds one of so many slots, until its transaction ends.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic

import numpy as np

from feed.candidates import Gaps
from feed.order import OLDEST, Ids
from feed.settings import VISIT_EVERY_S, Settings
from storage import keys
from storage.connections import Connection, Postgres
from storage.delivery_state import relies_on_lists
from storage.feeds import Feeds
from storage.locks import try_slot
from storage.timelines import newest_posts

SLOTS = "rebuilds"
RETRY_S = 0.02  # to the double of it, for a slot: a rebuild takes about as long


class Rebuild:
    """Rebuilds pushed feeds and author outboxes, one list at a time."""

    def __init__(
        self,
        postgres: Postgres,
        feeds: Feeds,
        outboxes: Feeds,
        settings: Settings,
        *,
        patience_s: float,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """Read from `postgres` into `feeds` and `outboxes`; wait for a slot for `patience_s`."""
        self._postgres = postgres
        self._feeds = feeds
        self._outboxes = outboxes
        self._settings = settings
        self._patience_s = patience_s
        self._jitter = jitter

    async def feed(self, viewer_id: int, token: str) -> bool:
        """Rebuild a viewer's pushed feed; say whether this call has.

        It has not when the list exists, somebody else is at it, no slot came free in time, nobody
        relies on lists, or the viewer's last visit is too long ago. The list lives as long as that
        visit lets it: one that outlives its reader's activity is no longer pushed into, and looks
        complete.
        """
        async with self._postgres.connection() as connection:
            ttl_s = await life_left_s(connection, viewer_id, feed_ttl_s=self._settings.feed_ttl_s)
        if ttl_s <= 0:
            return False
        key = keys.feed(viewer_id)
        async with self._begun(self._feeds, key, token) as connection:
            if connection is None:
                return False
            followees = await followees_of(connection, viewer_id)
            return await _fill(connection, self._feeds, key, token, followees, ttl_s)

    async def outbox(self, author_id: int, token: str) -> bool:
        """Rebuild an author's outbox; say whether this call has, as `feed` does."""
        key = keys.outbox(author_id)
        async with self._begun(self._outboxes, key, token) as connection:
            if connection is None:
                return False
            author = np.array([author_id], dtype=np.int64)
            ttl_s = self._settings.outbox_ttl_s
            return await _fill(connection, self._outboxes, key, token, author, ttl_s)

    @asynccontextmanager
    async def _begun(self, lists: Feeds, key: str, token: str) -> AsyncIterator[Connection | None]:
        """Mark a missing list as being built, and lend a connection that holds a slot; or None."""
        n_slots = self._settings.rebuilds_at_once
        until_s = monotonic() + self._patience_s
        while not (await lists.present([key]))[0]:
            async with self._postgres.transaction() as connection:
                if not await relies_on_lists(connection):
                    break
                if await try_slot(connection, SLOTS, n_slots, jitter=self._jitter()):
                    ttl_s = self._settings.building_ttl_s
                    begun = await lists.begin(key, token, ttl_s=ttl_s)
                    yield connection if begun else None
                    return
            if monotonic() > until_s:
                break
            await asyncio.sleep(RETRY_S * (1 + self._jitter()))
        yield None


async def _fill(
    connection: Connection, lists: Feeds, key: str, token: str, authors: Ids, ttl_s: int
) -> bool:
    ids, ms = await newest_posts(connection, Gaps.everywhere(authors), OLDEST, lists.cap + 1)
    # One row more than fits: its time is the floor, above which the list is complete.
    floor_ms = int(ms[lists.cap]) if len(ids) > lists.cap else None
    kept = slice(None, lists.cap)
    return await lists.finish(key, token, ids[kept], ms[kept], floor_ms, ttl_s=ttl_s)


# A visit is stamped now and then only: the viewer may have been here until the next stamp was due.
_LIFE_LEFT = """
SELECT least(%(ttl_s)s, %(ttl_s)s + %(every_s)s - extract(epoch FROM now() - last_seen_at))::integer
FROM user_activity WHERE user_id = %(viewer)s
"""


async def life_left_s(connection: Connection, viewer_id: int, *, feed_ttl_s: int) -> int:
    """Return for how long the last visit still keeps a feed alive; 0 or less: it does not."""
    values = {"viewer": viewer_id, "ttl_s": feed_ttl_s, "every_s": VISIT_EVERY_S}
    row = await (await connection.execute(_LIFE_LEFT, values)).fetchone()
    return row[0] if row else 0


async def followees_of(connection: Connection, viewer_id: int) -> Ids:
    """Return whom a viewer follows, as the primary knows it now."""
    cursor = await connection.execute(
        "SELECT followee_id FROM follows WHERE follower_id = %s", (viewer_id,)
    )
    return np.array([row[0] for row in await cursor.fetchall()], dtype=np.int64)
