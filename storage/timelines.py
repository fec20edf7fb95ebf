"""Reads posts by author and time from Postgres: own posts, gaps of cached lists, the tail."""

from dataclasses import dataclass
from math import ceil

from feed.candidates import FORMATS, Gaps, empty_ids
from feed.order import Ids, Key
from storage.columns import id_columns
from storage.connections import Connection, Postgres

# The newest few of each author come first: nothing below the nth newest of those can be among the n
# newest of all, so that the second look stops there. With 2,000 authors it reads 2,500 rows for the
# newest 500, not 500 an author (tests/integration/test_plans.py). A limit that the planner cannot
# see makes it walk the index in order and stop; else it may read all of an author's posts and sort.
_NEWEST = """
WITH gap AS MATERIALIZED (
    SELECT * FROM unnest(%(authors)b::bigint[], %(ms)b::bigint[], %(ids)b::bigint[])
      AS gap (author_id, ms, id)
), first AS (
    SELECT DISTINCT p.effective_ms, p.id FROM gap
     CROSS JOIN LATERAL (
           SELECT id, effective_ms FROM posts
            WHERE author_id = gap.author_id AND deleted_at IS NULL
              AND (effective_ms, id) <= (gap.ms, gap.id)
              AND (effective_ms, id) >= (%(down_to_ms)s, %(down_to_id)s)
            ORDER BY effective_ms DESC, id DESC
            LIMIT (SELECT %(first)s)) AS p
), numbered AS (
    SELECT effective_ms, id, row_number() OVER (ORDER BY effective_ms DESC, id DESC) AS place
      FROM first
), down_to AS MATERIALIZED (
    SELECT effective_ms, id FROM numbered WHERE place = %(n)s
     UNION ALL SELECT %(down_to_ms)s, %(down_to_id)s
     ORDER BY 1 DESC, 2 DESC LIMIT 1
)
SELECT array_agg(id), array_agg(effective_ms) FROM (
    SELECT p.id, p.effective_ms
      FROM gap
     CROSS JOIN LATERAL (
           SELECT id, effective_ms FROM posts
            WHERE author_id = gap.author_id AND deleted_at IS NULL
              AND (effective_ms, id) <= (gap.ms, gap.id)
              AND (effective_ms, id)
                  >= ((SELECT effective_ms FROM down_to), (SELECT id FROM down_to))
            ORDER BY effective_ms DESC, id DESC
            LIMIT (SELECT %(n)s)) AS p
     ORDER BY p.effective_ms DESC, p.id DESC
     LIMIT %(n)s) AS newest
"""
FEW = 4
"""So many authors are read at once: looking twice would cost more than it spares."""


async def newest_posts(connection: Connection, gaps: Gaps, down_to: Key, n: int) -> tuple[Ids, Ids]:
    """Return ids and effective times (at most n,) of the newest posts inside these gaps.

    Touches at most n rows an author, so that one busy author never crowds out the others, and far
    fewer where many have posts.
    An author in two gaps gives each post once or twice; the merge keeps one.
    """
    values = {
        "authors": gaps.authors,
        "ms": gaps.ms,
        "ids": gaps.ids,
        "down_to_ms": down_to.ms,
        "down_to_id": down_to.id,
        "n": n,
        "first": 0 if len(gaps) <= FEW else ceil(2 * n / len(gaps)),
    }
    ids, ms = await id_columns(connection, _NEWEST, values)
    return ids, ms


class PostgresTimelines:
    """Timelines for sources, a connection of the pool for each read."""

    def __init__(self, postgres: Postgres) -> None:
        """Read from `postgres`."""
        self._postgres = postgres

    async def newest_posts(self, gaps: Gaps, down_to: Key, n: int) -> tuple[Ids, Ids]:
        """Return the newest posts inside these gaps, as `newest_posts` does."""
        if not len(gaps):
            return empty_ids(), empty_ids()
        async with self._postgres.connection() as connection:
            return await newest_posts(connection, gaps, down_to, n)

    async def signals(self, ids: Ids) -> "Signals":
        """Return the signals of these posts, as `load_signals` does."""
        async with self._postgres.connection() as connection:
            return await load_signals(connection, ids)


_SIGNALS = """
SELECT array_agg(author), array_agg(original), array_agg(format::bigint), array_agg(likes::bigint),
       array_agg(comments::bigint), array_agg(reposts::bigint), array_agg(author_since_ms)
  FROM (
    SELECT coalesce(p.author_id, 0) AS author,
           CASE WHEN p.body = '' AND p.media = '[]' THEN coalesce(p.repost_of, p.id)
                ELSE wanted.id END AS original,
           coalesce(array_position(%(formats)s, p.format), 1) - 1 AS format,
           greatest(s.likes, 0) AS likes, greatest(s.comments, 0) AS comments,
           greatest(s.reposts, 0) AS reposts,
           coalesce(extract(epoch FROM u.created_at) * 1000, 0)::bigint AS author_since_ms
      FROM unnest(%(ids)b::bigint[]) WITH ORDINALITY AS wanted(id, place)
      LEFT JOIN posts p ON p.id = wanted.id AND p.deleted_at IS NULL
      LEFT JOIN post_stats s ON s.post_id = p.id
      LEFT JOIN users u ON u.id = p.author_id
     ORDER BY wanted.place) AS signal
"""


@dataclass(frozen=True)
class Signals:
    """What ranking needs of n posts, as aligned columns (n,); a post that is gone has author 0.

    `originals` is the post that is shown: the original of a plain repost, else the post itself.
    `author_since_ms` is when the author's account was made, 0 when nobody knows.
    """

    authors: Ids
    originals: Ids
    formats: Ids
    likes: Ids
    comments: Ids
    reposts: Ids
    author_since_ms: Ids


async def load_signals(connection: Connection, ids: Ids) -> Signals:
    """Load the signals of these posts (n,)."""
    values = {"formats": list(FORMATS), "ids": ids}
    return Signals(*await id_columns(connection, _SIGNALS, values))
