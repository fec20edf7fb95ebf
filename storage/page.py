"""The page query: hydrates posts and decides, on the primary, whether this viewer may see them.

Whatever a cache said before, a post leaves the service through this query only.
"""

from datetime import datetime
from typing import Any, NamedTuple

from psycopg.rows import args_row

from feed.order import Ids, Mask
from storage.connections import Connection, Postgres

# Every id involved is checked: the post and its author (the reposter, for a repost), the original,
# what that quotes, what a quote in it quotes, what any of them replies to, and what that reposts.
# So a repost of a post is shown only where the post itself would be. A reply outlives its parent.
_VISIBLE = """
SELECT p.id, p.author_id, author.name, p.body, p.format, p.media, p.lang, p.created_at,
       p.edited_at, p.repost_of, p.reply_to,
       coalesce(s.likes, 0), coalesce(s.comments, 0), coalesce(s.reposts, 0),
       EXISTS (SELECT FROM reactions r WHERE r.viewer_id = %(viewer)s AND r.post_id = p.id
                  AND r.kind = 'like' AND r.active),
       EXISTS (SELECT FROM engagements e WHERE e.viewer_id = %(viewer)s AND e.post_id = p.id
                  AND e.type = 'impression' AND e.day > current_date - 7),
       p.effective_ms, follows.followee_id IS NOT NULL OR p.author_id = %(viewer)s,
       original.author_id, original_author.name, original.body, original.format,
       original.media, original.created_at
  FROM unnest(%(ids)b::bigint[]) WITH ORDINALITY AS wanted(id, place)
  JOIN posts p ON p.id = wanted.id
  JOIN users author ON author.id = p.author_id
  LEFT JOIN post_stats s ON s.post_id = p.id
  LEFT JOIN follows ON follows.follower_id = %(viewer)s AND follows.followee_id = p.author_id
  LEFT JOIN posts original ON original.id = p.repost_of
  LEFT JOIN users original_author ON original_author.id = original.author_id
  LEFT JOIN posts quoted ON quoted.id = original.repost_of
  LEFT JOIN posts deeper ON deeper.id = quoted.repost_of
  LEFT JOIN posts parent ON parent.id = p.reply_to
  LEFT JOIN posts original_parent ON original_parent.id = original.reply_to
  LEFT JOIN posts quoted_parent ON quoted_parent.id = quoted.reply_to
  LEFT JOIN posts parent_shows ON parent_shows.id = parent.repost_of
  LEFT JOIN posts original_parent_shows ON original_parent_shows.id = original_parent.repost_of
  LEFT JOIN posts quoted_parent_shows ON quoted_parent_shows.id = quoted_parent.repost_of
 CROSS JOIN LATERAL (
       SELECT array_remove(ARRAY[
                  p.author_id, original.author_id, quoted.author_id, deeper.author_id,
                  parent.author_id, original_parent.author_id, quoted_parent.author_id,
                  parent_shows.author_id, original_parent_shows.author_id,
                  quoted_parent_shows.author_id], NULL),
              array_remove(ARRAY[
                  p.id, original.id, quoted.id, deeper.id,
                  parent.id, original_parent.id, quoted_parent.id,
                  parent_shows.id, original_parent_shows.id, quoted_parent_shows.id], NULL)
       ) AS involved(people, posts)
 WHERE p.deleted_at IS NULL
   AND (p.repost_of IS NULL OR (original.id IS NOT NULL AND original.deleted_at IS NULL))
   AND quoted.deleted_at IS NULL AND deeper.deleted_at IS NULL
   AND (p.author_id = %(viewer)s OR follows.followee_id IS NOT NULL
        OR (wanted.id = ANY(%(discovered)b::bigint[])
            AND NOT EXISTS (SELECT FROM unfollowed
                             WHERE viewer_id = %(viewer)s AND author_id = p.author_id)))
   AND NOT EXISTS (SELECT FROM blocks
                    WHERE blocker_id = %(viewer)s AND blocked_id = ANY(involved.people))
   AND NOT EXISTS (SELECT FROM blocks
                    WHERE blocked_id = %(viewer)s AND blocker_id = ANY(involved.people))
   AND NOT EXISTS (SELECT FROM mutes
                    WHERE muter_id = %(viewer)s AND (until IS NULL OR until > now())
                      AND muted_id = ANY(involved.people))
   AND NOT EXISTS (SELECT FROM hidden_posts
                    WHERE viewer_id = %(viewer)s AND post_id = ANY(involved.posts))
 ORDER BY wanted.place
"""


class PostRow(NamedTuple):
    """One post as this viewer may see it; the original_… fields are set for a repost.

    In the order in which the query selects: a tuple is made in a tenth of the time of a dataclass,
    and a page makes thirty.
    """

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
    seen: bool
    ms: int
    in_network: bool
    original_author_id: int | None
    original_author_name: str | None
    original_body: str | None
    original_format: str | None
    original_media: list[dict[str, Any]] | None
    original_created_at: datetime | None

    @property
    def is_repost(self) -> bool:
        """Whether it shows another post and adds nothing of its own; with a body it is a quote."""
        return self.repost_of is not None and not self.body and not self.media

    @property
    def original(self) -> int:
        """The post that is shown."""
        return self.repost_of if self.is_repost and self.repost_of is not None else self.id


async def visible_posts(
    connection: Connection, viewer_id: int, ids: Ids, must_follow: Mask
) -> list[PostRow]:
    """Return the posts among `ids` (n,) that the viewer may see now, in the given order.

    `must_follow` (n,) says which are in-network: those go when their author is not followed now;
    others go when their author was followed once, and is not any more.
    """
    values = {"viewer": viewer_id, "ids": ids, "discovered": ids[~must_follow]}
    async with connection.cursor(row_factory=args_row(PostRow), binary=True) as cursor:
        await cursor.execute(_VISIBLE, values)
        return await cursor.fetchall()


class PageReader:
    """The page query for the mixer, on a connection of the pool for each call."""

    def __init__(self, postgres: Postgres) -> None:
        """Read from `postgres`, the primary."""
        self._postgres = postgres

    async def visible(self, viewer_id: int, ids: Ids, must_follow: Mask) -> list[PostRow]:
        """Return those of these posts that the viewer may see now, as `visible_posts` does."""
        if not len(ids):
            return []
        async with self._postgres.connection() as connection:
            return await visible_posts(connection, viewer_id, ids, must_follow)
