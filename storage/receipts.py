"""How far a post got: one row for each piece of its delivery, written when the piece is settled.

Upserted, so that a piece that is delivered twice counts once; a new plan for the same post (a
restore, a redelivery) starts its receipt over.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from storage.connections import Connection


class Receipt(NamedTuple):
    """What one piece of a post's delivery did; chunk 0 is the whole post, or its plan."""

    post_id: int
    chunk: int
    n_feeds: int
    n_inactive: int


_START_OVER = "DELETE FROM delivery_receipts WHERE post_id = ANY(%s) AND chunk > 0"
_WRITE = """
INSERT INTO delivery_receipts (post_id, chunk, n_feeds, n_inactive)
SELECT * FROM unnest(%s::bigint[], %s::integer[], %s::integer[], %s::integer[])
ON CONFLICT (post_id, chunk) DO UPDATE
SET n_feeds = excluded.n_feeds, n_inactive = excluded.n_inactive, at = excluded.at
"""


async def write(connection: Connection, receipts: Sequence[Receipt]) -> None:
    """Note what was done, after its deliveries are settled in the same transaction."""
    # Of two for one piece the last counts; in one order, so that two workers cannot deadlock.
    pieces = {(each.post_id, each.chunk): each for each in receipts}
    if not pieces:
        return
    await connection.execute(_START_OVER, [sorted(post for post, chunk in pieces if not chunk)])
    rows = [pieces[piece] for piece in sorted(pieces)]
    await connection.execute(_WRITE, [list(column) for column in zip(*rows, strict=True)])


class Delivered(NamedTuple):
    """How far a post got so far: `pending` while something is under way, `parked` if stuck."""

    author_id: int
    delivery: str
    n_feeds: int
    n_inactive: int
    pending: bool
    parked: bool
    last_at: datetime | None


_DELIVERED = """
SELECT p.author_id, p.delivery, coalesce(sum(r.n_feeds), 0), coalesce(sum(r.n_inactive), 0),
       coalesce(owed.pending, false), coalesce(owed.parked, false), max(r.at)
  FROM posts p
  LEFT JOIN delivery_receipts r ON r.post_id = p.id
 CROSS JOIN LATERAL (
       SELECT bool_or(d.state = 'pending'), bool_or(d.state = 'parked')
         FROM outbox_events e JOIN deliveries d ON d.event_id = e.id
        WHERE e.aggregatetype = 'post' AND e.aggregateid = p.id::text
          AND e.type IN ('post.created', 'post.restored')) AS owed(pending, parked)
 WHERE p.id = %s AND p.deleted_at IS NULL
 GROUP BY p.id, owed.pending, owed.parked
"""


async def delivered(connection: Connection, post_id: int) -> Delivered | None:
    """Say how far a post got; None: there is no such post, or it was deleted."""
    row = await (await connection.execute(_DELIVERED, [post_id])).fetchone()
    return Delivered(*row) if row else None


_PRUNE = """
DELETE FROM delivery_receipts WHERE (post_id, chunk) IN (
    SELECT post_id, chunk FROM delivery_receipts
    WHERE at < now() - make_interval(secs => %s) ORDER BY at LIMIT %s
)
"""


async def prune(connection: Connection, keep_s: float, limit: int = 10_000) -> int:
    """Delete the oldest receipts that are past keeping; return how many went."""
    return (await connection.execute(_PRUNE, [keep_s, limit])).rowcount
