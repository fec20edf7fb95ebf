"""A small service whose deliveries run when a test says so."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from fanout.tasks import Fanout
from feed.settings import Settings
from storage import graph, keys, posts
from storage.connections import Postgres, RedisClient
from storage.feeds import Feeds
from storage.outbox_events import append

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
AUTHOR, OTHER = 100, 200
CAP = 5


class World:
    """A service without its processes: deliveries run when a test says so."""

    def __init__(self, postgres: Postgres, redis: RedisClient, settings: Settings) -> None:
        self.postgres = postgres
        self.settings = replace(
            settings,
            feed_cap=CAP,
            outbox_cap=CAP,
            fanout_page=2,
            pull_from_followers=6,
            push_below_followers=4,
            failures_until_parked=3,
        )
        self.redis = redis
        self.reconfigure()

    def reconfigure(self, **changes: Any) -> None:
        """Deliver under other settings from now on."""
        self.settings = replace(self.settings, **changes)
        self.feeds = Feeds(self.redis, cap=self.settings.feed_cap)
        self.fanout = Fanout(self.postgres, self.feeds, self.settings, jitter=lambda: 0.0)

    async def people(self, *ids: int) -> None:
        async with self.postgres.transaction() as connection:
            await connection.execute(
                "WITH person AS (SELECT unnest(%s::bigint[]) AS id),"
                " named AS (INSERT INTO users (id, name) SELECT id, 'u' || id FROM person)"
                " INSERT INTO user_activity SELECT id, now() FROM person",
                [list(ids)],
            )

    async def post(self, id: int, author_id: int = AUTHOR, *, ms: int | None = None) -> None:
        await self.posts([id], author_id, ms=ms)

    async def posts(
        self, ids: Sequence[int], author_id: int = AUTHOR, *, ms: int | None = None
    ) -> None:
        """Write posts in one transaction; without `ms` an id is its own time."""
        async with self.postgres.transaction() as connection:
            how = await posts.delivery_of(connection, author_id)
            new = [
                posts.NewPost(
                    id=id,
                    author_id=author_id,
                    body="",
                    created_at=NOW,
                    received_at=NOW,
                    effective_ms=id if ms is None else ms,
                    delivery=how,
                )
                for id in ids
            ]
            await posts.insert_posts(connection, new)

    async def follow(self, *followers: int, author_id: int = AUTHOR) -> None:
        async with self.postgres.transaction() as connection:
            await graph.follow_many(connection, [(id, author_id) for id in followers])

    async def cross(self, followers: int, author_id: int = AUTHOR) -> None:
        """Count so many followers and let the count be looked at, as housekeeping does."""
        async with self.postgres.transaction() as connection:
            await connection.execute(
                "UPDATE users SET follower_count = %s WHERE id = %s", [followers, author_id]
            )
            payload = {"author_id": author_id}
            await append(connection, "follower_count", author_id, "author.crossed", payload)

    async def open(self, *viewers: int) -> None:
        """Give viewers an empty feed that is ready, as a rebuild of nothing does."""
        empty = np.empty(0, dtype=np.int64)
        for viewer in viewers:
            await self._ready(keys.feed(viewer), empty)

    async def open_outbox(self, author_id: int = AUTHOR) -> None:
        await self._ready(keys.outbox(author_id), np.empty(0, dtype=np.int64))

    async def _ready(self, key: str, empty: Any) -> None:
        await self.feeds.begin(key, "t", ttl_s=30)
        await self.feeds.finish(key, "t", empty, empty, None, ttl_s=1000)

    async def feed(self, viewer_id: int) -> list[int] | None:
        return await self._list(keys.feed(viewer_id))

    async def outbox(self, author_id: int = AUTHOR) -> list[int] | None:
        return await self._list(keys.outbox(author_id))

    async def _list(self, key: str) -> list[int] | None:
        (found,) = await self.feeds.read([key])
        return None if found is None else found.ids.tolist()

    async def owed(self) -> list[int]:
        rows = await self.rows("SELECT id FROM deliveries ORDER BY id")
        return [id for (id,) in rows]

    async def rows(self, query: Any, values: Any = ()) -> list[Any]:
        async with self.postgres.connection() as connection:
            return await (await connection.execute(query, values)).fetchall()

    async def drain(self) -> None:
        """Deliver until nothing is owed, what waits for its time included."""
        for _ in range(100):
            ids = await self.owed()
            if not ids:
                return
            await self.fanout.deliver(ids)
        raise AssertionError("deliveries never end")
