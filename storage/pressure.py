"""Under lag: how late delivery is, whose posts take the slow lane, and who is pulled meanwhile.

What the slow lane owes is pushed all the while. So an author needs no backfill when readers stop
pulling, and a crash anywhere loses nothing: at worst a post is late.
"""

from collections.abc import Sequence
from typing import NamedTuple

from storage.connections import Connection


class Pressure(NamedTuple):
    """The threshold in followers (None: no pressure), and for how long it stood and it was calm."""

    threshold: int | None
    changed_s: float
    calm_s: float


_PRESSURE = """
SELECT threshold, extract(epoch FROM now() - changed_at)::float8,
       extract(epoch FROM now() - busy_at)::float8
FROM delivery_pressure
"""


async def pressure_of(connection: Connection) -> Pressure:
    """Read how things stand; they change through `press` and `note_busy` only."""
    row = await (await connection.execute(_PRESSURE)).fetchone()
    assert row is not None  # the migration made it
    return Pressure(*row)


async def press(connection: Connection, threshold: int | None) -> None:
    """Set the threshold from which posts take the slow lane; None: of chunks only."""
    query = "UPDATE delivery_pressure SET threshold = %s, changed_at = now()"
    await connection.execute(query, [threshold])


async def note_busy(connection: Connection) -> None:
    """Note that the lag is not low at this moment."""
    await connection.execute("UPDATE delivery_pressure SET busy_at = now()")


# What readers pull is seen, however long it waits. What has failed waits for its next try: one
# poisoned delivery is no load, so that it must not slow down others.
_LAG = """
SELECT coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 FROM (
    (SELECT created_at FROM deliveries
      WHERE lane = 'fast' AND state = 'pending' AND (failures = 0 OR %(failing)s)
      ORDER BY created_at LIMIT 1)
    UNION ALL
    (SELECT created_at FROM deliveries d
      WHERE lane = 'slow' AND state = 'pending' AND (failures = 0 OR %(failing)s)
        AND NOT EXISTS (SELECT FROM author_delivery a
                         WHERE a.author_id = d.author_id AND a.readers_pull)
      ORDER BY created_at LIMIT 1)
) AS oldest
"""


async def lag_s(connection: Connection, *, failing: bool) -> float:
    """Return the age in seconds of the oldest delivery that readers miss; 0: they miss nothing.

    With `failing`, those count too that were tried in vain.
    """
    row = await (await connection.execute(_LAG, {"failing": failing})).fetchone()
    assert row is not None  # an aggregate always gives one row
    return max(0.0, float(row[0]))


# Every row is locked, changed or not: a release that looks at the same time waits for what the
# same transaction inserts. In order of id, so that two cannot deadlock.
_PULL = """
INSERT INTO author_delivery (author_id, readers_pull, writers_pull, because, changed_at)
SELECT id, true, false, 'lag', clock_timestamp() FROM unnest(%s::bigint[]) AS late (id) ORDER BY id
ON CONFLICT (author_id) DO UPDATE
SET readers_pull = true, because = 'lag', changed_at = clock_timestamp()
WHERE NOT author_delivery.readers_pull
RETURNING author_id
"""


async def pull_meanwhile(connection: Connection, author_ids: Sequence[int]) -> list[int]:
    """Let readers pull these authors because of lag; return those who were not pulled before.

    Called before, and in the transaction in which, their posts become slow deliveries.
    """
    if not author_ids:
        return []
    rows = await connection.execute(_PULL, [sorted(set(author_ids))])
    return [author_id for (author_id,) in await rows.fetchall()]


_WAITING = """
SELECT u.id FROM users u
WHERE u.follower_count >= %s
  AND u.id IN (SELECT author_id FROM deliveries WHERE lane = 'slow' AND state = 'pending')
"""


async def waiting_authors(connection: Connection, threshold: int) -> list[int]:
    """Return the authors of waiting slow deliveries who have `threshold` followers or more."""
    rows = await connection.execute(_WAITING, [threshold])
    return [author_id for (author_id,) in await rows.fetchall()]


# Two statements: the second sees what whoever held a lock has inserted meanwhile. What is parked
# counts as left, since some followers have not got it.
_DRAINED = """
SELECT author_id FROM author_delivery a
WHERE readers_pull AND because = 'lag'
  AND NOT EXISTS (SELECT FROM deliveries d WHERE d.lane = 'slow' AND d.author_id = a.author_id)
ORDER BY author_id LIMIT %s FOR UPDATE
"""
_RELEASE = """
UPDATE author_delivery a SET readers_pull = false, changed_at = clock_timestamp()
WHERE author_id = ANY(%s) AND readers_pull AND because = 'lag'
  AND NOT EXISTS (SELECT FROM deliveries d WHERE d.lane = 'slow' AND d.author_id = a.author_id)
RETURNING author_id
"""


async def release_drained(connection: Connection, limit: int = 1_000) -> list[int]:
    """Let readers rely on the feeds for authors of whom no slow delivery is left; return them."""
    rows = await connection.execute(_DRAINED, [limit])
    drained = [author_id for (author_id,) in await rows.fetchall()]
    if not drained:
        return []
    rows = await connection.execute(_RELEASE, [drained])
    return [author_id for (author_id,) in await rows.fetchall()]
