"""What every viewer must see, straight from the truth: one plain pull query, nothing cached.

Written from the rules, not from the service's SQL, so that the two can disagree.
"""

from collections.abc import Collection
from typing import NamedTuple

from storage.connections import Connection

_NETWORK = """
    SELECT followee_id AS author_id FROM follows WHERE follower_id = %(viewer)s
    UNION
    SELECT %(viewer)s
"""
_NEVER_LEFT = """
    SELECT id AS author_id FROM users
    EXCEPT
    SELECT author_id FROM unfollowed WHERE viewer_id = %(viewer)s
"""
_FEED = """
shut_out AS (
    SELECT blocked_id AS user_id FROM blocks WHERE blocker_id = %(viewer)s
    UNION
    SELECT blocker_id FROM blocks WHERE blocked_id = %(viewer)s
    UNION
    SELECT muted_id FROM mutes WHERE muter_id = %(viewer)s AND (until IS NULL OR until > now())
)
SELECT p.effective_ms, p.id
FROM posts p
JOIN network ON network.author_id = p.author_id
LEFT JOIN posts original ON original.id = p.repost_of
LEFT JOIN posts quoted ON quoted.id = original.repost_of
LEFT JOIN posts deeper ON deeper.id = quoted.repost_of
WHERE p.deleted_at IS NULL
  AND (p.repost_of IS NULL OR original.id IS NOT NULL)
  AND original.deleted_at IS NULL
  AND quoted.deleted_at IS NULL
  AND deeper.deleted_at IS NULL
  AND NOT EXISTS (
      SELECT FROM posts shown
      LEFT JOIN posts parent ON parent.id = shown.reply_to
      JOIN posts involved ON involved.id IN (shown.id, parent.id, parent.repost_of, deeper.id)
      WHERE shown.id IN (p.id, original.id, quoted.id)
        AND (involved.author_id IN (SELECT user_id FROM shut_out)
             OR involved.id IN (SELECT post_id FROM hidden_posts WHERE viewer_id = %(viewer)s))
  )
"""
HOME_FEED = f"WITH network AS ({_NETWORK}), {_FEED} ORDER BY p.effective_ms DESC, p.id DESC"
MAY_SEE = f"WITH network AS ({_NEVER_LEFT}), {_FEED} AND p.id = ANY(%(ids)s::bigint[])"


class Entry(NamedTuple):
    """One post of a feed; entries compare as the order does, larger is newer."""

    ms: int
    id: int


async def home_feed(connection: Connection, viewer_id: int) -> list[Entry]:
    """Return the whole chronological feed of a viewer, newest first."""
    rows = await connection.execute(HOME_FEED, {"viewer": viewer_id})
    return [Entry(*row) for row in await rows.fetchall()]


async def may_see(connection: Connection, viewer_id: int, ids: Collection[int]) -> set[int]:
    """Return those of these posts that a viewer may be shown, by anybody who was not unfollowed."""
    rows = await connection.execute(MAY_SEE, {"viewer": viewer_id, "ids": list(ids)})
    return {id for _, id in await rows.fetchall()}
