"""Is a store there, and how far behind is delivery? Called by the probes of the api."""

from typing import NamedTuple

from feed.errors import Unavailable
from storage.connections import Postgres, RedisClient, translated_errors
from storage.pressure import lag_s

COUNTED = 100_000


class Backlog(NamedTuple):
    """Deliveries not done yet (counted up to `COUNTED`), and the lag.

    `lag_s` is the age in seconds of the oldest delivery that readers miss.
    """

    pending: int
    lag_s: float


_PENDING = """
SELECT count(*) FROM (SELECT FROM deliveries WHERE state = 'pending' LIMIT %s) AS counted
"""


async def backlog(postgres: Postgres) -> Backlog:
    """Measure what fan-out still owes.

    Raises:
        Unavailable: Postgres cannot be reached.
    """
    async with postgres.connection() as connection:
        row = await (await connection.execute(_PENDING, [COUNTED])).fetchone()
        assert row is not None  # an aggregate always gives one row
        return Backlog(row[0], await lag_s(connection, failing=True))


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
