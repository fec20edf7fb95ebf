"""The whole product moves between pull and hybrid, to and fro, and no post is lost on the way."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fanout.housekeeping import Housekeeping
from fanout.recovery import Recovery
from feed.settings import Settings
from storage import graph, keys, posts
from storage.connections import Postgres, RedisClient
from storage.delivery_state import how_it_stands, start_delivering
from storage.restarts import Restarts
from tests.integration.fanout_world import AUTHOR, OTHER, World
from tests.integration.reading import Reader

pytestmark = pytest.mark.anyio

VIEWERS = (1, 2, 3)


@pytest.fixture
async def world(postgres: Postgres, redis: RedisClient, settings: Settings) -> World:
    world = World(postgres, redis, settings)
    world.reconfigure(feed_cap=500, outbox_cap=500, switch_grace_s=1e-6)
    await world.people(AUTHOR, OTHER, *VIEWERS)
    await world.follow(*VIEWERS)
    await world.drain()
    return world


async def start(world: World, redis: RedisClient, delivery: str) -> float:
    """Start a relay that wants this, and do its first step."""
    world.reconfigure(delivery=delivery)
    house = Housekeeping(world.postgres, world.feeds, Restarts(redis), world.settings)
    return await house.begin()


async def move(world: World, redis: RedisClient, delivery: str) -> None:
    """Start a relay that wants this, and let it do all its steps."""
    while await start(world, redis, delivery) > 0:
        pass


async def state(world: World) -> str:
    async with world.postgres.connection() as connection:
        return (await how_it_stands(connection)).state


def reader(world: World, redis: RedisClient) -> Reader:
    return Reader(world.settings, world.postgres, redis)


async def cached(redis: RedisClient) -> list[bytes]:
    return [key for kind in ("feed:*", "outbox:*") for key in await redis.keys(kind)]


async def test_while_all_are_pulled_nothing_is_owed_and_nothing_cached(
    world: World, redis: RedisClient
) -> None:
    """Reads come from Postgres, complete and ready; what was owed before is forgotten."""
    await reader(world, redis).check(VIEWERS)
    await world.post(1)
    assert await world.owed() != []
    await move(world, redis, "pull")
    await world.post(2)
    await world.follow(2, author_id=OTHER)
    await world.post(3, OTHER)
    assert await world.owed() == []
    assert await world.rows("SELECT delivery FROM posts ORDER BY id") == [
        ("push",), ("pull",), ("pull",)
    ]  # fmt: skip
    pages = await reader(world, redis).check(VIEWERS)
    assert {item.source for page in pages for item in page.items} == {"below_floor"}
    assert not any(page.trace.building for page in pages)
    assert await cached(redis) == []


async def test_every_process_does_what_the_row_says_whatever_it_wants(
    world: World, redis: RedisClient
) -> None:
    """An api that was not restarted yet pulls too, and one that was still pushes."""
    wants_hybrid = reader(world, redis)
    await move(world, redis, "pull")
    wants_pull = reader(world, redis)
    await world.post(1)
    assert not (await wants_hybrid.check([1]))[0].trace.building
    await move(world, redis, "hybrid")
    await world.post(2)
    await wants_pull.check(VIEWERS)
    await world.drain()
    pages = await wants_pull.check(VIEWERS)
    assert {item.source for page in pages for item in page.items} == {"pushed_feed"}


async def test_lists_from_before_are_not_relied_on_again(world: World, redis: RedisClient) -> None:
    """Also where nobody forgot them when everybody was pulled, as without a relay."""
    await reader(world, redis).check(VIEWERS)
    await world.post(1)
    await world.drain()
    await world.rows("UPDATE delivery_state SET state = 'pull' RETURNING 1")
    await world.post(2)
    assert await cached(redis) != []
    await move(world, redis, "hybrid")
    assert await cached(redis) == []
    await reader(world, redis).check(VIEWERS)
    await reader(world, redis).check(VIEWERS)


async def test_while_lists_fill_writers_owe_and_nobody_relies_on_lists(
    world: World, redis: RedisClient
) -> None:
    """A list that is half there must not be read, and none is made yet."""
    await move(world, redis, "pull")
    world.reconfigure(switch_grace_s=60)
    wait_s = await start(world, redis, "hybrid")
    assert (await state(world), wait_s) == ("filling", 60)
    assert 50 < await start(world, redis, "hybrid") < 60
    await world.post(1)
    assert await world.owed() != []
    [page] = await reader(world, redis).check([1])
    assert not page.trace.building
    assert await cached(redis) == []
    await world.open(1)  # a list of before, in which the post is not
    await reader(world, redis).check([1])
    world.reconfigure(switch_grace_s=1e-6)  # a relay that was killed half-way is started again
    await move(world, redis, "hybrid")
    assert await state(world) == "hybrid"


async def test_filling_waits_for_those_who_were_told_that_nothing_is_owed(
    world: World, redis: RedisClient
) -> None:
    """Else a list is made without their posts, and nobody pushes these either."""
    await move(world, redis, "pull")
    async with world.postgres.transaction() as connection:
        await graph.follow(connection, 1, OTHER)
        assert await posts.delivery_of(connection, OTHER) == "pull"
        moving = asyncio.create_task(move(world, redis, "hybrid"))
        await asyncio.sleep(0.2)
        assert await state(world) == "pull"
        await connection.execute(
            "INSERT INTO posts (id, author_id, body, format, created_at, received_at,"
            " effective_ms, delivery) VALUES (9, 200, '', 'text', now(), now(), 9, 'pull')"
        )
    await moving
    for _ in range(2):
        await reader(world, redis).check(VIEWERS)


async def test_where_two_processes_want_different_things_nothing_is_lost(
    world: World, redis: RedisClient
) -> None:
    """One pulls everybody while the other fills: who fills must not go on as if alone."""
    await move(world, redis, "pull")
    world.reconfigure(switch_grace_s=60)
    await start(world, redis, "hybrid")
    await move(world, redis, "pull")
    await world.post(1)
    async with world.postgres.transaction() as connection:
        await start_delivering(connection)
    await move(world, redis, "pull")
    assert await state(world) == "pull"
    await reader(world, redis).check(VIEWERS)


async def test_nothing_is_marked_as_delivered_while_all_are_pulled(
    world: World, redis: RedisClient
) -> None:
    """An old dump holds lists of before; they would look complete up to the mark."""
    watch, restarts = (
        Recovery(world.postgres, world.feeds, Restarts(redis), world.settings),
        Restarts(redis),
    )
    await watch.check()
    await move(world, redis, "pull")
    await watch.mark()
    assert (await restarts.look()).delivered_until is None
    await move(world, redis, "hybrid")
    await watch.mark()
    assert (await restarts.look()).delivered_until is not None


@pytest.mark.parametrize("last", ["pull", "hybrid", "push"])
async def test_to_and_fro_while_all_write_read_and_deliver(
    world: World, redis: RedisClient, last: str
) -> None:
    """Posts, follows and unfollows go on, feeds are opened, workers run; at rest all is there."""
    stop = asyncio.Event()
    one, two = reader(world, redis), reader(world, redis)
    post_ids = iter(range(1, 10_000))

    async def write() -> None:
        await world.post(next(post_ids), AUTHOR)
        await world.post(next(post_ids), OTHER)

    async def relate() -> None:
        async with world.postgres.transaction() as connection:
            if not await graph.follow(connection, 2, OTHER):
                await graph.unfollow(connection, 2, OTHER)

    async def read() -> None:
        await asyncio.gather(one.read(1), two.read(2, "ranked"), one.read(3))

    async def deliver() -> None:
        await world.fanout.deliver((await world.owed())[:20])

    async def repeated(step: Callable[[], Awaitable[Any]]) -> None:
        while not stop.is_set():
            await step()
            await asyncio.sleep(0)

    at_work = [asyncio.create_task(repeated(each)) for each in (write, relate, read, deliver)]
    for delivery in ("pull", "hybrid", "pull", "push", "pull", "hybrid", last):
        await move(world, redis, delivery)
        await asyncio.sleep(0.2)
    stop.set()
    await asyncio.gather(*at_work)
    await world.drain()
    assert next(post_ids) < 500  # a page of the oracle's feed is compared
    for _ in range(2):
        await world.drain()
        await check_newest(world, redis)


async def check_newest(world: World, redis: RedisClient) -> None:
    """Assert that everybody reads the newest page of the oracle's feed."""
    async with world.postgres.connection() as connection:
        rows = await connection.execute(
            "SELECT f.follower_id, array_agg(p.id ORDER BY p.effective_ms DESC, p.id DESC)"
            " FROM follows f JOIN posts p ON p.author_id = f.followee_id GROUP BY 1"
        )
        wanted = {viewer: ids[:50] for viewer, ids in await rows.fetchall()}
    for viewer in VIEWERS:
        page = await reader(world, redis).read(viewer)
        assert [item.post.id for item in page.items] == wanted[viewer]
    assert await redis.exists(keys.feed(1)) == (await state(world) == "hybrid")


async def test_a_worker_that_settles_after_the_switch_leaves_nothing_owed(
    world: World, redis: RedisClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it has split a large post meanwhile: nobody would work on its chunks."""
    worker = world.fanout
    settle = worker._settle

    async def settle_late(pairs: Any) -> None:
        await move(world, redis, "pull")
        await settle(pairs)

    monkeypatch.setattr(worker, "_settle", settle_late)
    await world.post(1)
    await worker.deliver(await world.owed())
    assert await state(world) == "pull"
    assert await world.owed() == []
