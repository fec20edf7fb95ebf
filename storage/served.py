"""The served log: one row per page that was answered.

It teaches rankers later; from the first day it is what a scroll survives the loss of Redis with.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from feed.order import Ids
from storage.connections import Connection, Postgres

# Visible to every reader when it returns, but it does not wait for the disk: a crash of Postgres
# itself can lose the last half second, which a scroll needs only if Redis is lost with it.
_RECORD = """
INSERT INTO served (day, at, viewer_id, session_id, snapshot_id, nonce, part, chain_start,
                    position, ids, ranker)
SELECT current_date, now(), %s, %s, %s, %s, %s, %s, %s, %b::bigint[], %s
  FROM set_config('synchronous_commit', 'off', true)
"""

_CHAIN = """
SELECT chain_start, ids FROM served
 WHERE snapshot_id = %s AND nonce = %s AND viewer_id = %s AND part IN ('before', 'slate')
   AND day >= current_date - 2
 ORDER BY chain_start
"""


Part = Literal["before", "slate", "tail", "chronological"]


@dataclass(frozen=True)
class ServedPage:
    """A page as answered: `ids` (n,) were looked at, from `position` of this part on.

    An id is negative when nothing of its row could be shown.

    `chain_start` is where they begin in the list of all that this chain of cursors was served;
    part "before" is what it was served before this snapshot was frozen.
    """

    viewer_id: int
    session_id: str
    snapshot_id: str
    nonce: str
    part: Part
    chain_start: int
    position: int
    ids: Ids
    ranker: str | None


async def record_served(connection: Connection, page: ServedPage) -> None:
    """Write one row; repeated pages give repeated rows of the same content."""
    await connection.execute(
        _RECORD,
        (
            page.viewer_id,
            page.session_id,
            page.snapshot_id,
            page.nonce,
            page.part,
            page.chain_start,
            page.position,
            page.ids.tolist(),
            page.ranker,
        ),
    )


async def served_chain(
    connection: Connection, viewer_id: int, snapshot_id: str, nonce: str, length: int
) -> Ids:
    """Return the first `length` ids that a chain was served, in order; 0 where a row is missing."""
    chain: npt.NDArray[np.int64] = np.zeros(length, dtype=np.int64)
    cursor = await connection.execute(_CHAIN, (snapshot_id, nonce, viewer_id))
    for start, ids in await cursor.fetchall():
        part = np.array(ids, dtype=np.int64)[: max(0, length - start)]
        chain[start : start + len(part)] = part
    return chain


class ServedLog:
    """The served log for the mixer, on a connection of the pool for each call."""

    def __init__(self, postgres: Postgres) -> None:
        """Write to and read from `postgres`, the primary."""
        self._postgres = postgres

    async def record(self, page: ServedPage) -> None:
        """Write one row, as `record_served` does."""
        async with self._postgres.connection() as connection:
            await record_served(connection, page)

    async def chain(self, viewer_id: int, snapshot_id: str, nonce: str, length: int) -> Ids:
        """Return the first `length` ids that a chain was served, as `served_chain` does."""
        async with self._postgres.connection() as connection:
            return await served_chain(connection, viewer_id, snapshot_id, nonce, length)
