"""Drops cached lists and rebuilds them from the truth, while reads and fan-out go on.

For `foryou rebuild`, `foryou check --repair` and the admin's repair. In between, reads find the
list missing and go to Postgres, so that nobody sees an empty feed.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence

from feed.settings import Settings
from storage import keys
from storage.check import ListName
from storage.connections import Connection, Postgres, RedisClient
from storage.feeds import Feeds
from storage.rebuild import Rebuild

SLOT_WITHIN_S = 60.0
"""A rebuild waits so long for those of other processes; then the list is left to the next read."""


_PAGE = "SELECT user_id FROM user_activity WHERE user_id > %s ORDER BY user_id LIMIT %s"
_COUNT = "SELECT count(*) FROM user_activity WHERE user_id > %s"


async def visitors(connection: Connection, *, after: int, limit: int) -> Sequence[int]:
    """Return one page of users who were ever here, by id."""
    rows = await connection.execute(_PAGE, [after, limit])
    return [user_id for (user_id,) in await rows.fetchall()]


async def count_visitors(connection: Connection, *, after: int) -> int:
    """Count the users with larger ids who were ever here."""
    row = await (await connection.execute(_COUNT, [after])).fetchone()
    return int(row[0]) if row else 0


class Renewal:
    """Renews feeds and outboxes, at most `at_once` of them at the same time."""

    def __init__(
        self,
        postgres: Postgres,
        redis: RedisClient,
        settings: Settings,
        *,
        token: Callable[[], str],
        at_once: int | None = None,
    ) -> None:
        """Rebuild from `postgres` in `redis`; `token` makes a fresh marker."""
        self._lists = Feeds(redis, cap=settings.feed_cap)
        outboxes = Feeds(redis, cap=settings.outbox_cap)
        self._rebuild = Rebuild(postgres, self._lists, outboxes, settings, patience_s=SLOT_WITHIN_S)
        self._token = token
        self._slots = asyncio.Semaphore(at_once or settings.rebuilds_at_once)

    async def feeds(self, user_ids: Collection[int]) -> int:
        """Renew feeds, and return how many are rebuilt; the others come back when they are read.

        Those are the feeds of people who have been away too long, and what a read has begun to
        rebuild meanwhile.
        """
        return sum(await asyncio.gather(*map(self._feed, user_ids)))

    async def outboxes(self, author_ids: Collection[int]) -> int:
        """Renew the outboxes of these authors; return how many are rebuilt."""
        return sum(await asyncio.gather(*map(self._outbox, author_ids)))

    async def lists(self, names: Collection[ListName]) -> int:
        """Renew lists that a check has found wrong; return how many."""
        await self.feeds([each.owner_id for each in names if each.kind == "feed"])
        await self.outboxes([each.owner_id for each in names if each.kind == "outbox"])
        return len(names)

    async def forget_outboxes(self) -> int:
        """Drop every outbox; those of pulled authors come back when they are read."""
        return await self._lists.forget(keys.OUTBOX_PATTERN)

    async def _feed(self, user_id: int) -> bool:
        async with self._slots:
            await self._lists.drop(keys.feed(user_id))
            return await self._rebuild.feed(user_id, self._token())

    async def _outbox(self, author_id: int) -> bool:
        async with self._slots:
            await self._lists.drop(keys.outbox(author_id))
            return await self._rebuild.outbox(author_id, self._token())
