"""What authors make of a day, counted in the truth and in the log of served pages.

For `foryou plan --authors`, and for switching by cost. It reads every follow of the authors asked
for and some days of the log: seconds on millions of rows, so not for a request.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from storage.connections import Connection


@dataclass(frozen=True)
class AuthorCost:
    """What one author makes of a day: posts to so many active followers, who open their feeds.

    `opens_per_day` is of all active followers together; None: the log holds nothing. `pulled`:
    writers pull, or nobody does but for lag; None: half-way between push and pull.
    """

    author_id: int
    followers: int
    active_followers: int
    posts_per_day: float
    opens_per_day: float | None
    pulled: bool | None


# An open is the first page of a session, however often it was asked for. The log may be younger
# than the window: its rate is over the time that it covers, a day at the least.
_COUNT = """
WITH log AS (
    SELECT CASE WHEN count(*) > 0
                THEN greatest(1, extract(epoch FROM now() - min(at)) / 86400)::float8 END AS days
    FROM served WHERE day > current_date - %(days)s),
opened AS (
    SELECT viewer_id, count(DISTINCT session_id) / (SELECT days FROM log) AS per_day
    FROM served
    WHERE day > current_date - %(days)s AND position = 0 AND part IN ('slate', 'chronological')
    GROUP BY viewer_id),
asked AS (
    SELECT id, follower_count FROM users
    WHERE follower_count >= %(least)s AND deleted_at IS NULL),
followed AS (
    SELECT asked.id, count(*) AS active, sum(coalesce(opened.per_day, 0)) AS opens
    FROM asked
    JOIN follows f ON f.followee_id = asked.id
    JOIN user_activity a ON a.user_id = f.follower_id
                        AND a.last_seen_at > now() - make_interval(secs => %(inactive_after_s)s)
    LEFT JOIN opened ON opened.viewer_id = f.follower_id
    GROUP BY asked.id)
SELECT asked.id, asked.follower_count, coalesce(followed.active, 0),
       (SELECT count(*) FROM posts p
         WHERE p.author_id = asked.id AND p.deleted_at IS NULL
           AND p.effective_ms > (extract(epoch FROM now()) - 86400 * %(days)s) * 1000
       )::float8 / %(days)s,
       CASE WHEN (SELECT days FROM log) IS NOT NULL THEN coalesce(followed.opens, 0)::float8 END,
       CASE WHEN d.writers_pull THEN true
            WHEN d.readers_pull AND d.because <> 'lag' THEN NULL
            ELSE false END
FROM asked
LEFT JOIN followed ON followed.id = asked.id
LEFT JOIN author_delivery d ON d.author_id = asked.id
ORDER BY asked.id
"""


async def count_authors(
    connection: Connection, *, days: int, least_followers: int, inactive_after_s: float
) -> list[AuthorCost]:
    """Count what authors with so many followers or more made of the last days, by id."""
    values = {"days": days, "least": least_followers, "inactive_after_s": inactive_after_s}
    rows = await connection.execute(_COUNT, values)
    return [AuthorCost(*row) for row in await rows.fetchall()]


_NOTE = """
INSERT INTO author_costs (author_id, pull_is_cheap)
SELECT * FROM unnest(%s::bigint[], %s::boolean[])
ON CONFLICT (author_id) DO UPDATE
SET pull_is_cheap = excluded.pull_is_cheap, measured_at = now()
"""


async def note_costs(connection: Connection, pull_is_cheap: Mapping[int, bool]) -> None:
    """Note for each author whether pulling is cheaper; forget those not measured any more."""
    authors = sorted(pull_is_cheap)
    await connection.execute("DELETE FROM author_costs WHERE author_id <> ALL(%s)", [authors])
    await connection.execute(_NOTE, [authors, [pull_is_cheap[id] for id in authors]])


async def measured_s_ago(connection: Connection) -> float:
    """Return how long ago costs were last noted; infinite: never."""
    query = "SELECT extract(epoch FROM now() - max(measured_at))::float8 FROM author_costs"
    row = await (await connection.execute(query)).fetchone()
    return float("inf") if row is None or row[0] is None else float(row[0])
