"""The served log: one row per page that was answered.

It teaches rankers later; from the first day it is what a scroll survives the loss of Redis with.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from feed.chain import Chain
from feed.order import Key
from storage.connections import Connection, Postgres

# Visible to every reader when it returns, but it does not wait for the disk: a crash of Postgres
# itself can lose the last half second, which a scroll needs only if Redis is lost with it.
_RECORD = """
INSERT INTO served (day, at, viewer_id, session_id, snapshot_id, nonce, part, chain_start,
                    position, ids, shows, ranker, sources)
SELECT current_date, now(), %s, %s, %s, %s, %s, %s, %s, %b::bigint[], %b::bigint[], %s, %s
  FROM set_config('synchronous_commit', 'off', true)
"""

_CHAIN = """
SELECT chain_start, ids, shows FROM served
 WHERE snapshot_id = %s AND nonce = %s AND viewer_id = %s AND part IN ('before', 'slate')
   AND day >= current_date - 2
 ORDER BY chain_start
"""

# By place, not by position: where a page was answered twice, its answers may differ in length.
_SHOWN_IN_TAIL = """
SELECT DISTINCT row.shows
  FROM served, unnest(served.ids, served.shows) AS row(id, shows)
  JOIN posts p ON p.id = row.id
 WHERE snapshot_id = %(snapshot)s AND nonce = %(nonce)s AND viewer_id = %(viewer)s
   AND part = 'tail' AND day >= current_date - 2
   AND served.shows && %(originals)b::bigint[] AND row.shows = ANY(%(originals)b::bigint[])
   AND (p.effective_ms, p.id) >= (%(ms)s, %(id)s)
"""

Part = Literal["before", "slate", "tail", "chronological"]


@dataclass(frozen=True)
class ServedPage:
    """A page as answered: the rows of `chain` were looked at, from `position` of this part on.

    `chain_start` is where they begin in the list of all that this chain of cursors was served;
    part "before" is what it was served before this snapshot was frozen. `sources` holds a code of
    `feed.candidates.SOURCES` for each row, None for "before".
    """

    viewer_id: int
    session_id: str
    snapshot_id: str
    nonce: str
    part: Part
    chain_start: int
    position: int
    chain: Chain
    ranker: str | None
    sources: bytes | None


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
            page.chain.ids,
            page.chain.shows,
            page.ranker,
            page.sources,
        ),
    )


async def served_chain(
    connection: Connection, viewer_id: int, snapshot_id: str, nonce: str, length: int
) -> Chain:
    """Return the first `length` rows of a chain, in order; an id of 0 where the log has none.

    Who presents a cursor has taken the rows before it and no others, so that the page which began
    last counts; where one page was answered twice, a row counts as shown if one answer showed it.
    """
    ids, shows, began = (np.zeros(length, dtype=np.int64) for _ in range(3))
    cursor = await connection.execute(_CHAIN, (snapshot_id, nonce, viewer_id))
    for start, row_ids, row_shows in await cursor.fetchall():
        n = min(len(row_ids), max(0, length - start))
        at = slice(start, start + n)
        ids[at] = row_ids[:n]
        keep = (began[at] == start) & (shows[at] != 0)
        shows[at] = np.where(keep, shows[at], row_shows[:n])
        began[at] = start
    return Chain(ids, shows)


async def shown_in_tail(
    connection: Connection,
    viewer_id: int,
    snapshot_id: str,
    nonce: str,
    *,
    down_to: Key,
    originals: list[int],
) -> set[int]:
    """Return those of these originals that the tail of a session showed at `down_to` or above."""
    values = {
        "viewer": viewer_id,
        "snapshot": snapshot_id,
        "nonce": nonce,
        "ms": down_to.ms,
        "id": down_to.id,
        "originals": originals,
    }
    cursor = await connection.execute(_SHOWN_IN_TAIL, values)
    return {row[0] for row in await cursor.fetchall()}


class ServedLog:
    """The served log for the mixer, on a connection of the pool for each call."""

    def __init__(self, postgres: Postgres) -> None:
        """Write to and read from `postgres`, the primary."""
        self._postgres = postgres

    async def record(self, page: ServedPage) -> None:
        """Write one row, as `record_served` does."""
        async with self._postgres.connection() as connection:
            await record_served(connection, page)

    async def chain(self, viewer_id: int, snapshot_id: str, nonce: str, length: int) -> Chain:
        """Return the first `length` rows of a chain, as `served_chain` does."""
        async with self._postgres.connection() as connection:
            return await served_chain(connection, viewer_id, snapshot_id, nonce, length)

    async def shown_in_tail(
        self, viewer_id: int, snapshot_id: str, nonce: str, down_to: Key, originals: list[int]
    ) -> set[int]:
        """Return which of these originals the tail showed, as `shown_in_tail` does."""
        if not originals:
            return set()
        async with self._postgres.connection() as connection:
            return await shown_in_tail(
                connection, viewer_id, snapshot_id, nonce, down_to=down_to, originals=originals
            )
