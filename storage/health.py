"""Is a store there, and how far behind is delivery? Called by the probes of the api."""

from typing import NamedTuple

from feed.errors import Unavailable
from storage.connections import Postgres, RedisClient, translated_errors

COUNTED = 100_000


class Backlog(NamedTuple):
    """Deliveries not done yet (counted up to `COUNTED`), and the age of the oldest in seconds."""

    pending: int
    lag_s: float


_BACKLOG = """
SELECT (SELECT count(*) FROM (SELECT FROM deliveries WHERE state = 'pending' LIMIT %s) AS counted),
       coalesce(extract(epoch FROM now() - min(oldest.created_at)), 0)::float8
  FROM (VALUES ('fast'), ('slow')) AS lanes (lane)
  LEFT JOIN LATERAL (
      SELECT created_at FROM deliveries WHERE lane = lanes.lane AND state = 'pending'
      ORDER BY created_at LIMIT 1) AS oldest ON true
"""


async def backlog(postgres: Postgres) -> Backlog:
    """Measure what fan-out still owes.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    async with postgres.connection() as connection:
        row = await (await connection.execute(_BACKLOG, [COUNTED])).fetchone()
    assert row is not None  # an aggregate always gives one row
    return Backlog(row[0], max(0.0, row[1]))


async def postgres_answers(postgres: Postgres) -> bool:
    """Say whether the primary answers a query."""
    try:
        async with postgres.connection() as connection:
            await connection.execute("SELECT 1")
    except Unavailable:
        return False
    return True


async def redis_answers(redis: RedisClient) -> bool:
    """Say whether Redis answers."""
    try:
        with translated_errors():
            await redis.ping()
    except Unavailable:
        return False
    return True
