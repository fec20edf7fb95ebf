"""Runs concurrent tasks one step at a time, in an order that a seed decides.

A step ends before the next statement for Postgres or the next call of Redis: the points where, in
production, anything else may run. The clients say so themselves: `SteppedPostgres` and
`SteppedRedis` are passed in where the real ones would be, and wait for their turn before each call.
"""

import asyncio
import select
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from contextvars import ContextVar
from random import Random
from typing import Any, Protocol

from psycopg import AsyncConnection
from psycopg.abc import RV, PQGen
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from psycopg.waiting import Ready, Wait
from redis import Redis as SyncRedis
from redis.asyncio.client import Pipeline
from redis.commands.core import AsyncScript

from feed.settings import Settings
from storage.connections import (
    Connection,
    Postgres,
    RedisClient,
    configure,
    translated_errors,
)

# One step in eight is so slow that a lot of what the others do happens before it.
SPEEDS = (1.0,) * 7 + (0.01,)
DAWDLER = 0.001
DAWDLING = (1.0, DAWDLER)
# Inherited by the tasks that a stepped task starts; what the test itself does is not stepped.
_stepped: ContextVar[bool] = ContextVar("stepped", default=False)
_speeds: ContextVar[Sequence[float]] = ContextVar("speeds", default=SPEEDS)
_before_steps: ContextVar["Look | None"] = ContextVar("look", default=None)

# Rounds of the event loop in which code that waits for nothing comes to its next step.
ROUNDS = 5
# A call that has not ended by then may wait for a lock that another task holds.
LOOK_AFTER_S = 0.001
WAITING_FOR_LOCKS = """
SELECT count(*) FROM unnest(%s::integer[]) AS pid WHERE cardinality(pg_blocking_pids(pid)) > 0
"""
MOMENT_MS = 1
EVENTS = {Wait.R: select.POLLIN, Wait.W: select.POLLOUT, Wait.RW: select.POLLIN | select.POLLOUT}
RUN = "the id of this run"
INFO = "redis.call('INFO', 'server')"
FAILED = TransactionStatus.INERROR
# Each statement is planned once a connection: small tables need no better plan than that.
CONNECTION: dict[str, Any] = {
    "autocommit": True,
    "prepare_threshold": 0,
    "options": "-c plan_cache_mode=force_generic_plan -c jit=off -c deadlock_timeout=20",
}


class Look(Protocol):
    """What is called before each step of a task: `at_lists` when that reads cached lists."""

    async def __call__(self, *, at_lists: bool) -> None: ...


class Steps:
    """The tasks that are under way, each waiting for its turn."""

    def __init__(self, watch: Connection) -> None:
        """Ask on `watch`, which takes no steps, whether a task that does not move is locked out."""
        self.watch = watch
        self._rng = Random(0)
        self._waiting: dict[asyncio.Future[None], float] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}  # in the order in which they started
        self._free = False
        self._changed = False
        self._n_calls = 0
        self._pids: set[int] = set()  # of the connections that are at work
        self._open: set[int] = set()  # of those that are inside a transaction
        self._n_blocked = 0
        self._look_now = False
        self._called = asyncio.Event()
        self._answered = False
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

    def start(
        self, work: Coroutine[Any, Any, Any], *, dawdle: bool = False
    ) -> "asyncio.Task[None]":
        """Start a task; it stops before its first step."""
        task = asyncio.create_task(self._run(work, dawdle))
        self._tasks[task] = None
        self._changed = True
        task.add_done_callback(lambda _: work.close())  # it may be killed before it began
        task.add_done_callback(self._tasks.pop)
        return task

    async def turn(self, *, at_lists: bool = False) -> None:
        """Wait until it is this task's turn; at once for what is not stepped."""
        if self._free or not _stepped.get():
            return
        mine = asyncio.get_running_loop().create_future()
        self._waiting[mine] = self._rng.choice(_speeds.get())
        try:
            await mine
        finally:
            self._waiting.pop(mine, None)
        if look := _before_steps.get():
            with self.call():
                await look(at_lists=at_lists)

    def before_steps(self, look: Look) -> None:
        """Call `look` before each further step of the task that says so."""
        _before_steps.set(look)

    @contextmanager
    def call(self, pid: int = 0) -> Iterator[None]:
        """Say that a server is at work for a task: the step lasts until it has answered.

        `pid` names the process of Postgres that may wait for a lock; 0: none does.
        """
        self._n_calls += 1
        if pid:
            self._pids.add(pid)
        try:
            yield
        finally:
            self._n_calls -= 1
            self._pids.discard(pid)
            self._n_blocked = min(self._n_blocked, len(self._pids))
            self._answered = True
            self._called.set()

    def locks(self, pid: int) -> None:
        """Say that a transaction begins, which may hold locks from now on."""
        self._open.add(pid)

    def released(self, pid: int) -> None:
        """Say that it has ended: who waited for a lock may go on."""
        self._open.discard(pid)
        self._look_now = self._n_blocked > 0
        self._n_blocked = 0

    async def step(self, *, idle: bool = True) -> bool:
        """Let one task do one step; False: there is no task.

        While only slow tasks are left, an `idle` step mostly lets nobody go on.
        """
        if self._changed or not self._waiting:
            await self._settled()
        if not self._waiting:
            return bool(self._tasks)
        speeds = list(self._waiting.values())
        if idle and self._rng.random() > sum(speeds):
            return True
        (chosen,) = self._rng.choices(list(self._waiting), speeds)
        del self._waiting[chosen]
        chosen.set_result(None)
        await self._settled()
        return True

    async def hurry(self, n: int) -> None:
        """Let tasks do up to `n` steps, until only those are left that dawdle."""
        for _ in range(n):
            if self._changed:
                await self._settled()
            if max(self._waiting.values(), default=1) == DAWDLER:
                return
            await self.step(idle=False)

    async def finish(self) -> None:
        """Step until every task has ended."""
        while await self.step(idle=False):
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

    async def _run(self, work: Coroutine[Any, Any, Any], dawdle: bool) -> None:
        _stepped.set(True)
        try:
            await self.turn()
            if dawdle:
                _speeds.set(DAWDLING)
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
                if self._look_now or not await self._one_answered():
                    self._look_now = False
                    self._n_blocked = await self._n_waiting_for_locks()

    async def _one_answered(self) -> bool:
        """Wait until a call has ended; False: for a while none did."""
        self._called.clear()
        self._answered = False
        timer = asyncio.get_running_loop().call_later(LOOK_AFTER_S, self._called.set)
        await self._called.wait()
        timer.cancel()
        # A lock is held by a transaction that waits for its turn, or by nobody.
        return self._answered or self._open <= self._pids

    async def _n_waiting_for_locks(self) -> int:
        if not self._pids:
            return 0
        rows = await self.watch.execute(WAITING_FOR_LOCKS, [sorted(self._pids)])
        row = await rows.fetchone()
        assert row is not None
        return min(int(row[0]), len(self._pids))


class EagerConnection(AsyncConnection[TupleRow]):
    """A connection that waits in place for what takes a moment, without the event loop.

    A step is alone anyway: only what waits for a lock must let another task go on.
    """

    async def wait(self, gen: PQGen[RV], *args: Any, **kwargs: Any) -> RV:
        """Drive an operation to its end."""
        return await super().wait(_in_place(gen, self.pgconn.socket), *args, **kwargs)


def _in_place(gen: PQGen[RV], socket: int) -> PQGen[RV]:
    """Feed an operation from the socket; hand it on only when the server takes its time."""
    poll = select.poll()
    try:
        wanted = next(gen)
        while True:
            poll.register(socket, EVENTS[wanted])
            found = sum(event for _, event in poll.poll(MOMENT_MS))
            ready = Ready(bool(found & select.POLLIN) + 2 * bool(found & select.POLLOUT))
            wanted = gen.send(ready or (yield wanted))
    except StopIteration as end:
        return end.value


class _SteppedConnection:
    """A connection that waits for its turn before each statement."""

    def __init__(self, connection: Connection, steps: Steps) -> None:
        self._connection = connection
        self._steps = steps
        self._pid = connection.info.backend_pid

    async def execute(self, *args: Any, **kwargs: Any) -> Any:
        await self._steps.turn()
        with self._steps.call(self._pid):
            return await self._connection.execute(*args, **kwargs)

    @asynccontextmanager
    async def cursor(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        await self._steps.turn()
        with self._steps.call(self._pid):
            async with self._connection.cursor(*args, **kwargs) as cursor:
                yield cursor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class SteppedPostgres(Postgres):
    """The pool of the service, one step a statement; a commit is a step of its own.

    It opens as many connections as there are tasks that wait inside a transaction, and lends the
    one that was used last, which knows most statements already.
    """

    def __init__(self, url: str, steps: Steps) -> None:
        """Lend connections to `url` whose statements take `steps`."""
        super().__init__(url)
        self._url = url
        self._steps = steps
        self._idle: list[Connection] = []

    async def open(self) -> None:
        """Do nothing: connections are opened on first use."""

    async def close(self) -> None:
        """Close every connection."""
        for connection in self._idle:
            await connection.close()

    def connection(self) -> AbstractAsyncContextManager[Any]:
        """Lend a connection in autocommit."""
        return self._lent(commits=False)

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        """Lend a connection inside a transaction."""
        return self._lent(commits=True)

    @asynccontextmanager
    async def _lent(self, *, commits: bool) -> AsyncIterator[_SteppedConnection]:
        with translated_errors():
            with self._steps.call():
                connection = await self._taken()
                if commits:
                    await connection.execute("BEGIN")
            pid = connection.info.backend_pid
            try:
                if commits:
                    self._steps.locks(pid)
                yield _SteppedConnection(connection, self._steps)
                if commits:
                    await self._steps.turn()
                    with self._steps.call(pid):
                        await connection.execute("COMMIT")
            finally:
                with self._steps.call():
                    await self._given_back(connection)
                if commits:
                    self._steps.released(pid)

    async def _taken(self) -> Connection:
        if self._idle:
            return self._idle.pop()
        connection = await EagerConnection.connect(self._url, **CONNECTION)
        await configure(connection)
        return connection

    async def _given_back(self, connection: Connection) -> None:
        """Keep a connection for the next task; a transaction that was left open ends here."""
        if connection.info.transaction_status in (TransactionStatus.INTRANS, FAILED):
            await connection.execute("ROLLBACK")
        if connection.info.transaction_status is TransactionStatus.IDLE:
            self._idle.append(connection)
        else:
            await connection.close()


@asynccontextmanager
async def stepping(
    settings: Settings,
) -> AsyncIterator[tuple[Steps, SteppedPostgres, "SteppedRedis"]]:
    """Open the stores that `settings` name, stepping."""
    async with await EagerConnection.connect(settings.postgres_url, **CONNECTION) as watch:
        steps = Steps(watch)
        postgres = SteppedPostgres(settings.postgres_url, steps)
        redis = SteppedRedis.at(settings.redis_url, steps)
        yield steps, postgres, redis
        await redis.aclose()
        await postgres.close()


class SteppedRedis(RedisClient):
    """The Redis client of the service, one step a command, a script or a pipeline.

    Redis never waits for a lock, so a step waits for its answer in place.
    """

    steps: Steps
    server: "SyncRedis[bytes]"
    _run = 1

    @classmethod
    def at(cls, url: str, steps: Steps) -> "SteppedRedis":
        """Make a client whose calls wait for their turn."""
        client: SteppedRedis = cls.from_url(url)
        client.steps = steps
        client.server = SyncRedis.from_url(url)
        return client

    def fail_over(self, entries: dict[bytes, bytes]) -> None:
        """Be another server from now on, which holds what was in these `entries` once."""
        self._run += 1
        self.lose_everything()
        for key, value in entries.items():
            self.server.restore(key, 0, value, replace=True)
        self.server.set(RUN, f"{self._run}")

    def lose_everything(self) -> None:
        """Be empty, but the same server."""
        self.server.flushdb()
        self.server.set(RUN, f"{self._run}")

    def dumped(self) -> dict[bytes, bytes]:
        """Return what is there, for `fail_over`."""
        names = [*self.server.keys("feed*"), *self.server.keys("outbox*")]
        return {name: self.server.dump(name) for name in names}

    def register_script(self, script: str) -> AsyncScript:
        """Let a key be what no server lets us choose: the id of its run."""
        run = f"'run_id:' .. redis.call('GET', '{RUN}')"
        return super().register_script(script.replace(INFO, run))

    async def info(self, *sections: str, **options: Any) -> dict[str, Any]:
        """Say under which run the server is."""
        run: bytes = await self.execute_command("GET", RUN)
        return {"run_id": run.decode()}

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        """Send a command, when it is this task's turn."""
        await self.steps.turn()
        return self.server.execute_command(*args, **options)

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """Collect commands that are sent when it is this task's turn."""
        pipe = _SteppedPipeline(
            self.connection_pool, self.response_callbacks, transaction, shard_hint
        )
        pipe.client = self
        return pipe

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """Close the connection."""
        self.server.close()
        await super().aclose(close_connection_pool)


class _SteppedPipeline(Pipeline):
    client: SteppedRedis

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        at_lists = any(command[0] == "ZRANGE" for command, _ in self.command_stack)
        await self.client.steps.turn(at_lists=at_lists)
        with self.client.server.pipeline(transaction=self.is_transaction) as pipe:
            for command, options in self.command_stack:
                pipe.execute_command(*command, **options)
            await self.reset()
            return list(pipe.execute(raise_on_error))
