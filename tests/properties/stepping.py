"""Runs concurrent tasks one step at a time, in an order that a seed decides.

A step ends before the next statement for Postgres or the next call of Redis: the points where, in
production, anything else may run. The clients say so themselves: `SteppedPostgres` and
`SteppedRedis` are passed in where the real ones would be, and wait for their turn before each call.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from contextvars import ContextVar
from random import Random
from typing import Any

from redis.asyncio.client import Pipeline

from storage.connections import Connection, Postgres, RedisClient

# Inherited by the tasks that a stepped task starts; what the test itself reads is not stepped.
_stepped: ContextVar[bool] = ContextVar("stepped", default=False)

# A task that has not come to its next step by then waits for a lock that another one holds.
BLOCKED_AFTER_S = 0.01


class Steps:
    """The tasks that are under way, each waiting for its turn."""

    def __init__(self, rng: Random) -> None:
        """Choose whose turn it is by `rng`."""
        self._rng = rng
        self._waiting: list[asyncio.Future[None]] = []
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order in which they started
        self._moved = asyncio.Event()
        self._failures: list[BaseException] = []

    def begin(self, rng: Random) -> None:
        """Begin a new history, with nothing under way."""
        self._rng = rng
        self._failures.clear()

    def start(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[None]":
        """Start a task; it stops before its first step."""
        task = asyncio.create_task(self._run(work))
        self._tasks[task] = None
        return task

    @property
    def tasks(self) -> list["asyncio.Task[None]"]:
        """The tasks that have not ended."""
        return list(self._tasks)

    async def turn(self) -> None:
        """Wait until it is this task's turn; at once for what is not stepped."""
        if not _stepped.get():
            return
        mine = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        self._moved.set()
        try:
            await mine
        finally:
            if mine in self._waiting:
                self._waiting.remove(mine)

    async def step(self) -> bool:
        """Let one task do one step; False: there is no task."""
        await asyncio.sleep(0)
        while not self._waiting:
            if not self.tasks:
                return False
            await self._until_moved()
        self._waiting.pop(self._rng.randrange(len(self._waiting))).set_result(None)
        await self._until_moved()
        return True

    async def finish(self) -> None:
        """Step until every task has ended; raise what the first that failed raised."""
        while await self.step():
            pass
        if self._failures:
            raise self._failures[0]

    async def kill(self, task: "asyncio.Task[None]") -> None:
        """End a task where it stands, as SIGKILL does: what is not committed is gone."""
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _run(self, work: Coroutine[Any, Any, Any]) -> None:
        _stepped.set(True)
        try:
            await self.turn()
            await work
        except Exception as error:
            self._failures.append(error)
        finally:
            work.close()
            self._tasks.pop(_current(), None)
            self._moved.set()

    async def _until_moved(self) -> None:
        self._moved.clear()
        try:
            async with asyncio.timeout(BLOCKED_AFTER_S):
                await self._moved.wait()
        except TimeoutError:
            pass


def _current() -> "asyncio.Task[None]":
    task = asyncio.current_task()
    assert task is not None
    return task


class _SteppedConnection:
    """A connection that waits for its turn before each statement."""

    def __init__(self, connection: Connection, turn: Callable[[], Coroutine[Any, Any, None]]):
        self._connection = connection
        self._turn = turn

    async def execute(self, *args: Any, **kwargs: Any) -> Any:
        await self._turn()
        return await self._connection.execute(*args, **kwargs)

    @asynccontextmanager
    async def cursor(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        await self._turn()
        async with self._connection.cursor(*args, **kwargs) as cursor:
            yield cursor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class SteppedPostgres(Postgres):
    """The pool of the service, one step a statement."""

    def __init__(self, url: str, steps: Steps) -> None:
        """Open enough connections for every task that waits inside a transaction."""
        super().__init__(url, connections=60, timeout_s=30)
        self._steps = steps

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """Lend a connection in autocommit."""
        async with super().connection() as connection:
            yield _SteppedConnection(connection, self._steps.turn)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """Lend a connection inside a transaction; its commit is a step of its own."""
        async with super().transaction() as connection:
            yield _SteppedConnection(connection, self._steps.turn)
            await self._steps.turn()


class SteppedRedis(RedisClient):
    """The Redis client of the service, one step a command, a script or a pipeline."""

    steps: Steps

    @classmethod
    def at(cls, url: str, steps: Steps) -> "SteppedRedis":
        """Make a client whose calls wait for their turn."""
        client: SteppedRedis = cls.from_url(url)
        client.steps = steps
        return client

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send a command, when it is this task's turn."""
        await self.steps.turn()
        return await super().execute_command(*args, **options)

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """Collect commands that are sent when it is this task's turn."""
        pipe = _SteppedPipeline(
            self.connection_pool, self.response_callbacks, transaction, shard_hint
        )
        pipe.steps = self.steps
        return pipe


class _SteppedPipeline(Pipeline):
    steps: Steps

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        await self.steps.turn()
        return await super().execute(raise_on_error)
