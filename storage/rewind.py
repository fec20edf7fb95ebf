"""Reads what is needed to say what was known at a moment that is over: `training.parity` does.

Counters as they stand now, what was folded since, and what windows of time hold. All in one
transaction that sees one moment.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, LiteralString

import numpy as np
import numpy.typing as npt

from feed.candidates import FORMATS
from feed.order import Ids
from storage.columns import id_columns
from storage.connections import Connection
from storage.moments import OWN_POSTS, SETTLED_MS

DAY_MS = 86_400_000
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """Rows (n,) of a query that gives bigints and floats, as columns by name."""

    columns: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        """Return a column (n,)."""
        return self.columns[name]

    def __len__(self) -> int:
        """Return n."""
        return len(next(iter(self.columns.values())))

    def take(self, rows: Any) -> "Table":
        """Return some rows (k,)."""
        return Table({name: column[rows] for name, column in self.columns.items()})


@dataclass(frozen=True)
class Asked:
    """Slates (s,) by viewer and moment, and the posts (p,) on them."""

    viewers: Ids
    now_ms: Ids
    posts: Ids


@dataclass(frozen=True)
class Today:
    """How things stand, and what was folded lately."""

    posts: Table
    authors: Table
    written: Table
    viewers: Table
    pairs: Table
    follows: Table
    follows_of: Ids
    languages: list[set[str] | None]
    languages_of: dict[int, str | None]
    folded: Table


_POSTS = """
SELECT p.id, p.author_id AS author, p.effective_ms AS ms, char_length(p.body)::bigint AS chars,
       array_position(%(formats)s, p.format)::bigint - 1 AS format,
       coalesce(floor(extract(epoch FROM p.edited_at) * 1000), -1)::bigint AS edited_ms,
       coalesce(floor(extract(epoch FROM p.deleted_at) * 1000), -1)::bigint AS deleted_ms,
       coalesce(s.likes, 0)::bigint AS likes, coalesce(s.comments, 0)::bigint AS comments,
       coalesce(s.reposts + s.shares, 0)::bigint AS shares,
       coalesce(s.impressions, 0)::bigint AS impressions
  FROM posts p LEFT JOIN post_stats s ON s.post_id = p.id
 WHERE p.id = ANY(%(posts)b::bigint[]) ORDER BY p.id
"""
_AUTHORS = """
SELECT u.id, u.follower_count::bigint AS followers, coalesce(s.posts, 0)::bigint AS posts,
       coalesce(s.engaged, 0)::bigint AS engaged, coalesce(s.first_ms, -1) AS first_ms
  FROM users u LEFT JOIN author_stats s ON s.author_id = u.id
 WHERE u.id = ANY(%(authors)b::bigint[]) ORDER BY u.id
"""
_WRITTEN = """
SELECT id, author_id AS author, effective_ms AS ms,
       coalesce(floor(extract(epoch FROM deleted_at) * 1000), -1)::bigint AS deleted_ms
  FROM posts WHERE author_id = ANY(%(authors)b::bigint[]) AND effective_ms >= %(week_ms)s
 ORDER BY author_id, effective_ms
"""
_VIEWERS = """
SELECT viewer_id AS id, text::bigint, image::bigint, video::bigint, link::bigint
  FROM viewer_stats WHERE viewer_id = ANY(%(viewers)b::bigint[]) ORDER BY viewer_id
"""
_PAIRS = """
SELECT viewer_id AS viewer, author_id AS author, strength::float8,
       floor(extract(epoch FROM at) * 1000000)::bigint AS at_us, engaged::bigint,
       coalesce(floor(extract(epoch FROM engaged_at) * 1000), -1)::bigint AS engaged_ms
  FROM affinity
 WHERE viewer_id = ANY(%(viewers)b::bigint[]) AND author_id = ANY(%(authors)b::bigint[])
    OR viewer_id = ANY(%(authors)b::bigint[]) AND author_id = ANY(%(viewers)b::bigint[])
"""
_FOLLOWS = """
SELECT follower_id AS viewer, followee_id AS author,
       floor(extract(epoch FROM created_at) * 1000)::bigint AS from_ms, -1::bigint AS until_ms
  FROM follows
 WHERE follower_id = ANY(%(viewers)b::bigint[]) AND followee_id = ANY(%(authors)b::bigint[])
 UNION ALL
SELECT viewer_id, author_id, floor(extract(epoch FROM followed_at) * 1000)::bigint,
       floor(extract(epoch FROM at) * 1000)::bigint
  FROM unfollowed
 WHERE viewer_id = ANY(%(viewers)b::bigint[]) AND author_id = ANY(%(authors)b::bigint[])
   AND followed_at IS NOT NULL
"""
_FOLDED = """
SELECT fold, post_id AS post, viewer_id AS viewer, f.author_id AS author,
       floor(extract(epoch FROM at) * 1000000)::bigint AS at_us, likes::bigint, comments::bigint,
       (reposts + shares)::bigint AS shares, impressions::bigint, posts::bigint, engaged::bigint,
       followers::bigint, weight::float8,
       coalesce(array_position(%(formats)s, p.format), 1)::bigint - 1 AS format
  FROM folded f LEFT JOIN posts p ON p.id = f.post_id
 WHERE day >= %(first_day)s
   AND (post_id = ANY(%(posts)b::bigint[]) OR f.author_id = ANY(%(authors)b::bigint[])
        OR viewer_id = ANY(%(viewers)b::bigint[])
        OR f.author_id = ANY(%(viewers)b::bigint[]) AND viewer_id = ANY(%(authors)b::bigint[]))
"""
# Of each slate: how many its viewer followed, and the languages of the viewer's last own posts.
_FOLLOWS_OF = """
SELECT array_agg(n ORDER BY place) FROM (
    SELECT place,
           (SELECT count(*) FROM follows WHERE follower_id = viewer_id
               AND created_at < to_timestamp((at_ms - %(settled)s) / 1000.0))
         + (SELECT count(*) FROM unfollowed u WHERE u.viewer_id = slate.viewer_id
               AND followed_at < to_timestamp((at_ms - %(settled)s) / 1000.0)
               AND at >= to_timestamp((at_ms - %(settled)s) / 1000.0)) AS n
      FROM unnest(%(viewers_of)b::bigint[], %(at_ms)b::bigint[])
        WITH ORDINALITY AS slate (viewer_id, at_ms, place)) AS counted
"""
_LANGUAGES = """
SELECT (SELECT array_agg(DISTINCT lang) FROM (
            SELECT lang FROM posts
             WHERE author_id = slate.viewer_id AND lang IS NOT NULL
               AND (deleted_at IS NULL OR deleted_at > to_timestamp(at_ms / 1000.0))
               AND effective_ms < at_ms - %(settled)s
             ORDER BY effective_ms DESC, id DESC LIMIT %(own)s) AS own)
  FROM unnest(%(viewers_of)b::bigint[], %(at_ms)b::bigint[])
    WITH ORDINALITY AS slate (viewer_id, at_ms, place) ORDER BY place
"""
_LANGUAGES_OF = "SELECT id, lang FROM posts WHERE id = ANY(%(posts)b::bigint[])"


async def today(connection: Connection, asked: Asked) -> Today:
    """Read what concerns these slates; the connection is in a transaction that sees one moment."""
    first_ms = int(asked.now_ms.min())
    values: dict[str, Any] = {
        "posts": np.unique(asked.posts),
        "viewers": np.unique(asked.viewers),
        "viewers_of": asked.viewers,
        "at_ms": asked.now_ms,
        "formats": list(FORMATS),
        "week_ms": first_ms - 7 * DAY_MS,
        "first_day": datetime.fromtimestamp(first_ms / 1000, UTC).date() - timedelta(days=8),
        "settled": SETTLED_MS,
        "own": OWN_POSTS,
    }
    posts = await _table(connection, _POSTS, values)
    values["authors"] = np.unique(posts["author"])
    (follows_of,) = await id_columns(connection, _FOLLOWS_OF, values)
    languages = await (await connection.execute(_LANGUAGES, values)).fetchall()
    languages_of = await (await connection.execute(_LANGUAGES_OF, values)).fetchall()
    return Today(
        posts=posts,
        authors=await _table(connection, _AUTHORS, values),
        written=await _table(connection, _WRITTEN, values),
        viewers=await _table(connection, _VIEWERS, values),
        pairs=await _table(connection, _PAIRS, values),
        follows=await _table(connection, _FOLLOWS, values),
        follows_of=follows_of,
        languages=[None if names is None else set(names) for (names,) in languages],
        languages_of=dict(languages_of),
        folded=await _table(connection, _FOLDED, values),
    )


async def _table(connection: Connection, query: LiteralString, values: dict[str, Any]) -> Table:
    async with connection.cursor(binary=True) as cursor:
        await cursor.execute(query, values)
        rows = await cursor.fetchall()
        names = [column.name for column in cursor.description or ()]
        kinds = [column.type_code for column in cursor.description or ()]
    found = zip(*rows, strict=True) if rows else [()] * len(names)
    return Table(
        {
            name: np.array(values, dtype=np.float64 if kind == FLOAT8 else np.int64)
            for name, kind, values in zip(names, kinds, found, strict=True)
        }
    )


FLOAT8 = 701
"""What Postgres numbers the type float8."""
