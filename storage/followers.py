"""Who is to be pushed to: active followers in pages by id, and the count of all followers.

An inactive follower has no cached feed (it expires sooner) and gets a rebuilt one on return.
"""

from collections.abc import Sequence

from storage.connections import Connection

_PAGE = """
SELECT f.follower_id
FROM follows f JOIN user_activity a ON a.user_id = f.follower_id
WHERE f.followee_id = %s AND f.follower_id > %s AND f.follower_id <= %s
  AND a.last_seen_at > now() - make_interval(secs => %s)
ORDER BY f.follower_id
LIMIT %s
"""


async def active_followers(
    connection: Connection,
    author_id: int,
    *,
    after: int,
    until: int,
    inactive_after_s: float,
    limit: int,
) -> list[int]:
    """Return one page of an author's active followers with ids in (after, until], ascending."""
    values = [author_id, after, until, inactive_after_s, limit]
    rows = await connection.execute(_PAGE, values)
    return [follower_id for (follower_id,) in await rows.fetchall()]


_FIRST_PAGES = """
SELECT author_id, follower_id
FROM unnest(%s::bigint[]) AS author (author_id)
CROSS JOIN LATERAL (
    SELECT f.follower_id
    FROM follows f JOIN user_activity a ON a.user_id = f.follower_id
    WHERE f.followee_id = author_id
      AND a.last_seen_at > now() - make_interval(secs => %s)
    ORDER BY f.follower_id
    LIMIT %s
) AS page
"""


async def first_pages(
    connection: Connection, author_ids: Sequence[int], *, inactive_after_s: float, limit: int
) -> dict[int, list[int]]:
    """Return the first page of active followers of each of these authors, in one query."""
    if not author_ids:
        return {}
    rows = await connection.execute(_FIRST_PAGES, [list(author_ids), inactive_after_s, limit])
    pages: dict[int, list[int]] = {author_id: [] for author_id in author_ids}
    for author_id, follower_id in await rows.fetchall():
        pages[author_id].append(follower_id)
    return pages


_EVERY = """
SELECT follower_id
FROM (SELECT follower_id, row_number() OVER (ORDER BY follower_id) AS n
      FROM follows WHERE followee_id = %s) AS numbered
WHERE n %% %s = 0
ORDER BY follower_id
"""


async def every_nth_follower(connection: Connection, author_id: int, n: int) -> list[int]:
    """Return the nth, 2nth, ... of an author's followers by id: where chunks of n end."""
    rows = await connection.execute(_EVERY, [author_id, n])
    return [follower_id for (follower_id,) in await rows.fetchall()]


# Deleted and added in one statement, so that each delta counts exactly once. A user who is not
# known yet starts as the first write would start them.
_FOLD = """
WITH taken AS (
    DELETE FROM follower_deltas WHERE id IN (
        SELECT id FROM follower_deltas ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED
    )
    RETURNING author_id, delta
), sums AS (
    SELECT author_id, sum(delta)::integer AS delta FROM taken GROUP BY author_id ORDER BY author_id
)
INSERT INTO users (id, name, follower_count)
SELECT author_id, 'user ' || author_id, delta FROM sums
ON CONFLICT (id) DO UPDATE SET follower_count = users.follower_count + excluded.follower_count
RETURNING id
"""


async def fold_counts(connection: Connection, limit: int = 10_000) -> list[int]:
    """Add what follows and unfollows still owe to follower counts; return the authors touched."""
    rows = await connection.execute(_FOLD, [limit])
    return [author_id for (author_id,) in await rows.fetchall()]
