"""Deliveries: what reaches which list, once or twice, in any order, through failures."""

from typing import Any

import pytest

from fanout.tasks import Fanout
from feed.errors import Unavailable
from feed.settings import Settings
from storage import deliveries, graph, keys, outbox_events, posts
from storage.connections import Connection, Postgres, RedisClient
from tests.integration.fanout_world import AUTHOR, OTHER, World

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(postgres: Postgres, redis: RedisClient, settings: Settings) -> World:
    return World(postgres, redis, settings)


async def test_a_post_reaches_the_outbox_and_the_followers_feeds(world: World) -> None:
    await world.people(AUTHOR, 1, 2, 3)
    await world.follow(1, 2)
    await world.drain()
    await world.open(1, 2, 3)
    await world.open_outbox()
    await world.post(7)
    await world.drain()
    assert await world.outbox() == [7]
    assert [await world.feed(viewer) for viewer in (1, 2, 3)] == [[7], [7], []]


async def test_a_missing_feed_stays_missing(world: World) -> None:
    await world.people(AUTHOR, 1)
    await world.follow(1)
    await world.post(7)
    await world.drain()
    assert await world.feed(1) is None
    assert await world.outbox() is None


async def test_delivering_twice_and_out_of_order_changes_nothing(world: World) -> None:
    await world.people(AUTHOR, 1)
    await world.follow(1)
    await world.drain()
    await world.open(1)
    for id in (1, 2, 3):
        await world.post(id)
    ids = await world.owed()
    again = await world.rows("SELECT event_id FROM deliveries ORDER BY id")
    for id in reversed(ids):
        await world.fanout.deliver([id])
    assert await world.owed() == []
    async with world.postgres.connection() as connection:
        redelivered = [deliveries.Chunk(AUTHOR, event, 1, 0, 2**62) for (event,) in again]
        await deliveries.split(connection, redelivered)
    await world.drain()
    assert await world.feed(1) == [3, 2, 1]


async def test_many_followers_are_split_into_chunks_that_cover_all(world: World) -> None:
    followers = list(range(1, 6))
    await world.people(AUTHOR, *followers)
    await world.follow(*followers)
    await world.drain()
    await world.open(*followers)
    await world.post(7)
    assert await world.fanout.deliver(await world.owed()) == 1
    chunks = await world.rows(
        "SELECT chunk, after_follower, until_follower FROM deliveries ORDER BY chunk"
    )
    assert chunks == [(1, 0, 2), (2, 2, 4), (3, 4, 2**63 - 1)]
    await world.drain()
    assert [await world.feed(viewer) for viewer in followers] == [[7]] * 5


async def test_inactive_followers_are_left_out(world: World) -> None:
    await world.people(AUTHOR, 1, 2)
    await world.follow(1, 2)
    await world.drain()
    await world.open(1, 2)
    await world.rows(
        "UPDATE user_activity SET last_seen_at = now() - interval '31 days' WHERE user_id = 1"
        " RETURNING 1"
    )
    await world.post(7)
    await world.drain()
    assert [await world.feed(1), await world.feed(2)] == [[], [7]]


async def test_a_delete_that_overtakes_its_fanout_wins_and_a_restore_returns(world: World) -> None:
    await world.people(AUTHOR, 1)
    await world.follow(1)
    await world.drain()
    await world.open(1)
    await world.post(7)
    async with world.postgres.transaction() as connection:
        await posts.delete_post(connection, AUTHOR, 7)
    await world.drain()
    assert await world.feed(1) == []
    async with world.postgres.transaction() as connection:
        await posts.restore_post(connection, AUTHOR, 7)
    await world.drain()
    assert await world.feed(1) == [7]


async def test_a_follow_merges_and_an_unfollow_takes_out(world: World) -> None:
    await world.people(AUTHOR, OTHER, 1)
    for id in (1, 2, 3):
        await world.post(id)
    await world.post(4, OTHER)
    await world.drain()
    await world.open(1)
    await world.follow(1)
    await world.follow(1, author_id=OTHER)
    await world.drain()
    assert await world.feed(1) == [4, 3, 2, 1]
    async with world.postgres.transaction() as connection:
        await graph.unfollow(connection, 1, AUTHOR)
    await world.drain()
    assert await world.feed(1) == [4]


async def test_a_block_takes_out_and_an_unblock_brings_back(world: World) -> None:
    await world.people(AUTHOR, 1)
    await world.follow(1)
    await world.post(7)
    await world.open(1)
    await world.drain()
    async with world.postgres.transaction() as connection:
        await graph.block(connection, AUTHOR, 1)
    await world.drain()
    assert await world.feed(1) == []
    async with world.postgres.transaction() as connection:
        await graph.unblock(connection, AUTHOR, 1)
    await world.drain()
    assert await world.feed(1) == [7]


async def test_a_reconcile_of_a_busy_author_raises_the_floor_and_splits_no_tie(
    world: World,
) -> None:
    await world.people(AUTHOR, 1)
    for id in (1, 2, 3, 4):
        await world.post(id, ms=10)
    for id in (5, 6, 7):
        await world.post(id, ms=20)
    await world.drain()
    await world.open(1)
    await world.follow(1)
    await world.drain()
    (found,) = await world.feeds.read([keys.feed(1)])
    assert found is not None
    assert (found.ids.tolist(), found.floor_ms) == ([7, 6, 5], 10)


async def test_one_bad_delivery_costs_the_others_nothing_and_is_parked(world: World) -> None:
    await world.people(AUTHOR, 1)
    await world.follow(1)
    await world.drain()
    await world.open(1)
    await world.post(7)
    async with world.postgres.transaction() as connection:
        await outbox_events.append(connection, "post", 8, "post.created", {"nonsense": 8})
        await outbox_events.append(connection, "x", 8, "unheard.of", {})
    assert await world.fanout.deliver(await world.owed()) == 1
    assert await world.feed(1) == [7]
    for _ in range(2):
        await world.fanout.deliver(await world.owed())
    found = await world.rows("SELECT state, failures, error FROM deliveries ORDER BY id")
    assert found == [
        ("parked", 3, "ValueError: post.created without post_id"),
        ("parked", 3, "ValueError: no such event type: unheard.of"),
    ]


async def test_while_redis_is_away_nothing_is_parked(world: World) -> None:
    await world.people(AUTHOR, 1)
    await world.follow(1)
    await world.drain()
    await world.open(1)
    await world.post(7)
    away = Fanout(world.postgres, Gone(), world.settings, jitter=lambda: 0.0)  # type: ignore[arg-type]
    for _ in range(5):
        assert await away.deliver(await world.owed()) == 0
    assert await world.rows("SELECT state, failures FROM deliveries") == [("pending", 0)]
    await world.drain()
    assert await world.feed(1) == [7]


class Gone:
    """Feeds whose server is away."""

    async def push(self, *args: Any) -> int:
        raise Unavailable("Redis cannot be reached")

    async def takes_writes(self) -> bool:
        return False


async def test_while_redis_is_full_nothing_is_parked(world: World, redis: RedisClient) -> None:
    """A server that answers and refuses every write is no fault of a delivery."""
    await world.people(AUTHOR, 1)
    await world.follow(1)
    await world.drain()
    await world.open(1)
    await world.post(7)
    await redis.config_set("maxmemory", 1)
    try:
        for _ in range(5):
            assert await world.fanout.deliver(await world.owed()) == 0
    finally:
        await redis.config_set("maxmemory", 0)
    assert await world.rows("SELECT state, failures FROM deliveries") == [("pending", 0)]
    await world.drain()
    assert await world.feed(1) == [7]


async def test_an_import_forgets_every_list_and_a_deleted_user_theirs(world: World) -> None:
    await world.open(1, 2)
    await world.open_outbox(1)
    async with world.postgres.transaction() as connection:
        await outbox_events.append(connection, "user", 1, "user.deleted", {"user_id": 1})
    await world.drain()
    assert [await world.feed(1), await world.outbox(1), await world.feed(2)] == [None, None, []]
    async with world.postgres.transaction() as connection:
        await outbox_events.append(connection, "import", "x", "import.finished", {})
    await world.drain()
    assert await world.feed(2) is None


async def leased(
    connection: Connection, limit: int = 10, lane: deliveries.Lane = "fast"
) -> list[tuple[int, int]]:
    found = await deliveries.lease(connection, lane, limit=limit, lease_s=10)
    return [(each.id, each.leases) for each in found]


async def test_a_lease_hides_a_delivery_until_it_ends_and_then_doubles(world: World) -> None:
    await world.people(AUTHOR)
    await world.post(1)
    [id] = await world.owed()
    left = "SELECT round(extract(epoch FROM due_at - now()))::int FROM deliveries"
    async with world.postgres.connection() as connection:
        for lease, lasts_s in [(1, 10), (2, 20), (3, 40), (4, 60), (5, 60)]:
            assert await leased(connection) == [(id, lease)]
            assert await leased(connection) == []
            assert await world.rows(left) == [(lasts_s,)]
            await connection.execute("UPDATE deliveries SET due_at = now()")


async def test_two_relays_never_lease_the_same_delivery(world: World) -> None:
    await world.people(AUTHOR)
    for id in range(1, 5):
        await world.post(id)
    ids = await world.owed()
    async with world.postgres.transaction() as one, world.postgres.transaction() as two:
        first, second = await leased(one, 3), await leased(two, 3)
    assert sorted(id for id, _ in first + second) == ids
