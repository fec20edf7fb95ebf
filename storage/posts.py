"""Posts: written, edited, deleted, restored, each with its outbox event and its parents' counters.

Called by the api inside a transaction, so that a post and its event commit together.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from feed.errors import NotAllowed, NotFound
from feed.order import Ids
from storage.author_delivery import Delivery, deliveries_of, delivery_of
from storage.connections import Connection
from storage.outbox_events import Event, append_many

__all__ = [
    "NewPost",
    "delete_post",
    "delete_posts",
    "deliveries_of",
    "delivery_of",
    "edit_post",
    "insert_post",
    "insert_posts",
    "restore_post",
]

REPLY_WEIGHT = 3.0
REPOST_WEIGHT = 3.0


@dataclass(frozen=True, kw_only=True)
class NewPost:
    """A post to be written; `delivery` was decided in the same transaction (`delivery_of`)."""

    id: int
    author_id: int
    body: str
    created_at: datetime
    received_at: datetime
    effective_ms: int
    delivery: Delivery
    format: str = "text"
    media: Sequence[dict[str, Any]] = ()
    lang: str | None = None
    repost_of: int | None = None
    reply_to: int | None = None


async def insert_post(connection: Connection, post: NewPost) -> bool:
    """Write a post, its event `post.created` and its parents' counters; False: the id is taken."""
    return bool(await insert_posts(connection, [post]))


# A repost of a plain repost points at what that shows; one of a quote, which has words of its own,
# at the quote. Sorted, so that two batches cannot deadlock.
_INSERT = """
INSERT INTO posts (id, author_id, body, media, format, lang, repost_of, reply_to,
                   created_at, received_at, effective_ms, delivery)
SELECT n.id, n.author_id, n.body, n.media, n.format, n.lang,
       CASE WHEN reposted.body = '' AND reposted.media = '[]'
            THEN coalesce(reposted.repost_of, n.repost_of) ELSE n.repost_of END, n.reply_to,
       n.created_at, n.received_at, n.effective_ms, n.delivery
FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::jsonb[], %s::text[], %s::text[],
            %s::bigint[], %s::bigint[], %s::timestamptz[], %s::timestamptz[], %s::bigint[],
            %s::text[])
  AS n (id, author_id, body, media, format, lang, repost_of, reply_to,
        created_at, received_at, effective_ms, delivery)
LEFT JOIN posts reposted ON reposted.id = n.repost_of
ORDER BY n.id
ON CONFLICT (id) DO NOTHING
RETURNING id, author_id, effective_ms, delivery
"""


async def insert_posts(connection: Connection, posts: Sequence[NewPost]) -> set[int]:
    """Write many posts as `insert_post` does; return the ids that were free and are now written.

    Of several posts with one id, the first is written.
    """
    if not posts:
        return set()
    first = {post.id: post for post in reversed(posts)}
    rows = await connection.execute(_INSERT, _columns(list(first.values())))
    return await _changed(connection, "post.created", 1, await rows.fetchall())


def _columns(posts: Sequence[NewPost]) -> list[list[Any]]:
    plain = [post for post in posts if post.repost_of and not post.body and not post.media]
    reposted = {post.id: post.repost_of for post in plain}
    return [
        [post.id for post in posts],
        [post.author_id for post in posts],
        [post.body for post in posts],
        [json.dumps(list(post.media)) for post in posts],
        [post.format for post in posts],
        [post.lang for post in posts],
        [reposted.get(post.repost_of or 0, post.repost_of) for post in posts],
        [post.reply_to for post in posts],
        [post.created_at for post in posts],
        [post.received_at for post in posts],
        [post.effective_ms for post in posts],
        [post.delivery for post in posts],
    ]


_EDIT = "UPDATE posts SET body = %s, edited_at = %s WHERE id = %s"


async def edit_post(
    connection: Connection, actor_id: int | None, post_id: int, *, body: str, now: datetime
) -> None:
    """Replace the body of a post; `actor_id` None may edit anyone's.

    Raises:
        NotFound: There is no such post, or it was deleted.
        NotAllowed: The actor did not write it.
    """
    if await _deleted_already(connection, actor_id, post_id):
        raise NotFound("There is no such post.")
    await connection.execute(_EDIT, [body, now, post_id])


async def delete_post(connection: Connection, actor_id: int | None, post_id: int) -> bool:
    """Delete a post, with its event `post.deleted`; False: it was deleted already.

    Raises:
        NotFound: There is no such post.
        NotAllowed: The actor did not write it; None may delete anyone's.
    """
    if await _deleted_already(connection, actor_id, post_id):
        return False
    return bool(await delete_posts(connection, [post_id]))


_LOCKED = "SELECT id FROM posts WHERE id = ANY(%s) ORDER BY id FOR UPDATE"
_DELETE = """
UPDATE posts SET deleted_at = now() WHERE id = ANY(%s) AND deleted_at IS NULL
RETURNING id, author_id, effective_ms, delivery
"""


async def delete_posts(connection: Connection, post_ids: Sequence[int]) -> set[int]:
    """Delete posts of anyone, with events and counters; return the ids that existed until now."""
    await connection.execute(_LOCKED, [list(post_ids)])
    rows = await connection.execute(_DELETE, [list(post_ids)])
    return await _changed(connection, "post.deleted", -1, await rows.fetchall())


_RESTORE = """
UPDATE posts SET deleted_at = NULL, delivery = %s WHERE id = %s AND deleted_at IS NOT NULL
RETURNING id, author_id, effective_ms, delivery
"""


async def restore_post(connection: Connection, actor_id: int | None, post_id: int) -> bool:
    """Undo a delete, with the event `post.restored`; False: the post was not deleted.

    Push or pull is decided anew: what the author was when the post was new may be over.

    Raises:
        NotFound: There is no such post.
        NotAllowed: The actor did not write it; None may restore anyone's.
    """
    if not await _deleted_already(connection, actor_id, post_id):
        return False
    (author_id,) = await _row(connection, "SELECT author_id FROM posts WHERE id = %s", post_id)
    delivery = await delivery_of(connection, author_id)
    rows = await connection.execute(_RESTORE, [delivery, post_id])
    return bool(await _changed(connection, "post.restored", 1, await rows.fetchall()))


_STATE = "SELECT author_id, deleted_at IS NOT NULL FROM posts WHERE id = %s FOR UPDATE"


async def _deleted_already(connection: Connection, actor_id: int | None, post_id: int) -> bool:
    author_id, deleted = await _row(connection, _STATE, post_id)
    if actor_id is not None and author_id != actor_id:
        raise NotAllowed("This post is somebody else's.")
    return bool(deleted)


async def _row(connection: Connection, query: Any, post_id: int) -> tuple[Any, ...]:
    row = await (await connection.execute(query, [post_id])).fetchone()
    if row is None:
        raise NotFound("There is no such post.")
    return row


class Deliverable(NamedTuple):
    """A post as fan-out needs it, and how its author stands now.

    `readers_pull`: because of lag does not count, since such an author is pushed as well.
    `slow_from`: under lag, the followers from which posts take the slow lane.
    """

    id: int
    author_id: int
    ms: int
    delivery: Delivery
    readers_pull: bool
    followers: int
    slow_from: int | None


_DELIVERABLE = """
SELECT p.id, p.author_id, p.effective_ms, p.delivery,
       coalesce(d.readers_pull AND d.because <> 'lag', false), u.follower_count,
       (SELECT threshold FROM delivery_pressure)
FROM posts p JOIN users u ON u.id = p.author_id
LEFT JOIN author_delivery d ON d.author_id = p.author_id
WHERE p.id = ANY(%s) AND p.deleted_at IS NULL
"""


async def deliverable_posts(connection: Connection, ids: Sequence[int]) -> dict[int, Deliverable]:
    """Return those of these posts that are not deleted, by id."""
    rows = await connection.execute(_DELIVERABLE, [list(ids)])
    return {row[0]: Deliverable(*row) for row in await rows.fetchall()}


async def written_by(connection: Connection, author_id: int, ids: Ids) -> Ids:
    """Return those of these ids (n,) that are posts of this author, deleted ones included."""
    query = "SELECT id FROM posts WHERE id = ANY(%s::bigint[]) AND author_id = %s"
    rows = await connection.execute(query, [ids.tolist(), author_id])
    return np.array([id for (id,) in await rows.fetchall()], dtype=np.int64)


# Folded into counters and affinity by the aggregator; nobody's affinity grows from own replies.
_OWE_COUNTERS = """
INSERT INTO engagement_deltas (post_id, viewer_id, author_id, at, posts, comments, reposts, weight)
SELECT id, author_id, author_id, to_timestamp(effective_ms / 1000.0), %(sign)s, 0, 0, 0
FROM posts WHERE id = ANY(%(ids)s)
UNION ALL
SELECT parent.id, post.author_id, parent.author_id, now(), 0,
       CASE WHEN parent.id = post.reply_to THEN %(sign)s ELSE 0 END,
       CASE WHEN parent.id = post.repost_of THEN %(sign)s ELSE 0 END,
       CASE WHEN parent.author_id = post.author_id THEN 0
            WHEN parent.id = post.reply_to THEN %(sign)s * %(reply)s
            ELSE %(sign)s * %(repost)s END
FROM posts post JOIN posts parent ON parent.id IN (post.reply_to, post.repost_of)
WHERE post.id = ANY(%(ids)s)
"""


async def _changed(
    connection: Connection, event: str, sign: int, rows: Sequence[tuple[Any, ...]]
) -> set[int]:
    """Owe the deliveries and the counters, the parents' too, for posts (id, author, ms, how)."""
    events = [
        Event("post", id, event, {"post_id": id, "author_id": author, "ms": ms, "delivery": how})
        for id, author, ms, how in rows
    ]
    ids = {row[0] for row in rows}
    if ids:
        await append_many(connection, events)
        weights = {"reply": REPLY_WEIGHT, "repost": REPOST_WEIGHT}
        await connection.execute(_OWE_COUNTERS, {"sign": sign, "ids": list(ids), **weights})
    return ids
