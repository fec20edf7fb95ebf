"""From Postgres over the queue to a worker: nothing is lost when a part of the road is."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from arq.connections import ArqRedis

from fanout.housekeeping import Housekeeping
from fanout.queue import Queue, job_id, open_queue
from fanout.recovery import Recovery
from fanout.relay import Relay
from fanout.worker import arq_worker
from feed.errors import Unavailable
from feed.settings import Settings
from storage import keys
from storage.connections import Postgres, RedisClient
from storage.deliveries import Lane, Leased
from storage.restarts import Restarts
from tests.integration.fanout_world import AUTHOR, World

pytestmark = pytest.mark.anyio

QUEUE = keys.queue("fast")


@pytest.fixture
async def world(postgres: Postgres, redis: RedisClient, settings: Settings) -> World:
    world = World(postgres, redis, settings)
    await world.people(AUTHOR, 1)
    await world.follow(1)
    await world.drain()
    await world.open(1)
    return world


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[ArqRedis]:
    client = open_queue(redis_url)
    yield client
    await client.aclose()


async def work(world: World, client: ArqRedis, lane: Lane = "fast") -> int:
    """Run a worker until the queue of a lane is empty; return how many jobs it finished."""
    worker = arq_worker(lane, world.fanout, client, world.settings, burst=True)
    return await worker.run_check()


async def lease_ends(world: World) -> None:
    await world.rows("UPDATE deliveries SET due_at = now() RETURNING 1")


async def test_posts_travel_in_one_job_and_leave_no_trace_in_the_queue(
    world: World, client: ArqRedis, redis: RedisClient
) -> None:
    relay = Relay(world.postgres, Queue(client, "fast"), world.settings)
    for id in (1, 2, 3):
        await world.post(id)
    assert await relay.step() == world.settings.relay_poll_s
    assert await client.zcard(QUEUE) == 1
    assert await work(world, client) == 1
    assert await world.owed() == []
    assert await world.feed(1) == [3, 2, 1]
    left = {key async for key in redis.scan_iter(match="arq:*")}
    assert {key for key in left if b"health" not in key} == set()


async def test_a_full_batch_is_followed_by_the_next_at_once(world: World, client: ArqRedis) -> None:
    relay = Relay(world.postgres, Queue(client, "fast"), replace(world.settings, relay_batch=2))
    for id in (1, 2, 3):
        await world.post(id)
    assert await relay.step() == 0
    assert await relay.step() == world.settings.relay_poll_s
    assert await work(world, client) == 2
    assert await world.feed(1) == [3, 2, 1]


async def test_a_full_queue_leases_nothing(world: World, client: ArqRedis) -> None:
    relay = Relay(world.postgres, Queue(client, "fast"), replace(world.settings, queue_bound=1))
    await world.post(1)
    await relay.step()
    await world.post(2)
    await relay.step()
    assert await world.rows("SELECT leases FROM deliveries ORDER BY id") == [(1,), (0,)]


async def test_without_redis_the_backlog_stays_in_postgres(world: World) -> None:
    nowhere = open_queue("redis://127.0.0.1:1/0")
    relay = Relay(world.postgres, Queue(nowhere, "fast"), world.settings)
    await world.post(1)
    with pytest.raises(Unavailable):
        await relay.step()
    assert await world.rows("SELECT leases, due_at <= now() FROM deliveries") == [(0, True)]
    await nowhere.aclose()


async def test_a_job_that_cannot_be_put_is_not_leased(world: World, client: ArqRedis) -> None:
    class Broken(Queue):
        async def put(self, leased: object) -> bool:
            raise Unavailable("Redis cannot be reached")

    await world.post(1)
    with pytest.raises(Unavailable):
        await Relay(world.postgres, Broken(client, "fast"), world.settings).step()
    assert await world.rows("SELECT leases FROM deliveries") == [(0,)]


async def test_a_job_lost_with_redis_is_sent_again_when_its_lease_ends(
    world: World, client: ArqRedis, redis: RedisClient
) -> None:
    relay = Relay(world.postgres, Queue(client, "fast"), world.settings)
    await world.post(1)
    await relay.step()
    await redis.delete(QUEUE)
    await relay.step()
    assert await client.zcard(QUEUE) == 0
    await lease_ends(world)
    await relay.step()
    await work(world, client)
    assert await world.feed(1) == [1]


async def test_a_job_that_was_sent_twice_runs_twice_without_harm(
    world: World, client: ArqRedis
) -> None:
    relay = Relay(world.postgres, Queue(client, "fast"), world.settings)
    await world.post(1)
    await relay.step()
    await lease_ends(world)
    await relay.step()
    assert await work(world, client) == 2
    assert await world.feed(1) == [1]


async def test_the_same_job_is_refused_and_another_lease_is_another_job(
    client: ArqRedis, redis: RedisClient
) -> None:
    queue = Queue(client, "fast")
    assert await queue.put([Leased(1, 1), Leased(2, 1)])
    assert not await queue.put([Leased(1, 1), Leased(2, 1)])
    assert await queue.put([Leased(1, 2), Leased(2, 1)])
    assert job_id([Leased(1, 2)]) != job_id([Leased(12, 1)])


async def test_tidying_makes_partitions_and_prunes_what_owes_nothing(
    world: World, redis: RedisClient
) -> None:
    await world.post(1)
    await world.rows("UPDATE outbox_events SET created_at = now() - interval '3 h' RETURNING 1")
    await world.rows(
        "INSERT INTO idempotency_keys VALUES (1, 'k', '', 1, now() - interval '25 h') RETURNING 1"
    )
    restarts = Restarts(redis)
    await Housekeeping(world.postgres, world.feeds, restarts, world.settings).tidy()
    events = await world.rows("SELECT type FROM outbox_events")
    assert events == [("post.created",)]  # still owed; the follow of the fixture is gone
    assert await world.rows("SELECT FROM idempotency_keys") == []
    [(n,)] = await world.rows(
        "SELECT count(*) FROM pg_inherits WHERE inhparent = 'served'::regclass"
    )
    assert n == 1 + 4


# On SIGUSR1 a part says where each of its tasks stands.
RUN = """
import asyncio, os, signal
from fanout.{part} import run_{part}
from feed.settings import read_settings

async def main():
    stacks = lambda: [task.print_stack() for task in asyncio.all_tasks()]
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, stacks)
    await run_{part}(read_settings(os.environ))

asyncio.run(main())
"""


@asynccontextmanager
async def process(part: str, world: World) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a part as a process of its own; it must end well by itself when asked to."""
    settings = world.settings
    names = ["postgres_url", "redis_url", "lease_s", "feed_cap", "fanout_page"]
    environ = {f"FORYOU_{name.upper()}": str(getattr(settings, name)) for name in names}
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", RUN.format(part=part)),
        env={**os.environ, **environ, "PGAPPNAME": "part"},
    )
    try:
        yield running
        if running.returncode is None:
            running.send_signal(signal.SIGTERM)
            assert await ended(running) == 0
    finally:
        if running.returncode is None:
            running.kill()
            await running.wait()


async def looked_at(world: World, redis: RedisClient) -> None:
    """Note this run of Redis, as a relay does at its start; lists of an unknown run are dropped."""
    await Recovery(world.postgres, world.feeds, Restarts(redis), world.settings).check()


async def ended(running: asyncio.subprocess.Process) -> int:
    try:
        return await asyncio.wait_for(running.wait(), 10)
    except TimeoutError:
        running.send_signal(signal.SIGUSR1)
        await asyncio.sleep(1)
        raise


async def until_owed_below(world: World, n: int) -> None:
    for _ in range(1_200):
        if len(await world.owed()) < n:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("still owed after a minute")


async def test_relay_and_worker_may_be_killed_at_any_time(
    postgres: Postgres, redis: RedisClient, settings: Settings
) -> None:
    """SIGKILL of both in the middle of 1,000 posts, then a start: all arrive, once."""
    world = World(postgres, redis, replace(settings, lease_s=2.0))
    world.reconfigure(feed_cap=2_000, fanout_page=1_000)
    await world.people(AUTHOR, 1)
    await world.follow(1)
    await world.drain()
    await looked_at(world, redis)
    await world.open(1)
    n, at_once = 1_000, 10
    async with process("relay", world) as relay, process("worker", world) as worker:
        for first in range(1, n, at_once):
            await world.posts(range(first, first + at_once))
            if first == n // 2 + 1:
                await until_owed_below(world, n // 2)
                relay.kill()
                worker.kill()
                await asyncio.gather(relay.wait(), worker.wait())
    assert await world.owed() != []
    async with process("relay", world), process("worker", world):
        await until_owed_below(world, 1)
    assert await world.feed(1) == list(range(n, 0, -1))


async def test_relay_and_worker_outlive_their_servers_connections(
    postgres: Postgres, redis: RedisClient, settings: Settings
) -> None:
    """A cut of every connection to Postgres and Redis ends neither process."""
    world = World(postgres, redis, replace(settings, lease_s=1.0))
    await world.people(AUTHOR, 1)
    await world.follow(1)
    await world.drain()
    await looked_at(world, redis)
    await world.open(1)
    async with process("relay", world) as relay, process("worker", world) as worker:
        for id in (1, 2, 3):
            await world.post(id)
            await until_owed_below(world, 1)
            await world.rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND application_name = 'part'"
            )
            await redis.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        assert (relay.returncode, worker.returncode) == (None, None)
    assert await world.feed(1) == [3, 2, 1]
