"""How far a post got: counted once, however often and in however many pieces it is delivered."""

from typing import Any

import pytest

from fanout.housekeeping import Housekeeping
from feed.settings import Settings
from storage import deliveries, posts, receipts
from storage.connections import Postgres, RedisClient
from storage.receipts import Delivered
from storage.restarts import Restarts
from tests.integration.api_client import Client
from tests.integration.fanout_world import AUTHOR, World

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(postgres: Postgres, redis: RedisClient, settings: Settings) -> World:
    return World(postgres, redis, settings)


async def crowd(world: World, *, active: list[int], inactive: list[int]) -> None:
    """Give AUTHOR followers; the active ones have a feed that is ready."""
    everybody = [*active, *inactive]
    await world.people(AUTHOR, *everybody)
    await world.follow(*everybody)
    await world.rows(
        "UPDATE user_activity SET last_seen_at = now() - interval '31 days'"
        " WHERE user_id = ANY(%s) RETURNING 1",
        [inactive],
    )
    await world.drain()
    await world.open(*active)


async def receipt(world: World, post_id: int = 7) -> Delivered:
    async with world.postgres.connection() as connection:
        found = await receipts.delivered(connection, post_id)
    assert found is not None
    return found


def counted(found: Delivered) -> tuple[Any, ...]:
    return found.delivery, found.n_feeds, found.n_inactive, found.pending


async def test_a_post_says_how_many_feeds_took_it_and_who_was_left_out(world: World) -> None:
    await crowd(world, active=[1], inactive=[2])
    await world.post(7)
    assert counted(await receipt(world)) == ("push", 0, 0, True)
    assert (await receipt(world)).last_at is None
    await world.drain()
    assert counted(await receipt(world)) == ("push", 1, 1, False)
    assert (await receipt(world)).last_at is not None


async def test_the_chunks_of_a_large_post_add_up_while_they_are_delivered(world: World) -> None:
    await crowd(world, active=[1, 3, 5], inactive=[2, 4])
    await world.post(7)
    await world.fanout.deliver(await world.owed())
    first, *rest = await world.owed()
    await world.fanout.deliver([first])
    assert counted(await receipt(world)) == ("push", 1, 1, True)
    await world.fanout.deliver(rest)
    assert counted(await receipt(world)) == ("push", 3, 2, False)


async def test_what_is_delivered_twice_counts_once(world: World) -> None:
    """The whole of a small post, the plan of a large one, and its pieces."""
    await crowd(world, active=[1], inactive=[2])
    await world.post(6)
    await twice(world)
    assert counted(await receipt(world, 6)) == ("push", 1, 1, False)
    await world.people(3, 4, 5)
    await world.follow(3, 4, 5)
    await world.drain()
    await world.open(3, 4, 5)
    await world.post(7)
    await twice(world)  # its plan
    await twice(world)  # its pieces
    assert await world.owed() == []
    assert counted(await receipt(world)) == ("push", 4, 1, False)


async def twice(world: World) -> None:
    """Perform what is owed, and the same once more after it is settled."""
    rows = await world.rows(
        "SELECT event_id, chunk, after_follower, until_follower, lane, author_id FROM deliveries"
    )
    await world.fanout.deliver(await world.owed())
    for row in rows:
        await world.rows(
            "INSERT INTO deliveries"
            " (event_id, chunk, after_follower, until_follower, lane, author_id)"
            " VALUES (%s, %s, %s, %s, %s, %s) RETURNING 1",
            row,
        )
    await world.fanout.deliver(await world.owed())


async def test_a_restored_post_starts_its_receipt_over(world: World) -> None:
    await crowd(world, active=[1, 3, 5], inactive=[])
    await world.post(7)
    await world.drain()
    async with world.postgres.transaction() as connection:
        await posts.delete_post(connection, AUTHOR, 7)
        assert await receipts.delivered(connection, 7) is None
        await posts.restore_post(connection, AUTHOR, 7)
        await connection.execute("DELETE FROM follows WHERE follower_id > 1")
    await world.drain()
    assert counted(await receipt(world)) == ("push", 1, 0, False)


async def test_one_batch_may_hold_a_post_and_its_restore(world: World) -> None:
    await crowd(world, active=[1], inactive=[])
    await world.post(7)
    async with world.postgres.transaction() as connection:
        await posts.delete_post(connection, AUTHOR, 7)
        await posts.restore_post(connection, AUTHOR, 7)
    assert await world.fanout.deliver(await world.owed()) == 3
    assert counted(await receipt(world)) == ("push", 1, 0, False)


async def test_a_pulled_post_reaches_no_feed_and_a_parked_one_says_so(world: World) -> None:
    await crowd(world, active=[1], inactive=[])
    await world.rows("INSERT INTO author_delivery VALUES (%s, true, true) RETURNING 1", [AUTHOR])
    await world.post(7)
    ids = await world.owed()
    failure = deliveries.Failure(ids[0], "broken", 0.0, counts=True, park=True)
    async with world.postgres.connection() as connection:
        await deliveries.fail(connection, [failure])
    stuck = await receipt(world)
    assert (stuck.pending, stuck.parked) == (False, True)
    await world.rows("UPDATE deliveries SET state = 'pending' RETURNING 1")
    await world.drain()
    assert counted(await receipt(world)) == ("pull", 0, 0, False)
    assert (await receipt(world)).last_at is not None


async def test_receipts_are_forgotten_with_time(world: World, redis: RedisClient) -> None:
    await crowd(world, active=[1], inactive=[])
    await world.post(7)
    await world.post(8)
    await world.drain()
    await world.rows(
        "UPDATE delivery_receipts SET at = now() - interval '31 days' WHERE post_id = 7 RETURNING 1"
    )
    restarts = Restarts(redis)
    await Housekeeping(world.postgres, world.feeds, restarts, world.settings).tidy()
    assert await world.rows("SELECT post_id FROM delivery_receipts") == [(8,)]


async def test_only_the_author_and_an_admin_may_ask(api: Client) -> None:
    await api.people(1, 2)
    post = await api.post(1)
    told = await api.call("GET", f"/posts/{post}/delivery", 1)
    assert told.json() == {
        "delivery": "push",
        "feeds": 0,
        "inactive": 0,
        "pending": True,
        "parked": False,
        "last_at": None,
    }
    assert (await api.call("GET", f"/posts/{post}/delivery", 2)).status_code == 404
    assert (await api.call("GET", f"/posts/{post}/delivery", 2, scope="admin")).status_code == 200
    assert (await api.call("GET", "/posts/1/delivery", 1)).status_code == 404
    await api.call("DELETE", f"/posts/{post}", 1)
    assert (await api.call("GET", f"/posts/{post}/delivery", 1)).status_code == 404
