"""A post as its author sees it: no visibility rule applies to one's own writing."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from psycopg.rows import class_row

from storage.connections import Connection

_AUTHORED = """
SELECT p.id, p.author_id, u.name AS author_name, p.body, p.format, p.media, p.lang,
       p.created_at, p.edited_at, p.repost_of, p.reply_to,
       coalesce(s.likes, 0) AS likes, coalesce(s.comments, 0) AS comments,
       coalesce(s.reposts, 0) AS reposts,
       EXISTS (SELECT FROM reactions r WHERE r.viewer_id = p.author_id AND r.post_id = p.id
                  AND r.kind = 'like' AND r.active) AS liked
  FROM posts p JOIN users u ON u.id = p.author_id LEFT JOIN post_stats s ON s.post_id = p.id
 WHERE p.id = %s AND p.author_id = %s
"""


@dataclass(frozen=True, kw_only=True)
class Post:
    """One post with what every answer shows of it."""

    id: int
    author_id: int
    author_name: str
    body: str
    format: str
    media: list[dict[str, Any]]
    lang: str | None
    created_at: datetime
    edited_at: datetime | None
    repost_of: int | None
    reply_to: int | None
    likes: int
    comments: int
    reposts: int
    liked: bool
    seen: bool = False


async def authored_post(connection: Connection, author_id: int, post_id: int) -> Post | None:
    """Return a post of this author, deleted or not; None: this author has no such post."""
    async with connection.cursor(row_factory=class_row(Post)) as cursor:
        await cursor.execute(_AUTHORED, [post_id, author_id])
        return await cursor.fetchone()


class Identity(NamedTuple):
    """What tells two posts apart that claim one id."""

    author_id: int
    body: str


_IDENTITIES = "SELECT id, author_id, body FROM posts WHERE id = ANY(%s)"


async def identities_of(connection: Connection, post_ids: Sequence[int]) -> dict[int, Identity]:
    """Return author and body of those of these posts that exist, deleted or not."""
    rows = await connection.execute(_IDENTITIES, [list(post_ids)])
    return {id: Identity(author_id, body) for id, author_id, body in await rows.fetchall()}
