"""How a post stands to a viewer now, for an admin who asks why it was or was not shown."""

from dataclasses import dataclass

from psycopg.rows import class_row

from storage.connections import Connection, Postgres

_STANDING = """
SELECT p.effective_ms AS ms, p.deleted_at IS NOT NULL AS deleted,
       p.author_id = %(viewer)s OR EXISTS (
           SELECT FROM follows WHERE follower_id = %(viewer)s AND followee_id = p.author_id
       ) AS in_network,
       EXISTS (SELECT FROM blocks WHERE blocker_id = %(viewer)s
                  AND blocked_id IN (p.author_id, original.author_id)) AS blocked,
       EXISTS (SELECT FROM blocks WHERE blocked_id = %(viewer)s
                  AND blocker_id IN (p.author_id, original.author_id)) AS blocks_viewer,
       EXISTS (SELECT FROM mutes WHERE muter_id = %(viewer)s AND (until IS NULL OR until > now())
                  AND muted_id IN (p.author_id, original.author_id)) AS muted,
       EXISTS (SELECT FROM hidden_posts WHERE viewer_id = %(viewer)s
                  AND post_id IN (p.id, original.id)) AS hidden
  FROM posts p LEFT JOIN posts original ON original.id = p.repost_of
 WHERE p.id = %(post)s
"""


@dataclass(frozen=True)
class Standing:
    """What there is between a viewer and a post, its author, and what it reposts."""

    ms: int
    deleted: bool
    in_network: bool
    blocked: bool
    blocks_viewer: bool
    muted: bool
    hidden: bool


async def standing_of(connection: Connection, viewer_id: int, post_id: int) -> Standing | None:
    """Return how a post stands to a viewer; None when there is no such post."""
    async with connection.cursor(row_factory=class_row(Standing)) as cursor:
        await cursor.execute(_STANDING, {"viewer": viewer_id, "post": post_id})
        return await cursor.fetchone()


class PostgresStandings:
    """Standings, on a connection of the pool for each."""

    def __init__(self, postgres: Postgres) -> None:
        """Read from `postgres`, the primary."""
        self._postgres = postgres

    async def of(self, viewer_id: int, post_id: int) -> Standing | None:
        """Return how a post stands to a viewer, as `standing_of` does."""
        async with self._postgres.connection() as connection:
            return await standing_of(connection, viewer_id, post_id)
