"""The servers that a benchmark runs on: embedded ones in a temporary folder, or given ones.

On a given Postgres it works in a database of its own, dropped afterwards; a given Redis must be
empty, and is emptied afterwards.
"""

import secrets
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql

from benchmarks.options import Options, say
from cli.embedded import embedded_postgres_server, embedded_valkey
from cli.migrate import migrate_database
from feed.errors import Misconfigured
from storage.connections import open_redis


@dataclass(frozen=True)
class Servers:
    """Where to find them, and a folder for files that goes when they do."""

    postgres_url: str
    redis_url: str
    folder: Path


@asynccontextmanager
async def servers(options: Options) -> AsyncIterator[Servers]:
    """Start what is not given; everything that was made is gone when the block ends.

    Raises:
        Misconfigured: The given Redis holds something.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="foryou-bench-")))
        say("starting servers")
        # Durable, as in production: a commit waits for the disk.
        postgres_url = options.postgres_url or stack.enter_context(
            embedded_postgres_server(folder, durable=True)
        )
        redis_url = options.redis_url or stack.enter_context(embedded_valkey(folder))
        await _refuse_used(redis_url)
        try:
            yield Servers(postgres_url, redis_url, folder)
        finally:
            if options.redis_url:
                await _empty(redis_url)


@asynccontextmanager
async def migrated(servers: Servers) -> AsyncIterator[Servers]:
    """Lend the same servers with an empty, migrated database of its own; dropped afterwards."""
    with database(servers.postgres_url) as url:
        await migrate_database(url)
        yield Servers(url, servers.redis_url, servers.folder)


@contextmanager
def database(server_url: str) -> Iterator[str]:
    """Make a database, lend its URL, and drop it."""
    name = f"foryou_bench_{secrets.token_hex(4)}"
    _run(server_url, "CREATE DATABASE {}", name)
    try:
        yield urlunsplit(urlsplit(server_url)._replace(path=f"/{name}"))
    finally:
        _run(server_url, "DROP DATABASE {} WITH (FORCE)", name)


def _run(url: str, statement: str, name: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(sql.Identifier(name)))


async def _refuse_used(redis_url: str) -> None:
    redis = open_redis(redis_url)
    try:
        if await redis.dbsize():
            raise Misconfigured(
                "The Redis given with --redis holds keys: a benchmark would empty it. Give an "
                "empty database, e.g. redis://127.0.0.1:6379/9."
            )
    finally:
        await redis.aclose()


async def _empty(redis_url: str) -> None:
    redis = open_redis(redis_url)
    try:
        await redis.flushdb()
    finally:
        await redis.aclose()
