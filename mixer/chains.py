"""What a chain of cursors was served: kept in Redis for speed, in the served log for good.

A page is answered only after both were tried. When Redis has lost a chain it is read back from
the log, so that a scroll survives without a repeat.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from feed.candidates import SOURCE_CODE
from feed.chain import Chain
from feed.errors import Unavailable
from feed.order import NEWEST
from feed.telemetry import Trace
from mixer.pipeline import skipped
from snapshots.cursor import Cursor
from snapshots.snapshot import Snapshot
from snapshots.store import SnapshotStore
from storage.served import Part, ServedLog, ServedPage

T = TypeVar("T")

BELOW_FLOOR = SOURCE_CODE["below_floor"]


class Chains:
    """Notes what was looked at, and tells what a chain was served so far."""

    def __init__(self, snapshots: SnapshotStore, log: ServedLog, *, wait_s: float) -> None:
        """Keep chains in `snapshots`, and durably in `log`; wait `wait_s` for either."""
        self._snapshots = snapshots
        self._log = log
        self._wait_s = wait_s

    async def served(self, cursor: Cursor, length: int, trace: Trace) -> Chain:
        """Return the first `length` rows that the cursor's chain was served."""
        owner = (cursor.viewer_id, cursor.snapshot_id, cursor.nonce)
        try:
            with trace.timed("chain"):
                chain = await self._in_time(self._snapshots.chain(*owner, length))
        except Exception as error:
            skipped("chain", error, trace)
            chain = None
        if chain is None:
            chain = await self._log.chain(*owner, length)
        known = chain.known()
        if len(known) < length:  # Postgres crashed just after it took the rows
            trace.skip("served_log")
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
        start, row = cursor.base + cursor.position, cursor.position
        page = page_of(cursor, "slate", start, rows, snapshot.head.ranker)
        sources = snapshot.sources[row : row + len(rows)].tobytes()
        await self._write(snapshot, replace(page, sources=sources), trace)

    async def note_before(
        self, cursor: Cursor, snapshot: Snapshot, before: Chain, trace: Trace
    ) -> None:
        """Note what the chain was served before this snapshot was frozen.

        Raises:
            Unavailable: Neither memory took it.
        """
        await self._write(snapshot, page_of(cursor, "before", 0, before, None), trace)

    async def note_tail(self, cursor: Cursor, rows: Chain, trace: Trace) -> None:
        """Log a page of the tail, which later pages of the tail look up.

        Raises:
            Unavailable: The log cannot be reached.
        """
        if len(rows):
            with trace.timed("served"):
                page = page_of(cursor, "tail", cursor.base, rows, "chronological")
                sources = bytes([BELOW_FLOOR]) * len(rows)
                await self._log.record(replace(page, sources=sources))

    async def _write(self, snapshot: Snapshot, page: ServedPage, trace: Trace) -> None:
        if not len(page.chain):
            return
        with trace.timed("served"):
            answers = await asyncio.gather(
                self._in_time(
                    self._snapshots.note(page.viewer_id, snapshot, page.chain_start, page.chain)
                ),
                self._in_time(self._log.record(page)),
                return_exceptions=True,
            )
            memories = zip(("chain", "served_log"), answers, strict=True)
            failed = {name: error for name, error in memories if error is not None}
            if len(failed) == len(answers):
                raise Unavailable("No memory takes what this page serves")
        for name, error in failed.items():
            if not isinstance(error, Exception):
                raise error
            skipped(name, error, trace)

    async def _in_time(self, call: Coroutine[Any, Any, T]) -> T:
        async with asyncio.timeout(self._wait_s):
            return await call


def page_of(
    cursor: Cursor, part: Part, chain_start: int, chain: Chain, ranker: str | None
) -> ServedPage:
    """Return what is logged of the page at a cursor, but for its sources."""
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
        sources=None,
    )
