"""Brings a database up to date: numbered, forward-only files, and the daily partitions.

Called by `foryou migrate`, `foryou up` and the relay's housekeeping.
"""

from datetime import date, timedelta
from importlib import resources

from psycopg import sql
from psycopg.errors import LockNotAvailable

from storage.connections import Connection

LOCK = 0x666F72796F75  # "foryou": migrations and partitions are made by one process at a time

_TABLE = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    version    integer PRIMARY KEY,
    name       text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""


async def migrate(connection: Connection) -> list[str]:
    """Apply what is missing, all or nothing; return the names of the files applied now."""
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        await connection.execute(_TABLE)
        rows = await connection.execute("SELECT version FROM schema_migrations")
        done = {version for (version,) in await rows.fetchall()}
        missing = [(v, name) for v, name in _files() if v not in done]
        for version, name in missing:
            await _apply(connection, version, name)
    return [name for _, name in missing]


async def _apply(connection: Connection, version: int, name: str) -> None:
    text = resources.files("storage.migrations").joinpath(name).read_bytes()
    await connection.execute(text)
    await connection.execute(
        "INSERT INTO schema_migrations (version, name) VALUES (%s, %s)", [version, name]
    )


def _files() -> list[tuple[int, str]]:
    names = (each.name for each in resources.files("storage.migrations").iterdir())
    return sorted((int(name[:4]), name) for name in names if name.endswith(".sql"))


_PARTITIONED = ("engagements", "served", "folded", "slates")
PRUNED = ("served", "folded", "slates")
_KNOWN = "SELECT relname FROM pg_class WHERE relname = ANY(%s) AND relispartition"


async def ensure_partitions(connection: Connection, today: date) -> list[str]:
    """Make the partitions of yesterday up to the day after tomorrow; return those made now.

    Rows that already wait in the default partition for one of these days move along.
    """
    days = [today + timedelta(days=n) for n in range(-1, 3)]
    wanted = {f"{table}_{day:%Y%m%d}": (table, day) for table in _PARTITIONED for day in days}
    made = []
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        rows = await connection.execute(_KNOWN, [list(wanted)])
        known = {name for (name,) in await rows.fetchall()}
        for name, (table, day) in wanted.items():
            if name not in known:
                await _make_partition(connection, name, table, day)
                made.append(name)
    return made


_OVER = """
SELECT child.relname FROM pg_inherits
  JOIN pg_class child ON child.oid = inhrelid JOIN pg_class parent ON parent.oid = inhparent
 WHERE parent.relname = ANY(%s) AND child.relname ~ '_[0-9]{8}$' AND right(child.relname, 8) < %s
 ORDER BY 1
"""


async def drop_partitions(connection: Connection, before: date) -> list[str]:
    """Drop what logs hold of earlier days; return the partitions dropped.

    Events are kept: they are what people did, and deleting an account removes them. While somebody
    reads a whole log nothing is dropped: whoever wants to write would wait behind the drop.
    """
    try:
        async with connection.transaction():
            await connection.execute("SET LOCAL lock_timeout = '200ms'")
            rows = await connection.execute(_OVER, [list(PRUNED), f"{before:%Y%m%d}"])
            names = [name for (name,) in await rows.fetchall()]
            for name in names:
                await connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(name)))
            for table in PRUNED:
                rest = sql.Identifier(f"{table}_default")
                old = sql.SQL("DELETE FROM {} WHERE day < %s").format(rest)
                await connection.execute(old, [before])
            await connection.execute("RESET lock_timeout")
    except LockNotAvailable:
        return []
    return names


# Made apart and then attached: CREATE ... PARTITION OF fails when the default holds such rows.
_MAKE = """
CREATE TABLE IF NOT EXISTS {name} (LIKE {table} INCLUDING ALL);
LOCK TABLE {rest} IN ACCESS EXCLUSIVE MODE;
WITH moved AS (DELETE FROM {rest} WHERE day = {day} RETURNING *)
INSERT INTO {name} SELECT * FROM moved;
ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ({day}) TO ({next_day});
"""


async def _make_partition(connection: Connection, name: str, table: str, day: date) -> None:
    statements = sql.SQL(_MAKE).format(
        name=sql.Identifier(name),
        table=sql.Identifier(table),
        rest=sql.Identifier(f"{table}_default"),
        day=sql.Literal(day),
        next_day=sql.Literal(day + timedelta(days=1)),
    )
    await connection.execute(statements)
