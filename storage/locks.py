"""Advisory locks of Postgres: one process at a time does a thing, or a few do."""

from storage.connections import Connection


async def try_lock(connection: Connection, name: str) -> bool:
    """Take a lock until the transaction ends; False: somebody else holds it."""
    query = "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))"
    row = await (await connection.execute(query, [name])).fetchone()
    return bool(row and row[0])


# One after the other until one is free: a filter below a limit stops at the first.
_SLOT = """
WITH slots AS MATERIALIZED (
    SELECT n FROM generate_series(0, %(n_slots)s - 1) AS n ORDER BY (n + %(first)s) %% %(n_slots)s
)
SELECT n FROM slots WHERE pg_try_advisory_xact_lock(hashtext(%(name)s), n) LIMIT 1
"""


async def try_slot(connection: Connection, name: str, n_slots: int, *, jitter: float) -> bool:
    """Take one of `n_slots` until the transaction ends; False: others hold them all.

    `jitter` in [0, 1) says with which to begin, so that many do not try the same.
    """
    values = {"name": name, "n_slots": n_slots, "first": int(jitter * n_slots)}
    return await (await connection.execute(_SLOT, values)).fetchone() is not None
