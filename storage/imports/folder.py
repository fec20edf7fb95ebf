"""Imports one folder: reads it all, checks it all, then writes it in chunks, and says how it went.

Nothing is written before every file was read to its end, so a broken file changes nothing.
"""

from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from feed.errors import Invalid, Misconfigured
from feed.settings import Settings
from storage.connections import Connection, Postgres
from storage.imports.engagements import ENGAGEMENTS
from storage.imports.files import find_file
from storage.imports.follows import FOLLOWS
from storage.imports.kinds import Chunk, Step, Terms
from storage.imports.posts import POSTS
from storage.imports.report import Counts, Listener, Refusal, Report, Silence
from storage.imports.staging import Staged, alone, stage, temporary_tables
from storage.imports.users import USERS
from storage.migrate import ensure_partitions
from storage.outbox_events import append

STEPS: tuple[Step, ...] = (USERS, POSTS, FOLLOWS, ENGAGEMENTS)
"""In the order in which they need each other."""


async def import_folder(
    postgres: Postgres,
    folder: Path,
    *,
    settings: Settings,
    now: datetime,
    shift_to_now: bool = False,
    listener: Listener | None = None,
) -> Report:
    """Import users, posts, follows and engagements from a folder; docs/import.md has the format.

    May be stopped at any time and run again: rows that are there already change nothing.

    Args:
        postgres: The primary, migrated.
        folder: Holds the files; its name is what the shift is remembered under.
        settings: For the clamp of future times, the threshold to pull, and the half-life.
        now: The time of the import.
        shift_to_now: Add to every time what brings the newest one to `now`; a second import of a
            folder of this name adds the same again.
        listener: Is told of progress and of every refused row.

    Raises:
        Invalid: There is no file to import, or one cannot be read; nothing was written.
        Conflict: Another import is running; nothing was written.
        Misconfigured: The database was not migrated.
        Unavailable: Postgres was lost; what was written so far stays, run it again.
    """
    listener = listener or Silence()
    files, name = _files(folder), _name(folder)
    async with (
        postgres.connection() as connection,
        alone(connection),
        temporary_tables(connection, STEPS),
    ):
        await _refuse_old_schema(connection)
        staged = [await stage(connection, step, path, listener) for step, path in files]
        terms = await _terms(connection, name, settings, now, shift_to_now)
        interrupted = await _begin(connection, name, terms)
        await ensure_partitions(connection, now.date())
        counts = {
            each.step.kind: await _import(connection, each, terms, listener) for each in staged
        }
        report = Report(counts, terms.shift_ms)
        await _finish(connection, name, tell=interrupted or report.written > 0)
    return report


def _files(folder: Path) -> list[tuple[Step, Path]]:
    if not folder.is_dir():
        raise Invalid(f"{folder} is not a folder")
    found = [(step, path) for step in STEPS if (path := find_file(folder, step.kind))]
    if not found:
        raise Invalid(
            f"{folder} holds nothing to import: it needs users, posts, follows or engagements, "
            "each as .csv or .ndjson, or one of these with .gz"
        )
    return found


def _name(folder: Path) -> str:
    return folder.resolve().name


async def _refuse_old_schema(connection: Connection) -> None:
    row = await (await connection.execute("SELECT to_regclass('imports')")).fetchone()
    if row is None or row[0] is None:
        raise Misconfigured("The database is not at this version: run `foryou migrate` first.")


# ---------------------------------------------------------------------- terms


async def _terms(
    connection: Connection, name: str, settings: Settings, now: datetime, shift_to_now: bool
) -> Terms:
    now_ms = int(now.timestamp() * 1000)
    return Terms(
        shift_ms=await _shift_ms(connection, name, now_ms) if shift_to_now else 0,
        now_ms=now_ms,
        future_clamp_ms=settings.future_clamp_s * 1000,
        half_life_s=settings.affinity_half_life_s,
        pull_from_followers=settings.pull_from_followers,
    )


_REMEMBERED = "SELECT shift_ms FROM imports WHERE name = %s AND shift_ms IS NOT NULL"
_NEWEST = """
SELECT max(ms) FROM (
    SELECT max(created_ms) FROM staged_users
    UNION ALL SELECT max(created_ms) FROM staged_posts
    UNION ALL SELECT max(created_ms) FROM staged_follows
    UNION ALL SELECT max(at_ms) FROM staged_engagements) AS newest (ms)
"""


async def _shift_ms(connection: Connection, name: str, now_ms: int) -> int:
    """Return what this import added to its times before, else what makes its newest time now."""
    row = await (await connection.execute(_REMEMBERED, [name])).fetchone()
    if row is not None:
        return int(row[0])
    row = await (await connection.execute(_NEWEST)).fetchone()
    return now_ms - int(row[0]) if row is not None and row[0] is not None else 0


_BEGIN = """
WITH before AS (SELECT finished_at IS NULL AS interrupted FROM imports WHERE name = %(name)s)
INSERT INTO imports AS i (name, shift_ms) VALUES (%(name)s, nullif(%(shift_ms)s::bigint, 0))
    ON CONFLICT (name) DO UPDATE
   SET shift_ms = coalesce(i.shift_ms, excluded.shift_ms), started_at = now(), finished_at = NULL
RETURNING (SELECT interrupted FROM before)
"""


async def _begin(connection: Connection, name: str, terms: Terms) -> bool:
    """Remember the shift before the first row; return whether an earlier run did not finish."""
    result = await connection.execute(_BEGIN, {"name": name, "shift_ms": terms.shift_ms})
    row = await result.fetchone()
    return bool(row and row[0])


async def _finish(connection: Connection, name: str, *, tell: bool) -> None:
    """Have cached feeds forgotten if there is news; they come back from the truth when read."""
    async with connection.transaction():
        if tell:
            await append(connection, "import", name, "import.finished", {})
        await connection.execute("UPDATE imports SET finished_at = now() WHERE name = %s", [name])


# ---------------------------------------------------------------------- checking and writing


async def _import(
    connection: Connection, staged: Staged, terms: Terms, listener: Listener
) -> Counts:
    refused = staged.bad + await _check(connection, staged, terms, listener)
    written = await _write(connection, staged, terms, listener)
    return Counts(staged.read, written, refused)


async def _check(connection: Connection, staged: Staged, terms: Terms, listener: Listener) -> int:
    checks = staged.step.checks
    for done, check in enumerate(checks):
        listener.progress(f"checking {staged.step.kind}", done, len(checks))
        await connection.execute(check, asdict(terms))
    refused = await _tell(connection, staged.path.name, listener)
    listener.progress(f"checking {staged.step.kind}", len(checks), len(checks))
    return refused


async def _tell(connection: Connection, file: str, listener: Listener) -> int:
    """Pass on the refused rows in the order of the file, a few at a time: there may be millions."""
    refused = 0
    async with connection.transaction(), connection.cursor("refused_rows") as cursor:
        await cursor.execute("SELECT line, code, detail FROM refused ORDER BY line")
        async for line, code, detail in cursor:
            listener.refused(Refusal(file, line, code, detail))
            refused += 1
    await connection.execute("TRUNCATE refused")
    return refused


async def _write(connection: Connection, staged: Staged, terms: Terms, listener: Listener) -> int:
    written = 0
    doing = f"writing {staged.step.kind}"
    places, size = staged.read - staged.bad, staged.step.chunk_rows
    for first in range(1, places + 1, size):
        last = min(first + size - 1, places)
        async with connection.transaction():
            written += await staged.step.write(connection, Chunk(first, last), terms)
        listener.progress(doing, last, places)
    return written
