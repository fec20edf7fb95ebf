"""Worlds whose groups of readers differ in one thing: what does the cost of an open hang on?

The server writes them itself, from series: a million posts in about a minute.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from benchmarks.world import DAYS_MS
from feed.ids import NODE_BITS, SEQUENCE_BITS

POSTS_PER_AUTHOR = 50  # so that a reader of ten authors has as many candidates as everybody
FOLLOWERS_PER_AUTHOR = 100
POSTS_PER_LARGE_AUTHOR = 1_000  # more than an outbox holds
FIRST_AUTHOR = 10_001
FIRST_LARGE_AUTHOR = 10_000_001
FIRST_FOLLOWER = 20_000_001


@dataclass(frozen=True, kw_only=True)
class Group:
    """Readers who follow so many small authors, and so many large ones, who are pulled."""

    readers: range
    followees: int
    large: int = 0


@dataclass(frozen=True, kw_only=True)
class FlatShape:
    """How large a world is; each small author has 100 followers besides the readers."""

    posts: int
    followed_authors: int
    large_authors: int
    followers_per_large_author: int
    groups: Sequence[Group]


_USERS = """
INSERT INTO users (id, name, follower_count, created_at)
SELECT id, 'Person ' || id, %(followers)s, now() - interval '1 year'
  FROM generate_series(%(first)s::bigint, %(first)s::bigint + %(n)s - 1) id
"""
_POSTS = """
WITH written AS (
    INSERT INTO posts (id, author_id, body, format, created_at, received_at, effective_ms, delivery)
    SELECT (ms << %(shift)s) + %(node)s, author, repeat('Some words. ', 5 + (n %% 15)::integer),
           (ARRAY['text', 'text', 'image', 'text', 'link'])[1 + (n %% 5)::integer],
           to_timestamp(ms / 1000.0), to_timestamp(ms / 1000.0), ms, 'push'
      FROM (SELECT n, %(newest_ms)s - n::bigint * %(days_ms)s / %(posts)s,
                   %(first)s::bigint + n %% %(n)s
              FROM generate_series(0, %(posts)s::bigint - 1) n) AS post (n, ms, author)
    RETURNING id)
INSERT INTO post_stats (post_id, likes, comments)
SELECT id, ((id >> %(shift)s) %% 40)::integer, ((id >> %(shift)s) %% 7)::integer FROM written
"""
_FOLLOWERS = """
INSERT INTO follows (follower_id, followee_id)
SELECT %(first_follower)s + n, author
  FROM generate_series(%(first)s::bigint, %(first)s::bigint + %(n)s - 1) author,
       generate_series(1, %(followers)s::bigint) n
"""
_FOLLOWS = """
INSERT INTO follows (follower_id, followee_id)
SELECT reader, %(first)s::bigint + (reader * 37 + n * (%(n)s / %(followees)s)) %% %(n)s
  FROM generate_series(%(first_reader)s::bigint, %(last_reader)s::bigint) reader,
       generate_series(0, %(followees)s::bigint - 1) n
"""
_PULLED = """
INSERT INTO author_delivery (author_id, readers_pull, writers_pull)
SELECT id, true, true FROM generate_series(%(first)s::bigint, %(first)s::bigint + %(n)s - 1) id
"""


async def load_flat_world(url: str, shape: FlatShape, *, now_ms: int) -> None:
    """Write a world into a migrated, empty database."""
    small = {
        "first": FIRST_AUTHOR,
        "n": max(shape.followed_authors, shape.posts // POSTS_PER_AUTHOR),
        "posts": shape.posts,
        "followers": FOLLOWERS_PER_AUTHOR,
        "node": 0,
    }
    large = {
        "first": FIRST_LARGE_AUTHOR,
        "n": shape.large_authors,
        "posts": shape.large_authors * POSTS_PER_LARGE_AUTHOR,
        "followers": shape.followers_per_large_author,
        "node": 1,  # so that two posts of one millisecond have two ids
    }
    written = {
        "shift": NODE_BITS + SEQUENCE_BITS,
        "newest_ms": now_ms,
        "days_ms": DAYS_MS,
        "first_follower": FIRST_FOLLOWER,
    }
    followed = {**small, "n": shape.followed_authors}
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        for authors in (small, large) if shape.large_authors else (small,):
            await connection.execute(_USERS, authors)
            await connection.execute(_POSTS, {**authors, **written})
        for authors in (followed, large) if shape.large_authors else (followed,):
            await connection.execute(_FOLLOWERS, {**authors, **written})
        if shape.large_authors:
            await connection.execute(_PULLED, large)
        for group in shape.groups:
            await _follow(connection, group, followed, group.followees)
            await _follow(connection, group, large, group.large)
        await connection.execute("ANALYZE")


async def _follow(
    connection: psycopg.AsyncConnection, group: Group, authors: dict[str, int], followees: int
) -> None:
    """Let readers follow so many of these authors, spread evenly over them."""
    if followees:
        readers = {"first_reader": group.readers[0], "last_reader": group.readers[-1]}
        await connection.execute(_FOLLOWS, {**authors, **readers, "followees": followees})
