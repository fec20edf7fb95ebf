"""Outbox events: what happened, committed together with the data that it happened to.

Insert-only and laid out for Debezium's outbox event router; the relay's bookkeeping is in
`storage.deliveries`. Called inside the writer's transaction.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from storage.connections import Connection


class Event(NamedTuple):
    """One outbox event; `payload` holds ids as integers."""

    aggregatetype: str
    aggregateid: int | str
    type: str
    payload: Mapping[str, Any]


async def append(
    connection: Connection,
    aggregatetype: str,
    aggregateid: int | str,
    type: str,
    payload: Mapping[str, Any],
) -> None:
    """Append one event, as `append_many` does."""
    await append_many(connection, [Event(aggregatetype, aggregateid, type, payload)])


_APPEND = """
WITH appended AS (
    INSERT INTO outbox_events (aggregatetype, aggregateid, type, payload)
    SELECT * FROM unnest(%s::text[], %s::text[], %s::text[], %s::jsonb[])
    RETURNING id, type, payload
)
INSERT INTO deliveries (event_id, lane, author_id)
SELECT id, CASE WHEN type = 'author.backfill' THEN 'slow' ELSE 'fast' END,
       CASE WHEN type = 'author.backfill' THEN (payload ->> 'author_id')::bigint END
FROM appended WHERE (SELECT deliveries_owed())
"""


async def append_many(connection: Connection, events: Sequence[Event]) -> None:
    """Append events in the caller's transaction, and owe one delivery for each.

    Nothing is owed while the whole product pulls (`storage.delivery_state`).
    """
    if not events:
        return
    columns = [
        [event.aggregatetype for event in events],
        [str(event.aggregateid) for event in events],
        [event.type for event in events],
        [json.dumps(event.payload) for event in events],
    ]
    await connection.execute(_APPEND, columns)


_PRUNE = """
DELETE FROM outbox_events WHERE id IN (
    SELECT e.id FROM outbox_events e
    WHERE e.created_at < now() - make_interval(secs => %s)
      AND NOT EXISTS (SELECT FROM deliveries d WHERE d.event_id = e.id)
    ORDER BY e.created_at
    LIMIT %s
)
"""


async def prune(connection: Connection, keep_s: float, limit: int = 10_000) -> int:
    """Delete the oldest events that are past keeping and owe nothing; return how many went."""
    deleted = await connection.execute(_PRUNE, [keep_s, limit])
    return deleted.rowcount
