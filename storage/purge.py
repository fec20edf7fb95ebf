"""Empties a deleted account, with a receipt of what was removed.

What stays: the row of the user and those of the posts, without anything in them but ids and times,
so that neither id begins a second life and what points at a post knows that it is gone; the
receipt; and for a while the outbox events and the log of other people's pages, which name ids.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from feed.errors import NotFound
from storage import outbox_events
from storage.connections import Connection
from storage.posts import delete_posts

REQUESTS_END_S = 5.0  # a request that was under way when an account was deleted has ended by then

Shown = tuple[str, str]
"""The id and the nonce of a snapshot of which the user was served something."""


@dataclass(frozen=True)
class PurgeReceipt:
    """What was removed for a deleted account, in rows by table, and when; `id` is its audit row.

    `shown` names what is left of the user in the cache, beside what has a name of its own.
    """

    id: int
    user_id: int
    at: datetime
    removed: dict[str, int]
    shown: Sequence[Shown]


_CLOSE = """
UPDATE users SET name = 'deleted user', feed_mode = NULL, mode_override = NULL,
                 discoverable = true, created_at = %(now)s, deleted_at = %(now)s
 WHERE id = %(user)s AND deleted_at IS NULL RETURNING id
"""
_OWN_POSTS = "SELECT id FROM posts WHERE author_id = %s AND deleted_at IS NULL ORDER BY id"
_EMPTY_POSTS = """
UPDATE posts SET body = '', media = '[]', format = 'text', lang = NULL, repost_of = NULL,
                 reply_to = NULL, edited_at = NULL
 WHERE author_id = %s
"""
_UNLIKE = """
WITH gone AS (DELETE FROM reactions WHERE viewer_id = %(user)s RETURNING post_id, active)
INSERT INTO engagement_deltas (post_id, viewer_id, author_id, likes)
SELECT p.id, %(user)s, p.author_id, -1 FROM gone JOIN posts p ON p.id = gone.post_id
 WHERE gone.active ORDER BY p.id
"""
_UNFOLLOW = """
WITH gone AS (
    DELETE FROM follows WHERE follower_id = %(user)s OR followee_id = %(user)s
    RETURNING followee_id
), owed AS (
    INSERT INTO follower_deltas (author_id, delta)
    SELECT followee_id, -count(*) FROM gone GROUP BY followee_id
)
SELECT FROM gone
"""
# Table by table; an account is deleted rarely, so the partitioned ones are scanned.
_PURGES: dict[str, Any] = {
    "likes": _UNLIKE,
    "follows": _UNFOLLOW,
    "unfollowed": "DELETE FROM unfollowed WHERE viewer_id = %(user)s OR author_id = %(user)s",
    "blocks": "DELETE FROM blocks WHERE blocker_id = %(user)s OR blocked_id = %(user)s",
    "mutes": "DELETE FROM mutes WHERE muter_id = %(user)s OR muted_id = %(user)s",
    "hidden_posts": "DELETE FROM hidden_posts WHERE viewer_id = %(user)s",
    "engagements": "DELETE FROM engagements WHERE viewer_id = %(user)s",
    "served": "DELETE FROM served WHERE viewer_id = %(user)s",
    "slates": "DELETE FROM slates WHERE viewer_id = %(user)s",
    # What is not folded yet must not bring anything back; other people's counters still get theirs,
    # and what was folded can still be taken off them, whoever did it.
    "engagement_deltas": """
UPDATE engagement_deltas
   SET weight = 0, posts = CASE author_id WHEN %(user)s THEN 0 ELSE posts END,
       viewer_id = CASE viewer_id WHEN %(user)s THEN 0 ELSE viewer_id END,
       author_id = CASE author_id WHEN %(user)s THEN 0 ELSE author_id END
 WHERE viewer_id = %(user)s OR author_id = %(user)s""",
    "folded": """
UPDATE folded
   SET viewer_id = CASE viewer_id WHEN %(user)s THEN 0 ELSE viewer_id END,
       author_id = CASE author_id WHEN %(user)s THEN 0 ELSE author_id END
 WHERE viewer_id = %(user)s OR author_id = %(user)s""",
    "author_stats": "DELETE FROM author_stats WHERE author_id = %(user)s",
    "viewer_stats": "DELETE FROM viewer_stats WHERE viewer_id = %(user)s",
    "affinity": "DELETE FROM affinity WHERE viewer_id = %(user)s OR author_id = %(user)s",
    "post_stats": """
DELETE FROM post_stats WHERE post_id IN (SELECT id FROM posts WHERE author_id = %(user)s)""",
    # In the order in which a worker that settles takes them: the other way round is a deadlock.
    "author_delivery": "DELETE FROM author_delivery WHERE author_id = %(user)s",
    "deliveries": "DELETE FROM deliveries WHERE author_id = %(user)s",
    "delivery_receipts": """
DELETE FROM delivery_receipts WHERE post_id IN (SELECT id FROM posts WHERE author_id = %(user)s)""",
    "author_costs": "DELETE FROM author_costs WHERE author_id = %(user)s",
    "user_activity": "DELETE FROM user_activity WHERE user_id = %(user)s",
    "idempotency_keys": "DELETE FROM idempotency_keys WHERE user_id = %(user)s",
    "cohort_members": "DELETE FROM cohort_members WHERE user_id = %(user)s",
}
_SHOWN = """
SELECT DISTINCT snapshot_id, nonce FROM served
 WHERE viewer_id = %s AND at > now() - interval '2 days' ORDER BY 1, 2
"""
_AUDIT = "INSERT INTO audit (at, actor, action, detail) VALUES (%s, %s, %s, %s) RETURNING id"


async def delete_user(
    connection: Connection, user_id: int, *, actor_id: int, now: datetime
) -> PurgeReceipt:
    """Empty an account in one transaction; what is cached follows by the event `user.deleted`.

    Raises:
        NotFound: There is no such user, or the account was deleted before.
    """
    closed = await connection.execute(_CLOSE, {"now": now, "user": user_id})
    if await closed.fetchone() is None:
        raise NotFound("There is no such user.")
    rows = await connection.execute(_SHOWN, [user_id])
    shown = [(snapshot_id, nonce) for snapshot_id, nonce in await rows.fetchall()]
    removed = await _purge(connection, user_id)
    payload = {"user_id": user_id, "shown": shown}
    await outbox_events.append(connection, "user", user_id, "user.deleted", payload)
    detail = json.dumps({"user_id": user_id, "removed": removed})
    audited = await connection.execute(_AUDIT, [now, str(actor_id), "user.deleted", detail])
    row = await audited.fetchone()
    assert row is not None  # RETURNING always gives the inserted row
    return PurgeReceipt(row[0], user_id, now, removed, shown)


# Locked, so that an account that begins again does so before or after.
_STILL_DELETED = "SELECT FROM users WHERE id = %s AND deleted_at IS NOT NULL FOR UPDATE"


async def purge_again(connection: Connection, user_id: int) -> None:
    """Remove what requests in flight have left of a deleted account, unless it has begun again."""
    rows = await connection.execute(_STILL_DELETED, [user_id])
    if await rows.fetchone() is not None:
        await _purge(connection, user_id)


async def _purge(connection: Connection, user_id: int) -> dict[str, int]:
    """Delete a user's posts and remove what is theirs, table by table; return how many rows."""
    rows = await connection.execute(_OWN_POSTS, [user_id])
    posts = [post_id for (post_id,) in await rows.fetchall()]
    removed = {"posts": len(await delete_posts(connection, posts))}
    for table, purge in _PURGES.items():
        removed[table] = (await connection.execute(purge, {"user": user_id})).rowcount
    await connection.execute(_EMPTY_POSTS, [user_id])
    return removed
