"""How the whole product delivers now: one row, which every writer and every open of a feed heeds.

The setting `delivery` is what a process wants when it starts; the row is what all of them do. To
'pull', readers and writers change at once. Back, 'filling' comes first: writers owe deliveries
again, and nobody relies on lists until those from before are gone.
"""

from datetime import datetime
from typing import Literal, NamedTuple

from storage.connections import Connection

State = Literal["pull", "filling", "hybrid"]


class Stands(NamedTuple):
    """The state, when it was entered, and how long ago."""

    state: State
    changed_at: datetime
    settled_s: float


_STANDS = """
SELECT state, changed_at, extract(epoch FROM clock_timestamp() - changed_at)::float8
FROM delivery_state
"""


async def how_it_stands(connection: Connection) -> Stands:
    """Read the state."""
    row = await (await connection.execute(_STANDS)).fetchone()
    assert row is not None  # the migration made it
    return Stands(*row)


async def owes(connection: Connection) -> bool:
    """Say whether what this transaction writes owes deliveries; it stays so until it ends."""
    row = await (await connection.execute("SELECT deliveries_owed()")).fetchone()
    return bool(row and row[0])


async def relies_on_lists(connection: Connection) -> bool:
    """Say whether readers use cached lists; where they do, they do until this transaction ends."""
    return await owes(connection) and (await how_it_stands(connection)).state == "hybrid"


# Waits for every transaction that was told whether it owes, and lets the next ones wait.
_ALONE = "SELECT pg_advisory_xact_lock(hashtextextended('delivery state', 0))"
_STOP = """
UPDATE delivery_state SET state = 'pull', changed_at = clock_timestamp()
WHERE state <> 'pull' RETURNING changed_at
"""
# What a relay is leasing a worker performs: waiting for it could be a deadlock.
_DISCHARGE = """
DELETE FROM deliveries WHERE id IN (
    SELECT id FROM deliveries WHERE state = 'pending' FOR UPDATE SKIP LOCKED
)
"""


async def stop_delivering(connection: Connection) -> bool:
    """Let everybody pull from now on, and owe nothing any more; False: so it was already."""
    if (await how_it_stands(connection)).state == "pull":
        return False
    await connection.execute(_ALONE)
    stopped = await (await connection.execute(_STOP)).fetchone()
    await connection.execute(_DISCHARGE)
    return stopped is not None


_FILL = """
UPDATE delivery_state SET state = 'filling', changed_at = clock_timestamp() WHERE state = 'pull'
"""


async def start_delivering(connection: Connection) -> None:
    """Let writers owe deliveries again; what others wrote without has been committed by then."""
    await connection.execute(_ALONE)
    await connection.execute(_FILL)


_RELY = """
UPDATE delivery_state SET state = 'hybrid', changed_at = clock_timestamp()
WHERE state = 'filling' AND changed_at = %s RETURNING changed_at
"""


async def rely_on_lists(connection: Connection, since: datetime) -> bool:
    """Let readers use cached lists, all made since `since`; False: the state is another by now."""
    return await (await connection.execute(_RELY, [since])).fetchone() is not None
