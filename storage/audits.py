"""What the background auditor found: one row of counts for each round, no ids."""

from collections.abc import Mapping
from typing import NamedTuple

from storage.check import Kind
from storage.connections import Connection
from storage.locks import try_lock

KEPT = 10_000


class Audit(NamedTuple):
    """The newest finished round: its age, how many viewers it looked at, faults by kind."""

    age_s: float
    n_viewers: int
    faults: Mapping[Kind, int]


_BEGIN = """
INSERT INTO feed_audits (at)
SELECT now() WHERE NOT EXISTS (
    SELECT FROM feed_audits WHERE at > now() - make_interval(secs => %s))
RETURNING id
"""


async def begin(connection: Connection, every_s: float) -> int | None:
    """Begin a round, in a transaction; None: one has begun less than `every_s` ago."""
    if not await try_lock(connection, "audit"):
        return None
    row = await (await connection.execute(_BEGIN, [every_s])).fetchone()
    return row[0] if row else None


_FINISH = """
UPDATE feed_audits SET n_viewers = %(n_viewers)s, missing = %(missing)s, late = %(late)s,
       extra = %(extra)s, out_of_order = %(out_of_order)s
WHERE id = %(id)s
"""
_PRUNE = "DELETE FROM feed_audits WHERE id <= %s"


async def finish(
    connection: Connection, audit_id: int, n_viewers: int, faults: Mapping[Kind, int]
) -> None:
    """Note what a round found; the oldest rounds go."""
    counts = {str(kind): n for kind, n in faults.items()}
    await connection.execute(_FINISH, {"id": audit_id, "n_viewers": n_viewers, **counts})
    await connection.execute(_PRUNE, [audit_id - KEPT])


_NEWEST = """
SELECT extract(epoch FROM now() - at)::float8, n_viewers, missing, late, extra, out_of_order
FROM feed_audits WHERE n_viewers IS NOT NULL ORDER BY id DESC LIMIT 1
"""


async def newest(connection: Connection) -> Audit | None:
    """Return what the newest finished round found; None: there was none yet."""
    row = await (await connection.execute(_NEWEST)).fetchone()
    if row is None:
        return None
    age_s, n_viewers, missing, late, extra, out_of_order = row
    faults: dict[Kind, int] = {
        "missing": missing,
        "late": late,
        "extra": extra,
        "out_of_order": out_of_order,
    }
    return Audit(max(0.0, age_s), n_viewers, faults)
