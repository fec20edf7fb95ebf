"""Real Postgres and Valkey for every test that asks, started once a run; a missing one is an error.

Each test that writes gets a database of its own, cloned from a migrated template.
"""

import asyncio
import gc
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import hypothesis
import psycopg
import pytest
from psycopg import sql
from redis.asyncio import Redis

from cli.embedded import embedded_postgres_server, embedded_valkey
from feed.settings import Settings
from storage.connections import Postgres, open_redis
from storage.migrate import migrate

# An example may take as long as it does: on a busy machine a slow one says nothing.
hypothesis.settings.register_profile("foryou", deadline=None)
hypothesis.settings.load_profile("foryou")

TEMPLATE = "foryou_template"
MEMORY = Path("/dev/shm")
MEMORY_NEEDED = 8 << 30  # several runs at a time keep logs of a gigabyte each

PATIENT: dict[str, Any] = {"budget_ms": 10_000, "redis_timeout_s": 2.0, "outbox_held_s": 1e-6}
"""Settings for a machine that does other things too: a test gates on what is answered, not when.

What a process holds for a moment is not held, so that a test need not wait for it to be forgotten.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, a process each, or all wait for it in the end."""
    longest = [item for item in items if item.get_closest_marker("longest")]
    share = len(items) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    items[:] = [item for item in items if item not in longest]
    for place, item in enumerate(longest):
        items.insert(place * share, item)


def pytest_collection_finish() -> None:
    """Keep the libraries out of each later collection of garbage: a tenth of the run was that."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run async tests and fixtures on asyncio, which is what the service runs on."""
    return "asyncio"


@pytest.fixture(scope="session")
def servers_folder() -> Iterator[Path]:
    """Give the servers a folder that is not below pytest's own, in memory where that has room.

    Each run of pytest takes back the rights that Postgres, under a system user, needs on it. And a
    test's own database is 400 files, which a disk makes and removes half as fast.
    """
    in_memory = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_NEEDED
    with TemporaryDirectory(prefix="foryou-tests-", dir=MEMORY if in_memory else None) as name:
        yield Path(name)


@pytest.fixture(scope="session")
def postgres_server(servers_folder: Path) -> Iterator[str]:
    """Run Postgres for this session; the URL is that of its maintenance database."""
    with embedded_postgres_server(servers_folder / "postgres") as url:
        yield url


@pytest.fixture(scope="session")
def valkey_server(servers_folder: Path) -> Iterator[str]:
    """Run Valkey for this session."""
    with embedded_valkey(servers_folder / "valkey") as url:
        yield url


@pytest.fixture(scope="session")
def template(postgres_server: str) -> str:
    """Migrate one database, from which every test's own is cloned; return its name."""
    _run(postgres_server, "CREATE DATABASE {}", TEMPLATE)
    asyncio.run(_migrated(_database(postgres_server, TEMPLATE)))
    return TEMPLATE


@pytest.fixture
def database_url(postgres_server: str, template: str) -> Iterator[str]:
    """Give a migrated, empty database of its own; dropped afterwards."""
    with cloned(postgres_server, template) as url:
        yield url


@contextmanager
def cloned(server: str, template: str) -> Iterator[str]:
    """Lend a database that begins as the template; its URL."""
    name = f"test_{secrets.token_hex(6)}"
    _run(server, "CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy", name, template)
    yield _database(server, name)
    _run(server, "DROP DATABASE {} WITH (FORCE)", name)


@pytest.fixture
async def postgres(database_url: str) -> AsyncIterator[Postgres]:
    """Open the pool of the service on a database of its own."""
    pool = Postgres(database_url)
    await pool.open()
    yield pool
    await pool.close()


@pytest.fixture
def redis_url(valkey_server: str) -> str:
    """Name the Redis of this session; `redis` empties it."""
    return valkey_server


@pytest.fixture
async def redis(redis_url: str) -> "AsyncIterator[Redis[bytes]]":
    """Give a client for bytes on an empty Redis."""
    client = open_redis(redis_url)
    await client.flushall()
    yield client
    await client.aclose()  # type: ignore[attr-defined]


@pytest.fixture
def settings(database_url: str, redis_url: str) -> Settings:
    """Give the settings of a small service on this test's own stores."""
    return Settings(
        postgres_url=database_url,
        redis_url=redis_url,
        auth="dev",
        cursor_keys="a secret of the tests, long enough to sign with",
        switch_grace_s=0.01,
        relay_poll_s=0.01,
        **PATIENT,
    )


async def _migrated(url: str) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await migrate(connection)


def _run(url: str, statement: str, *names: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def _database(url: str, name: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
