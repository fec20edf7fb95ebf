"""Readers whose feeds are full, and authors whom some of them follow: what is pushed into."""

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import psycopg

from benchmarks.world import Numbers, copy
from feed.errors import ForYouError
from feed.ids import NODE_BITS, SEQUENCE_BITS
from feed.settings import Settings
from storage import keys
from storage.connections import Postgres, RedisClient
from storage.feeds import Feeds

PIPELINE = 1_000
WITHIN_S = 60.0

Followers = Mapping[int, Sequence[int]]
"""The followers of each author, ascending."""


def chosen_followers(
    seed: int, *, readers: int, authors: int, followers_per_author: int
) -> dict[int, list[int]]:
    """Choose each author's followers among users 1..readers; authors are the users after them."""
    rng = np.random.default_rng(seed)
    everybody: Numbers = np.arange(1, readers + 1)
    chosen = (rng.choice(everybody, followers_per_author, replace=False) for _ in range(authors))
    return {readers + n: sorted(theirs.tolist()) for n, theirs in enumerate(chosen, start=1)}


def post_id(ms: int) -> int:
    """Make an id as the service makes it in this millisecond."""
    return ms << (NODE_BITS + SEQUENCE_BITS)


async def load_people(url: str, readers: int, followers: Followers) -> None:
    """Write readers, all of them active, authors, and who follows whom; counts are right."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        users = [*((id, 0) for id in range(1, readers + 1)), *_counts(followers)]
        named = ((id, f"Person {id}", n) for id, n in users)
        await copy(connection, "users (id, name, follower_count)", named)
        seen = ((id, "now") for id, _ in users)
        await copy(connection, "user_activity (user_id, last_seen_at)", seen)
        await copy(connection, "follows (follower_id, followee_id)", _edges(followers))
        await connection.execute("ANALYZE")


def _counts(followers: Followers) -> Iterator[tuple[int, int]]:
    return ((author, len(theirs)) for author, theirs in followers.items())


def _edges(followers: Followers) -> Iterator[tuple[int, int]]:
    return ((each, author) for author, theirs in followers.items() for each in theirs)


_WRITE = """
WITH written AS (
    INSERT INTO posts (id, author_id, body, format, created_at, received_at, effective_ms, delivery)
    SELECT id, author_id, 'A post.', 'text', now(), now(), ms, 'push'
      FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS post (id, author_id, ms)
    RETURNING id, author_id, effective_ms),
event AS (
    INSERT INTO outbox_events (aggregatetype, aggregateid, type, payload)
    SELECT 'post', id, 'post.created',
           jsonb_build_object('post_id', id, 'author_id', author_id, 'ms', effective_ms,
                              'delivery', 'push')
      FROM written
    RETURNING id)
INSERT INTO deliveries (event_id) SELECT id FROM event RETURNING id
"""


async def write_posts(
    postgres: Postgres, ids: Sequence[int], authors: Sequence[int], ms: Sequence[int]
) -> list[int]:
    """Write posts (n,) with their events, as the api does, and return the deliveries owed."""
    async with postgres.transaction() as connection:
        rows = await connection.execute(_WRITE, [list(ids), list(authors), list(ms)])
        return [id for (id,) in await rows.fetchall()]


async def relay_is_there(redis: RedisClient) -> None:
    """Wait for the relay's first look at the server: it drops the lists it finds there then."""
    async with asyncio.timeout(WITHIN_S):
        while not await redis.exists(keys.RUN_ID):  # noqa: ASYNC110  a process does it
            await asyncio.sleep(0.1)


async def fill_feeds(redis: RedisClient, settings: Settings, readers: int) -> int:
    """Give every reader the same full feed, an hour old; return its newest millisecond."""
    newest_ms = int(time.time() * 1000) - 3_600_000
    feeds = Feeds(redis, cap=settings.feed_cap)
    ms: Numbers = newest_ms - np.arange(settings.feed_cap, dtype=np.int64) * 1_000
    ids: Numbers = ms << (NODE_BITS + SEQUENCE_BITS)
    first = keys.feed(1)
    await feeds.begin(first, "bench", ttl_s=60)
    await feeds.finish(first, "bench", ids, ms, int(ms[-1]) - 1, ttl_s=settings.feed_ttl_s)
    await copy_list(redis, first, [keys.feed(reader) for reader in range(2, readers + 1)])
    return newest_ms


async def copy_list(redis: RedisClient, source: str, targets: Sequence[str]) -> None:
    """Copy one cached list to other keys, many in one round trip."""
    for at in range(0, len(targets), PIPELINE):
        async with redis.pipeline(transaction=False) as pipe:
            for target in targets[at : at + PIPELINE]:
                pipe.copy(source, target)
            await pipe.execute()


async def check_full(redis: RedisClient, settings: Settings, readers: Iterable[int]) -> None:
    """See that what was measured was done: every feed is full and has kept its sentinel.

    Raises:
        ForYouError: One is not.
    """
    feeds = Feeds(redis, cap=settings.feed_cap)
    sizes = {await redis.zcard(keys.feed(reader)) - 1 for reader in readers}
    if not feeds.cap <= min(sizes) <= max(sizes) <= feeds.most:
        raise ForYouError(f"feeds have {sorted(sizes)} entries, not {feeds.cap} to {feeds.most}")
