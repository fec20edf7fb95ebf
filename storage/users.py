"""Users: created by their first write, named, deleted with a receipt; preferences and visits."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from feed.errors import NotAllowed, NotFound
from feed.query import Mode
from storage import outbox_events
from storage.connections import Connection
from storage.posts import delete_posts

_ENSURE = "INSERT INTO users (id, name) VALUES (%s, %s) ON CONFLICT (id) DO NOTHING"
_DELETED = "SELECT deleted_at IS NOT NULL FROM users WHERE id = %s"


async def ensure_user(connection: Connection, user_id: int) -> None:
    """Create the user who writes for the first time.

    Raises:
        NotAllowed: The account was deleted.
    """
    rows = await connection.execute(_DELETED, [user_id])
    row = await rows.fetchone()
    if row is None:
        await connection.execute(_ENSURE, [user_id, f"user {user_id}"])
    elif row[0]:
        raise NotAllowed("This account was deleted.")


_KNOWN = "SELECT id FROM users WHERE id = ANY(%s) AND deleted_at IS NULL"


async def known_users(connection: Connection, user_ids: Sequence[int]) -> set[int]:
    """Return those of these users who exist and were not deleted."""
    rows = await connection.execute(_KNOWN, [list(user_ids)])
    return {user_id for (user_id,) in await rows.fetchall()}


async def require_user(connection: Connection, user_id: int) -> None:
    """Insist that a user exists.

    Raises:
        NotFound: There is none, or the account was deleted.
    """
    if user_id not in await known_users(connection, [user_id]):
        raise NotFound("There is no such user.")


# A row is locked only when something changes, so that a repeated import is cheap.
_PUT = """
WITH given AS (
    SELECT id, name FROM unnest(%s::bigint[], %s::text[]) AS g (id, name)
), before AS (
    SELECT id, name, deleted_at FROM users WHERE id IN (SELECT id FROM given)
), written AS (
    INSERT INTO users AS u (id, name) SELECT id, name FROM given ORDER BY id
    ON CONFLICT (id) DO UPDATE SET name = excluded.name, deleted_at = NULL
     WHERE u.name <> excluded.name OR u.deleted_at IS NOT NULL
    RETURNING id
)
SELECT given.id, before.id IS NULL OR before.deleted_at IS NOT NULL, written.id IS NOT NULL
  FROM given LEFT JOIN before USING (id) LEFT JOIN written USING (id)
"""


@dataclass(frozen=True)
class UserPut:
    """What became of one named user."""

    created: bool
    changed: bool


async def put_users(connection: Connection, names: dict[int, str]) -> dict[int, UserPut]:
    """Create or rename users; a deleted account begins again, empty."""
    rows = await connection.execute(_PUT, [list(names), list(names.values())])
    return {id: UserPut(created, changed) for id, created, changed in await rows.fetchall()}


async def put_user(connection: Connection, user_id: int, name: str) -> bool:
    """Create or rename one user; True: created."""
    return (await put_users(connection, {user_id: name}))[user_id].created


_GET_MODE = "SELECT feed_mode FROM users WHERE id = %s"
_SET_MODE = "UPDATE users SET feed_mode = %s WHERE id = %s"


async def get_feed_mode(connection: Connection, user_id: int) -> Mode | None:
    """Return the viewer's own choice; None: the product decides."""
    row = await (await connection.execute(_GET_MODE, [user_id])).fetchone()
    return row[0] if row else None


async def set_feed_mode(connection: Connection, user_id: int, mode: Mode | None) -> None:
    """Store the viewer's own choice."""
    await connection.execute(_SET_MODE, [mode, user_id])


_IS_DISCOVERABLE = "SELECT discoverable FROM users WHERE id = %s"
_SET_DISCOVERABLE = "UPDATE users SET discoverable = %s WHERE id = %s"


async def is_discoverable(connection: Connection, user_id: int) -> bool:
    """Say whether strangers may be shown an author's posts; they may unless the author minds."""
    row = await (await connection.execute(_IS_DISCOVERABLE, [user_id])).fetchone()
    return bool(row[0]) if row else True


async def set_discoverable(connection: Connection, user_id: int, discoverable: bool) -> None:
    """Store whether strangers may be shown an author's posts."""
    await connection.execute(_SET_DISCOVERABLE, [discoverable, user_id])


_STAMP = """
INSERT INTO user_activity AS a (user_id, last_seen_at) VALUES (%s, now())
ON CONFLICT (user_id) DO UPDATE SET last_seen_at = excluded.last_seen_at
WHERE a.last_seen_at < now() - interval '1 hour'
"""


async def stamp_visit(connection: Connection, user_id: int) -> None:
    """Note that a viewer was here; at most one write an hour."""
    await connection.execute(_STAMP, [user_id])


@dataclass(frozen=True)
class PurgeReceipt:
    """What was removed for a deleted account, in rows by table, and when; `id` is its audit row."""

    id: int
    user_id: int
    at: datetime
    removed: dict[str, int]


_CLOSE = """
UPDATE users SET name = 'deleted user', feed_mode = NULL, mode_override = NULL, deleted_at = %s
 WHERE id = %s AND deleted_at IS NULL RETURNING id
"""
_OWN_POSTS = "SELECT id FROM posts WHERE author_id = %s AND deleted_at IS NULL ORDER BY id"
_EMPTY_POSTS = "UPDATE posts SET body = '', media = '[]' WHERE author_id = %s"
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
    "blocks": "DELETE FROM blocks WHERE blocker_id = %(user)s OR blocked_id = %(user)s",
    "mutes": "DELETE FROM mutes WHERE muter_id = %(user)s OR muted_id = %(user)s",
    "hidden_posts": "DELETE FROM hidden_posts WHERE viewer_id = %(user)s",
    "engagements": "DELETE FROM engagements WHERE viewer_id = %(user)s",
    "served": "DELETE FROM served WHERE viewer_id = %(user)s",
    # What is not folded yet must not bring the affinity back; the counters still get theirs.
    "engagement_deltas": """
UPDATE engagement_deltas SET weight = 0 WHERE viewer_id = %(user)s OR author_id = %(user)s""",
    "affinity": "DELETE FROM affinity WHERE viewer_id = %(user)s OR author_id = %(user)s",
    "user_activity": "DELETE FROM user_activity WHERE user_id = %(user)s",
    "idempotency_keys": "DELETE FROM idempotency_keys WHERE user_id = %(user)s",
    "cohort_members": "DELETE FROM cohort_members WHERE user_id = %(user)s",
}


_AUDIT = "INSERT INTO audit (at, actor, action, detail) VALUES (%s, %s, %s, %s) RETURNING id"


async def delete_user(
    connection: Connection, user_id: int, *, actor_id: int, now: datetime
) -> PurgeReceipt:
    """Empty an account in one transaction; its cached lists follow by the event `user.deleted`.

    Raises:
        NotFound: There is no such user, or the account was deleted before.
    """
    closed = await connection.execute(_CLOSE, [now, user_id])
    if await closed.fetchone() is None:
        raise NotFound("There is no such user.")
    rows = await connection.execute(_OWN_POSTS, [user_id])
    posts = [post_id for (post_id,) in await rows.fetchall()]
    removed = {"posts": len(await delete_posts(connection, posts))}
    await connection.execute(_EMPTY_POSTS, [user_id])
    for table, purge in _PURGES.items():
        removed[table] = (await connection.execute(purge, {"user": user_id})).rowcount
    await outbox_events.append(connection, "user", user_id, "user.deleted", {"user_id": user_id})
    detail = json.dumps({"user_id": user_id, "removed": removed})
    audited = await connection.execute(_AUDIT, [now, str(actor_id), "user.deleted", detail])
    row = await audited.fetchone()
    assert row is not None  # RETURNING always gives the inserted row
    return PurgeReceipt(row[0], user_id, now, removed)
