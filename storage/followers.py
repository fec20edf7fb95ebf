"""Who is to be pushed to: follow edges in pages by id, and the count of all followers.

A page holds so many edges, active or not, so that it touches no more rows than it holds. An
inactive follower has no cached feed (it expires sooner) and gets a rebuilt one on return.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from feed.order import MAX_ID
from storage.connections import Connection
from storage.statistics import next_fold


@dataclass(frozen=True)
class FollowerPage:
    """One page of an author's followers by id: the active ones, ascending, and how many are not.

    `next_after` is where the next page begins; None: this one reaches the end.
    """

    active: Sequence[int] = ()
    n_inactive: int = 0
    next_after: int | None = None


# The subquery is one index look-up an edge under any plan; a join may choose to read all visits.
_PAGE = """
SELECT follower_id,
       coalesce((SELECT a.last_seen_at > now() - make_interval(secs => %(inactive_after_s)s)
                   FROM user_activity a WHERE a.user_id = edge.follower_id), false)
FROM (SELECT follower_id FROM follows
      WHERE followee_id = %(author)s AND follower_id > %(after)s AND follower_id <= %(until)s
      ORDER BY follower_id LIMIT %(limit)s) AS edge
ORDER BY follower_id
"""


async def follower_page(
    connection: Connection,
    author_id: int,
    *,
    after: int,
    until: int,
    inactive_after_s: float,
    limit: int,
) -> FollowerPage:
    """Return the page of at most `limit` followers with ids in (after, until]."""
    values = {
        "author": author_id,
        "after": after,
        "until": until,
        "inactive_after_s": inactive_after_s,
        "limit": limit,
    }
    rows = await (await connection.execute(_PAGE, values)).fetchall()
    return _page(rows, limit, until)


_FIRST_PAGES = """
SELECT author_id, follower_id,
       coalesce((SELECT a.last_seen_at > now() - make_interval(secs => %s)
                   FROM user_activity a WHERE a.user_id = edge.follower_id), false)
FROM unnest(%s::bigint[]) AS author (author_id)
CROSS JOIN LATERAL (
    SELECT follower_id FROM follows WHERE followee_id = author_id ORDER BY follower_id LIMIT %s
) AS edge
ORDER BY author_id, follower_id
"""


async def first_pages(
    connection: Connection, author_ids: Sequence[int], *, inactive_after_s: float, limit: int
) -> dict[int, FollowerPage]:
    """Return the first page of at most `limit` followers of each of these authors, in one query."""
    if not author_ids:
        return {}
    rows = await connection.execute(_FIRST_PAGES, [inactive_after_s, list(author_ids), limit])
    pages: dict[int, list[tuple[int, bool]]] = {author_id: [] for author_id in author_ids}
    for author_id, follower_id, active in await rows.fetchall():
        pages[author_id].append((follower_id, active))
    return {author_id: _page(page, limit, MAX_ID) for author_id, page in pages.items()}


def _page(rows: Sequence[tuple[int, bool]], limit: int, until: int) -> FollowerPage:
    active = [follower_id for follower_id, is_active in rows if is_active]
    more = len(rows) == limit and rows[-1][0] < until
    return FollowerPage(active, len(rows) - len(active), rows[-1][0] if more else None)


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
), kept AS (
    INSERT INTO folded (day, fold, post_id, viewer_id, author_id, at, followers)
    SELECT current_date, %s, 0, 0, author_id, now(), delta FROM sums
)
INSERT INTO users (id, name, follower_count)
SELECT author_id, 'user ' || author_id, delta FROM sums
ON CONFLICT (id) DO UPDATE SET follower_count = users.follower_count + excluded.follower_count
RETURNING id
"""


async def fold_counts(connection: Connection, limit: int = 10_000) -> list[int]:
    """Add what follows and unfollows still owe to follower counts; return the authors touched."""
    async with connection.transaction():
        number = await next_fold(connection)
        if number is None:
            return []
        rows = await connection.execute(_FOLD, [limit, number])
        return [author_id for (author_id,) in await rows.fetchall()]
