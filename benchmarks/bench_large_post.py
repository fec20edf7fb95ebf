"""How many seconds until one post is in the feeds of all its 500,000 active followers?

Through the relay, the queue and the workers, as processes, into full feeds on one server; the
author is pushed on purpose (`FORYOU_DELIVERY=push`), who would else be pulled. Ceiling: the push
script alone over the same feeds, in pages of the same size. The quantiles are of the lag of small
posts, of an author with 150 followers, that are written all the while.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from statistics import median
from time import perf_counter

from benchmarks.cpu import cpu_s, server_cpu_s
from benchmarks.full_feeds import (
    check_full,
    fill_feeds,
    load_people,
    post_id,
    relay_is_there,
)
from benchmarks.machine import machine
from benchmarks.options import Options, say
from benchmarks.parts import delivery, settings_on
from benchmarks.result import Result, spread
from benchmarks.servers import migrated, servers
from fanout.tasks import CHUNKS_AT_ONCE
from feed.settings import Settings
from storage import keys
from storage.connections import Postgres, RedisClient, open_redis
from storage.feeds import Feeds
from storage.health import backlog
from storage.posts import NewPost, insert_post

FOLLOWERS = 500_000
SMALL = 150
ROUNDS = 3
SMALL_EVERY_S = 0.2
LOOK_EVERY_S = 0.01
WITHIN_S = 600.0
CHECKED = 1_000  # feeds looked into afterwards


async def run(options: Options) -> Result:
    """Deliver one large post through the product, and one through the script, in turns."""
    n = options.size or FOLLOWERS
    async with servers(options) as running, migrated(running) as ours:
        settings = replace(settings_on(ours), delivery="push")
        postgres, redis = Postgres(ours.postgres_url, connections=4), open_redis(ours.redis_url)
        await postgres.open()
        say(f"filling {n:,} feeds of {settings.feed_cap} entries")
        large, small = n + 1, n + 2
        followers = {large: range(1, n + 1), small: range(1, SMALL + 1)}
        await load_people(ours.postgres_url, n, followers)
        with delivery(settings, ours.folder) as pids:
            await relay_is_there(redis)
            await fill_feeds(redis, settings, n)
            bench = Bench(postgres, redis, settings, small_author=small)
            say("warming up")
            await bench.seen(await bench.write(small), SMALL)
            ours_s, bare_s, workers_s, server_s = [], [], 0.0, 0.0
            for number in range(1, min(options.rounds, ROUNDS) + 1):
                say(f"round {number} of {min(options.rounds, ROUNDS)}")
                before_s = sum(map(cpu_s, pids.values())), await server_cpu_s(redis)
                ours_s.append(await bench.large_post(large))
                workers_s += sum(map(cpu_s, pids.values())) - before_s[0]
                server_s += await server_cpu_s(redis) - before_s[1]
                bare_s.append(await bench.script_alone(n))
        await check_full(redis, settings, range(1, n + 1, max(1, n // CHECKED)))
        await redis.aclose()
        await postgres.close()
        return Result(
            name="large_post",
            value=median(ours_s),
            unit="s to the last feed",
            ceiling=median(bare_s),
            ceiling_is="the push script alone over the same feeds",
            ratio=median(bare / full for full, bare in zip(ours_s, bare_s, strict=True)),
            spread=spread([lag * 1000 for lag in bench.small_lags_s], "ms"),
            details={
                "followers": n,
                "entries_per_feed": settings.feed_cap,
                "slowest_s": round(max(ours_s), 2),
                "slowest_small_post_ms": round(max(bench.small_lags_s) * 1000),
                "relay_and_workers_cpu_s": round(workers_s / len(ours_s), 2),
                "server_cpu_s": round(server_s / len(ours_s), 2),
            },
            machine=await machine(ours),
        )


class Bench:
    """Writes a large post and small ones beside it, and looks when they have arrived."""

    def __init__(
        self, postgres: Postgres, redis: RedisClient, settings: Settings, *, small_author: int
    ) -> None:
        """Write to `postgres`; look in `redis`."""
        self._postgres = postgres
        self._redis = redis
        self._feeds = Feeds(redis, cap=settings.feed_cap)
        self._page = settings.fanout_page
        self._small_author = small_author
        self._last_ms = 0
        self.small_lags_s: list[float] = []

    async def large_post(self, author: int) -> float:
        """Write a post to everybody; return the seconds until no delivery of it is owed."""
        started = perf_counter()
        await self.write(author)
        over = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._small_posts(over))
            async with asyncio.timeout(WITHIN_S):
                # Nothing is owed when the last feed has it, but for small posts of a moment ago.
                while await self._owed_to_many():  # noqa: ASYNC110  processes do it
                    await asyncio.sleep(LOOK_EVERY_S)
            spent_s = perf_counter() - started
            over.set()
        await _until(self._drained)
        return spent_s

    async def script_alone(self, n: int) -> float:
        """Push one post into the same feeds with nothing else to do; return the seconds."""
        ms = self._now_ms()
        at_once = asyncio.Semaphore(CHUNKS_AT_ONCE)

        async def push(first: int) -> None:
            async with at_once:
                page = range(first, min(first + self._page, n + 1))
                await self._feeds.push([keys.feed(each) for each in page], post_id(ms), ms)

        started = perf_counter()
        await asyncio.gather(*map(push, range(1, n + 1, self._page)))
        return perf_counter() - started

    async def write(self, author: int) -> int:
        """Write a post with its event, as the api does; return its id."""
        ms = self._now_ms()
        now = datetime.now(UTC)
        async with self._postgres.transaction() as connection:
            post = NewPost(
                id=post_id(ms),
                author_id=author,
                body="A post.",
                created_at=now,
                received_at=now,
                effective_ms=ms,
                delivery="push",
            )
            await insert_post(connection, post)
        return post.id

    async def seen(self, id: int, reader: int) -> float:
        """Wait until a reader's feed holds a post; return the seconds."""
        started = perf_counter()

        async def there() -> bool:
            return await self._redis.zscore(keys.feed(reader), str(id)) is not None

        await _until(there)
        return perf_counter() - started

    async def _small_posts(self, over: asyncio.Event) -> None:
        while not over.is_set():
            id = await self.write(self._small_author)
            self.small_lags_s.append(await self.seen(id, SMALL))
            await asyncio.sleep(SMALL_EVERY_S)

    async def _owed_to_many(self) -> bool:
        async with self._postgres.connection() as connection:
            rows = await connection.execute(_OWED_TO_MANY, [self._small_author])
            return await rows.fetchone() is not None

    async def _drained(self) -> bool:
        return (await backlog(self._postgres)).pending == 0

    def _now_ms(self) -> int:
        """Return the time, later than any before."""
        self._last_ms = max(self._last_ms + 1, int(datetime.now(UTC).timestamp() * 1000))
        return self._last_ms


_OWED_TO_MANY = """
SELECT 1 FROM deliveries d JOIN outbox_events e ON e.id = d.event_id
WHERE e.type = 'post.created' AND (e.payload ->> 'author_id')::bigint <> %s LIMIT 1
"""


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not await holds():  # noqa: ASYNC110  processes do it
            await asyncio.sleep(LOOK_EVERY_S)
