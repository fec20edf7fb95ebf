"""What a lost part of the cached lists owes: the events since a mark, all over again."""

from datetime import datetime

from storage.author_delivery import restart_backfills
from storage.connections import Connection

IN_FLIGHT_S = 60
"""Longer than a transaction that appends events takes: their time is that of its beginning."""

_DELIVERED_UNTIL = """
SELECT least(now() - make_interval(secs => %s),
             (SELECT min(e.created_at) FROM deliveries d JOIN outbox_events e ON e.id = d.event_id
               WHERE d.state = 'pending'))
FROM delivery_state WHERE state = 'hybrid'
"""


async def delivered_until(connection: Connection) -> datetime | None:
    """Return a time before which every event was delivered, or has failed for good.

    None while nobody relies on cached lists: what happens then is not in those of before.
    """
    row = await (await connection.execute(_DELIVERED_UNTIL, [IN_FLIGHT_S])).fetchone()
    return row[0] if row else None


# Half a minute less than the events are kept: none of them is being pruned.
_KEPT = """
SELECT %s > now() - make_interval(secs => %s) + interval '30 s' FROM delivery_state
WHERE state = 'hybrid'
"""

# New rows under new ids, so that a job under way, which may have pushed into the lists that were
# lost, cannot settle them. The whole plan anew: chunks of two plans may leave followers between
# them out. What is parked as a whole stays parked.
_FORGET_PLANS = """
WITH lost AS (
    SELECT id FROM outbox_events WHERE created_at >= %s
    UNION
    SELECT event_id FROM deliveries WHERE state = 'pending'
), again AS (
    SELECT d.id FROM deliveries d JOIN lost ON lost.id = d.event_id
    WHERE d.state = 'pending' OR d.chunk > 0
    ORDER BY d.id
    FOR UPDATE OF d
)
DELETE FROM deliveries d USING again WHERE d.id = again.id
RETURNING d.event_id
"""
# A backfill is not delivered but begun anew: what it says of the author's state is outdated.
_OWE = """
INSERT INTO deliveries (event_id)
SELECT id FROM outbox_events
WHERE (created_at >= %s OR id = ANY(%s)) AND type <> 'author.backfill'
ON CONFLICT (event_id, chunk) DO NOTHING
"""


async def owe_again(connection: Connection, since: datetime, *, keep_s: float) -> int | None:
    """Owe what is owed, and every event since a time, as if it had just happened; return how many.

    Returns:
        None when some of them may have been pruned: they are kept for `keep_s`. And while nobody
        relies on cached lists.
    """
    row = await (await connection.execute(_KEPT, [since, keep_s])).fetchone()
    if not row or not row[0]:
        return None
    forgotten = await connection.execute(_FORGET_PLANS, [since])
    events = [event_id for (event_id,) in await forgotten.fetchall()]
    owed = await connection.execute(_OWE, [since, events])
    await restart_backfills(connection, since, events)
    return owed.rowcount
