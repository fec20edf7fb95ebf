"""Posts from outside a viewer's network: popular ones, and those that followed accounts liked.

Only originals of authors who did not opt out; who may see them is the page query's to say.
"""

from dataclasses import dataclass

from feed.order import Ids
from storage.columns import id_columns
from storage.connections import Connection, Postgres

HALF_LIFE_S = 21_600
"""The weight of an engagement halves in this time; part of the index `post_stats_by_heat`."""

SCANNED = 4
"""Hottest posts looked at for each one wanted: some are replies, or one author's third."""

LIKES_LOOKED_AT = 5
LIKERS_NEEDED = 2  # what one liked is a private matter, what two did is a hint
LIKED_WITHIN_S = 3 * 86_400


@dataclass(frozen=True)
class Discovered:
    """Posts as columns (n,), best first."""

    ids: Ids
    ms: Ids
    authors: Ids


# By the moment at which a post's decayed engagement would be one, as the index has it.
_POPULAR = """
WITH hottest AS MATERIALIZED (
    SELECT post_id, heat_s + 21600 * ln(heat) / ln(2::double precision) AS heated_s
      FROM post_stats WHERE heat > 0
     ORDER BY heat_s + 21600 * ln(heat) / ln(2::double precision) DESC
     LIMIT %(scanned)s),
spread AS (
    SELECT p.id, p.effective_ms, p.author_id, h.heated_s,
           row_number() OVER (PARTITION BY p.author_id ORDER BY h.heated_s DESC, p.id DESC) AS nth
      FROM hottest h
      JOIN posts p ON p.id = h.post_id AND p.deleted_at IS NULL
                  AND p.repost_of IS NULL AND p.reply_to IS NULL
      JOIN users u ON u.id = p.author_id AND u.discoverable AND u.deleted_at IS NULL
     WHERE h.heated_s >= extract(epoch FROM now())
                         + %(half_life_s)s * ln(%(least)s) / ln(2::double precision))
SELECT array_agg(id), array_agg(effective_ms), array_agg(author_id) FROM (
    SELECT id, effective_ms, author_id FROM spread
     WHERE nth <= %(per_author)s ORDER BY heated_s DESC, id DESC LIMIT %(n)s) AS best
"""


async def popular_posts(
    connection: Connection, *, n: int, per_author: int, least: float
) -> Discovered:
    """Return at most n posts with the highest engagement velocity, at most so many an author.

    `least`: weight of engagement, as it counts now, from which a post is popular at all. Touches
    a bounded number of rows, however many posts there are.
    """
    values = {
        "n": n,
        "per_author": per_author,
        "least": least,
        "half_life_s": HALF_LIFE_S,
        "scanned": n * SCANNED,
    }
    return Discovered(*await id_columns(connection, _POPULAR, values))


_LIKED = """
SELECT array_agg(id), array_agg(effective_ms), array_agg(author_id) FROM (
    SELECT p.id, p.effective_ms, p.author_id
      FROM (SELECT l.post_id, count(*) AS n_likers, max(l.at) AS last_at
              FROM unnest(%(likers)b::bigint[]) AS liker (id)
             CROSS JOIN LATERAL (
                   SELECT post_id, at FROM reactions
                    WHERE viewer_id = liker.id AND active AND kind = 'like'
                      AND at > now() - make_interval(secs => %(within_s)s)
                    ORDER BY at DESC LIMIT %(per_liker)s) AS l
             GROUP BY l.post_id HAVING count(*) >= %(least)s) AS liked
      JOIN posts p ON p.id = liked.post_id AND p.deleted_at IS NULL
                  AND p.repost_of IS NULL AND p.reply_to IS NULL
      JOIN users u ON u.id = p.author_id AND u.discoverable AND u.deleted_at IS NULL
     WHERE NOT p.author_id = ANY(%(known)b::bigint[])
     ORDER BY liked.n_likers DESC, liked.last_at DESC, p.id DESC
     LIMIT %(n)s) AS best
"""


async def liked_by(
    connection: Connection,
    likers: Ids,
    known: Ids,
    *,
    n: int,
    per_liker: int,
    least: int,
    within_s: float,
) -> Discovered:
    """Return at most n posts that at least `least` of these people liked lately, most liked first.

    Looks at the last `per_liker` likes of each; leaves out the posts of authors in `known`.
    """
    values = {
        "likers": likers,
        "known": known,
        "n": n,
        "per_liker": per_liker,
        "least": least,
        "within_s": within_s,
    }
    return Discovered(*await id_columns(connection, _LIKED, values))


class PostgresDiscovery:
    """Discoveries for sources, a connection of the pool for each read."""

    def __init__(self, postgres: Postgres, *, per_author: int, least: float) -> None:
        """Read from `postgres`; see `popular_posts` for the bounds."""
        self._postgres = postgres
        self._per_author = per_author
        self._least = least

    async def popular(self, n: int) -> Discovered:
        """Return popular posts, as `popular_posts` does."""
        async with self._postgres.connection() as connection:
            return await popular_posts(
                connection, n=n, per_author=self._per_author, least=self._least
            )

    async def liked_by(self, likers: Ids, known: Ids, n: int) -> Discovered:
        """Return what these people liked, as `liked_by` does."""
        async with self._postgres.connection() as connection:
            return await liked_by(
                connection,
                likers,
                known,
                n=n,
                per_liker=LIKES_LOOKED_AT,
                least=LIKERS_NEEDED,
                within_s=LIKED_WITHIN_S,
            )
