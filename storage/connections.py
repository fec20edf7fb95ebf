"""Opens Postgres and Redis, and translates their drivers' errors once, for all of storage."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from time import monotonic
from typing import TypeAlias

import orjson
import psycopg
import redis.exceptions
from psycopg import IsolationLevel
from psycopg.rows import TupleRow
from psycopg.types.json import set_json_loads
from psycopg_pool import AsyncConnectionPool, PoolTimeout
from redis.asyncio import Redis

from feed.errors import Unavailable
from storage import columns

Connection = psycopg.AsyncConnection[TupleRow]
RedisClient: TypeAlias = Redis  # of bytes: no reply is decoded


@contextmanager
def translated_errors() -> Iterator[None]:
    """Turn a driver's "cannot reach the server" into `Unavailable`; other errors are our bugs.

    Raises:
        Unavailable: The server is gone, refuses, or did not answer in time.
    """
    try:
        yield
    except (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout) as error:
        raise Unavailable("Postgres cannot be reached") from error
    except (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError) as error:
        raise Unavailable("Redis cannot be reached") from error
    except redis.exceptions.ResponseError as error:
        raise Unavailable(f"Redis refuses: {str(error)[:80]}") from error


Guard = Callable[[], AbstractContextManager[None]]
"""What calls of a store run inside: `translated_errors`, or a breaker's `calls`."""


class Breaker:
    """Spares a server that has just failed: for a while its callers are told at once."""

    def __init__(self, *, pause_s: float) -> None:
        """Let nobody wait for `pause_s` after a failure."""
        self._pause_s = pause_s
        self._closed_until = 0.0

    @contextmanager
    def calls(self) -> Iterator[None]:
        """Translate errors like `translated_errors`, and remember the last.

        A refusal is no failure: the server is there, and may serve the next caller.

        Raises:
            Unavailable: The server failed now, or less than `pause_s` ago.
        """
        if monotonic() < self._closed_until:
            raise Unavailable("Redis failed a moment ago")
        try:
            with translated_errors():
                yield
        except Unavailable as error:
            if not isinstance(error.__cause__, redis.exceptions.ResponseError):
                self._closed_until = monotonic() + self._pause_s
            raise
        except asyncio.CancelledError:
            # A deadline ran out while waiting: as good a sign as an error.
            self._closed_until = monotonic() + self._pause_s
            raise


class Postgres:
    """The pool of connections to the primary, opened and closed by an entry point."""

    def __init__(self, url: str, *, connections: int = 10, timeout_s: float = 2.0) -> None:
        """Prepare a pool; nothing is opened before `open`."""
        self._pool = AsyncConnectionPool(
            url,
            min_size=min(4, connections),
            max_size=connections,
            timeout=timeout_s,
            open=False,
            configure=configure,
            kwargs={"autocommit": True, "connect_timeout": 5},
        )

    async def open(self) -> None:
        """Open the pool without waiting for the server, which may come up later."""
        await self._pool.open(wait=False)

    async def close(self) -> None:
        """Close every connection."""
        await self._pool.close()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection in autocommit: for reads and single statements."""
        with translated_errors():
            async with self._pool.connection() as connection:
                yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Lend a connection inside a transaction, committed when the block ends well."""
        with translated_errors():
            async with self._pool.connection() as connection, connection.transaction():
                yield connection


async def configure(connection: Connection) -> None:
    """Make a new connection one of the service's."""
    # Whatever the server's default: a rebuild must see what is committed after its marker is set.
    await connection.set_isolation_level(IsolationLevel.READ_COMMITTED)
    set_json_loads(orjson.loads, connection)  # media of every post: a third of the page query
    columns.register(connection)


def open_redis(url: str, *, timeout_s: float = 2.0, connections: int = 64) -> RedisClient:
    """Make a client for bytes; connections are opened on first use.

    A call that is cancelled or times out closes its connection, so that its late reply
    can never be handed to another caller.
    """
    client: RedisClient = Redis.from_url(
        url,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        max_connections=connections,
    )
    return client
