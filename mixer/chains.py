"""What a chain of cursors was served: kept in Redis for speed, in the served log for good.

A page is answered only after both were tried. When Redis has lost a chain it is read back from
the log, so that a scroll survives without a repeat.
"""

import asyncio

from feed.chain import Chain
from feed.errors import Unavailable
from feed.order import NEWEST
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

    async def served(self, cursor: Cursor, length: int, trace: Trace) -> Chain:
        """Return the first `length` rows that the cursor's chain was served."""
        owner = (cursor.viewer_id, cursor.snapshot_id, cursor.nonce)
        try:
            chain = await self._snapshots.chain(*owner, length)
        except Unavailable:
            trace.degraded.append("chain")
            chain = None
        if chain is None:
            chain = await self._log.chain(*owner, length)
        known = chain.known()
        if len(known) < length:  # Postgres crashed just after it took the rows
            trace.degraded.append("served_log")
        return known

    async def shown_in_tail(self, cursor: Cursor, originals: list[int]) -> set[int]:
        """Return which of these originals the tail has shown above the cursor's place."""
        return await self._log.shown_in_tail(
            cursor.viewer_id, cursor.snapshot_id, cursor.nonce, cursor.key or NEWEST, originals
        )

    async def note(self, cursor: Cursor, snapshot: Snapshot, rows: Chain, trace: Trace) -> None:
        """Note that the rows from the cursor's position on were looked at.

        Raises:
            Unavailable: Neither memory took them, so the page must not be answered.
        """
        start = cursor.base + cursor.position
        page = _page(cursor, "slate", start, rows, snapshot.head.ranker)
        await self._write(snapshot, page, trace)

    async def note_before(
        self, cursor: Cursor, snapshot: Snapshot, before: Chain, trace: Trace
    ) -> None:
        """Note what the chain was served before this snapshot was frozen.

        Raises:
            Unavailable: Neither memory took it.
        """
        await self._write(snapshot, _page(cursor, "before", 0, before, None), trace)

    async def note_tail(self, cursor: Cursor, rows: Chain, trace: Trace) -> None:
        """Log a page of the tail, which later pages of the tail look up.

        Raises:
            Unavailable: The log cannot be reached.
        """
        if len(rows):
            with trace.timed("served"):
                await self._log.record(_page(cursor, "tail", cursor.base, rows, None))

    async def _write(self, snapshot: Snapshot, page: ServedPage, trace: Trace) -> None:
        if not len(page.chain):
            return
        with trace.timed("served"):
            noted, logged = await asyncio.gather(
                self._snapshots.note(page.viewer_id, snapshot, page.chain_start, page.chain),
                self._log.record(page),
                return_exceptions=True,
            )
        failed = {"chain": noted, "served_log": logged}
        errors = [error for error in failed.values() if error is not None]
        for error in errors:
            if len(errors) == len(failed) or not isinstance(error, Unavailable):
                raise error
        trace.degraded += [name for name, error in failed.items() if error is not None]


def _page(
    cursor: Cursor, part: Part, chain_start: int, chain: Chain, ranker: str | None
) -> ServedPage:
    return ServedPage(
        viewer_id=cursor.viewer_id,
        session_id=cursor.session_id,
        snapshot_id=cursor.snapshot_id,
        nonce=cursor.nonce,
        part=part,
        chain_start=chain_start,
        position=cursor.position,
        chain=chain,
        ranker=ranker,
    )
