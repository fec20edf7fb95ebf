"""Runs concurrent tasks one step at a time, in an order that a seed decides.

A step ends before the next statement for Postgres or the next call of Redis: the points where, in
production, anything else may run. The clients say so themselves: `SteppedPostgres` and
`SteppedRedis` are passed in where the real ones would be, and wait for their turn before each call.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from random import Random
from typing import Any

from redis.asyncio.client import Pipeline

from storage.connections import Connection, Postgres, RedisClient

# One step in eight is so slow that a lot of what the others do happens before it.
SPEEDS = (1.0,) * 7 + (0.01,)
# Inherited by the tasks that a stepped task starts; what the test itself does is not stepped.
_stepped: ContextVar[bool] = ContextVar("stepped", default=False)

# Rounds of the event loop in which code that waits for nothing comes to its next step.
ROUNDS = 8
# A call that has not ended by then may wait for a lock that another task holds.
LOOK_AFTER_S = 0.002
WAITING_FOR_LOCKS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


class Steps:
    """The tasks that are under way, each waiting for its turn."""

    def __init__(self, postgres: Postgres) -> None:
        """Ask `postgres` whether a task that does not move waits for a lock."""
        self._postgres = postgres
        self._rng = Random(0)
        self._waiting: dict[asyncio.Future[None], float] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order in which they started
        self._free = False
        self._changed = False
        self._n_calls = 0
        self._n_blocked = 0
        self._look_now = False
        self._called = asyncio.Event()
        self._failures: list[BaseException] = []

    def begin(self, rng: Random) -> None:
        """Begin a new history; `rng` chooses whose turn it is."""
        self._rng = rng
        self._free = False
        self._failures.clear()

    async def end(self) -> None:
        """End a history, also one that failed: what is under way goes on without turns."""
        self._free = True
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def start(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[None]":
        """Start a task; it stops before its first step."""
        task = asyncio.create_task(self._run(work))
        self._tasks[task] = None
        self._changed = True
        task.add_done_callback(lambda _: work.close())  # it may be killed before it began
        task.add_done_callback(self._tasks.pop)
        return task

    async def turn(self) -> None:
        """Wait until it is this task's turn; at once for what is not stepped."""
        if self._free or not _stepped.get():
            return
        mine = asyncio.get_running_loop().create_future()
        self._waiting[mine] = self._rng.choice(SPEEDS)
        try:
            await mine
        finally:
            self._waiting.pop(mine, None)

    @contextmanager
    def call(self) -> Iterator[None]:
        """Say that a server is at work for a task: the step lasts until it has answered."""
        self._n_calls += 1
        try:
            yield
        finally:
            self._n_calls -= 1
            self._n_blocked = min(self._n_blocked, self._n_calls)
            self._called.set()

    def released(self) -> None:
        """Say that locks were released: who waited for one may go on."""
        self._look_now = self._n_blocked > 0
        self._n_blocked = 0

    async def step(self) -> bool:
        """Let one task do one step, if one is fast enough; False: there is no task."""
        if self._changed or not self._waiting:
            await self._settled()
        if not self._waiting:
            return bool(self._tasks)
        speeds = list(self._waiting.values())
        if self._rng.random() > sum(speeds):
            return True  # nobody is that fast
        (chosen,) = self._rng.choices(list(self._waiting), speeds)
        del self._waiting[chosen]
        chosen.set_result(None)
        await self._settled()
        return True

    async def finish(self) -> None:
        """Step until every task has ended."""
        while await self.step():
            pass
        self.check()

    def check(self) -> None:
        """Raise what the first task that failed raised."""
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

    async def _settled(self) -> None:
        """Wait until no task can go on without its turn, but for those that wait for a lock."""
        self._changed = False
        n_rounds = 0
        while n_rounds < ROUNDS:
            n_rounds += 1
            await asyncio.sleep(0)
            if self._n_calls > self._n_blocked:
                n_rounds = 0
                self._called.clear()
                try:
                    if not self._look_now:
                        await asyncio.wait_for(self._called.wait(), LOOK_AFTER_S)
                        continue
                except TimeoutError:
                    pass
                self._look_now = False
                self._n_blocked = min(await self._n_waiting_for_locks(), self._n_calls)

    async def _n_waiting_for_locks(self) -> int:
        async with self._postgres.connection() as connection:
            row = await (await connection.execute(WAITING_FOR_LOCKS)).fetchone()
        assert row is not None
        return int(row[0])


class _SteppedConnection:
    """A connection that waits for its turn before each statement."""

    def __init__(self, connection: Connection, steps: Steps) -> None:
        self._connection = connection
        self._steps = steps

    async def execute(self, *args: Any, **kwargs: Any) -> Any:
        await self._steps.turn()
        with self._steps.call():
            return await self._connection.execute(*args, **kwargs)

    @asynccontextmanager
    async def cursor(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        await self._steps.turn()
        with self._steps.call():
            async with self._connection.cursor(*args, **kwargs) as cursor:
                yield cursor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class SteppedPostgres(Postgres):
    """The pool of the service, one step a statement; a commit is a step of its own."""

    def __init__(self, url: str, steps: Steps) -> None:
        """Open enough connections for every task that waits inside a transaction."""
        super().__init__(url, connections=60, timeout_s=30)
        self._steps = steps

    def connection(self) -> AbstractAsyncContextManager[Any]:
        """Lend a connection in autocommit."""
        return self._stepped(super().connection(), commits=False)

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Lend a connection inside a transaction."""
        return self._stepped(super().transaction(), commits=True)

    @asynccontextmanager
    async def _stepped(
        self, lent: AbstractAsyncContextManager[Connection], *, commits: bool
    ) -> AsyncIterator[_SteppedConnection]:
        with self._steps.call():
            connection = await lent.__aenter__()
        try:
            yield _SteppedConnection(connection, self._steps)
            if commits:
                await self._steps.turn()
        except BaseException as error:
            with self._steps.call():
                await lent.__aexit__(type(error), error, error.__traceback__)
            self._steps.released()
            raise
        with self._steps.call():
            await lent.__aexit__(None, None, None)
        self._steps.released()


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
        with self.steps.call():
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
        with self.steps.call():
            return await super().execute(raise_on_error)
