"""What a chain of cursors was served: kept in Redis for speed, in the served log for good.

A page is answered only after both were tried. When Redis has lost a chain it is read back from
the log, so that a scroll survives without a repeat.
"""

import asyncio

import numpy as np

from feed.errors import Unavailable
from feed.order import Ids
from feed.telemetry import Trace
from snapshots.cursor import Cursor
from snapshots.snapshot import Snapshot
from snapshots.store import SnapshotStore
from storage.served import Part, ServedLog, ServedPage


class Chains:
    """Notes what was looked at, and tells what a chain was served so far."""

    def __init__(self, snapshots: SnapshotStore, log: ServedLog) -> None:
        """Keep chains in `snapshots`, and durably in `log`."""
        self._snapshots = snapshots
        self._log = log

    async def served(self, cursor: Cursor, length: int, trace: Trace) -> Ids:
        """Return the first `length` posts that the cursor's chain was served.

        An id is negative when its row was looked at, and nothing of it could be shown.
        """
        owner = (cursor.viewer_id, cursor.snapshot_id, cursor.nonce)
        try:
            chain = await self._snapshots.chain(*owner, length)
        except Unavailable:
            trace.degraded.append("chain")
            chain = None
        if chain is None:
            chain = await self._log.chain(*owner, length)
        return np.asarray(chain[chain != 0])

    async def note(self, cursor: Cursor, snapshot: Snapshot, ids: Ids, trace: Trace) -> None:
        """Note that the rows from the cursor's position on were looked at."""
        start = cursor.base + cursor.position
        page = _page(cursor, "slate", start, ids, snapshot.head.ranker)
        await self._write(snapshot, page, trace)

    async def note_before(
        self, cursor: Cursor, snapshot: Snapshot, before: Ids, trace: Trace
    ) -> None:
        """Note what the chain was served before this snapshot was frozen."""
        if len(before):
            await self._write(snapshot, _page(cursor, "before", 0, before, None), trace)

    async def record_tail(self, cursor: Cursor, ids: list[int], trace: Trace) -> None:
        """Log a page of the tail; the tail needs no memory, its cursor holds the whole key."""
        page = _page(cursor, "tail", cursor.base, np.array(ids, dtype=np.int64), None)
        await self._logged(page, trace)

    async def _write(self, snapshot: Snapshot, page: ServedPage, trace: Trace) -> None:
        with trace.timed("served"):
            await asyncio.gather(self._noted(snapshot, page, trace), self._logged(page, trace))

    async def _noted(self, snapshot: Snapshot, page: ServedPage, trace: Trace) -> None:
        try:
            await self._snapshots.note(page.viewer_id, snapshot, page.chain_start, page.ids)
        except Unavailable:
            trace.degraded.append("chain")

    async def _logged(self, page: ServedPage, trace: Trace) -> None:
        if not len(page.ids):
            return
        try:
            await self._log.record(page)
        except Unavailable:
            trace.degraded.append("served_log")


def _page(cursor: Cursor, part: Part, chain_start: int, ids: Ids, ranker: str | None) -> ServedPage:
    return ServedPage(
        viewer_id=cursor.viewer_id,
        session_id=cursor.session_id,
        snapshot_id=cursor.snapshot_id,
        nonce=cursor.nonce,
        part=part,
        chain_start=chain_start,
        position=cursor.position,
        ids=ids,
        ranker=ranker,
    )
