"""The temporary tables of an import, filled through COPY with what the files hold."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg

from feed.errors import Conflict
from storage.connections import Connection
from storage.imports import effects
from storage.imports.files import BadRow, RowFile, open_rows
from storage.imports.kinds import Step
from storage.imports.report import Listener, Refusal

ROWS_BETWEEN_NEWS = 5_000

_LOCK = 0x696D706F7274  # "import"


# A server process whose client was killed holds its locks until it notices.
_SET = """
SET work_mem = '64MB';  -- sorts and hashes of a whole file
SET client_connection_check_interval = '1s';
SET lock_timeout = '5s';
"""
_RESET = "RESET work_mem; RESET client_connection_check_interval; RESET lock_timeout"


@asynccontextmanager
async def alone(connection: Connection) -> AsyncIterator[None]:
    """Hold the lock that only one import has, on a connection set up for one.

    Raises:
        Conflict: Another one has it.
    """
    await connection.execute(_SET)
    try:
        await _lock(connection)
        yield
    finally:
        if not connection.broken:
            await connection.execute("SELECT pg_advisory_unlock_all()")
            await connection.execute(_RESET)


async def _lock(connection: Connection) -> None:
    try:
        await connection.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
    except psycopg.errors.LockNotAvailable:
        raise Conflict(
            "Another import is running on this database; wait until it has ended."
        ) from None
    await connection.execute("RESET lock_timeout")


_REFUSED = "CREATE TEMP TABLE refused (line bigint, code text, detail text)"
_LOGGED = """
CREATE TEMP TABLE logged
    (viewer_id bigint, post_id bigint, type text, at timestamptz, event_id uuid, dwell_ms integer)
"""
_DROP = """
DROP TABLE IF EXISTS
    staged_users, staged_posts, raw_follows, staged_follows, raw_engagements, staged_engagements,
    refused, effects, logged
"""


@asynccontextmanager
async def temporary_tables(connection: Connection, steps: Sequence[Step]) -> AsyncIterator[None]:
    """Make the temporary tables, and drop them afterwards, since the connection is lent."""
    for create in (_REFUSED, _LOGGED, effects.CREATE, *(step.create for step in steps)):
        await connection.execute(create)
    try:
        yield
    finally:
        if not connection.broken:
            await connection.execute(_DROP)


class Staged(NamedTuple):
    """One file, as it is in its temporary table: rows read, and how many of them were bad."""

    step: Step
    path: Path
    read: int
    bad: int


async def stage(connection: Connection, step: Step, path: Path, listener: Listener) -> Staged:
    """Copy a file into the temporary table of its kind; rows that cannot be read are refused.

    Raises:
        Invalid: The file cannot be read to its end.
    """
    with open_rows(path, step.fields) as rows:
        staged = await _copy(connection, step, path, rows, listener)
    await connection.execute(step.prepare)
    return staged


async def _copy(
    connection: Connection, step: Step, path: Path, rows: RowFile, listener: Listener
) -> Staged:
    doing = f"reading {path.name}"
    read = bad = 0
    async with connection.cursor().copy(step.copy) as copy:
        for row in rows.rows:
            read += 1
            if isinstance(row, BadRow):
                bad += 1
                listener.refused(Refusal(path.name, row.line, row.code, row.detail))
            else:
                await copy.write_row(row)
            if read % ROWS_BETWEEN_NEWS == 0:
                listener.progress(doing, min(rows.tell(), rows.size - 1), rows.size)
    listener.progress(doing, rows.size, rows.size)
    return Staged(step, path, read, bad)
