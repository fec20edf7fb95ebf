"""`FeedCheck` and `Renewal`: what is wrong with cached lists is found, named and repaired."""

from itertools import count
from typing import Any

import pytest

from feed.settings import VISIT_EVERY_S, Settings
from storage import check, deliveries, graph, keys, outbox_events, posts
from storage.check import Fault, FeedCheck, ListName
from storage.connections import Postgres, RedisClient
from storage.feeds import Feeds
from storage.renewal import Renewal
from tests.integration.fanout_world import AUTHOR, CAP, OTHER, World

pytestmark = pytest.mark.anyio

VIEWER = 1
FEED = ListName("feed", VIEWER)


@pytest.fixture
async def world(postgres: Postgres, redis: RedisClient, settings: Settings) -> World:
    """A viewer whose feed holds the posts 1, 2 and 3 of AUTHOR."""
    world = World(postgres, redis, settings)
    await world.people(AUTHOR, OTHER, VIEWER)
    await world.follow(VIEWER)
    await world.drain()
    await world.open(VIEWER)
    await world.posts([1, 2, 3])
    await world.posts([9], OTHER)
    await world.drain()
    return world


async def found(world: World) -> set[tuple[Any, ...]]:
    look = await FeedCheck(world.postgres, world.feeds, again_after_s=0).check(VIEWER)
    return {(each.kind, each.list, each.post_id) for each in look.faults}


async def pull(world: World) -> None:
    await world.rows("INSERT INTO author_delivery VALUES (%s, true, true) RETURNING 1", [AUTHOR])


async def test_a_feed_in_order_has_no_fault(world: World) -> None:
    assert await world.feed(VIEWER) == [3, 2, 1]
    await world.rows(
        "INSERT INTO affinity VALUES (%s, %s, 1, now() - interval '1 year') RETURNING 1",
        [VIEWER, AUTHOR],
    )
    assert await found(world) == set()


async def test_each_kind_of_fault_is_named_with_its_post(world: World, redis: RedisClient) -> None:
    key = keys.feed(VIEWER)
    await redis.zrem(key, 2)
    await redis.zadd(key, {"9": 9, "3": 7, "77": 8})
    assert await found(world) == {
        ("missing", FEED, 2),
        ("out_of_order", FEED, 3),
        ("extra", FEED, 9),
        ("extra", FEED, 77),
    }


async def test_what_is_owed_is_late_and_what_is_parked_is_missing(world: World) -> None:
    await world.posts([4, 5])
    first, second = await world.owed()
    assert await found(world) == {("late", FEED, 4), ("late", FEED, 5)}
    await world.fanout.deliver([second])
    async with world.postgres.connection() as connection:
        failure = deliveries.Failure(first, "broken", 0.0, counts=True, park=True)
        await deliveries.fail(connection, [failure])
    assert await found(world) == {("missing", FEED, 4)}


async def test_posts_of_somebody_just_followed_are_late(world: World) -> None:
    await world.follow(VIEWER, author_id=OTHER)
    assert await found(world) == {("late", FEED, 9)}
    await world.drain()
    assert await found(world) == set()


async def test_an_import_that_is_not_announced_yet_makes_late(
    world: World, redis: RedisClient
) -> None:
    await redis.zrem(keys.feed(VIEWER), 2)
    async with world.postgres.transaction() as connection:
        await outbox_events.append(connection, "import", "x", "import.finished", {})
    assert await found(world) == {("late", FEED, 2)}


async def test_what_a_list_need_not_hold_is_not_missing(world: World, redis: RedisClient) -> None:
    """Below its floor, of a deleted post, of a blocked author, or when it is not there at all."""
    for id in range(4, CAP + 4):
        await world.post(id)
    await world.drain()
    assert await found(world) == set(), "trimmed"
    async with world.postgres.transaction() as connection:
        await posts.delete_post(connection, AUTHOR, 8)
    assert await found(world) == {("extra", FEED, 8)}
    async with world.postgres.transaction() as connection:
        await graph.block(connection, AUTHOR, VIEWER)
    await world.drain()
    assert await world.feed(VIEWER) == [] and await found(world) == set()
    async with world.postgres.transaction() as connection:
        await graph.unblock(connection, AUTHOR, VIEWER)
    assert {kind for kind, *_ in await found(world)} == {"late"}
    await redis.unlink(keys.feed(VIEWER))
    assert await found(world) == set(), "a missing list is read from the truth"


async def test_a_muted_author_is_in_the_lists(world: World, redis: RedisClient) -> None:
    async with world.postgres.transaction() as connection:
        await graph.mute(connection, VIEWER, AUTHOR)
    assert await found(world) == set()
    await redis.zrem(keys.feed(VIEWER), 2)
    assert await found(world) == {("missing", FEED, 2)}


async def test_a_pulled_author_is_looked_for_in_the_outbox(
    world: World, redis: RedisClient
) -> None:
    await pull(world)
    assert await found(world) == set(), "its outbox is missing: the truth is read"
    await world.open_outbox()
    await world.posts([4, 5])
    await world.drain()
    outbox = ListName("outbox", AUTHOR)
    assert await found(world) == set(), "what was pushed before is in the feed"
    await redis.zrem(keys.outbox(AUTHOR), 4)
    await redis.zadd(keys.outbox(AUTHOR), {"9": 9})
    assert await found(world) == {("missing", outbox, 4), ("extra", outbox, 9)}


async def test_what_comes_while_one_looks_is_no_fault(world: World, redis: RedisClient) -> None:
    """Posted and delivered between the lists and the truth: the second look sees it."""

    class Busy(Feeds):
        busy = True

        async def read(self, names: Any) -> Any:
            lists = await super().read(names)
            if self.busy:
                self.busy = False
                await world.post(4)
                await world.drain()
            return lists

    busy = Busy(redis, cap=CAP)
    look = await FeedCheck(world.postgres, busy, again_after_s=0).check(VIEWER)
    assert not busy.busy and look.faults == frozenset()


def renewal(world: World, redis: RedisClient) -> Renewal:
    tokens = count()
    return Renewal(world.postgres, redis, world.settings, token=lambda: f"renewed{next(tokens)}")


async def test_a_renewed_feed_is_in_order_and_lives_as_long_as_it_would_have(
    world: World, redis: RedisClient
) -> None:
    key = keys.feed(VIEWER)
    await redis.zrem(key, 2)
    await redis.zadd(key, {"9": 9, "3": 7})
    day = "UPDATE user_activity SET last_seen_at = now() - interval '13 days' RETURNING 1"
    await world.rows(day)
    assert await renewal(world, redis).feeds([VIEWER]) == 1
    assert await world.feed(VIEWER) == [3, 2, 1]
    assert await found(world) == set()
    assert 0 < await redis.ttl(key) - 86_400 <= VISIT_EVERY_S


async def test_a_feed_whose_reader_is_gone_is_dropped(world: World, redis: RedisClient) -> None:
    """Fan-out leaves inactive followers out: a rebuilt feed would miss posts and look complete."""
    await world.rows(
        "UPDATE user_activity SET last_seen_at = now() - interval '15 days' RETURNING 1"
    )
    assert await renewal(world, redis).feeds([VIEWER, 4242]) == 0
    assert await world.feed(VIEWER) is None


async def test_a_renewed_outbox_is_in_order(world: World, redis: RedisClient) -> None:
    await pull(world)
    await world.open_outbox()
    assert await renewal(world, redis).outboxes([AUTHOR]) == 1
    assert await world.outbox() == [3, 2, 1]


async def test_a_sample_is_of_those_who_were_here(world: World) -> None:
    await world.people(*range(1_000, 1_050))
    await world.rows(
        "UPDATE user_activity SET last_seen_at = now() - interval '15 days'"
        " WHERE user_id < 1000 RETURNING 1"
    )
    async with world.postgres.connection() as connection:
        await connection.execute("ANALYZE user_activity")

        async def sample(n: int, seed: int) -> list[int]:
            return await check.sample_viewers(connection, n, within_s=14 * 86_400, seed=seed)

        assert sorted(await sample(100, 1)) == list(range(1_000, 1_050))
        assert await sample(5, 1) == await sample(5, 1) != await sample(5, 2)


def test_a_late_post_harms_nobody() -> None:
    kinds = {k: Fault(k, VIEWER, FEED, 1, AUTHOR).harms for k in check.KINDS}
    assert kinds == {"missing": True, "late": False, "extra": False, "out_of_order": True}
