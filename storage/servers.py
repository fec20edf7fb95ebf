"""What the servers say of themselves; `foryou up` and `foryou doctor` ask."""

from dataclasses import dataclass
from typing import Any

import psycopg

from feed.errors import Misconfigured, Unavailable
from storage.connections import Connection, open_redis, translated_errors

POSTGRES_OLDEST = 14
REDIS_OLDEST = 7


@dataclass(frozen=True)
class PostgresFacts:
    """One Postgres server: `major` version, whether it takes writes, its connection limit."""

    major: int
    read_only: bool
    max_connections: int


@dataclass(frozen=True)
class RedisFacts:
    """One Redis or Valkey server; `config` lacks what the server does not let us read."""

    name: str
    version: str
    major: int
    run_id: str
    config: dict[str, str]


_POSTGRES = """
SELECT current_setting('server_version_num')::int / 10000,
       pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on',
       current_setting('max_connections')::int
"""


async def postgres_facts(url: str) -> PostgresFacts:
    """Ask Postgres what it is.

    Raises:
        Misconfigured: The URL cannot be read.
        Unavailable: The server refuses or cannot be reached; the text says why.
    """
    try:
        async with await psycopg.AsyncConnection.connect(url, connect_timeout=5) as connection:
            cursor = await connection.execute(_POSTGRES)
            row: Any = await cursor.fetchone()
    except psycopg.ProgrammingError as error:
        raise Misconfigured(f"The URL of Postgres cannot be read: {_reason(error)}") from error
    except psycopg.Error as error:
        raise Unavailable(_reason(error)) from error
    return PostgresFacts(*row)


_REDIS_CONFIG = (
    "zset-max-listpack-entries",
    "maxmemory",
    "maxmemory-policy",
    "save",
    "appendonly",
)


async def redis_facts(url: str) -> RedisFacts:
    """Ask Redis or Valkey what it is.

    Raises:
        Misconfigured: The URL cannot be read.
        Unavailable: The server refuses or cannot be reached.
    """
    try:
        client: Any = open_redis(url)
    except ValueError as error:
        raise Misconfigured(f"The URL of Redis cannot be read: {_reason(error)}") from error
    try:
        with translated_errors():
            info = await client.info("server")
        config = await _config(client)
    finally:
        await client.aclose()
    version = str(info.get("valkey_version") or info["redis_version"])
    return RedisFacts(
        name=str(info.get("server_name", "redis")),
        version=version,
        major=int(version.split(".")[0]),
        run_id=str(info["run_id"]),
        config=config,
    )


async def _config(client: Any) -> dict[str, str]:
    """Read what matters here; managed servers often forbid CONFIG, which is no fault."""
    try:
        with translated_errors():
            # The driver's own `config_get` turns "on" into numbers for some names; ask raw.
            found: list[bytes] = await client.execute_command("CONFIG", "GET", *_REDIS_CONFIG)
    except Unavailable:
        return {}
    items: Any = (
        found.items() if isinstance(found, dict) else zip(found[::2], found[1::2], strict=True)
    )
    return {_text(key): _text(value) for key, value in items}


_PEOPLE = """
SELECT u.id, u.name
FROM (SELECT id, name FROM users WHERE deleted_at IS NULL ORDER BY id LIMIT 1000) u
CROSS JOIN LATERAL (
    SELECT count(*) AS n FROM (SELECT 1 FROM follows WHERE follower_id = u.id LIMIT 1000) f
) follows
ORDER BY follows.n DESC, u.id
LIMIT %s
"""


async def people_to_be(connection: Connection, *, limit: int) -> list[tuple[int, str]]:
    """Find users whose feeds are worth a look: of the first thousand, those who follow most."""
    cursor = await connection.execute(_PEOPLE, [limit])
    return [(row[0], row[1]) for row in await cursor.fetchall()]


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
