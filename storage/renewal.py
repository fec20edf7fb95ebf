"""Drops cached lists and rebuilds them from the truth, while reads and fan-out go on.

For `foryou rebuild`, `foryou check --repair` and the admin's repair. In between, reads find the
list missing and go to Postgres, so that nobody sees an empty feed.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from feed.settings import Settings
from storage import keys
from storage.check import ListName
from storage.connections import Connection, Postgres, RedisClient
from storage.feeds import Feeds
from storage.rebuild import Rebuild

SLOT_WITHIN_S = 60.0
"""A rebuild waits so long for those of other processes; then the list is left to the next read."""


class Visitor(NamedTuple):
    """A user, and for how many seconds the last visit still keeps a feed alive; 0: it does not."""

    user_id: int
    ttl_s: int


_PAGE = """
SELECT user_id, greatest(0, %(ttl_s)s - extract(epoch FROM now() - last_seen_at))::integer
FROM user_activity WHERE user_id > %(after)s ORDER BY user_id LIMIT %(limit)s
"""
_NAMED = """
SELECT user_id, greatest(0, %(ttl_s)s - extract(epoch FROM now() - last_seen_at))::integer
FROM user_activity WHERE user_id = ANY(%(ids)s)
"""
_COUNT = "SELECT count(*) FROM user_activity WHERE user_id > %s"


async def visitors(
    connection: Connection, *, after: int, limit: int, ttl_s: int
) -> Sequence[Visitor]:
    """Return one page of users who were ever here, by id."""
    values = {"after": after, "limit": limit, "ttl_s": ttl_s}
    rows = await connection.execute(_PAGE, values)
    return [Visitor(*row) for row in await rows.fetchall()]


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
        self._postgres = postgres
        self._feed_ttl_s = settings.feed_ttl_s
        self._lists = Feeds(redis, cap=settings.feed_cap)
        outboxes = Feeds(redis, cap=settings.outbox_cap)
        self._rebuild = Rebuild(postgres, self._lists, outboxes, settings, patience_s=SLOT_WITHIN_S)
        self._token = token
        self._slots = asyncio.Semaphore(at_once or settings.rebuilds_at_once)

    async def feeds(self, visitors: Sequence[Visitor]) -> int:
        """Renew feeds, and return how many are rebuilt; the others come back when they are read.

        Those are the feeds of people who have been away too long, and what a read has begun to
        rebuild meanwhile.
        """
        return sum(await asyncio.gather(*map(self._feed, visitors)))

    async def feeds_of(self, user_ids: Collection[int]) -> int:
        """Renew the feeds of these users, as `feeds` does."""
        values = {"ids": list(user_ids), "ttl_s": self._feed_ttl_s}
        async with self._postgres.connection() as connection:
            rows = await (await connection.execute(_NAMED, values)).fetchall()
        known = {user_id: Visitor(user_id, ttl_s) for user_id, ttl_s in rows}
        return await self.feeds([known.get(id, Visitor(id, 0)) for id in user_ids])

    async def outboxes(self, author_ids: Collection[int]) -> int:
        """Renew the outboxes of these authors; return how many are rebuilt."""
        return sum(await asyncio.gather(*map(self._outbox, author_ids)))

    async def lists(self, names: Collection[ListName]) -> int:
        """Renew lists that a check has found wrong; return how many."""
        await self.feeds_of([each.owner_id for each in names if each.kind == "feed"])
        await self.outboxes([each.owner_id for each in names if each.kind == "outbox"])
        return len(names)

    async def forget_outboxes(self) -> int:
        """Drop every outbox; those of pulled authors come back when they are read."""
        return await self._lists.forget(keys.OUTBOX_PATTERN)

    async def _feed(self, visitor: Visitor) -> bool:
        async with self._slots:
            await self._lists.drop(keys.feed(visitor.user_id))
            if not visitor.ttl_s:
                return False
            token = self._token()
            return await self._rebuild.feed(visitor.user_id, token, ttl_s=visitor.ttl_s)

    async def _outbox(self, author_id: int) -> bool:
        async with self._slots:
            await self._lists.drop(keys.outbox(author_id))
            return await self._rebuild.outbox(author_id, self._token())
