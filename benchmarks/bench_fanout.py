"""How many posts a second does one worker insert into followers' feeds, all of them full?

Ours is the whole path of a worker: deliveries and posts loaded from Postgres, followers paged
from Postgres, the push script, deliveries settled. Ceiling: the push script alone, the same posts
into the same feeds, nothing read from Postgres. Peer: the textbook way with redis-py, a pipeline
of ZADD and ZREMRANGEBYRANK in batches of 1,000, which keeps no floor and fills missing feeds too.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from statistics import median

from benchmarks.cpu import server_cpu_s
from benchmarks.full_feeds import (
    check_full,
    chosen_followers,
    copy_list,
    fill_feeds,
    load_people,
    post_id,
    write_posts,
)
from benchmarks.machine import machine
from benchmarks.options import Options, say
from benchmarks.result import Result, spread
from benchmarks.servers import migrated, servers
from fanout.tasks import POSTS_AT_ONCE, Fanout
from feed.errors import ForYouError
from feed.settings import Settings
from storage import keys
from storage.connections import Postgres, RedisClient, open_redis
from storage.feeds import Feeds

READERS = 2_000
AUTHORS = 200
FOLLOWERS = 150
BATCHES = 2
PIPELINE = 1_000
PEER = "peer"


@dataclass(frozen=True)
class Post:
    """One post to deliver, and to whom."""

    id: int
    author: int
    ms: int
    followers: list[int]


@dataclass
class Way:
    """One way of delivering a batch of posts, whose deliveries are owed, and what it took."""

    deliver: Callable[[list[Post], list[int]], Awaitable[None]]
    per_s: list[float] = field(default_factory=list)
    batch_ms: list[float] = field(default_factory=list)
    client_cpu_s: float = 0.0
    server_cpu_s: float = 0.0

    def cpu_us(self, what: float) -> float:
        """Turn CPU seconds over all rounds into microseconds of one insert."""
        return round(what / (len(self.batch_ms) * AUTHORS * FOLLOWERS) * 1e6, 2)


async def run(options: Options) -> Result:
    """Deliver batches of posts in each way, in turns."""
    settings = Settings(cursor_keys="not used here")
    async with servers(options) as running, migrated(running) as ours:
        followers = chosen_followers(
            options.seed, readers=READERS, authors=AUTHORS, followers_per_author=FOLLOWERS
        )
        postgres, redis = Postgres(ours.postgres_url, connections=20), open_redis(ours.redis_url)
        await postgres.open()
        say(f"filling {READERS:,} feeds of {settings.feed_cap} entries, twice")
        await load_people(ours.postgres_url, READERS, followers)
        start_ms = await fill_feeds(redis, settings, READERS)
        copies = [f"{PEER}:{reader}" for reader in range(1, READERS + 1)]
        await copy_list(redis, keys.feed(1), copies)
        ways = _ways(postgres, redis, settings)
        for n in range(options.rounds + 1):
            say(f"round {n} of {options.rounds}" if n else "warming up")
            if n == 1:
                ways = _ways(postgres, redis, settings)  # what the warm-up took is forgotten
            await _round(postgres, redis, ways, followers, start_ms + n * 100_000)
        await check_full(redis, settings, range(1, READERS + 1))
        await redis.aclose()
        await postgres.close()
        return _result(ways, await machine(ours))


def _result(ways: dict[str, Way], on: dict[str, object]) -> Result:
    worker, script, pipeline = ways["worker"], ways["script"], ways["pipeline"]
    pairs = zip(worker.per_s, script.per_s, strict=True)
    return Result(
        name="fanout",
        value=median(worker.per_s),
        unit="inserts/s",
        ceiling=median(script.per_s),
        ceiling_is="the push script alone on the same server",
        ratio=median(ours / bare for ours, bare in pairs),
        spread=spread(worker.batch_ms, "ms"),
        peers={"ZADD + ZREMRANGEBYRANK, pipelines of 1,000": median(pipeline.per_s)},
        details={
            "feeds": READERS,
            "followers_per_author": FOLLOWERS,
            "posts_per_job": AUTHORS,
            "inserts_per_job": AUTHORS * FOLLOWERS,
            "posts_at_once": POSTS_AT_ONCE,
            "worker_cpu_us": worker.cpu_us(worker.client_cpu_s),
            "server_cpu_us": worker.cpu_us(worker.server_cpu_s),
            "peer_client_cpu_us": pipeline.cpu_us(pipeline.client_cpu_s),
            "peer_server_cpu_us": pipeline.cpu_us(pipeline.server_cpu_s),
        },
        machine=on,
    )


# ---------------------------------------------------------------------- the ways


def _ways(postgres: Postgres, redis: RedisClient, settings: Settings) -> dict[str, Way]:
    feeds = Feeds(redis, cap=settings.feed_cap)
    fanout = Fanout(postgres, feeds, settings)
    at_once = asyncio.Semaphore(POSTS_AT_ONCE)

    async def worker(_: list[Post], deliveries: list[int]) -> None:
        done = 0
        while done < len(deliveries):
            more = await fanout.deliver(deliveries)
            if not more:
                raise ForYouError(f"Deliveries are not done: {await _failures(postgres)}")
            done += more  # what a job could not begin in time it puts back

    async def script(posts: list[Post], _: list[int]) -> None:
        async def push(post: Post) -> None:
            async with at_once:
                await feeds.push([keys.feed(each) for each in post.followers], post.id, post.ms)

        await asyncio.gather(*map(push, posts))

    async def pipeline(posts: list[Post], _: list[int]) -> None:
        inserts = [(f"{PEER}:{each}", post) for post in posts for each in post.followers]
        for at in range(0, len(inserts), PIPELINE):
            async with redis.pipeline(transaction=False) as pipe:
                for key, post in inserts[at : at + PIPELINE]:
                    pipe.zadd(key, {str(post.id): post.ms})
                    pipe.zremrangebyrank(key, 0, -settings.feed_cap - 1)
                await pipe.execute()

    return {
        "worker": Way(worker),
        "script": Way(script),
        "pipeline": Way(pipeline),
    }


async def _round(
    postgres: Postgres,
    redis: RedisClient,
    ways: dict[str, Way],
    followers: dict[int, list[int]],
    ms: int,
) -> None:
    for offset, way in enumerate(ways.values()):
        spent_s = []
        for batch in range(BATCHES):
            posts = _posts(followers, ms + (offset * BATCHES + batch) * 1_000)
            spent_s.append(await _timed(way, posts, postgres, redis))
        way.batch_ms.extend(each * 1000 for each in spent_s)
        way.per_s.append(BATCHES * AUTHORS * FOLLOWERS / sum(spent_s))


async def _timed(way: Way, posts: list[Post], postgres: Postgres, redis: RedisClient) -> float:
    columns = ([getattr(post, name) for post in posts] for name in ("id", "author", "ms"))
    owed = await write_posts(postgres, *columns)
    server_s, client_s = await server_cpu_s(redis), time.process_time()
    started = time.perf_counter()
    await way.deliver(posts, owed)
    spent_s = time.perf_counter() - started
    way.client_cpu_s += time.process_time() - client_s
    way.server_cpu_s += await server_cpu_s(redis) - server_s
    return spent_s


# ---------------------------------------------------------------------- the world


def _posts(followers: dict[int, list[int]], ms: int) -> list[Post]:
    """Make one post an author, each in a millisecond of its own from `ms` on."""
    return [
        Post(post_id(ms + n), author, ms + n, theirs)
        for n, (author, theirs) in enumerate(followers.items())
    ]


async def _failures(postgres: Postgres) -> str:
    """Say why deliveries failed, and how many for each reason."""
    async with postgres.connection() as connection:
        rows = await connection.execute(
            "SELECT error, count(*) FROM deliveries GROUP BY error ORDER BY error"
        )
        return "; ".join(f"{error} ({n})" for error, n in await rows.fetchall())
