"""Records the round trips of a request, and makes them again: what a ceiling is built from.

The service runs in this process on stores that write down every statement and command; `replay`
sends the same ones to the same servers, side by side where the service sent them side by side,
reads the answers as the drivers give them, and does nothing with them.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from psycopg import AsyncCursor
from psycopg.pq import Format
from redis.asyncio.client import Pipeline, Redis

from storage.connections import Connection, Postgres, RedisClient


@dataclass(frozen=True)
class Statement:
    """One statement sent to Postgres."""

    query: Any
    parameters: Any
    binary: bool


@dataclass(frozen=True)
class Commands:
    """Redis commands sent in one round trip."""

    commands: list[tuple[Any, ...]]


Trip = Statement | Commands


@dataclass
class Recording:
    """The trips of one request.

    `groups` are made one after another, the trips of a group side by side; `beside` are made
    after the answer, as side effects. `token` is in every fresh id that the request made.
    """

    token: str
    groups: list[list[Trip]] = field(default_factory=list)
    beside: list[Trip] = field(default_factory=list)
    under_way: int = 0

    @contextmanager
    def noting(self, trip: Trip) -> Iterator[None]:
        """Note a trip that is made while the block lasts; one that fails is none."""
        trips = self._place()
        trips.append(trip)
        self.under_way += trips is not self.beside
        try:
            yield
        except BaseException:
            trips.remove(trip)
            raise
        finally:
            self.under_way -= trips is not self.beside

    def _place(self) -> list[Trip]:
        if _BESIDE.get():
            return self.beside
        if not self.under_way:
            self.groups.append([])
        return self.groups[-1]


_BESIDE: ContextVar[bool] = ContextVar("beside", default=False)


async def beside(work: Coroutine[Any, Any, Any]) -> Any:
    """Do `work` as a side effect: its trips are noted apart. It needs a task of its own."""
    _BESIDE.set(True)
    return await work


class Recorder:
    """Holds the recording of the request that is under way; one request at a time."""

    def __init__(self) -> None:
        """Record nothing yet."""
        self.recording = Recording("")
        self._n = 0
        self._tokens = 0

    def begin(self) -> Recording:
        """Begin the recording of another request."""
        self._n += 1
        self._tokens = 0
        self.recording = Recording(f"rec{self._n:08d}")
        return self.recording

    def token(self) -> str:
        """Make a fresh id, of the length of the service's, that `replay` can make fresh again."""
        self._tokens += 1
        return f"{self.recording.token}{self._tokens:05d}"


class RecordingPostgres(Postgres):
    """A pool whose connections note every statement."""

    def __init__(self, url: str, recorder: Recorder) -> None:
        """Note in the recording of `recorder`."""
        super().__init__(url)
        self._cursor = _recording_cursor(recorder)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection as `Postgres` does."""
        async with super().connection() as connection:
            connection.cursor_factory = self._cursor
            yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Refuse: reads use none, and BEGIN and COMMIT would go unnoticed."""
        raise NotImplementedError("a recorded request may not open a transaction")
        yield


def _recording_cursor(recorder: Recorder) -> type[AsyncCursor[Any]]:
    class RecordingCursor(AsyncCursor[Any]):
        async def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
            trip = Statement(query, params, self.format == Format.BINARY)
            with recorder.recording.noting(trip):
                return await super().execute(query, params, **options)

    return RecordingCursor


class RecordingRedis(Redis):
    """A client that notes every command; one made by `from_url` needs its `recorder` set."""

    recorder: Recorder

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send one command."""
        with self.recorder.recording.noting(Commands([args])):
            return await super().execute_command(*args, **options)  # type: ignore[no-untyped-call]

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """Make a pipeline that is noted as one trip."""
        pipe = RecordingPipeline(
            self.connection_pool, self.response_callbacks, transaction, shard_hint
        )
        pipe.recorder = self.recorder
        return pipe


class RecordingPipeline(Pipeline):
    """A pipeline that notes its commands when it is executed."""

    recorder: Recorder

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Send everything."""
        commands = [args for args, _ in self.command_stack]
        with self.recorder.recording.noting(Commands(commands)):
            return list(await super().execute(raise_on_error))


# ---------------------------------------------------------------------- making them again


async def replay(
    recording: Recording, postgres: Postgres, redis: RedisClient, *, token: str
) -> None:
    """Make the trips before the answer again, with fresh ids."""
    for group in recording.groups:
        trips = [_made(trip, postgres, redis, recording.token, token) for trip in group]
        if len(trips) == 1:
            await trips[0]
        else:
            await asyncio.gather(*trips)


async def replay_beside(
    recording: Recording, postgres: Postgres, redis: RedisClient, *, token: str
) -> None:
    """Make the trips of the side effects again, one after another."""
    for trip in recording.beside:
        await _made(trip, postgres, redis, recording.token, token)


async def _made(trip: Trip, postgres: Postgres, redis: RedisClient, old: str, new: str) -> None:
    if isinstance(trip, Statement):
        async with (
            postgres.connection() as connection,
            connection.cursor(binary=trip.binary) as cursor,
        ):
            await cursor.execute(trip.query, _renewed(trip.parameters, old, new))
            if cursor.description:
                await cursor.fetchall()
    elif len(trip.commands) == 1:
        await redis.execute_command(  # type: ignore[no-untyped-call]
            *_renewed(trip.commands[0], old, new)
        )
    else:
        async with redis.pipeline(transaction=False) as pipe:
            for command in trip.commands:
                pipe.execute_command(*_renewed(command, old, new))
            await pipe.execute()


def _renewed(values: Any, old: str, new: str) -> Any:
    """Put fresh ids in the place of recorded ones, so that writes write as they did."""
    if isinstance(values, tuple | list):
        return [value.replace(old, new) if isinstance(value, str) else value for value in values]
    return values
