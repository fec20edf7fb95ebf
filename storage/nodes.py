"""Node numbers for Snowflake ids, leased from Postgres by each process that makes ids."""

from uuid import UUID

from feed.errors import Unavailable
from feed.ids import NODE_BITS
from storage.connections import Connection

LEASE_S = 3600  # renewed by its owner well within; a paused process is back long before
_LOCK = 0x6E6F646573  # "nodes": one process at a time picks a number

# The number that was free for longest, so that a late owner hardly ever meets the next one.
_LEASE = """
INSERT INTO nodes (node, owner, leased_until)
SELECT n, %(owner)s, now() + make_interval(secs => %(lease_s)s)
FROM generate_series(0, %(last)s) n LEFT JOIN nodes ON nodes.node = n
WHERE nodes.leased_until IS NULL OR nodes.leased_until < now()
ORDER BY nodes.leased_until NULLS FIRST, n
LIMIT 1
ON CONFLICT (node) DO UPDATE SET owner = excluded.owner, leased_until = excluded.leased_until
RETURNING node
"""


async def lease_node(connection: Connection, owner: UUID, *, lease_s: float = LEASE_S) -> int:
    """Lease a node number that nobody else holds.

    Raises:
        Unavailable: All numbers are taken.
    """
    values = {"owner": owner, "lease_s": lease_s, "last": (1 << NODE_BITS) - 1}
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        row = await (await connection.execute(_LEASE, values)).fetchone()
    if row is None:
        raise Unavailable("All node numbers are leased; wait until one expires.")
    return int(row[0])


_RENEW = """
UPDATE nodes SET leased_until = now() + make_interval(secs => %s) WHERE node = %s AND owner = %s
"""


async def renew(
    connection: Connection, node: int, owner: UUID, *, lease_s: float = LEASE_S
) -> bool:
    """Extend a lease; False: it expired and somebody else has the number, lease another."""
    return (await connection.execute(_RENEW, [lease_s, node, owner])).rowcount > 0


async def release(connection: Connection, node: int, owner: UUID) -> None:
    """Give a number back when its owner ends."""
    query = "UPDATE nodes SET leased_until = now() WHERE node = %s AND owner = %s"
    await connection.execute(query, [node, owner])
