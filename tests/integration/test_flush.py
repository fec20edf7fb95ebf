"""A flush of Redis under load heals by itself: no storm of rebuilds, and nobody's feed is empty."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from feed.settings import Settings
from feed.telemetry import Trace
from storage import keys
from storage.connections import Postgres, RedisClient
from storage.delivery_state import relies_on_lists, stop_delivering
from storage.feeds import BUILDING, Feeds
from storage.locks import try_slot
from storage.rebuild import Rebuild
from tests.integration.fanout_world import AUTHOR, World
from tests.integration.reading import Reader, ids, opening

pytestmark = pytest.mark.anyio

VIEWERS = range(1_001, 1_201)
AT_ONCE = 2  # rebuilds


class Counting(RedisClient):
    """A client that counts the lists which are being rebuilt, whoever does it."""

    running: set[str]
    most: list[int]

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        marker = args[4] if args[0] == "EVALSHA" and len(args) > 5 else b""
        rebuilds = isinstance(marker, bytes) and marker.startswith(BUILDING)
        begins = rebuilds and len(args) == 6  # else it finishes
        if rebuilds and not begins:
            self.running.discard(args[3])
        answer = await super().execute_command(*args, **options)
        if begins and answer:
            self.running.add(args[3])
            self.most.append(len(self.running))
        return answer


@pytest.fixture
async def processes(
    settings: Settings, redis: RedisClient
) -> AsyncIterator[tuple[list[Reader], list[int]]]:
    """Two api processes on stores of their own, and how many rebuilds ran at each beginning."""
    running: set[str] = set()
    most: list[int] = []
    readers, opened = [], []
    for _ in range(2):
        pool = Postgres(settings.postgres_url, timeout_s=60)
        await pool.open()
        client = Counting.from_url(settings.redis_url)
        client.running, client.most = running, most
        settings = replace(settings, rebuilds_at_once=AT_ONCE, budget_ms=60_000)
        readers.append(Reader(settings, pool, client))
        opened.append((pool, client))
    yield readers, most
    for reader in readers:
        await reader.effects.drain()
    for pool, client in opened:
        await client.aclose()
        await pool.close()


async def all_open(readers: list[Reader]) -> None:
    """Let everybody open a feed at once, in one of the processes; assert that it is complete."""
    reads = [readers[viewer % 2].home.open(opening(viewer), Trace()) for viewer in VIEWERS]
    pages = await asyncio.gather(*reads)
    assert [ids(page) for page in pages] == [[5, 4, 3, 2, 1]] * len(VIEWERS)
    await asyncio.gather(*(reader.effects.drain() for reader in readers))


async def test_lists_come_back_few_at_a_time_and_nobody_reads_an_empty_feed(
    postgres: Postgres,
    redis: RedisClient,
    settings: Settings,
    processes: tuple[list[Reader], list[int]],
) -> None:
    """The bound holds over all processes; a few more reads, and every list is there."""
    world = World(postgres, redis, settings)
    await world.people(AUTHOR, *VIEWERS)
    await world.follow(*VIEWERS)
    await world.posts(range(1, 6))
    await world.rows("DELETE FROM deliveries RETURNING 1")
    readers, most = processes
    await all_open(readers)
    await redis.flushall()
    n_reads = 0
    while not all(await world.feeds.present([keys.feed(viewer) for viewer in VIEWERS])):
        await all_open(readers)
        n_reads += 1
        assert n_reads <= 3  # of each; what is too much at once is dropped, and asked for again
    assert max(most) == AT_ONCE
    lists = await world.feeds.read([keys.feed(viewer) for viewer in VIEWERS])
    assert all(found is not None and len(found.ids) == 5 for found in lists)


@pytest.fixture
async def world(postgres: Postgres, redis: RedisClient, settings: Settings) -> World:
    world = World(postgres, redis, replace(settings, rebuilds_at_once=AT_ONCE))
    await world.people(AUTHOR, 1)
    return world


def rebuild(world: World) -> Rebuild:
    feeds: Feeds = world.feeds
    return Rebuild(world.postgres, feeds, feeds, world.settings, patience_s=0.01)


async def test_without_a_slot_a_list_is_left_to_the_next_read(world: World) -> None:
    """It stays missing, with no marker that would stand in the way of the next."""
    async with world.postgres.transaction() as one, world.postgres.transaction() as two:
        for connection in (one, two):
            assert await try_slot(connection, "rebuilds", AT_ONCE, jitter=0)
        assert not await rebuild(world).feed(1, "t")
        assert not await rebuild(world).outbox(AUTHOR, "t")
        assert await world.feeds.present([keys.feed(1), keys.outbox(AUTHOR)]) == [False, False]
    assert await rebuild(world).feed(1, "t")
    assert await rebuild(world).outbox(AUTHOR, "t")


async def test_a_slot_is_taken_by_one_alone_and_given_back(world: World) -> None:
    """Also when whoever holds it is killed: it ends with the transaction."""
    async with world.postgres.transaction() as one, world.postgres.transaction() as two:
        assert await try_slot(one, "x", 1, jitter=0.5)
        assert not await try_slot(two, "x", 1, jitter=0.9)
        assert await try_slot(two, "x", 2, jitter=0.1)
    async with world.postgres.transaction() as one:
        taken = [await try_slot(one, "y", 3, jitter=0.4) for _ in range(3)]
        held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2"
        assert (taken, await world.rows(held)) == ([True] * 3, [(1,)])


async def test_a_rebuild_under_way_is_waited_for_when_everybody_is_pulled(world: World) -> None:
    """Its list is there before lists are forgotten, not after."""
    async with world.postgres.transaction() as connection:
        assert await relies_on_lists(connection)
        stopping = asyncio.create_task(stop(world))
        await asyncio.sleep(0.2)
        assert not stopping.done()
    assert await stopping


async def stop(world: World) -> bool:
    async with world.postgres.transaction() as connection:
        return await stop_delivering(connection)


async def test_while_everybody_is_pulled_no_list_is_made(world: World) -> None:
    """Nobody would push into it."""
    await world.rows("UPDATE delivery_state SET state = 'filling' RETURNING 1")
    assert not await rebuild(world).feed(1, "t")
    assert await world.feeds.present([keys.feed(1)]) == [False]
