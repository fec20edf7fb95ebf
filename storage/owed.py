"""What is still owed, for people: listed, tried again, dropped for good (`foryou outbox`)."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from storage.connections import Connection


class Owed(NamedTuple):
    """One delivery, with its event; `age_s` since it was first owed, `error` of the last try."""

    id: int
    state: str
    lane: str
    type: str
    payload: Mapping[str, Any]
    chunk: int
    failures: int
    age_s: float
    error: str | None


_LIST = """
SELECT d.id, d.state, d.lane, e.type, e.payload, d.chunk, d.failures,
       greatest(0, extract(epoch FROM now() - d.created_at))::float8, d.error
FROM deliveries d JOIN outbox_events e ON e.id = d.event_id
WHERE d.id > %(after)s AND (d.state = 'parked' OR NOT %(parked)s)
ORDER BY d.id LIMIT %(limit)s
"""


async def list_owed(
    connection: Connection, *, parked: bool, after: int, limit: int
) -> Sequence[Owed]:
    """Return one page of deliveries by id, with `parked` only those that were given up on."""
    values = {"parked": parked, "after": after, "limit": limit}
    return [Owed(*row) for row in await (await connection.execute(_LIST, values)).fetchall()]


# It is owed from now on: the time it was parked is no lag, and its event happens anew, so that
# lists from a dump of before the retry are known to lack it (`storage.redelivery`).
_RETRY = """
WITH parked AS (
    SELECT id, event_id FROM deliveries
    WHERE state = 'parked' AND (%(ids)s::bigint[] IS NULL OR id = ANY(%(ids)s::bigint[]))
    ORDER BY id FOR UPDATE
), anew AS MATERIALIZED (
    SELECT event_id, gen_random_uuid() AS id FROM parked GROUP BY event_id
), appended AS (
    INSERT INTO outbox_events (id, aggregatetype, aggregateid, type, payload)
    SELECT anew.id, e.aggregatetype, e.aggregateid, e.type, e.payload
    FROM anew JOIN outbox_events e ON e.id = anew.event_id
)
UPDATE deliveries d
SET state = 'pending', failures = 0, leases = 0, due_at = now(), created_at = now(),
    event_id = anew.id
FROM parked JOIN anew USING (event_id) WHERE d.id = parked.id
RETURNING d.id
"""


async def retry(connection: Connection, ids: Sequence[int] | None) -> set[int]:
    """Try parked deliveries again, None: all of them; return which were parked."""
    values = {"ids": None if ids is None else list(ids)}
    return {id for (id,) in await (await connection.execute(_RETRY, values)).fetchall()}


_DROP = """
DELETE FROM deliveries d USING outbox_events e
WHERE e.id = d.event_id AND d.id = ANY(%s)
RETURNING d.id, d.event_id::text, e.type, e.payload, d.chunk, d.failures, d.error
"""
_AUDIT = """
INSERT INTO audit (actor, action, detail)
SELECT %s, 'delivery.dropped', detail FROM unnest(%s::jsonb[]) AS dropped (detail)
"""


async def drop(connection: Connection, ids: Sequence[int], *, actor: str, why: str) -> set[int]:
    """Give deliveries up for good, in a transaction; each leaves an audit row. Return which."""
    rows = await (await connection.execute(_DROP, [list(ids)])).fetchall()
    names = ("delivery_id", "event_id", "type", "payload", "chunk", "failures", "error")
    details = [{**dict(zip(names, row, strict=True)), "why": why} for row in rows]
    await connection.execute(_AUDIT, [actor, [json.dumps(each) for each in details]])
    return {row[0] for row in rows}
