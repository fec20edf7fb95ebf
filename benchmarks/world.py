"""A seeded world in the truth: readers who follow authors who post, with likes and affinity.

Small enough to load in seconds, and so shaped that every reader has more posts than the
candidates of one slate, a few of the followed authors are pulled, and some posts are reposts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import psycopg

from feed.ids import NODE_BITS, SEQUENCE_BITS

Numbers = npt.NDArray[np.int64]

DAYS_MS = 3 * 86_400_000


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How large a world is: readers are users 1.., authors come after them."""

    readers: int = 200
    authors: int = 1_000
    posts_per_author: int = 20
    follows_per_reader: int = 150
    pulled_authors: int = 20
    engaged_per_reader: int = 30

    @property
    def reader_ids(self) -> range:
        """Who reads."""
        return range(1, self.readers + 1)

    @property
    def author_ids(self) -> range:
        """Who writes."""
        return range(self.readers + 1, self.readers + self.authors + 1)


@dataclass(frozen=True)
class Posts:
    """The posts of a world as columns (n,), oldest first."""

    ids: Numbers
    authors: Numbers
    ms: Numbers
    repost_of: Numbers  # 0: none


async def load_world(url: str, shape: Shape, *, seed: int, now_ms: int) -> Posts:
    """Write a world into a migrated, empty database through COPY; return its posts."""
    rng = np.random.default_rng(seed)
    posts = _posts(rng, shape, now_ms)
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        users = [*shape.reader_ids, *shape.author_ids]
        await copy(connection, "users (id, name)", ((id, f"Person {id}") for id in users))
        await copy(connection, "follows (follower_id, followee_id)", _follows(rng, shape))
        await copy(connection, _POSTS, _post_rows(rng, posts))
        await copy(connection, "post_stats (post_id, likes, comments)", _stats(rng, posts))
        await copy(connection, _AFFINITY, _affinity(rng, shape))
        await copy(connection, _DELIVERY, _pulled(shape))
        await connection.execute("ANALYZE")
    return posts


async def copy(
    connection: psycopg.AsyncConnection[Any], table: str, rows: Iterable[Sequence[Any]]
) -> None:
    """Copy rows into a table, named with its columns."""
    async with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY {table} FROM STDIN".encode()) as target,
    ):
        for row in rows:
            await target.write_row(row)


_POSTS = """posts (id, author_id, body, format, repost_of, created_at, received_at, effective_ms,
                   delivery)"""
_AFFINITY = "affinity (viewer_id, author_id, strength, at)"
_DELIVERY = "author_delivery (author_id, readers_pull, writers_pull)"
_FORMATS = ("text", "image", "video", "link")


def _posts(rng: np.random.Generator, shape: Shape, now_ms: int) -> Posts:
    n = shape.authors * shape.posts_per_author
    ms = np.sort(now_ms - rng.choice(DAYS_MS, n, replace=False).astype(np.int64))
    ids = ms << (NODE_BITS + SEQUENCE_BITS)
    authors = rng.permutation(np.repeat(np.array(shape.author_ids), shape.posts_per_author))
    # One in twenty reposts an older original.
    original = rng.integers(0, np.maximum(np.arange(n), 1))
    reposts = (rng.random(n) < 0.05) & (np.arange(n) > 0)
    reposts &= ~reposts[original]
    return Posts(ids, authors, ms, np.where(reposts, ids[original], 0))


def _post_rows(rng: np.random.Generator, posts: Posts) -> Iterable[Sequence[Any]]:
    times = np.array(posts.ms, dtype="datetime64[ms]").astype(str)
    length = rng.integers(40, 280, len(posts.ids))
    formats = rng.choice(_FORMATS, len(posts.ids), p=(0.55, 0.25, 0.1, 0.1))
    columns = (posts.ids, posts.authors, posts.ms, posts.repost_of, length)
    for row, (id, author, ms, repost_of, chars) in enumerate(
        zip(*(column.tolist() for column in columns), strict=True)
    ):
        body = "" if repost_of else (f"Post {id}. " * 20)[:chars]
        at = f"{times[row]}Z"
        yield id, author, body, str(formats[row]), repost_of or None, at, at, ms, "push"


def _follows(rng: np.random.Generator, shape: Shape) -> Iterable[Sequence[int]]:
    authors = np.array(shape.author_ids)
    for reader in shape.reader_ids:
        for author in rng.choice(authors, shape.follows_per_reader, replace=False).tolist():
            yield reader, author


def _stats(rng: np.random.Generator, posts: Posts) -> Iterable[Sequence[int]]:
    likes = rng.zipf(1.8, len(posts.ids)).clip(max=5_000) - 1
    comments = likes // 5
    return zip(posts.ids.tolist(), likes.tolist(), comments.tolist(), strict=True)


def _affinity(rng: np.random.Generator, shape: Shape) -> Iterable[Sequence[Any]]:
    authors = np.array(shape.author_ids)
    for reader in shape.reader_ids:
        engaged = rng.choice(authors, shape.engaged_per_reader, replace=False)
        for author in engaged.tolist():
            yield reader, author, round(float(rng.gamma(1.0, 3.0)), 3), "now"


def _pulled(shape: Shape) -> Iterable[Sequence[Any]]:
    return ((author, True, True) for author in shape.author_ids[: shape.pulled_authors])
