"""Authors move between push and pull, back and forth, and no post is lost on the way."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from fanout.housekeeping import Housekeeping
from fanout.plan import Again, Done
from fanout.switch import Switch
from feed.settings import Settings
from storage import graph, posts
from storage.connections import Postgres, RedisClient
from storage.restarts import Restarts
from tests.integration.fanout_world import AUTHOR, World

pytestmark = pytest.mark.anyio

MANY, BETWEEN, FEW = 6, 5, 3


@pytest.fixture
async def world(postgres: Postgres, redis: RedisClient, settings: Settings) -> World:
    world = World(postgres, redis, replace(settings, switch_grace_s=1e-6))
    await world.people(AUTHOR, *range(1, 9))
    return world


def housekeeping(world: World, redis: RedisClient) -> Housekeeping:
    return Housekeeping(world.postgres, world.feeds, Restarts(redis), world.settings)


async def count(world: World, followers: int) -> None:
    """Fold a follower count, as housekeeping does."""
    await world.rows(
        "UPDATE users SET follower_count = %s WHERE id = %s RETURNING 1", [followers, AUTHOR]
    )
    await world.rows(
        "WITH e AS (INSERT INTO outbox_events (aggregatetype, aggregateid, type, payload)"
        " VALUES ('follower_count', '1', 'author.crossed', %s) RETURNING id)"
        " INSERT INTO deliveries (event_id) SELECT id FROM e RETURNING id",
        ['{"author_id": 100}'],
    )


async def state(world: World) -> Any:
    rows = await world.rows("SELECT readers_pull, writers_pull FROM author_delivery")
    return rows[0] if rows else None


async def test_readers_learn_before_writers_stop(world: World) -> None:
    await count(world, MANY)
    ids = await world.owed()
    await world.fanout.deliver(ids)
    assert await state(world) == (True, False)
    assert await world.owed() == ids
    await world.fanout.deliver(ids)
    assert await state(world) == (True, True)
    assert await world.owed() == []


async def test_writers_wait_out_the_grace_period(world: World) -> None:
    patient = Switch(world.postgres, world.feeds, replace(world.settings, switch_grace_s=60))
    await world.rows("UPDATE users SET follower_count = 6 RETURNING 1")
    assert await patient.evaluate(AUTHOR) == Again(after_s=60)
    again = await patient.evaluate(AUTHOR)
    assert isinstance(again, Again)
    assert 50 < again.after_s <= 60
    assert await state(world) == (True, False)


async def test_between_the_thresholds_an_author_stays(world: World) -> None:
    await count(world, BETWEEN)
    await world.drain()
    assert await state(world) is None
    await count(world, MANY)
    await world.drain()
    await count(world, BETWEEN)
    await world.drain()
    assert await state(world) == (True, True)


async def test_what_was_only_pulled_is_in_the_feeds_before_readers_stop_pulling(
    world: World,
) -> None:
    followers = [1, 2, 3]
    await world.follow(*followers)
    await world.drain()
    await world.open(*followers)
    await world.open_outbox()
    await world.post(1)
    await world.drain()
    await count(world, MANY)
    await world.drain()
    await world.post(2)
    await world.drain()
    assert [await world.outbox(), await world.feed(1)] == [[2, 1], [1]]
    await count(world, FEW)
    [crossed] = await world.owed()
    await world.fanout.deliver([crossed])
    assert await state(world) == (True, False)
    await world.post(3)
    await world.drain()
    assert await state(world) == (False, False)
    assert [await world.feed(viewer) for viewer in followers] == [[3, 2, 1]] * 3


async def test_a_backfill_goes_on_where_it_stopped(world: World) -> None:
    followers = [1, 2, 3, 4, 5]
    await world.follow(*followers)
    await count(world, MANY)
    await world.drain()
    await world.open(*followers)
    await world.post(1)
    await world.rows("UPDATE users SET follower_count = 3 WHERE id = 100 RETURNING 1")
    switch = Switch(world.postgres, world.feeds, world.settings)
    assert await switch.evaluate(AUTHOR) == Done()
    [(since,)] = await world.rows("SELECT changed_at FROM author_delivery")
    one_page = iter([True, False])
    stopped = await switch.backfill(AUTHOR, since, 0, in_time=lambda: next(one_page))
    assert stopped == Again(after_s=0, after_follower=2)
    assert [await world.feed(viewer) for viewer in followers] == [[1], [1], [], [], []]
    assert await switch.backfill(AUTHOR, since, 2, in_time=lambda: True) == Done()
    assert [await world.feed(viewer) for viewer in followers] == [[1]] * 5
    assert await state(world) == (False, False)


async def test_a_newer_switch_ends_an_older_backfill(world: World) -> None:
    await world.follow(1)
    await world.open(1)
    await count(world, MANY)
    await world.drain()
    await count(world, FEW)
    await world.fanout.deliver(await world.owed())
    [backfill] = await world.owed()
    await count(world, MANY)
    await world.fanout.deliver([id for id in await world.owed() if id != backfill])
    assert await state(world) == (True, True)
    await world.fanout.deliver([backfill])
    assert await state(world) == (True, True)


async def test_a_switch_back_waits_for_posts_in_flight(world: World) -> None:
    await world.follow(1)
    await world.drain()
    await world.open(1)
    await count(world, MANY)
    await world.drain()
    async with world.postgres.transaction() as connection:
        assert await posts.delivery_of(connection, AUTHOR) == "pull"
        await count(world, FEW)
        switching = asyncio.create_task(world.drain())
        await asyncio.sleep(0.2)
        assert await state(world) == (True, True)
        await connection.execute(
            "INSERT INTO posts (id, author_id, body, format, created_at, received_at,"
            " effective_ms, delivery) VALUES (9, 100, '', 'text', now(), now(), 9, 'pull')"
        )
    await switching
    assert await state(world) == (False, False)
    assert await world.feed(1) == [9]


async def test_folding_counts_each_delta_once_and_owes_the_switch(
    world: World, redis: RedisClient
) -> None:
    house = housekeeping(world, redis)
    await world.follow(*range(1, 7))
    async with world.postgres.transaction() as connection:
        await graph.unfollow(connection, 1, AUTHOR)
        await graph.follow(connection, 7, AUTHOR)
    await world.drain()
    await asyncio.gather(*(house.fold() for _ in range(4)))
    assert await world.rows("SELECT follower_count FROM users WHERE id = 100") == [(6,)]
    assert await world.rows("SELECT type FROM outbox_events WHERE type = 'author.crossed'") == [
        ("author.crossed",)
    ]
    await world.drain()
    assert await state(world) == (True, True)
    async with world.postgres.transaction() as connection:
        await graph.unfollow_many(connection, [(id, AUTHOR) for id in (2, 3, 4)])
    await house.fold()
    await house.fold()
    assert await world.rows("SELECT follower_count FROM users WHERE id = 100") == [(3,)]
    await world.drain()
    assert await state(world) == (False, False)


async def test_a_fold_does_not_start_a_backfill_over(world: World, redis: RedisClient) -> None:
    await world.rows("INSERT INTO author_delivery VALUES (%s, true, false) RETURNING 1", [AUTHOR])
    await world.follow(1)
    await world.drain()
    await housekeeping(world, redis).fold()
    assert await world.owed() == []


async def test_other_thresholds_take_effect_at_the_next_start(
    world: World, redis: RedisClient
) -> None:
    await world.rows("UPDATE users SET follower_count = 6 WHERE id = 100 RETURNING 1")
    await housekeeping(world, redis).begin()
    await world.drain()
    assert await state(world) == (True, True)
    world.reconfigure(delivery="push")
    await housekeeping(world, redis).begin()
    await world.drain()
    assert await state(world) == (False, False)
