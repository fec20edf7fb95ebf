"""What is known of a viewer when a feed is opened, in one query on the primary."""

from feed.query import Viewer
from storage.columns import ids_of, numbers_of
from storage.connections import Connection, Postgres

_FACTS = """
WITH followed AS MATERIALIZED (SELECT followee_id FROM follows WHERE follower_id = %(viewer)s)
SELECT
    lists.read,
    (SELECT array_agg(followee_id ORDER BY followee_id) FROM followed),
    (SELECT array_agg(author_id ORDER BY author_id) FROM author_delivery
      WHERE lists.read AND readers_pull AND author_id IN (SELECT followee_id FROM followed)),
    (SELECT array_agg(id ORDER BY id) FROM (
        SELECT blocked_id FROM blocks WHERE blocker_id = %(viewer)s
        UNION SELECT blocker_id FROM blocks WHERE blocked_id = %(viewer)s
        UNION SELECT muted_id FROM mutes
               WHERE muter_id = %(viewer)s AND (until IS NULL OR until > now())) AS hidden(id)),
    (SELECT array_agg(author_id ORDER BY author_id) FROM unfollowed WHERE viewer_id = %(viewer)s),
    engaged.authors, engaged.strengths
FROM (SELECT state = 'hybrid' FROM delivery_state) AS lists(read), (
    SELECT array_agg(author_id ORDER BY author_id),
           array_agg((strength * 0.5 ^ (extract(epoch FROM now() - at) / %(half_life_s)s))::float8
                     ORDER BY author_id)
      FROM affinity WHERE viewer_id = %(viewer)s) AS engaged(authors, strengths)
"""


async def load_viewer(connection: Connection, viewer_id: int, *, half_life_s: float) -> Viewer:
    """Load what is known of a viewer; an unknown viewer follows nobody."""
    values = {"viewer": viewer_id, "half_life_s": half_life_s}
    async with connection.cursor(binary=True) as cursor:
        await cursor.execute(_FACTS, values)
        row = await cursor.fetchone()
    assert row is not None  # the query always gives one row
    reads_lists, followees, pulled, hidden, unfollowed, engaged, strength = row
    return Viewer(
        id=viewer_id,
        reads_lists=reads_lists,
        followees=ids_of(followees),
        pulled=ids_of(pulled),
        hidden_authors=ids_of(hidden),
        unfollowed=ids_of(unfollowed),
        engaged_authors=ids_of(engaged),
        strength=numbers_of(strength),
    )


class PostgresViewers:
    """Viewers for the mixer, a connection of the pool for each."""

    def __init__(self, postgres: Postgres, *, half_life_s: float) -> None:
        """Read from `postgres`, the primary."""
        self._postgres = postgres
        self._half_life_s = half_life_s

    async def load(self, viewer_id: int) -> Viewer:
        """Load what is known of a viewer, as `load_viewer` does."""
        async with self._postgres.connection() as connection:
            return await load_viewer(connection, viewer_id, half_life_s=self._half_life_s)
