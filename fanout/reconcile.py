"""Brings one (viewer, author) pair of a cached feed in line with the truth."""

import numpy as np

from feed.candidates import Gaps
from feed.order import OLDEST, Ids
from storage import keys
from storage.connections import Connection, Postgres
from storage.feeds import Feeds
from storage.graph import follows_unblocked, lock_pair
from storage.posts import written_by
from storage.timelines import newest_posts


async def reconcile(
    postgres: Postgres, feeds: Feeds, viewer_id: int, author_id: int, *, cap: int
) -> None:
    """Merge an author's posts into a viewer's feed, or take them out, as the truth says now.

    Under a lock, so that what an older truth says is never done after what a newer one says.
    Safe in any order and any number of times.
    """
    key = keys.feed(viewer_id)
    async with postgres.transaction() as connection:
        await lock_pair(connection, viewer_id, author_id)
        if await follows_unblocked(connection, viewer_id, author_id):
            ids, ms, floor_ms = await newest_of(connection, author_id, cap=cap)
            await feeds.merge(key, ids, ms, floor_ms)
        else:
            listed = await feeds.entries(key)
            await feeds.remove(key, await written_by(connection, author_id, listed))


async def newest_of(
    connection: Connection, author_id: int, *, cap: int
) -> tuple[Ids, Ids, int | None]:
    """Read an author's newest posts: ids and times (at most cap,), complete above the floor.

    One more than fits tells the floor; everything at or below it stays out, ties included.
    """
    gaps = Gaps.everywhere(np.array([author_id], dtype=np.int64))
    ids, ms = await newest_posts(connection, gaps, OLDEST, cap + 1)
    if len(ids) <= cap:
        return ids, ms, None
    floor_ms = int(ms[cap])
    above = ms > floor_ms
    return ids[above], ms[above], floor_ms
