"""Redis restarts from an old dump: what its lists lost is delivered again, no list is dropped."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from fanout.recovery import Recovery
from feed.settings import Settings
from storage import graph, keys, owed, posts
from storage.connections import Postgres, RedisClient, open_redis
from storage.outbox_events import append
from storage.restarts import Restarts
from tests.integration import servers
from tests.integration.fanout_world import AUTHOR, NOW, OTHER, World
from tests.integration.reading import Reader
from tests.integration.servers import Server

pytestmark = pytest.mark.anyio

VIEWERS = (1, 2, 3)
LARGE = 300  # an author who is pulled at first, and pushed again after the dump


@pytest.fixture
def server(servers_folder: Path, tmp_path: Path) -> Iterator[Server]:
    server = servers.valkey(tmp_path / "own")
    server.start()
    yield server
    server.kill()


@pytest.fixture
async def cache(server: Server) -> AsyncIterator[RedisClient]:
    client = open_redis(server.url)
    yield client
    await client.aclose()


@pytest.fixture
async def world(postgres: Postgres, cache: RedisClient, settings: Settings) -> World:
    """Three viewers with feeds follow one author, and a large one."""
    world = World(postgres, cache, settings)
    world.reconfigure(feed_cap=50, outbox_cap=50)
    await world.people(AUTHOR, OTHER, LARGE, *VIEWERS)
    await world.follow(*VIEWERS)
    await world.follow(*VIEWERS, author_id=LARGE)
    await world.rows("UPDATE users SET follower_count = 6 WHERE id = %s RETURNING 1", [LARGE])
    await owe_switch(world)
    await world.drain()
    await world.posts([11, 12, 13])
    await world.posts([21, 22], OTHER)
    await world.posts([31, 32], LARGE)
    await world.drain()
    await recovery(world, cache).check()
    await read_all(world, cache)
    return world


def recovery(world: World, cache: RedisClient) -> Recovery:
    return Recovery(world.postgres, world.feeds, Restarts(cache), world.settings)


async def owe_switch(world: World) -> None:
    async with world.postgres.transaction() as connection:
        payload = {"author_id": LARGE}
        await append(connection, "follower_count", LARGE, "author.crossed", payload)


async def dumped(world: World, cache: RedisClient) -> Recovery:
    """Note that everything so far is in the lists, and save them; what comes after may be lost."""
    watch = recovery(world, cache)
    await watch.check()
    await grow_old(world)
    await watch.mark()
    await cache.save()
    return watch


async def grow_old(world: World) -> None:
    """Let everything that happened so far be older than any transaction in flight."""
    await world.rows(
        "UPDATE outbox_events SET created_at = created_at - interval '2 min' RETURNING 1"
    )


async def restart(server: Server, cache: RedisClient) -> None:
    server.kill()
    server.start()
    await cache.connection_pool.disconnect()


async def read_all(world: World, cache: RedisClient) -> None:
    await Reader(world.settings, world.postgres, cache).check(VIEWERS)


async def check_all(world: World, cache: RedisClient) -> None:
    """Assert that everybody reads the oracle's feed, and from the lists that came back."""
    there = await world.feeds.present([keys.feed(viewer) for viewer in VIEWERS])
    assert all(there), "lists were dropped"
    pages = await Reader(world.settings, world.postgres, cache).check(VIEWERS)
    assert not any(page.trace.building for page in pages)


async def change_everything(world: World) -> None:
    """Let happen, and deliver, what a feed can lose."""
    await world.posts([14, 15])
    async with world.postgres.transaction() as connection:
        await graph.follow(connection, 1, OTHER)
        await graph.unfollow(connection, 2, AUTHOR)
        await graph.block(connection, AUTHOR, 3)
        await posts.delete_post(connection, AUTHOR, 13)
    await world.drain()
    async with world.postgres.transaction() as connection:
        await graph.unblock(connection, AUTHOR, 3)
        await posts.restore_post(connection, AUTHOR, 13)
    await world.drain()


async def test_an_old_dump_is_brought_up_to_date_and_nothing_is_dropped(
    world: World, server: Server, cache: RedisClient
) -> None:
    """Posts, follows, unfollows, blocks and deletes since the dump, all delivered before."""
    watch = await dumped(world, cache)
    await change_everything(world)
    await restart(server, cache)
    assert await watch.check()
    n_before = await world.rows(
        "SELECT count(*) FROM deliveries d JOIN outbox_events e ON e.id = d.event_id"
        " WHERE e.created_at < now() - interval '1 min'"
    )
    assert n_before == [(0,)]  # what is in the dump is not delivered again
    await world.drain()
    await check_all(world, cache)
    assert not await watch.check()


async def test_a_backfill_that_the_dump_lacks_is_done_again(
    world: World, server: Server, cache: RedisClient
) -> None:
    """Its author is pushed again: nobody pulls any more, so the lists must hold the old posts."""
    watch = recovery(world, cache)
    await watch.check()
    await world.posts([33], LARGE)
    await world.drain()
    await grow_old(world)
    await watch.mark()
    await cache.save()
    await world.rows("UPDATE users SET follower_count = 3 WHERE id = %s RETURNING 1", [LARGE])
    await owe_switch(world)
    await world.drain()
    assert await world.rows("SELECT readers_pull FROM author_delivery") == [(False,)]
    await restart(server, cache)
    assert await watch.check()
    await world.drain()
    assert await world.rows("SELECT readers_pull FROM author_delivery") == [(False,)]
    await check_all(world, cache)


async def test_a_job_under_way_does_not_settle_what_is_owed_again(
    world: World, server: Server, cache: RedisClient
) -> None:
    """It may have pushed into the lists that were lost."""
    watch = await dumped(world, cache)
    await world.post(14)
    under_way = await world.owed()
    await restart(server, cache)
    assert await watch.check()
    async with world.postgres.transaction() as connection:
        await connection.execute("DELETE FROM deliveries WHERE id = ANY(%s)", [under_way])
    assert await world.owed() != []


async def test_a_plan_that_was_half_done_is_made_anew(
    world: World, server: Server, cache: RedisClient
) -> None:
    """The chunks of two plans may leave out who is between them; parked ones go with the rest."""
    watch = await dumped(world, cache)
    await world.post(14)
    await world.fanout.deliver(await world.owed())
    await world.rows("UPDATE deliveries SET state = 'parked' WHERE chunk = 2 RETURNING 1")
    await restart(server, cache)
    assert await watch.check()
    owed = await world.rows("SELECT DISTINCT chunk, state FROM deliveries")
    assert owed == [(0, "pending")]
    await world.drain()
    await check_all(world, cache)


async def test_without_a_mark_or_with_one_that_is_too_old_lists_are_dropped(
    world: World, server: Server, cache: RedisClient
) -> None:
    """What is missing cannot be told then."""
    watch = recovery(world, cache)
    await cache.save()
    await restart(server, cache)
    assert await watch.check()
    assert await world.feed(1) is None
    await read_all(world, cache)
    await world.post(14)
    await world.rows("UPDATE outbox_events SET created_at = now() - interval '119 min' RETURNING 1")
    await watch.mark()
    await cache.save()
    await world.rows("UPDATE outbox_events SET created_at = now() - interval '121 min' RETURNING 1")
    await watch.mark()
    await cache.save()
    await restart(server, cache)
    assert await watch.check()
    assert await world.feed(1) is None


async def test_nothing_is_marked_in_a_run_that_was_not_looked_at(
    world: World, server: Server, cache: RedisClient
) -> None:
    """What was delivered was delivered to the run before."""
    watch, restarts = recovery(world, cache), Restarts(cache)
    await watch.check()
    before = await restarts.look()
    await cache.save()
    await restart(server, cache)
    assert not await restarts.mark(before.id, NOW)
    assert not await restarts.note(before.id, NOW)
    await watch.mark()
    assert (await restarts.look()).delivered_until is None
    assert await watch.check()
    await watch.mark()
    assert (await restarts.look()).delivered_until is not None


async def test_what_is_owed_holds_the_mark_back(world: World, cache: RedisClient) -> None:
    """A parked delivery does not: it stays owed, whatever becomes of the lists."""
    watch, restarts = recovery(world, cache), Restarts(cache)
    await watch.check()
    await world.post(14)
    [(at,)] = await world.rows(
        "UPDATE outbox_events SET created_at = now() - interval '10 min' WHERE aggregateid = '14'"
        " RETURNING created_at"
    )
    await watch.mark()
    assert (await restarts.look()).delivered_until == at
    await world.rows("UPDATE deliveries SET state = 'parked' RETURNING 1")
    await watch.mark()
    assert (await restarts.look()).delivered_until > at  # type: ignore[operator]


async def test_what_was_parked_and_arrived_after_the_dump_is_delivered_again(
    world: World, server: Server, cache: RedisClient
) -> None:
    """It happened before the mark, which did not wait for it."""
    await world.post(14)
    await world.rows("UPDATE deliveries SET state = 'parked' RETURNING 1")
    watch = await dumped(world, cache)
    async with world.postgres.transaction() as connection:
        assert len(await owed.retry(connection, None)) == 1
    await world.drain()
    assert await world.feed(1) == [32, 31, 14, 13, 12, 11]
    await restart(server, cache)
    assert await world.feed(1) == [32, 31, 13, 12, 11]
    assert await watch.check()
    await world.drain()
    await check_all(world, cache)


async def test_a_flushed_server_is_the_same_run(world: World, cache: RedisClient) -> None:
    """Its lists are missing, none is stale: those made since are kept."""
    watch = recovery(world, cache)
    await watch.check()
    await cache.flushall()
    await world.open(1)
    assert not await watch.check()
    assert await world.feed(1) == []
    assert not await watch.check()


async def test_lists_of_an_unknown_run_are_dropped(world: World, cache: RedisClient) -> None:
    """Whoever looks for the first time and finds no note cannot know."""
    await cache.delete(keys.RUN_ID)
    assert await recovery(world, cache).check()
    assert await world.feed(1) is None
    assert not await recovery(world, cache).check()
