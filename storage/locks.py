"""Advisory locks of Postgres: one process at a time does a thing."""

from storage.connections import Connection


async def try_lock(connection: Connection, name: str) -> bool:
    """Take a lock until the transaction ends; False: somebody else holds it."""
    query = "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))"
    row = await (await connection.execute(query, [name])).fetchone()
    return bool(row and row[0])
