"""What is still owed for outbox events: leased by the relay, performed and settled by workers.

Postgres owns the state of a delivery; the queue only carries ids. A lease is a `due_at` in the
future: whoever does not settle a delivery by then, killed or slow, has it sent again. A delivery
that is done is deleted. Small posts never wait behind large ones: chunks of large posts, and
backfills, are in a lane of their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from storage.connections import Connection

Lane = Literal["fast", "slow"]
LANES: tuple[Lane, ...] = ("fast", "slow")
MAX_LEASE_S = 60.0


class Leased(NamedTuple):
    """A delivery under lease, and how often it was leased."""

    id: int
    leases: int


# The lease doubles: a delivery that waits in a long queue is not sent again and again.
_LEASE = """
WITH due AS (
    SELECT id FROM deliveries
    WHERE lane = %(lane)s AND state = 'pending' AND due_at <= now()
    ORDER BY due_at, id
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
UPDATE deliveries d
SET leases = d.leases + 1,
    due_at = now() + make_interval(secs => least(%(lease_s)s * 2 ^ least(d.leases, 20), %(max_s)s))
FROM due WHERE d.id = due.id
RETURNING d.id, d.leases
"""


async def lease(connection: Connection, lane: Lane, *, limit: int, lease_s: float) -> list[Leased]:
    """Lease the deliveries of a lane that were due for longest, at most `limit`, by id."""
    values = {"lane": lane, "limit": limit, "lease_s": lease_s, "max_s": max(lease_s, MAX_LEASE_S)}
    rows = await connection.execute(_LEASE, values)
    return sorted(Leased(*row) for row in await rows.fetchall())


@dataclass(frozen=True)
class Delivery:
    """One piece of work: an event, or one range of followers (after, until] of it."""

    id: int
    event_id: Any
    type: str
    payload: Mapping[str, Any]
    chunk: int
    after_follower: int
    until_follower: int
    failures: int


_LOAD = """
SELECT d.id, d.event_id, e.type, e.payload, d.chunk, d.after_follower, d.until_follower, d.failures
FROM deliveries d JOIN outbox_events e ON e.id = d.event_id
WHERE d.id = ANY(%s) AND d.state = 'pending'
ORDER BY d.id
"""


async def load(connection: Connection, ids: Sequence[int]) -> list[Delivery]:
    """Load those of these deliveries that are still owed: not done, not parked."""
    rows = await connection.execute(_LOAD, [list(ids)])
    return [Delivery(*row) for row in await rows.fetchall()]


async def finish(connection: Connection, ids: Sequence[int]) -> None:
    """Forget deliveries that are done."""
    if ids:
        await connection.execute("DELETE FROM deliveries WHERE id = ANY(%s)", [list(ids)])


async def put_back(connection: Connection, ids: Sequence[int]) -> None:
    """End the leases of deliveries that were not begun."""
    if ids:
        query = "UPDATE deliveries SET due_at = now() WHERE id = ANY(%s) AND state = 'pending'"
        await connection.execute(query, [list(ids)])


class Failure(NamedTuple):
    """A delivery that failed: why, when to try again, and whether to count and give up."""

    id: int
    error: str
    retry_after_s: float
    counts: bool
    park: bool


_FAIL = """
UPDATE deliveries d
SET failures = d.failures + f.counts::integer,
    error = f.error,
    due_at = now() + make_interval(secs => f.retry_after_s),
    state = CASE WHEN f.park THEN 'parked' ELSE d.state END
FROM unnest(%s::bigint[], %s::text[], %s::float8[], %s::boolean[], %s::boolean[])
  AS f (id, error, retry_after_s, counts, park)
WHERE d.id = f.id
"""


async def fail(connection: Connection, failures: Sequence[Failure]) -> None:
    """Note failures: each is tried again later, or parked with its error."""
    if failures:
        await connection.execute(_FAIL, [list(column) for column in zip(*failures, strict=True)])


class Later(NamedTuple):
    """A delivery to go on with after a while, from a follower on."""

    id: int
    after_s: float
    after_follower: int


# created_at moves along: what waits on purpose is no lag.
_POSTPONE = """
UPDATE deliveries d
SET due_at = now() + make_interval(secs => l.after_s),
    created_at = now() + make_interval(secs => l.after_s),
    after_follower = greatest(d.after_follower, l.after_follower),
    failures = 0
FROM unnest(%s::bigint[], %s::float8[], %s::bigint[]) AS l (id, after_s, after_follower)
WHERE d.id = l.id AND d.state = 'pending'
"""


async def postpone(connection: Connection, later: Sequence[Later]) -> None:
    """Put off deliveries that are not done and have not failed."""
    if later:
        ids, after_s, after_follower = zip(*later, strict=True)
        # One list holds one type: psycopg refuses a 0 between floats.
        values = [list(ids), [float(each) for each in after_s], list(after_follower)]
        await connection.execute(_POSTPONE, values)


class Chunk(NamedTuple):
    """One range of followers (after, until] of an author's event, a delivery of its own."""

    author_id: int
    event_id: Any
    chunk: int
    after_follower: int
    until_follower: int


# A plan that is made twice adds nothing: the chunks of the first cover every follower.
_SPLIT = """
INSERT INTO deliveries (lane, author_id, event_id, chunk, after_follower, until_follower)
SELECT 'slow', * FROM unnest(%s::bigint[], %s::uuid[], %s::integer[], %s::bigint[], %s::bigint[])
ON CONFLICT (event_id, chunk) DO NOTHING
"""


async def split(connection: Connection, chunks: Sequence[Chunk]) -> None:
    """Owe each chunk as a delivery of its own, in the slow lane."""
    if chunks:
        await connection.execute(_SPLIT, [list(column) for column in zip(*chunks, strict=True)])
