"""The clock and the ids: whatever a product brings, lists and reads have one order."""

from datetime import UTC, datetime, timedelta

import pytest

from feed.settings import Settings
from storage import keys, posts
from storage.connections import Postgres, RedisClient
from tests.integration.api_client import Client
from tests.integration.fanout_world import AUTHOR, CAP, World
from tests.integration.reading import Reader

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(postgres: Postgres, redis: RedisClient, settings: Settings) -> World:
    """One viewer with a list follows one author."""
    world = World(postgres, redis, settings)
    await world.people(AUTHOR, 1)
    await world.follow(1)
    await world.drain()
    await world.open(1)
    return world


async def floor_ms(world: World) -> int | None:
    [found] = await world.feeds.read([keys.feed(1)])
    assert found is not None
    return found.floor_ms


async def check(world: World, redis: RedisClient) -> None:
    await Reader(world.settings, world.postgres, redis).check([1])


async def test_ids_in_any_order_and_ties_in_time(world: World, redis: RedisClient) -> None:
    """Order is by time, then by the number: not by the text, and not as a double would round."""
    for id, ms in ((2**63 - 1, 20), (9, 20), (2**53 + 1, 20), (2**53, 20), (10, 30)):
        await world.post(id, ms=ms)
    await world.drain()
    assert await world.feed(1) == [10, 2**63 - 1, 2**53 + 1, 2**53, 9]
    await check(world, redis)
    for id in (3, 4):  # too many: the tie below them goes as a whole
        await world.post(id, ms=25)
        await world.drain()
    assert (await world.feed(1), await floor_ms(world)) == ([10, 4, 3], 20)
    await check(world, redis)


async def test_what_is_older_than_a_lists_floor_stays_out_of_it_and_is_read(
    world: World, redis: RedisClient
) -> None:
    """An import of old posts takes no place of newer ones, and is found further down."""
    for id in range(101, 102 + 2 * CAP):
        await world.post(id)
        await world.drain()
    full = list(range(101 + 2 * CAP, 101 + CAP, -1))
    assert (await world.feed(1), await floor_ms(world)) == (full, 101 + CAP)
    await world.post(1, ms=50)
    await world.post(2, ms=101 + CAP)
    await world.drain()
    assert await world.feed(1) == full
    await check(world, redis)
    async with world.postgres.transaction() as connection:
        await posts.delete_post(connection, AUTHOR, full.pop())
    await check(world, redis)  # sweeps it: there is room now, but the floor stands
    await world.post(4, ms=60)
    await world.drain()
    assert await world.feed(1) == full
    await check(world, redis)
    await world.post(3, ms=full[-1])  # above the floor: it enters where its time says
    await world.drain()
    assert await world.feed(1) == [*full, 3]
    await check(world, redis)


async def test_a_backdated_post_above_the_floor_enters_at_its_own_place(
    world: World, redis: RedisClient
) -> None:
    await world.post(7, ms=100)
    await world.post(8, ms=200)
    await world.post(900, ms=150)
    await world.drain()
    assert await world.feed(1) == [8, 900, 7]
    await check(world, redis)


async def test_a_push_that_comes_after_its_delete_is_not_served(
    world: World, redis: RedisClient
) -> None:
    """A worker has read the post, then it is deleted, then the worker pushes."""
    await world.post(7)
    async with world.postgres.transaction() as connection:
        await posts.delete_post(connection, AUTHOR, 7)
    await world.drain()
    await world.feeds.push([keys.feed(1), keys.outbox(AUTHOR)], 7, 7)
    assert await world.feed(1) == [7]
    await check(world, redis)
    async with world.postgres.transaction() as connection:
        await posts.restore_post(connection, AUTHOR, 7)
    await world.drain()
    assert await world.feed(1) == [7]
    await check(world, redis)


async def test_a_time_in_the_future_is_refused_or_counts_as_now(api: Client) -> None:
    """Clocks differ a little; nobody stays on top of every feed by dating ahead."""
    await api.people(AUTHOR, 1)
    await api.call("PUT", f"/follows/{AUTHOR}", 1)
    now = datetime.now(UTC)

    def line(id: int, **ahead: int) -> dict[str, str]:
        created_at = (now + timedelta(**ahead)).isoformat()
        return {"kind": "post", "id": str(id), "author_id": str(AUTHOR), "body": "x",
                "created_at": created_at}  # fmt: skip

    told = await api.ingest(line(1, minutes=4), line(2, minutes=6), line(3, days=-1))
    assert told["accepted"] == 2
    assert [(each["line"], each["code"]) for each in told["rejected"]] == [(2, "in_future")]
    later = await api.post(AUTHOR, "written a moment later")
    page = (await api.call("GET", "/feed?mode=chronological", 1)).json()
    assert [item["id"] for item in page["items"]] == [later, "1", "3"]
