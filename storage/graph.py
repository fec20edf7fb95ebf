"""Who follows, blocks, mutes and hides what; a change and its events share a transaction.

A block does not delete follow edges, it suppresses them: an unblock restores what was there.
Mutes and hidden posts only filter at read and owe no event.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple

from storage import outbox_events
from storage.connections import Connection
from storage.outbox_events import Event

Edge = tuple[int, int]
"""Who, and whom."""


async def follow(connection: Connection, viewer_id: int, author_id: int) -> bool:
    """Follow; False: followed already."""
    return bool(await follow_many(connection, [(viewer_id, author_id)]))


async def unfollow(connection: Connection, viewer_id: int, author_id: int) -> bool:
    """Unfollow; False: was not followed."""
    return bool(await unfollow_many(connection, [(viewer_id, author_id)]))


# Sorted, so that two batches cannot deadlock.
_FOLLOW = """
WITH changed AS (
    INSERT INTO follows (follower_id, followee_id)
    SELECT * FROM unnest(%s::bigint[], %s::bigint[]) AS edge (follower_id, followee_id)
    ORDER BY 1, 2
    ON CONFLICT DO NOTHING
    RETURNING follower_id, followee_id
), owed AS (
    INSERT INTO follower_deltas (author_id, delta) SELECT followee_id, 1 FROM changed
), again AS (
    DELETE FROM unfollowed USING changed
     WHERE viewer_id = follower_id AND author_id = followee_id
)
SELECT follower_id, followee_id FROM changed
"""


async def follow_many(connection: Connection, edges: Sequence[Edge]) -> set[Edge]:
    """Follow along many edges; return those that are new."""
    return await _change(connection, _FOLLOW, edges, both_ways=False)


_UNFOLLOW = """
WITH locked AS (
    SELECT follower_id, followee_id FROM follows
    JOIN unnest(%s::bigint[], %s::bigint[]) AS edge (follower_id, followee_id)
    USING (follower_id, followee_id)
    ORDER BY 1, 2
    FOR UPDATE OF follows
), changed AS (
    DELETE FROM follows USING locked
    WHERE follows.follower_id = locked.follower_id AND follows.followee_id = locked.followee_id
    RETURNING follows.follower_id, follows.followee_id, follows.created_at
), owed AS (
    INSERT INTO follower_deltas (author_id, delta) SELECT followee_id, -1 FROM changed
), left_behind AS (
    INSERT INTO unfollowed (viewer_id, author_id, followed_at)
    SELECT follower_id, followee_id, created_at FROM changed
    ON CONFLICT DO NOTHING
)
SELECT follower_id, followee_id FROM changed
"""


async def unfollow_many(connection: Connection, edges: Sequence[Edge]) -> set[Edge]:
    """Unfollow along many edges; return those that were there."""
    return await _change(connection, _UNFOLLOW, edges, both_ways=False)


_BLOCK = """
INSERT INTO blocks (blocker_id, blocked_id)
SELECT * FROM unnest(%s::bigint[], %s::bigint[])
ON CONFLICT DO NOTHING
RETURNING blocker_id, blocked_id
"""


async def block(connection: Connection, viewer_id: int, other_id: int) -> bool:
    """Block: neither sees the other from now on; False: blocked already."""
    return bool(await _change(connection, _BLOCK, [(viewer_id, other_id)], both_ways=True))


_UNBLOCK = """
DELETE FROM blocks USING unnest(%s::bigint[], %s::bigint[]) AS edge (blocker_id, blocked_id)
WHERE blocks.blocker_id = edge.blocker_id AND blocks.blocked_id = edge.blocked_id
RETURNING blocks.blocker_id, blocks.blocked_id
"""


async def unblock(connection: Connection, viewer_id: int, other_id: int) -> bool:
    """Undo a block; follow edges that it suppressed count again. False: was not blocked."""
    return bool(await _change(connection, _UNBLOCK, [(viewer_id, other_id)], both_ways=True))


async def _change(
    connection: Connection, query: Any, edges: Sequence[Edge], *, both_ways: bool
) -> set[Edge]:
    """Run a change and owe a reconcile for each (viewer, author) pair that it touched."""
    if not edges:
        return set()
    rows = await connection.execute(query, [[a for a, _ in edges], [b for _, b in edges]])
    changed = {(a, b) for a, b in await rows.fetchall()}
    pairs = changed | {(b, a) for a, b in changed} if both_ways else changed
    events = [
        Event("relation", f"{a}:{b}", "relation.changed", {"viewer_id": a, "author_id": b})
        for a, b in sorted(pairs)
    ]
    await outbox_events.append_many(connection, events)
    return changed


_BLOCKED_BETWEEN = """
SELECT EXISTS (
    SELECT FROM blocks
    WHERE (blocker_id, blocked_id) IN ((%(a)s::bigint, %(b)s::bigint), (%(b)s, %(a)s))
)
"""


async def blocked_between(connection: Connection, a: int, b: int) -> bool:
    """Say whether either of two users blocks the other."""
    row = await (await connection.execute(_BLOCKED_BETWEEN, {"a": a, "b": b})).fetchone()
    return bool(row and row[0])


_FOLLOWS_NOW = """
SELECT EXISTS (SELECT FROM follows WHERE follower_id = %(viewer)s AND followee_id = %(author)s)
   AND NOT EXISTS (
    SELECT FROM blocks
    WHERE (blocker_id, blocked_id)
       IN ((%(viewer)s::bigint, %(author)s::bigint), (%(author)s, %(viewer)s))
)
"""


async def follows_unblocked(connection: Connection, viewer_id: int, author_id: int) -> bool:
    """Say whether a viewer follows an author and no block suppresses it."""
    values = {"viewer": viewer_id, "author": author_id}
    row = await (await connection.execute(_FOLLOWS_NOW, values)).fetchone()
    return bool(row and row[0])


async def lock_pair(connection: Connection, viewer_id: int, author_id: int) -> None:
    """Hold this pair until the transaction ends: one at a time brings its feed in line."""
    name = f"reconcile:{viewer_id}:{author_id}"
    await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [name])


_MUTE = """
INSERT INTO mutes (muter_id, muted_id, until) VALUES (%s, %s, %s)
ON CONFLICT (muter_id, muted_id) DO UPDATE SET until = excluded.until
WHERE mutes.until IS DISTINCT FROM excluded.until
"""


async def mute(
    connection: Connection, viewer_id: int, muted_id: int, until: datetime | None = None
) -> bool:
    """Mute until a time, or until undone; False: muted just so already."""
    return (await connection.execute(_MUTE, [viewer_id, muted_id, until])).rowcount > 0


async def unmute(connection: Connection, viewer_id: int, muted_id: int) -> bool:
    """Undo a mute; False: was not muted."""
    query = "DELETE FROM mutes WHERE muter_id = %s AND muted_id = %s"
    return (await connection.execute(query, [viewer_id, muted_id])).rowcount > 0


_HIDE = """
INSERT INTO hidden_posts (viewer_id, post_id, via) VALUES (%s, %s, %s)
ON CONFLICT DO NOTHING
"""


async def hide(
    connection: Connection,
    viewer_id: int,
    post_id: int,
    via: Literal["hide", "not_interested"] = "hide",
) -> bool:
    """Hide one post from one viewer; False: hidden already."""
    return (await connection.execute(_HIDE, [viewer_id, post_id, via])).rowcount > 0


async def unhide(connection: Connection, viewer_id: int, post_id: int) -> bool:
    """Show a hidden post again; False: was not hidden."""
    query = "DELETE FROM hidden_posts WHERE viewer_id = %s AND post_id = %s"
    return (await connection.execute(query, [viewer_id, post_id])).rowcount > 0


Kind = Literal["follows", "blocks", "mutes", "hidden"]


class Relation(NamedTuple):
    """One row of a list: a user id (`hidden`: a post id), since when, and a mute's end."""

    id: int
    created_at: datetime
    until: datetime | None


_LISTS: dict[Kind, Any] = {
    "follows": """
SELECT followee_id, created_at, NULL::timestamptz FROM follows
WHERE follower_id = %(viewer)s
  AND (%(at)s::timestamptz IS NULL OR (created_at, followee_id) < (%(at)s, %(id)s::bigint))
ORDER BY created_at DESC, followee_id DESC LIMIT %(limit)s
""",
    "blocks": """
SELECT blocked_id, created_at, NULL::timestamptz FROM blocks
WHERE blocker_id = %(viewer)s
  AND (%(at)s::timestamptz IS NULL OR (created_at, blocked_id) < (%(at)s, %(id)s::bigint))
ORDER BY created_at DESC, blocked_id DESC LIMIT %(limit)s
""",
    "mutes": """
SELECT muted_id, created_at, until FROM mutes
WHERE muter_id = %(viewer)s AND (until IS NULL OR until > now())
  AND (%(at)s::timestamptz IS NULL OR (created_at, muted_id) < (%(at)s, %(id)s::bigint))
ORDER BY created_at DESC, muted_id DESC LIMIT %(limit)s
""",
    "hidden": """
SELECT post_id, created_at, NULL::timestamptz FROM hidden_posts
WHERE viewer_id = %(viewer)s
  AND (%(at)s::timestamptz IS NULL OR (created_at, post_id) < (%(at)s, %(id)s::bigint))
ORDER BY created_at DESC, post_id DESC LIMIT %(limit)s
""",
}


async def list_relations(
    connection: Connection,
    kind: Kind,
    viewer_id: int,
    before: tuple[datetime, int] | None,
    limit: int,
) -> list[Relation]:
    """List a viewer's relations of one kind, newest first, strictly older than `before`."""
    at, id = before or (None, None)
    values = {"viewer": viewer_id, "at": at, "id": id, "limit": limit}
    rows = await connection.execute(_LISTS[kind], values)
    return [Relation(*row) for row in await rows.fetchall()]
